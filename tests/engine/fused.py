"""What a head made of its tensors, taken apart again."""

from torch import Tensor

from engine.drafters.eagle3_head import Eagle3Head
from engine.drafters.eagle_head import EagleHead


def tensors_of(head: EagleHead | Eagle3Head) -> dict[str, Tensor]:
    """Every tensor under its published name."""
    three = isinstance(head, Eagle3Head)
    prefix, layer = "midlayer" if three else "layers.0", head.layer.layer
    found = {"fc.weight": head.fc.weight, f"{prefix}.post_attention_layernorm.weight": head.layer.norm}
    if head.fc.bias is not None:
        found["fc.bias"] = head.fc.bias
    size = layer.shape.head_dim
    rows = (layer.shape.heads * size, layer.shape.kv_heads * size, layer.shape.kv_heads * size)
    names = [f"{prefix}.self_attn.{letter}_proj" for letter in "qkv"]
    found |= {f"{name}.weight": part for name, part in zip(names, layer.qkv.weight.split(rows), strict=True)}
    if layer.qkv.bias is not None:
        found |= {f"{name}.bias": part for name, part in zip(names, layer.qkv.bias.split(rows), strict=True)}
    gate, up = layer.mlp.gate_up.weight.chunk(2)
    found |= {f"{prefix}.mlp.gate_proj.weight": gate, f"{prefix}.mlp.up_proj.weight": up}
    found[f"{prefix}.mlp.down_proj.weight"] = layer.mlp.down.weight
    found[f"{prefix}.self_attn.o_proj.weight"] = layer.output.weight
    if layer.output.bias is not None:
        found[f"{prefix}.self_attn.o_proj.bias"] = layer.output.bias
    norms = {
        f"{prefix}.self_attn.q_norm.weight": layer.q_norm,
        f"{prefix}.self_attn.k_norm.weight": layer.k_norm,
    }
    found |= {name: norm for name, norm in norms.items() if norm is not None}
    if isinstance(head, Eagle3Head):
        found[f"{prefix}.input_layernorm.weight"] = head.embedding_norm
        found[f"{prefix}.hidden_norm.weight"] = head.hidden_norm
        found |= {"norm.weight": head.output_norm, "lm_head.weight": head.words.lm_head.weight}
    return found


def rotary_base(head: EagleHead | Eagle3Head) -> float:
    """From the second frequency, which is base ** (-1 / number of frequencies)."""
    frequencies = head.layer.rotary.frequencies
    return float(frequencies[1] ** -len(frequencies))

"""A tiny EAGLE-3 head that guesses well, for the chat models of tiny_model.py.

Its attention finds the pair it stands at by the embedding and passes that embedding on, as the EAGLE-2 heads
there do.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedModel

from tests.eagle_chat.tiny_model import head_config, write_head

LAYERS = 7  # of the target: an EAGLE-3 head reads the states before layers 2, L // 2 and L - 3


def eagle3_tensors(model: PreTrainedModel) -> dict[str, Tensor]:
    """Tensors under their published names; every ninth token is not in the draft vocabulary."""
    hidden, vocabulary = model.config.hidden_size, model.config.vocab_size
    random = torch.Generator().manual_seed(5)
    ids = torch.tensor([i for i in range(vocabulary) if i % 9])
    embedding_half = torch.cat((torch.eye(hidden), torch.zeros(hidden, hidden)), dim=1)
    norms = (
        "norm",
        *(f"midlayer.{n}" for n in ("hidden_norm", "input_layernorm", "post_attention_layernorm")),
    )
    return {
        "fc.weight": 0.02 * torch.randn(hidden, 3 * hidden, generator=random),
        "midlayer.self_attn.q_proj.weight": 2 * embedding_half,
        "midlayer.self_attn.k_proj.weight": 2 * embedding_half,
        "midlayer.self_attn.v_proj.weight": embedding_half.clone(),
        "midlayer.self_attn.o_proj.weight": torch.eye(hidden),
        "midlayer.mlp.gate_proj.weight": 0.02 * torch.randn(48, hidden, generator=random),
        "midlayer.mlp.up_proj.weight": 0.02 * torch.randn(48, hidden, generator=random),
        "midlayer.mlp.down_proj.weight": 0.02 * torch.randn(hidden, 48, generator=random),
        **{f"{name}.weight": torch.ones(hidden) for name in norms},
        "lm_head.weight": model.get_output_embeddings().weight.detach()[ids],
        "d2t": ids - torch.arange(len(ids)),
        "t2d": torch.zeros(vocabulary, dtype=torch.bool).index_fill(0, ids, True),
    }


def write_chat_eagle3(folder: Path, model_folder: Path) -> Path:
    """The EAGLE-3 head for a model that `write_chat_model` wrote, in the layout of the published ones."""
    model = LlamaForCausalLM.from_pretrained(model_folder)
    tensors = eagle3_tensors(model)
    config = head_config(model, num_key_value_heads=4, draft_vocab_size=len(tensors["d2t"]))
    for absent in ("bias", "rope_theta"):
        del config[absent]
    return write_head(folder, config, tensors, binary=True)

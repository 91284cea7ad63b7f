"""What the key-value cache takes."""

from transformers import PreTrainedModel


def token_bytes(model: PreTrainedModel) -> int:
    """What keys and values of one token take in all layers."""
    config = model.config
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2 * config.num_hidden_layers * heads * width * model.dtype.itemsize

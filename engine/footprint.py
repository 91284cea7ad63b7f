"""What the key-value cache takes."""

from transformers import PreTrainedModel


def token_bytes(model: PreTrainedModel) -> int:
    """What keys and values of one token take in all layers; 0 where there are none, or nobody says."""
    config = model.config.get_text_config()
    if not hasattr(config, "num_attention_heads"):
        return 0
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2 * config.num_hidden_layers * heads * width * model.dtype.itemsize

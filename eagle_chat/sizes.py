"""Bytes and parameters in words."""

GB = 1_000_000_000
MB = 1_000_000


def in_words(size: float) -> str:
    """`16.1 GB` or `98 MB`, decimal as disks and hubs count."""
    return f"{size / GB:.1f} GB" if size >= 0.95 * GB else f"{size / MB:.0f} MB"


def billions(parameters: int) -> str:
    """`8.0B` or `135M`."""
    return f"{parameters / GB:.1f}B" if parameters >= 0.95 * GB else f"{parameters / MB:.0f}M"

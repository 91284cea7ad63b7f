"""Code blocks of a reply, as one would copy them."""

from markdown_it import MarkdownIt


def code_blocks(markdown: str) -> list[str]:
    """The content of every fenced block, also of one that was never closed."""
    tokens = MarkdownIt("commonmark").parse(markdown)
    return [token.content.removesuffix("\n") for token in tokens if token.type == "fence"]

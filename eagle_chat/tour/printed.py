"""A chapter of the tour as plain text, for pipes, logs and screen readers."""

from __future__ import annotations

from textwrap import fill

from eagle_chat.layout.picture import Picture
from eagle_chat.layout.rows import row_text
from eagle_chat.tour.chapters import Chapter, Step
from eagle_chat.visible import visible

WIDTH = 78
HEIGHT = 16


def printed(chapter: Chapter, number: int) -> str:
    """Title, what every step says with its tree below, and what to try."""
    title = f"{number}. {chapter.title}"
    parts = [f"{title}\n{'=' * len(title)}", *map(_step, chapter.steps), f"Try: {chapter.to_try}"]
    return "\n\n".join(parts) + "\n\n\n"


def _step(step: Step) -> str:
    paragraphs = [fill(part, WIDTH) for part in step.text().split("\n\n")]
    picture = Picture(step.record, "dendrogram", WIDTH, HEIGHT, False, step.phase)
    tree = picture.tree()
    words = picture.words(step.node, tree)
    rows = [picture.heading(None), *tree, *words]
    drawn = "\n".join(row_text(row).rstrip() for row in rows)
    return visible("\n\n".join([*paragraphs, drawn]))

"""Markdown while it is being written."""

import pytest

from eagle_chat.widgets.light_markdown import light_markdown


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("plain [b]text[/b]", "plain [b]text[/b]"),
        ("a **strong** and *soft* `code`", "a strong and soft code"),
        ("half **open and 2 * 3 * 4", "half **open and 2 * 3 * 4"),
        ("## Title", "Title"),
        ("- one\n* two", " • one\n • two"),
        ("> said", "▌ said"),
        ("#include <stdio.h>", "#include <stdio.h>"),
    ],
)
def test_what_is_shown(source: str, shown: str) -> None:
    """Catches text that is lost or taken for markup while it streams."""
    assert light_markdown(source)[0].plain == shown


def test_fences_go_on_in_the_next_piece() -> None:
    """Catches code that is read as Markdown because its fence was opened one piece earlier."""
    _, in_fence = light_markdown("```python\nx = 1\n")
    assert in_fence
    content, in_fence = light_markdown("# not a *title*\n```\nafter *it*", in_fence)
    assert content.plain == "  # not a *title*\n```\nafter it"
    assert not in_fence

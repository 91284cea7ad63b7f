"""Reading and completing slash commands, and what they may set, without a screen."""

from types import SimpleNamespace
from typing import Any

import pytest

import eagle_chat.app  # noqa: F401 - registers the commands
from eagle_chat.choices import DEFAULTS, PARAMETERS, Choices, method_parameter
from eagle_chat.code_blocks import code_blocks
from eagle_chat.commands import COMMANDS, execute, parse, prompt_text, suggest, written
from eagle_chat.errors import UsageError
from eagle_chat.options import Options

APP: Any = SimpleNamespace(methods=("none", "eagle2", "pld"))
BY_NAME = {each.name: each for each in PARAMETERS}


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("/temp 0.7", ("temp", "0.7")),
        ("/temp   0.7  ", ("temp", "0.7")),
        ("/clear", ("clear", "")),
        ("/system Be brief.\nBe kind.", ("system", "Be brief.\nBe kind.")),
        ("/", ("", "")),
        ("//usr/bin is a folder", None),
        ("what is /usr?", None),
        (" /temp", None),
    ],
)
def test_what_is_a_command(text: str, read: tuple[str, str] | None) -> None:
    """Catches prompts that are taken for commands, and arguments that lose their lines or keep spaces."""
    assert parse(text) == read


@pytest.mark.parametrize("prompt", ["/usr/bin", "//", "plain", "/"])
def test_a_prompt_may_begin_with_a_slash(prompt: str) -> None:
    """Catches an edited prompt that turns into a command, or one that gains or loses a slash on its way."""
    assert parse(written(prompt)) is None
    assert prompt_text(written(prompt)) == prompt


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("/tmp 1", "There is no command /tmp (did you mean /temp?)"),
        ("/usr/bin what is it?", "// sends a slash"),
        ("/clear all", "/clear takes nothing behind it."),
        ("/model", "/model NAME: another model"),
    ],
)
def test_commands_that_cannot_be(text: str, sentence: str) -> None:
    """Catches a mistyped command that does something, or fails without saying what would do."""
    with pytest.raises(UsageError) as refused:
        execute(APP, text)
    assert sentence in str(refused.value)


def test_suggestions_filter_as_one_types() -> None:
    """Catches suggestions that do not fit, for prompts, or without the values of an argument."""
    assert {each.text for each in suggest(APP, "/")} == {f"/{name}" for name in COMMANDS}
    assert [each.text for each in suggest(APP, "/te")] == ["/temp"]
    assert [each.text for each in suggest(APP, "/method ")] == [
        "/method none",
        "/method eagle2",
        "/method pld",
    ]
    assert [each.text for each in suggest(APP, "/method p")] == ["/method pld"]
    assert [each.hint for each in suggest(APP, "/method p")] == ["what followed the last words before"]
    assert [each.text for each in suggest(APP, "/nodes ")] == ["/nodes auto"]
    for text in ("", "hello", "//te", "/te\nmp", "/temp 0.7", "/nothing "):
        assert suggest(APP, text) == []


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("temperature", "0.7", 0.7),
        ("top_p", "1", 1.0),
        ("top_k", "0", 0),
        ("seed", "random", None),
        ("seed", str(2**63 - 1), 2**63 - 1),
        ("nodes", "auto", None),
        ("nodes", "24", 24),
        ("system", "none", None),
        ("system", "Be brief.", "Be brief."),
    ],
)
def test_values_that_are_taken(name: str, text: str, value: Any) -> None:
    """Catches a value that is refused at its limit or read as something else."""
    assert BY_NAME[name].parse(text) == value
    shown = BY_NAME[name].show(Choices(**{name: value}))
    assert BY_NAME[name].parse(shown) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("temperature", "hot"),
        ("temperature", "-1"),
        ("temperature", "nan"),
        ("temperature", "inf"),
        ("temperature", "0.0001"),
        ("top_p", "0"),
        ("top_k", "1.5"),
        ("min_p", "1.1"),
        ("repetition_penalty", "0"),
        ("seed", "-1"),
        ("seed", str(2**63)),
        ("max_new_tokens", "0"),
        ("nodes", "1025"),
        ("depth", "65"),
        ("beam", "0"),
        ("system", "\udcff"),
    ],
)
def test_values_that_are_refused(name: str, text: str) -> None:
    """Catches a value that the engine would fail at in the middle of a reply."""
    with pytest.raises(UsageError):
        BY_NAME[name].parse(text)


def test_methods_are_those_of_the_session() -> None:
    """Catches a method that is offered without its head being loaded."""
    method = method_parameter(("none", "pld"))
    assert method.parse("pld") == "pld"
    with pytest.raises(UsageError, match="one of none, pld, not eagle9"):
        method.parse("eagle9")
    with pytest.raises(UsageError, match="eagle2 needs weights that were not loaded"):
        method.parse("eagle2")


def test_choices_begin_as_the_command_line_says() -> None:
    """Catches an option that the chat forgets, and defaults that differ between the two."""
    assert Choices.of(Options(), "none") == DEFAULTS
    choices = Choices.of(Options(temperature=0.5, seed=3, nodes=24, system="Be brief."), "eagle2")
    assert choices == Choices("eagle2", temperature=0.5, seed=3, nodes=24, system="Be brief.")
    assert choices.tree == {"nodes": 24}


def test_filters_are_named_where_they_are_on() -> None:
    """Catches a header that hides a filter, or lists those that are off."""
    assert DEFAULTS.filters() == ""
    assert Choices(top_p=0.9, top_k=40, repetition_penalty=1.1).filters() == "p0.9 k40 penalty 1.1"


def test_code_blocks() -> None:
    """Catches a block that loses its indentation, its closing line, or that was never closed."""
    text = "So:\n\n```python\nif x:\n    y()\n```\n\nand `not this`\n\n~~~\nls\n~~~\n\n```\nopen"
    assert code_blocks(text) == ["if x:\n    y()", "ls", "open"]
    assert code_blocks("none here") == []

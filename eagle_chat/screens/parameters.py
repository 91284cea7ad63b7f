"""All that can be chosen for the next reply, on one small form."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import HorizontalGroup, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Label, Static

from eagle_chat.choices import PARAMETERS, Choices, Parameter, method_parameter
from eagle_chat.errors import UsageError
from eagle_chat.screens.steady import SteadyModal


class ParametersScreen(SteadyModal[Choices | None]):
    """Answers with the new choices, or None where all stays as it is."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "close", id="parameters.close"),
        Binding("enter", "apply", "apply", id="parameters.apply"),
        Binding("up", "app.focus_previous", "field above", id="parameters.up", show=False),
        Binding("down", "app.focus_next", "field below", id="parameters.down", show=False),
    ]

    def __init__(self, choices: Choices, methods: tuple[str, ...]) -> None:
        super().__init__()
        self._choices = choices
        self._parameters = (method_parameter(methods), *PARAMETERS)

    def compose(self) -> ComposeResult:
        """A line for each, and one for what is wrong."""
        with VerticalScroll(id="parameters", can_focus=False) as form:
            form.border_title = "parameters of the next reply"
            form.border_subtitle = "enter applies, esc leaves all as it is"
            for each in self._parameters:
                with HorizontalGroup():
                    yield Label(Content(_title(each)))
                    yield Input(
                        _one_line(each.show(self._choices)), id=f"field-{each.name}",
                        placeholder=each.meaning, compact=True, select_on_focus=False,
                    )  # fmt: skip
            yield Static("", id="parameters-problem", markup=False)

    def on_input_changed(self, message: Input.Changed) -> None:
        """Say at once what is wrong with a field."""
        parameter = next(each for each in self._parameters if message.input.id == f"field-{each.name}")
        try:
            parameter.parse(message.value)
        except UsageError as error:
            self._say(parameter, str(error))
        else:
            self._say(parameter, "")

    def on_input_submitted(self) -> None:
        """Enter in a field means the whole form."""
        self.action_apply()

    def action_apply(self) -> None:
        """Take everything, or go to the first field that cannot be."""
        values = {}
        for each in self._parameters:
            field = self.query_one(f"#field-{each.name}", Input)
            if field.value == _one_line(each.show(self._choices)):  # a system prompt keeps its lines
                continue
            try:
                values[each.name] = each.parse(field.value)
            except UsageError as error:
                field.focus()
                self._say(each, str(error))
                return
        self.dismiss(replace(self._choices, **values))

    def _say(self, parameter: Parameter, problem: str) -> None:
        """What is wrong with a field; nothing where all is well."""
        self.query_one(f"#field-{parameter.name}", Input).set_class(bool(problem), "-wrong")
        sentence = f"{_title(parameter)}: {problem}." if problem else ""
        self.query_one("#parameters-problem", Static).update(sentence)


def _title(parameter: Parameter) -> str:
    return parameter.name.replace("_", " ")


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())

"""The tree of the chat: the rounds of a reply, followed, held, and walked phase by phase."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from eagle_chat.screens.go_to import GoToScreen
from eagle_chat.widgets.draft_tree import DraftTreeView

NOTHING_THAT_WAY = "no notable round that way"


class LiveTree(DraftTreeView):
    """Says when somebody moves through the rounds, and when one is wanted that has not been decoded."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("full_stop", "phase(1)", "phase", id="live_tree.phase", key_display=".,",
                tooltip="step by step through a round: draft, rerank, verify, accept, bonus"),
        Binding("comma", "phase(-1)", "one phase back", id="live_tree.phase_back", show=False),
        Binding("n", "notable(1)", "the next notable round", id="live_tree.next_notable", show=False),
        Binding("N", "notable(-1)", "the notable round before", id="live_tree.previous_notable", show=False),
        Binding("g", "go_to", "go to", id="live_tree.go_to", show=False,
                tooltip="a round, as in 12, or a time, as in 1.5s"),
    ]  # fmt: skip

    class Moved(Message):
        """Somebody went to another round or phase."""

    class RoundWanted(Message):
        """Somebody stepped beyond the newest round."""

    class Missed(Message):
        """There is nothing that way."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    frozen_at: int | None = None  # index of the newest round when the view was frozen

    @property
    def stands_still(self) -> bool:
        """Whether what is beside the tree has to wait: frozen, or a new round is not over for the reader."""
        return self.frozen_at is not None or self._rewinding.is_in_newest

    def freeze(self) -> None:
        """Stay, whatever comes; or follow again."""
        if self.frozen_at is not None or self._rewinding.record is None:
            self.action_live()
            return
        self._rewinding.hold()
        self.frozen_at = self._rewinding.rounds[-1].index
        self._moved()

    def let_go(self) -> None:
        """Follow the newest round again, unless the view is frozen or an earlier one is looked at."""
        if self.frozen_at is None and self._rewinding.at_newest:
            self._rewinding.release()
            self._moved()

    def thaw(self) -> None:
        """Nothing more comes: whatever is beside the tree is shown as it is. The tree stays where it is."""
        self.frozen_at = None

    def action_live(self) -> None:
        """Back to the newest round, with nothing selected."""
        self.thaw()
        super().action_live()

    def action_step(self, rounds: int) -> None:
        """Another round, whole; where there is none yet it is asked for."""
        if rounds > 0 and self._rewinding.at_newest and not self._rewinding.is_in_newest:
            self.post_message(self.RoundWanted())
        super().action_step(rounds)

    def action_phase(self, way: int) -> None:
        """The next phase of the round, or the one before."""
        if self._rewinding.step_phase(way):
            self._moved()
        elif way > 0:
            self._rewinding.walk_on()
            self.post_message(self.RoundWanted())

    def action_notable(self, way: int) -> None:
        """A round that is worth a look."""
        if self._rewinding.notable(way):
            self._moved()
        else:
            self.post_message(self.Missed(NOTHING_THAT_WAY))

    def action_go_to(self) -> None:
        """Ask where to."""
        rounds = self._rewinding.rounds
        last, total = len(rounds) - 1, sum(record.ms for record in rounds)
        self.app.push_screen(GoToScreen(last, total), self._go_to)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what does something now; other keys are for the screen."""
        if action in ("phase", "notable", "go_to"):
            return self._rewinding.following
        return super().check_action(action, parameters)

    def _go_to(self, wanted: int | float | None) -> None:
        match wanted:
            case int(number):
                self._rewinding.go_to(number)
            case float(seconds):
                self._rewinding.go_to_time(1000 * seconds)
        self._moved()

    def _moved(self) -> None:
        super()._moved()
        self.post_message(self.Moved())

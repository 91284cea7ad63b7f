"""One recorded reply, round by round."""

from collections.abc import Iterable

from textual.containers import Container
from textual.widget import Widget

from eagle_chat.layout.speed import Reading
from eagle_chat.screens.chat import has_small_trees
from eagle_chat.screens.player import PlayerScreen
from eagle_chat.widgets.draft_tree import DraftTreeView
from eagle_chat.widgets.gauge import Gauge
from eagle_chat.widgets.messages import UserMessage
from eagle_chat.widgets.recorded_reply import RecordedReply
from eagle_chat.widgets.transcript import Transcript


class ReplayScreen(PlayerScreen):
    """The layout of the chat, with the place in the recording where the prompt was."""

    AUTO_FOCUS = "#tree"

    def parts(self) -> Iterable[Widget]:
        """Conversation, tree and gauge; the style sheet places them as in the chat."""
        replay = self.player.replays[0]
        info = replay.trace.info
        self.set_class(has_small_trees(info), "-small-tree")
        self.status.loaded(info, replay.trace.header["seed"])
        self.transcript = Transcript(id="transcript")
        self.tree_view = DraftTreeView(id="tree")
        self.gauge = Gauge(id="gauge")
        self.reply = RecordedReply()
        yield Container(self.transcript, self.tree_view, self.gauge, id="main")

    def on_mount(self) -> None:
        """The prompt is there from the start."""
        page = self.transcript.query_one(".page")
        page.mount(UserMessage(self.player.replays[0].trace.header["prompt"]), self.reply)

    def paint(self) -> None:
        """Show the moment the player is at."""
        replay, frame = self.player.replays[0], self.player.frame()
        trace = replay.trace
        self.reply.show(replay, frame)
        under_way = self.player.under_way()
        if under_way is None:
            self.tree_view.show(frame.record)
        else:
            self.tree_view.show(under_way.record, under_way.phase)
        cached = (trace.prompt_tokens + frame.statistics.new_tokens, trace.info.context)
        self.gauge.show(Reading(frame.statistics, kv=cached))
        self.tell("" if under_way else frame.notable or "")

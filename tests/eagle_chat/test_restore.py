"""A conversation of earlier, gone on with by a session on a tiny model in fp32."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from eagle_chat import events
from eagle_chat.conversation import Turn
from eagle_chat.loading import load_session
from eagle_chat.options import Dtype, Options
from eagle_chat.session import ChatSession

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def session(chat_model, chat_head) -> ChatSession:
    options = Options(str(chat_model), str(chat_head), dtype=Dtype.FP32, max_new_tokens=12)
    return load_session(options, lambda event: None, sized=False)


def ask(session: ChatSession, prompt: str) -> list[events.Event]:
    return list(session.ask(prompt, seed=1, stop=threading.Event()))


def test_going_on_after_a_restored_conversation(session):
    """Catches caches of another conversation, a lost turn, and messages that differ from what is read."""
    ask(session, "One")
    reply = ask(session, "Two")
    messages = [*reply[0].messages, {"role": "assistant", "content": reply[-1].text}]
    third = ask(session, "Three")
    ask(session, "Four")
    session.restore(messages, session.choices)
    assert session.engine.tokens == []
    again = ask(session, "Three")
    assert again[-1].summary["tokens"] == third[-1].summary["tokens"]
    assert again[0].messages == third[0].messages == [*messages, {"role": "user", "content": "Three"}]


def test_the_last_restored_reply_can_be_regenerated(session):
    """Catches a restored reply that stays beside the one that replaces it."""
    asked = {"role": "user", "content": "One"}
    session.restore([asked, {"role": "assistant", "content": "Uno."}], session.choices)
    reply = list(session.regenerate(seed=3, stop=threading.Event()))
    assert reply[0].messages == [asked]
    assert ask(session, "Two")[0].messages[1]["content"] == reply[-1].text


def test_what_came_with_a_conversation_counts_until_a_new_chat(session):
    """Catches a conversation that is decoded otherwise when it is resumed or edited, or hands that on."""
    system = {"role": "system", "content": "Be brief."}
    said = [{"role": "user", "content": "One"}, {"role": "assistant", "content": "Uno."}]
    before = session.choices
    session.restore(
        [system, *said], replace(before, system="Be brief.", temperature=0.7, method="none", seed=5)
    )
    assert (session.info.method, session.info.temperature) == ("none", 0.7)
    session.go_on_after([Turn("One", "Uno.")])
    session.change(replace(session.choices, top_p=0.9))
    assert ask(session, "Two")[0].messages[0] == system
    session.new_chat()
    assert [message["role"] for message in ask(session, "Three")[0].messages] == ["user"]
    assert session.choices == replace(before, top_p=0.9)
    assert session.settings.temperature == 0

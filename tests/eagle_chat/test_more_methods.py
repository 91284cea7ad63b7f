"""Methods that a session offers before their heads are loaded."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from eagle_chat import more_methods
from eagle_chat.loading import load_session
from eagle_chat.options import Dtype, Method, Options
from eagle_chat.weights import WeightsLocation

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_head_is_loaded_when_its_method_is_chosen(monkeypatch, chat_model, chat_head):
    """Catches a head loaded at the start, hidden states that were not kept, and a text that changes."""
    shipped = WeightsLocation(chat_head, "shipped", "0")
    monkeypatch.setattr(more_methods, "entry_for", lambda _: SimpleNamespace(heads={"eagle2": "shipped"}))
    monkeypatch.setattr(more_methods, "find_head", lambda *_: shipped)
    options = Options(str(chat_model), method=Method.PLD, dtype=Dtype.FP32, max_new_tokens=30)
    session = load_session(options, lambda _: None, sized=False)
    assert "eagle2" in session.methods
    assert "eagle2" not in session.engine.drafters
    assert "medusa" not in session.methods
    list(session.ask("Why is the sky blue?", seed=3, stop=threading.Event()))
    session.change(replace(session.choices, method="eagle2"))
    assert (session.info.method, session.info.head) == ("eagle2", "shipped")
    *_, reply = session.ask("And at night?", seed=3, stop=threading.Event())
    *_, plain = session.again(method="none", stop=threading.Event())
    assert reply.text == plain.text
    assert reply.summary["tau"] > 1.15
    session.change(replace(session.choices, method="pld"))
    assert session.info.head is None

"""What changes between two replies, on a tiny model in fp32: methods, settings, the conversation itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from eagle_chat import events
from eagle_chat.conversation import Turn
from eagle_chat.errors import UsageError
from eagle_chat.loading import load_session
from eagle_chat.options import Dtype, Method, Options
from eagle_chat.session import ChatSession

pytestmark = pytest.mark.usefixtures("one_thread")

Load = Callable[..., ChatSession]


@pytest.fixture
def load(chat_model, chat_head) -> Load:
    """Loads the tiny model with its head; keywords are options."""

    def load(**options: Any) -> ChatSession:
        usual = {"model": str(chat_model), "head": str(chat_head), "dtype": Dtype.FP32, "max_new_tokens": 24}
        return load_session(Options(**(usual | options)), lambda event: None, sized=False)

    return load


def ask(session: ChatSession, prompt: str, seed: int | None = 1) -> events.Finished:
    return end_of(session.ask(prompt, seed=seed, stop=threading.Event()))


def end_of(reply: Any) -> events.Finished:
    """The last event, which must be the end of a reply."""
    last = list(reply)[-1]
    assert isinstance(last, events.Finished)
    return last


def change(session: ChatSession, **choices: Any) -> None:
    session.change(replace(session.choices, **choices))


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_switching_the_method_does_not_change_the_text(load: Load, temperature: float) -> None:
    """Catches caches of a drafter, or of the target, that a turn with another method leaves behind wrong."""
    plain = load(temperature=temperature, head=None, method=Method.NONE)
    order = ("eagle2", "pld", "eagle", "none", "eagle2+pld", "eagle2-bare", "lookahead", "eagle2", "pld")
    expected = [ask(plain, f"Prompt {turn}", seed=turn).summary["tokens"] for turn in range(len(order))]
    session = load(temperature=temperature)
    assert set(order) < set(session.methods)
    accepted = {}
    for turn, method in enumerate(order):
        change(session, method=method)
        reply = ask(session, f"Prompt {turn}", seed=turn)
        assert reply.summary["method"] == session.info.method == method
        assert reply.summary["tokens"] == expected[turn]
        accepted[method] = reply.summary["tau"]
    assert accepted["none"] == 1
    assert accepted["eagle2"] > 1.2  # a drafter that lost its place would be right by chance only


def test_trees_of_another_size(load: Load) -> None:
    """Catches a size that does not reach the drafter, changes the text, or is shown but not used."""
    session = load()
    expected = ask(session, "Hello").summary["tokens"]
    session.new_chat()
    change(session, nodes=5, depth=2, beam=3)
    assert (session.info.nodes, session.info.depth, session.info.beam) == (5, 2, 3)
    reply = list(session.ask("Hello", seed=1, stop=threading.Event()))
    rounds = [event.record for event in reply if isinstance(event, events.RoundDone)]
    assert {len(record.tree.tokens) for record in rounds[1:-2]} == {6}
    assert end_of(reply).summary["tokens"] == expected
    change(session, nodes=None, depth=None, beam=None)
    assert session.info.sized
    assert ask(session, "And now?").text


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [({"nodes": 1000, "beam": 4}, "more than the"), ({"method": "eagle3"}, "no method eagle3: none")],
)
def test_what_cannot_be_changes_nothing(load: Load, choices: dict[str, Any], sentence: str) -> None:
    """Catches a refused setting that is half in force."""
    session = load()
    before = (session.choices, session.info, session.settings, dict(session.engine.drafters))
    with pytest.raises(UsageError, match=sentence):
        change(session, temperature=0.5, **choices)
    assert before == (session.choices, session.info, session.settings, session.engine.drafters)


def test_a_tree_needs_a_head(load: Load) -> None:
    """Catches sizes that are taken without a word where nothing can grow a tree."""
    with pytest.raises(UsageError, match="nothing here grows a tree"):
        change(load(head=None, method=Method.PLD), nodes=8)


def test_a_system_prompt_counts_from_the_next_reply_on(load: Load) -> None:
    """Catches a system prompt that is forgotten, put in twice, or that costs the conversation."""
    session = load()
    first = ask(session, "One")
    for system, begin in (("Be brief.", "<|im_start|>system\nBe brief.<|im_end|>\n"), (None, "")):
        change(session, system=system)
        list(session.regenerate(seed=1, stop=threading.Event()))
        text = session.prompts.tokenizer.decode(session.engine.tokens)
        assert text.startswith(f"{begin}<|im_start|>user\nOne")
    ask(session, "Two")
    text = session.prompts.tokenizer.decode(session.engine.tokens)
    assert f"One<|im_end|>\n<|im_start|>assistant\n{first.text}<|im_end|>\n<|im_start|>user\nTwo" in text


def test_again_is_decoded_as_the_reply_was(load: Load) -> None:
    """Catches a comparison of two runs with different settings, which finds differences that are none."""
    session = load(temperature=0.9)
    reply = ask(session, "Hello")
    change(session, temperature=0.0, max_new_tokens=5)
    again = end_of(session.again(method="none", stop=threading.Event()))
    assert again.difference is None
    assert again.summary["tokens"] == reply.summary["tokens"]


def test_going_on_from_earlier_turns(load: Load) -> None:
    """Catches an edit after which the model still sees what was replaced, or a comparison that is lost."""
    session = load(temperature=0.9)
    one = ask(session, "One", seed=1)
    after_one = session.choices
    two = ask(session, "Two", seed=2)
    ask(session, "Three", seed=3)
    turns = [
        Turn("One", one.text, 1, after_one, one.summary),
        Turn("Two", two.text, 2, after_one, two.summary),
    ]
    session.go_on_after(turns[:1])
    assert ask(session, "Two", seed=2).summary["tokens"] == two.summary["tokens"]
    change(session, temperature=0.0)
    session.go_on_after(turns)
    again = end_of(session.again(method="none", stop=threading.Event()))
    assert (again.difference, again.summary["tokens"]) == (None, two.summary["tokens"])


def test_turns_of_another_model(load: Load) -> None:
    """Catches token ids of one model that are compared with another's."""
    session = load()
    session.go_on_after(
        [Turn("One", "A reply.", 7, session.choices, {"weights_sha256": "other", "tokens": [1]})]
    )
    again = end_of(session.again(method="none", stop=threading.Event()))
    assert again.difference is None
    assert again.summary["seed"] == 7


def test_closing_gives_the_models_back(load: Load) -> None:
    """Catches a model that stays in memory beside the one it was changed for."""
    import gc
    import weakref

    session = load()
    ask(session, "Hello")
    model = weakref.ref(session.engine.target.model)
    session.close()
    gc.collect()
    assert model() is None

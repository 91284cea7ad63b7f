"""A conversation, turn by turn, on a tiny model in fp32."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch

from eagle_chat import events
from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.loading import load_session
from eagle_chat.options import Dtype, Options
from eagle_chat.session import ChatSession
from tests.eagle_chat.conftest import SUMMARY_KEYS

pytestmark = pytest.mark.usefixtures("one_thread")

Load = Callable[..., ChatSession]


@pytest.fixture
def load(chat_model, chat_head) -> Load:
    """Loads the tiny model with its head; keywords are options."""

    def load(**options) -> ChatSession:
        usual = {"model": str(chat_model), "head": str(chat_head), "dtype": Dtype.FP32, "max_new_tokens": 24}
        return load_session(Options(**(usual | options)), lambda event: None, sized=False)

    return load


@pytest.fixture
def session(load: Load) -> ChatSession:
    return load()


def ask(session: ChatSession, prompt: str, seed: int | None = 1) -> list[events.Event]:
    return list(session.ask(prompt, seed=seed, stop=threading.Event()))


def finished(reply: list[events.Event]) -> events.Finished:
    """The last event, which must be the end of a reply."""
    assert isinstance(reply[-1], events.Finished)
    return reply[-1]


def stop_after(rounds: int, reply: Iterator[events.Event], stop: threading.Event) -> list[events.Event]:
    """The events of a reply stopped by its reader after so many rounds."""
    seen: list[events.Event] = []
    if rounds == 0:
        stop.set()
    for event in reply:
        seen.append(event)
        if sum(isinstance(one, events.RoundDone) for one in seen) == rounds:
            stop.set()
    return seen


def conversation(session: ChatSession) -> str:
    """The last prompt with all that came before it, and the reply, as the model saw it."""
    return session.prompts.tokenizer.decode(session.engine.tokens)


def test_events_in_order(session):
    """Catches an event out of turn, or text that the screen and the summary disagree about."""
    reply = ask(session, "Hello")
    kinds = [type(event) for event in reply]
    assert kinds[:3] == [events.Started, events.Prefill, events.RoundDone]
    assert set(kinds[3:-1]) == {events.RoundDone}
    rounds = [event for event in reply if isinstance(event, events.RoundDone)]
    assert [event.record.index for event in rounds] == list(range(len(rounds)))
    assert finished(reply).text == "".join(event.text for event in rounds)
    tokens = [token for event in rounds for token in event.record.new]
    assert finished(reply).summary["tokens"] == tokens
    text = session.prompts.tokenizer.decode(tokens, skip_special_tokens=True)
    assert finished(reply).summary["text"] == finished(reply).text == text


def test_reply_that_ends_within_a_character(load):
    """Catches half an emoji at the limit that the streamed text lacks and the summary's has."""
    session = load()
    whole = finished(ask(session, "Hello")).summary["tokens"]
    endings = set()
    for limit in range(1, 25):
        session.new_chat()
        session.settings = replace(session.settings, max_new_tokens=limit)
        reply = ask(session, "Hello")
        text = "".join(event.text for event in reply if isinstance(event, events.RoundDone))
        assert finished(reply).summary["tokens"] == whole[:limit]
        assert finished(reply).text == text == session.prompts.tokenizer.decode(whole[:limit])
        endings.add(text.endswith("\ufffd"))
    assert endings == {True, False}


def test_summary_has_the_keys_of_the_contract(session):
    """Catches a renamed, missing or extra key, and times that do not add up."""
    summary = finished(ask(session, "Hello", seed=5)).summary
    assert list(summary) == SUMMARY_KEYS
    timings = summary["timings_ms"]
    assert list(timings) == ["prefill", "draft", "verify", "other"]
    assert sum(timings.values()) / 1000 == pytest.approx(summary["seconds"])
    assert all(timings.values())
    assert summary["new_tokens"] == len(summary["tokens"]) == 24
    assert summary["tau"] == pytest.approx(23 / summary["rounds"])
    decode = summary["seconds"] - timings["prefill"] / 1000
    assert summary["tokens_per_second"] == pytest.approx(23 / decode)
    assert (summary["method"], summary["seed"], summary["dtype"]) == ("eagle2", 5, "fp32")
    assert summary["stopped_by"] == "max_new_tokens"
    assert summary["tau"] > 1.2  # the tiny head is good: a drafter that is never right proves nothing here


def test_turns_see_what_was_said(session):
    """Catches a reply that is not put into the conversation, or a prompt that is put in twice."""
    first = finished(ask(session, "One")).text
    ask(session, "Two")
    assert conversation(session).startswith(
        f"<|im_start|>user\nOne<|im_end|>\n<|im_start|>assistant\n{first}<|im_end|>\n"
        "<|im_start|>user\nTwo<|im_end|>\n<|im_start|>assistant\n"
    )


def test_later_turns_are_what_a_fresh_engine_says(session, load):
    """Catches caches that keep something of an earlier turn that the conversation does not hold."""
    for prompt in ("One", "Two", "Three"):
        reply = finished(ask(session, prompt))
    session.engine.reset()
    fresh = finished(list(session.again(method="none", stop=threading.Event())))
    assert reply.summary["tokens"] == fresh.summary["tokens"]


def test_stopping_keeps_the_text_and_goes_on(session):
    """Catches a stop that loses the partial reply, or leaves caches the next turn cannot use."""
    stop = threading.Event()
    reply = stop_after(3, session.ask("One", seed=1, stop=stop), stop)
    partial = finished(reply)
    assert sum(isinstance(event, events.RoundDone) for event in reply) == 3
    assert partial.summary["stopped_by"] == "user"
    assert partial.text
    after = finished(ask(session, "Two"))
    assert f"assistant\n{partial.text}<|im_end|>" in conversation(session)
    session.engine.reset()
    fresh = finished(list(session.again(method="none", stop=threading.Event())))
    assert fresh.summary["tokens"] == after.summary["tokens"]


def test_what_was_stopped_is_compared_as_far_as_it_went(session):
    """Catches a comparison that goes on for minutes behind a reply that was stopped after a few words."""
    stop = threading.Event()
    partial = finished(stop_after(3, session.ask("One", seed=1, stop=stop), stop)).summary
    plain = finished(list(session.again(method="none", stop=threading.Event())))
    assert plain.summary["tokens"] == partial["tokens"]
    assert plain.difference is None


def test_stopping_before_the_first_word_leaves_no_trace(session):
    """Catches two user turns in a row, which many templates refuse."""
    stop = threading.Event()
    reply = stop_after(0, session.ask("One", seed=1, stop=stop), stop)
    assert finished(reply).text == ""
    assert finished(reply).summary["tau"] is None
    ask(session, "Two")
    assert "One" not in conversation(session)


def test_a_stop_that_comes_too_late_is_no_stop(session):
    """Catches a finished reply that is reported as stopped by the user."""
    stop = threading.Event()
    reply = []
    for event in session.ask("One", seed=1, stop=stop):
        reply.append(event)
        if isinstance(event, events.RoundDone) and len(finished_tokens(reply)) == 24:
            stop.set()
    assert finished(reply).summary["stopped_by"] == "max_new_tokens"


def finished_tokens(reply: list[events.Event]) -> list[int]:
    return [token for event in reply if isinstance(event, events.RoundDone) for token in event.record.new]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_again_gives_the_same_tokens_and_leaves_the_conversation(load, temperature):
    """Catches speculation that changes the text, and a comparison that stays in the chat or its caches."""
    session = load(temperature=temperature)
    first = finished(ask(session, "One", seed=None))
    plain = list(session.again(method="none", stop=threading.Event()))
    assert isinstance(plain[0], events.Started)
    assert (plain[0].again, plain[0].method, plain[0].seed) == (True, "none", first.summary["seed"])
    assert finished(plain).again
    assert finished(plain).summary["tokens"] == first.summary["tokens"]
    assert finished(plain).summary["tau"] == 1.0
    copied = finished(list(session.again(method="pld", stop=threading.Event())))
    assert copied.summary["tokens"] == first.summary["tokens"]
    second = finished(ask(session, "Two"))
    assert conversation(session).count("One") == 1
    session.engine.reset()
    fresh = finished(list(session.again(method="none", stop=threading.Event())))
    assert fresh.summary["tokens"] == second.summary["tokens"]


def test_regenerate_replaces_the_reply(load):
    """Catches a regenerated reply that is added after the first one, or has the first one's seed."""
    session = load(temperature=1.0)
    first = finished(ask(session, "One", seed=None))
    second = finished(list(session.regenerate(seed=None, stop=threading.Event())))
    assert first.summary["seed"] != second.summary["seed"]
    assert first.text != second.text
    ask(session, "Two")
    assert first.text not in conversation(session)
    assert f"assistant\n{second.text}<|im_end|>" in conversation(session)


def test_regenerating_with_the_same_seed_gives_the_same_reply(load):
    """Catches noise that depends on anything but seed, position and token."""
    session = load(temperature=1.0)
    first = finished(ask(session, "One", seed=9))
    same = finished(list(session.regenerate(seed=9, stop=threading.Event())))
    assert first.summary["tokens"] == same.summary["tokens"]


def test_seeds(load):
    """Catches a seed that cannot be repeated because it is fixed, hidden or not the one asked for."""
    session = load(temperature=1.0)
    seeds = {finished(ask(session, "One", seed=None)).summary["seed"] for _ in range(3)}
    assert len(seeds) == 3
    reply = ask(session, "One", seed=77)
    assert isinstance(reply[0], events.Started)
    assert reply[0].seed == finished(reply).summary["seed"] == 77
    fixed = load(temperature=1.0, seed=5)
    assert [finished(ask(fixed, "One", seed=None)).summary["seed"] for _ in range(2)] == [5, 5]


def test_new_chat_forgets(session):
    """Catches a new chat that remembers, or answers another way than a fresh program."""
    first = finished(ask(session, "One"))
    ask(session, "Two")
    session.new_chat()
    assert session.engine.tokens == []
    with pytest.raises(UsageError, match="no prompt to run again"):
        list(session.again(method="none", stop=threading.Event()))
    assert finished(ask(session, "One")).summary["tokens"] == first.summary["tokens"]
    assert conversation(session).count("user") == 1


def test_system_prompt_leads_every_conversation(load):
    """Catches a system prompt that is lost at once or with the first new chat."""
    session = load(system="Be brief.")
    ask(session, "One")
    assert conversation(session).startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nOne")
    session.new_chat()
    ask(session, "Two")
    assert conversation(session).startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nTwo")


@pytest.mark.parametrize("prompt", ["", "  \n\t"])
def test_empty_prompt(session, prompt):
    """Catches an empty turn that reaches the model."""
    with pytest.raises(UsageError, match="prompt is empty"):
        ask(session, prompt)


@pytest.mark.parametrize("rerun", ["regenerate", "again"])
def test_nothing_to_run_again(session, rerun):
    """Catches a crash where a key for the last prompt is pressed before there is one."""
    call = getattr(session, rerun)
    arguments = {"seed": 1} if rerun == "regenerate" else {"method": "none"}
    with pytest.raises(UsageError, match="no prompt to run again"):
        list(call(**arguments, stop=threading.Event()))


def test_prompt_longer_than_the_context(session):
    """Catches a crash, or a chat that cannot go on after a prompt that was too long."""
    ask(session, "One")
    with pytest.raises(UsageError, match=r"prompt has \d+ tokens and the context holds 2048.*new chat"):
        ask(session, "long " * 3000)
    ask(session, "Two")
    assert "long" not in conversation(session)
    assert "One" in conversation(session)


def test_stop_token_ends_the_reply(session):
    """Catches a stop token that is shown, or does not stop."""
    plain = finished(ask(session, "One")).summary["tokens"]
    end = plain[10]
    session.settings = replace(session.settings, stop_ids=frozenset({end}))
    session.new_chat()
    summary = finished(ask(session, "One")).summary
    assert summary["tokens"] == plain[: plain.index(end) + 1]
    assert summary["stopped_by"] == "stop_token"


@pytest.mark.parametrize("failing_round", [0, 3])
def test_exception_in_a_reply_leaves_the_session_usable(session, monkeypatch, failing_round):
    """Catches an error in the middle of a forward that poisons the caches or the conversation."""
    expected = [finished(ask(session, prompt)).summary["tokens"] for prompt in ("One", "Two")]
    session.new_chat()
    ask(session, "One")
    layer = session.engine.target.decoder.layers[1].layer
    calls, forward = iter(range(100)), layer.mlp

    def fail(*args, **kwargs):
        if next(calls) == failing_round:
            raise RuntimeError("out of memory")
        return forward(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(layer, "mlp", fail)
        with pytest.raises(RuntimeError, match="out of memory"):
            ask(session, "Broken")
    assert finished(ask(session, "Two")).summary["tokens"] == expected[1]
    assert "Broken" not in conversation(session)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
        MemoryError(),
    ],
    ids=["cuda", "cpu", "python"],
)
def test_running_out_of_memory_ends_the_reply_and_keeps_the_chat(session, monkeypatch, error):
    """Catches a chat that is lost to one long reply, or is told about an allocator."""
    ask(session, "One")
    before = session.engine.generate

    def generate(*args, **kwargs):
        reply = before(*args, **kwargs)
        yield from itertools.islice(reply, 3)
        reply.throw(error)

    with monkeypatch.context() as patch:
        patch.setattr(session.engine, "generate", generate)
        with pytest.raises(EagleChatError, match=r"memory on cpu ran out after \d+ tokens.*start a new chat"):
            ask(session, "Broken")
    reply = finished(ask(session, "Two"))
    assert reply.text
    assert "One" in conversation(session)
    assert "Broken" not in conversation(session)

"""The table of methods, and sessions that have every drafter their weights allow."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from eagle_chat.benchmark import Asked, Reply
from eagle_chat.comparison import judge
from eagle_chat.drafting import size_of
from eagle_chat.errors import UsageError
from eagle_chat.events import Finished
from eagle_chat.loading import load_session
from eagle_chat.methods import CARDS, TREE, Method, Needs, beside, to_load
from eagle_chat.options import Dtype, Options
from eagle_chat.session import ChatSession
from eagle_chat.tree_sizes import TreeSize
from engine import Eagle, Eagle2, Grafted, Lookahead, PromptLookup

pytestmark = pytest.mark.usefixtures("one_thread")
EAGLE2 = ("eagle2", "eagle2+pld", "eagle", "eagle2-no-value", "eagle2-no-rerank", "eagle2-bare")

ABLATED = {  # whether value and rerank are left
    "eagle2-no-value": (False, True),
    "eagle2-no-rerank": (True, False),
    "eagle2-bare": (False, False),
}


@pytest.fixture
def load(chat_model: Path, chat_head: Path) -> Callable[..., ChatSession]:
    """Loads the tiny model; keywords are options."""

    def load(**options: object) -> ChatSession:
        usual = {"model": str(chat_model), "head": str(chat_head), "dtype": Dtype.FP32, "max_new_tokens": 20}
        return load_session(Options(**(usual | options)), lambda _: None)  # type: ignore[arg-type]

    return load


def grown(session: ChatSession, method: str) -> Eagle2:
    drafter = session.engine.drafters[method]
    drafter = drafter.eagle if isinstance(drafter, Grafted) else drafter
    assert isinstance(drafter, Eagle2)
    return drafter


def test_every_method_has_a_card() -> None:
    """A method that is in the options and not in the table, or the other way round."""
    assert list(CARDS) == list(Method)
    for card in CARDS.values():
        assert all((card.proposes, card.costs, card.wins, card.paper, card.shape))
        assert set(card.sizes) <= set(TREE)
        assert len(card.proposes) <= 51  # beside the longest id, at 80 columns


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_all_methods_of_one_load_say_the_same(load: Callable[..., ChatSession], temperature: float) -> None:
    """A method that cannot be switched to, or changes what is said; a head that another one left spoilt."""
    session, stop = load(temperature=temperature), threading.Event()
    assert {*EAGLE2, "none", "pld", "lookahead"} == set(session.engine.drafters)
    assert len({id(grown(session, method).head) for method in EAGLE2 if method != "eagle"}) == 1
    for prompt in ("Why is the sky blue?", "And the sea?"):
        *_, reply = session.ask(prompt, seed=3, stop=stop)
        assert isinstance(reply, Finished)
        for method in (*session.engine.drafters, "eagle2", "eagle"):
            *_, again = session.again(method=method, stop=stop)
            assert isinstance(again, Finished)
            assert again.summary["method"] == method
            assert again.summary["tokens"] == reply.summary["tokens"]


@pytest.mark.parametrize("method", [*EAGLE2, "lookahead", "pld"])
def test_each_method_is_what_it_is_called(
    load: Callable[..., ChatSession], chat_head: Path, method: str
) -> None:
    """Ablations mixed up, or a session that drafts with another method than it says."""
    head = str(chat_head) if method in EAGLE2 else None
    session = load(method=Method(method), head=head)
    drafter, info = session.engine.drafters[method], session.info
    assert info.method == method
    kinds = {"eagle": Eagle, "eagle2+pld": Grafted, "lookahead": Lookahead, "pld": PromptLookup}
    assert isinstance(drafter, kinds.get(method, Eagle2))
    assert info.sized == (method in ("eagle2", "eagle2+pld", "pld"))
    if method in EAGLE2 and method != "eagle":
        one = grown(session, method)
        assert (one.nodes, one.depth, one.beam) == (info.nodes, info.depth, info.beam)
        assert (one.sizing is not None) == info.sized
        left = (one.ablation.value, one.ablation.rerank) if one.ablation else (True, True)
        assert left == (
            "value" not in method and "bare" not in method,
            method[7:] not in ("no-rerank", "bare"),
        )
    if isinstance(drafter, Grafted | PromptLookup):
        assert drafter.costs is session.engine.costs is not None


def test_sizes_count_for_the_methods_of_the_head(load: Callable[..., ChatSession]) -> None:
    """An ablation of another size than what it is compared with; a lookup as small as the head's tree."""
    session = load(nodes=5, depth=2, beam=3)
    for method in EAGLE2:
        if method != "eagle":
            assert (grown(session, method).nodes, grown(session, method).beam) == (5, 3)
            assert grown(session, method).sizing is None
    eagle, lookup = session.engine.drafters["eagle"], session.engine.drafters["pld"]
    assert isinstance(eagle, Eagle)
    assert max(map(len, eagle.paths)) == 2
    assert isinstance(lookup, PromptLookup)
    assert (lookup.nodes, lookup.depth, lookup.candidates) == (8, 6, 2)


@pytest.mark.parametrize("method", [*EAGLE2, "none"])
def test_a_method_that_is_switched_to_is_as_large_as_one_that_is_loaded(
    load: Callable[..., ChatSession], method: str
) -> None:
    """Sizes on screen that are another method's, or of no tree that there is."""
    session = load()
    session.change(replace(session.choices, method=method))
    loaded = load(method=Method(method)) if method != "none" else load(method=Method.NONE, head=None)
    assert replace(session.info, head=None) == replace(loaded.info, head=None)


@pytest.mark.parametrize(
    ("method", "given", "size"),
    [
        ("lookahead", {}, (15, 2, 4)),
        ("lookahead", {"depth": 3, "beam": 5}, (29, 3, 5)),
        ("pld", {"depth": 9}, (9, 9, 2)),
        ("pld", {"nodes": 4, "beam": 1}, (4, 6, 1)),
        ("eagle", {}, (25, 5, 4)),
        ("eagle", {"depth": 2}, (12, 2, 4)),
    ],
)
def test_sizes_that_are_given(
    load: Callable[..., ChatSession],
    chat_head: Path,
    method: str,
    given: dict[str, int],
    size: tuple[int, ...],
) -> None:
    """A size that is taken and has no effect, or is another one after a change."""
    head = str(chat_head) if method == "eagle" else None
    session = load(method=Method(method), head=head, **given)
    info = session.info
    assert (info.nodes, info.depth, info.beam) == size
    assert size_of(session.engine.drafters[method]) == (TreeSize(*size), info.sized)


def test_the_textbooks_sampling(load: Callable[..., ChatSession], chat_model: Path) -> None:
    """A rule that never reaches the loop: a draft from the target's own distribution is always accepted."""
    session = load(method=Method.DRAFT_MODEL_SAMPLED, head=str(chat_model), temperature=0.9, depth=4)
    *_, reply = session.ask("Hello there.", seed=3, stop=threading.Event())
    *_, plain = session.again(method="none", stop=threading.Event())
    assert isinstance(reply, Finished)
    assert isinstance(plain, Finished)
    assert reply.summary["tau"] > 4
    assert "by right" in judge(reply.summary, plain.summary).sentence()


@pytest.mark.parametrize(
    ("names", "method"),
    [
        ((), "none"),
        (("none", "pld"), "pld"),
        (("transformers", "none"), "none"),
        (("none", "pld", "lookahead", "eagle", "eagle2", "eagle2+pld"), "eagle2"),
        (("pld", "eagle3"), "eagle3"),
        (("lookahead", "draft-model"), "draft-model"),
    ],
)
def test_what_is_loaded_for_several_methods(names: tuple[str, ...], method: str) -> None:
    """A benchmark without the weights of one of its methods."""
    loaded = to_load(names)
    assert loaded == method
    assert {name for name in names if name in list(Method)} <= {loaded, *beside(loaded)} | {"none"}


@pytest.mark.parametrize(
    "names", [("eagle2", "eagle3"), ("eagle", "draft-model"), ("draft-model", "draft-model-sampled")]
)
def test_one_head_is_not_enough(names: tuple[str, ...]) -> None:
    """Two methods that take the same --head for different things."""
    with pytest.raises(UsageError, match=f"{names[0]} and {names[1]} need weights of their own"):
        to_load(names)
    assert Needs.NOTHING not in {CARDS[Method(name)].needs for name in names}


def test_the_textbooks_sampling_is_not_compared() -> None:
    """A text that is another by right, reported as an error; or greedy ones that are not compared."""
    reply = Reply((1, 2, 3), 2, 1.0)
    for temperature, compared in ((0.0, True), (1.0, False)):
        asked = Asked("task", temperature, (7,), {"none": reply, "draft-model-sampled": reply, "pld": reply})
        assert asked.is_compared("draft-model-sampled") == compared
        assert asked.is_compared("pld")

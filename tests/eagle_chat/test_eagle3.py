"""EAGLE-3 heads from the command line's options on: recognised, refused where they do not fit, lossless."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from eagle_chat.errors import UsageError
from eagle_chat.events import Finished
from eagle_chat.loading import load_session
from eagle_chat.options import Dtype, Method, Options
from eagle_chat.session import ChatSession
from tests.eagle_chat.tiny_eagle3 import LAYERS, write_chat_eagle3
from tests.eagle_chat.tiny_model import write_chat_head, write_chat_model

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chat_model(tmp_path_factory.mktemp("deep") / "model", num_hidden_layers=LAYERS)


@pytest.fixture(scope="module")
def heads(model: Path) -> dict[Method, str]:
    """A head of each kind."""
    return {
        Method.EAGLE2: str(write_chat_head(model.parent / "two", model)),
        Method.EAGLE3: str(write_chat_eagle3(model.parent / "three", model)),
    }


def load(model: Path, **options) -> ChatSession:
    chosen = Options(model=str(model), dtype=Dtype.FP32, device="cpu", max_new_tokens=40, **options)
    return load_session(chosen, lambda event: None, sized=False)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_it_drafts_and_changes_nothing(model, heads, temperature):
    """Catches another text, or a head that never guesses right, as with wrong layers, ids or norms."""
    session = load(model, head=heads[Method.EAGLE3], method=Method.EAGLE3, temperature=temperature)
    stop = threading.Event()
    for prompt in ("Why is the sky blue?", "And the sea?"):
        *_, reply = session.ask(prompt, seed=3, stop=stop)
        *_, plain = session.again(method="none", stop=stop)
        assert isinstance(reply, Finished)
        assert isinstance(plain, Finished)
        assert reply.summary["method"] == "eagle3"
        assert reply.summary["tokens"] == plain.summary["tokens"]
        assert reply.text == plain.text
        assert temperature > 0 or reply.summary["tau"] > 1.15


@pytest.mark.parametrize("kind", [Method.EAGLE2, Method.EAGLE3])
def test_the_head_says_its_method(model, heads, kind):
    """Catches --head alone taken for an EAGLE-2 head, and a tree without the options of a tree."""
    session = load(model, head=heads[kind], nodes=6, beam=3)
    assert session.info.method == kind.value
    assert (session.info.nodes, session.info.depth, session.info.beam) == (6, 3, 3)
    assert session.info.notes == ()


@pytest.mark.parametrize(("asked", "given"), [(Method.EAGLE2, Method.EAGLE3), (Method.EAGLE3, Method.EAGLE2)])
def test_a_head_of_the_other_kind(model, heads, asked, given):
    """Catches a method that quietly becomes another one."""
    with pytest.raises(UsageError, match=rf"is a head for --method {given}, not for {asked}: leave --method"):
        load(model, head=heads[given], method=asked)


def test_no_head_is_known(model):
    """Catches a fall back to another method, or the EAGLE-2 head of an alias taken for EAGLE-3."""
    for name in (str(model), "smollm2-135m"):
        with pytest.raises(UsageError, match=r"no draft head is known for .* and --method eagle3: name one"):
            load(name, method=Method.EAGLE3)

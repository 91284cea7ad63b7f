"""What runs the target: our own decoder where it knows the model, transformers' where not, or as asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from eagle_chat.loading import load_session
from eagle_chat.options import Method, Options, TargetKind
from engine import DraftModel, LeanTarget, StockTarget
from tests.eagle_chat.conftest import Ran, assert_refused
from tests.eagle_chat.tiny_model import write_chat_model

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(
    ("asked", "kind"), [("auto", LeanTarget), ("lean", LeanTarget), ("stock", StockTarget)]
)
def test_the_target_that_was_asked_for(chat_model: Path, chat_head: Path, asked: str, kind: type) -> None:
    """An option that is read and never used, which would make `lean` against `stock` no comparison."""
    options = Options(model=str(chat_model), head=str(chat_head), target=TargetKind(asked))
    assert isinstance(load_session(options, lambda _: None).engine.target, kind)


def test_both_write_the_same(command: Callable[..., Ran], chat_model: Path, chat_head: Path) -> None:
    """A decoder that is close to transformers' and not the same, seen from the command line."""
    texts = []
    for kind in ("lean", "stock"):
        options = (
            "--model",
            chat_model,
            "--head",
            chat_head,
            "--dtype",
            "fp32",
            "--target",
            kind,
            "--seed",
            3,
        )
        ran = command("run", "Tell me more.", *options, "-t", 0.8, "--max-new-tokens", 40)
        assert ran.code == 0
        texts.append(ran.out)
    assert texts[0] == texts[1]


def test_a_draft_model_follows(chat_model: Path) -> None:
    """A draft model that is left with transformers' modules, which draft at half the speed."""
    options = Options(model=str(chat_model), head=str(chat_model), method=Method.DRAFT_MODEL)
    drafter = load_session(options, lambda _: None).engine.drafters["draft-model"]
    assert isinstance(drafter, DraftModel)
    assert isinstance(drafter.model, LeanTarget)


def test_lean_is_refused_for_what_it_does_not_know(command: Callable[..., Ran], tmp_path: Path) -> None:
    """A traceback, or a silent fallback where the user insisted."""
    model = write_chat_model(tmp_path / "tiny-gelu", hidden_act="gelu")
    ran = command("run", "Hi.", "--model", model, "--method", "none", "--target", "lean")
    assert_refused(ran, "lean decoder", "gelu", "--target stock")

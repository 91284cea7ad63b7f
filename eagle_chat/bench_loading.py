"""From the names of methods to ones that reply: the target with its drafters, and a stock model beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eagle_chat.benchmark import PLAIN, TRANSFORMERS, TRANSFORMERS_PLD
from eagle_chat.catalogue import best_method
from eagle_chat.errors import UsageError
from eagle_chat.events import Loading
from eagle_chat.options import WITH_HEAD, Method, Options

if TYPE_CHECKING:
    from eagle_chat.bench_asking import Contender
    from eagle_chat.session import ChatSession
    from engine import GenerationSettings

METHODS = (*(method.value for method in Method), TRANSFORMERS, TRANSFORMERS_PLD)

# --head can name only one of them
_NAMED_BY_HEAD = tuple(method.value for method in (*WITH_HEAD, Method.DRAFT_MODEL))


@dataclass(frozen=True)
class Loaded:
    """What is measured, in the order given."""

    session: ChatSession
    settings: GenerationSettings
    contenders: list[Contender]


def check_methods(names: Sequence[str]) -> None:
    """Raises UsageError for methods that nobody knows, or that cannot be measured in one run."""
    for name in names:
        if name not in METHODS:
            raise UsageError(f"--methods knows no {name!r}: choose from {', '.join(METHODS)}")
    drafts = [name for name in names if name in _NAMED_BY_HEAD]
    if len(drafts) > 1:
        raise UsageError(
            f"{' and '.join(drafts)} want a head or a small model each, and --head names one: leave one out"
        )


def load(
    options: Options, names: Sequence[str] | None, progress: Callable[[Loading], None], stop: threading.Event
) -> Loaded:
    """The methods in `names`; without any the head's own between plain decoding and transformers.

    A reply is interrupted by `stop`. Raises UsageError or EagleChatError with one sentence.
    """
    from eagle_chat.loading import load_session
    from eagle_chat.loading_target import check_drafts

    method = _sized_by_options(names)
    if method in (None, *WITH_HEAD):
        _check_head(options, method or best_method(options.head, options.model), progress)
    session = load_session(
        replace(options, method=Method(method) if method else None), progress, watched=False
    )
    if not names or set(names) - {PLAIN, TRANSFORMERS, TRANSFORMERS_PLD}:
        check_drafts(session.engine.target, options.model)
    settings = replace(session.settings, seed=options.seed or 0)
    names = names or (PLAIN, session.info.method, TRANSFORMERS)
    return Loaded(session, settings, _contenders(session, names, settings, progress, stop))


def _sized_by_options(names: Sequence[str] | None) -> str | None:
    """The method that --head, --nodes, --depth and --beam are for; None: whatever the head was made for."""
    if names is None:
        return None
    for name in (*_NAMED_BY_HEAD, Method.PLD.value):
        if name in names:
            return name
    return PLAIN


def _check_head(options: Options, method: str, progress: Callable[[Loading], None]) -> None:
    """The chat would go on with prompt lookup; a benchmark measures what it was asked for."""
    from eagle_chat.weights import find_head

    if find_head(options.head, options.model, method, progress) is None:
        raise UsageError(
            f"no draft head is known for {options.model}, so {method} cannot be measured: name one with "
            "--head, or choose other --methods"
        )


def _contenders(
    session: ChatSession,
    names: Sequence[str],
    settings: GenerationSettings,
    progress: Callable[[Loading], None],
    stop: threading.Event,
) -> list[Contender]:
    from eagle_chat.bench_methods import EngineMethod, TransformersMethod, stock_copy

    target = session.engine.target
    drafters = {name: drafter for name, drafter in session.engine.drafters.items() if name != PLAIN}
    stock = None
    contenders: list[Contender] = []
    for name in names:
        if name in (TRANSFORMERS, TRANSFORMERS_PLD):
            if stock is None:
                progress(Loading("loading the model again for transformers"))
                stock = stock_copy(target)
            contenders.append(TransformersMethod(name, stock, settings, target.context, stop))
        else:
            contenders.append(EngineMethod(name, session.engine, drafters.get(name), settings, stop))
    return contenders

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
from eagle_chat.methods import CARDS, HEADS, Method, to_load
from eagle_chat.options import Options

if TYPE_CHECKING:
    from eagle_chat.bench_asking import Contender
    from eagle_chat.session import ChatSession
    from engine import GenerationSettings

METHODS = (*(method.value for method in Method), TRANSFORMERS, TRANSFORMERS_PLD)


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
    to_load(names)


def load(
    options: Options, names: Sequence[str] | None, progress: Callable[[Loading], None], stop: threading.Event
) -> Loaded:
    """The methods in `names`; without any the head's own between plain decoding and transformers.

    A reply is interrupted by `stop`. Raises UsageError or EagleChatError with one sentence.
    """
    from eagle_chat.loading import load_session
    from eagle_chat.loading_target import check_drafts

    method = to_load(names) if names else None  # that --head, --nodes, --depth and --beam are for
    if method is None or CARDS[method].needs in HEADS:
        _check_head(options, method or Method(best_method(options.head, options.model)), progress)
    session = load_session(replace(options, method=method), progress, watched=False)
    if not names or set(names) - {PLAIN, TRANSFORMERS, TRANSFORMERS_PLD}:
        check_drafts(session.engine.target, options.model)
    settings = replace(session.settings, seed=options.seed or 0)
    names = names or (PLAIN, session.info.method, TRANSFORMERS)
    return Loaded(session, settings, _contenders(session, names, settings, progress, stop))


def _check_head(options: Options, method: Method, progress: Callable[[Loading], None]) -> None:
    """The chat would go on with prompt lookup; a benchmark measures what it was asked for."""
    from eagle_chat.weights import find_head

    if find_head(options.head, options.model, CARDS[method].needs, progress) is None:
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

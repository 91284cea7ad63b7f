"""From the methods chosen to ones that reply: the target with its drafters, and a stock model beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eagle_chat.bench_heads import KINDS, Chosen
from eagle_chat.benchmark import PLAIN, TRANSFORMERS, TRANSFORMERS_PLD
from eagle_chat.events import Loading
from eagle_chat.fitting import FP32, STOCK
from eagle_chat.methods import Method, Needs, to_load
from eagle_chat.options import Options

if TYPE_CHECKING:
    from eagle_chat.bench_asking import Contender
    from eagle_chat.session import ChatSession
    from engine import Drafter, GenerationSettings


@dataclass(frozen=True)
class Loaded:
    """What is measured, in the order given."""

    session: ChatSession
    settings: GenerationSettings
    contenders: list[Contender]


def load(
    options: Options, chosen: Chosen, progress: Callable[[Loading], None], stop: threading.Event
) -> Loaded:
    """The methods chosen. A reply is interrupted by `stop`. Raises UsageError or EagleChatError."""
    from eagle_chat.loading import check_room, load_session
    from eagle_chat.loading_target import check_drafts

    method = _of_session(chosen)
    own = replace(options, method=method, head=chosen.head_option(KINDS.get(method.value, "")))
    check_room(own, (FP32, STOCK) if {TRANSFORMERS, TRANSFORMERS_PLD} & {*chosen.names} else (FP32,))
    session = load_session(own, progress, watched=False)
    if set(chosen.names) - {PLAIN, TRANSFORMERS, TRANSFORMERS_PLD}:
        check_drafts(session.engine.target, options.model)
    settings = replace(session.settings, seed=options.seed or 0)
    return Loaded(session, settings, _contenders(session, chosen, options, settings, progress, stop))


def _of_session(chosen: Chosen) -> Method:
    """The method that --nodes, --depth and --beam are for: the session has all that share its head."""
    for kind in Needs:
        own = [method for method in Method if method in chosen.names and KINDS.get(method) == kind]
        if own:
            return own[0]
    return to_load(chosen.names)


def _drafters(
    session: ChatSession, chosen: Chosen, options: Options, progress: Callable[[Loading], None]
) -> dict[str, Drafter]:
    """By method: those of the session, and beside them those of other heads.

    Each reply has an engine of its own with one drafter, which begins by forgetting: a head that drafters
    share is never used by two at a time.
    """
    from eagle_chat.loading import load_more

    drafters = dict(session.engine.drafters)
    bare = replace(options, nodes=None, depth=None, beam=None)  # these are for the session's
    for name in chosen.names:
        if name in KINDS and name not in drafters:
            head = chosen.heads[KINDS[name]]
            named = replace(bare, head=str(head.folder))
            more = load_more(named, Method(name), head, session.engine, progress)
            drafters |= {other: more[other] for other in more.keys() - drafters.keys()}
    return drafters


def _contenders(
    session: ChatSession,
    chosen: Chosen,
    options: Options,
    settings: GenerationSettings,
    progress: Callable[[Loading], None],
    stop: threading.Event,
) -> list[Contender]:
    from eagle_chat.bench_methods import EngineMethod, TransformersMethod, stock_copy

    target = session.engine.target
    drafters = _drafters(session, chosen, options, progress)
    stock = None
    contenders: list[Contender] = []
    for name in chosen.names:
        if name in (TRANSFORMERS, TRANSFORMERS_PLD):
            if stock is None:
                progress(Loading("loading the model again for transformers"))
                stock = stock_copy(target)
            contenders.append(TransformersMethod(name, stock, settings, target.context, stop))
        else:
            drafter = None if name == PLAIN else drafters[name]
            contenders.append(EngineMethod(name, session.engine, drafter, settings, stop))
    return contenders

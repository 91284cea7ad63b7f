"""Which methods a benchmark measures, and the heads they draft with: all found before anything is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from eagle_chat.benchmark import PLAIN, TRANSFORMERS, TRANSFORMERS_PLD
from eagle_chat.catalogue import best_method
from eagle_chat.draft_models import find_draft_model
from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.events import Loading
from eagle_chat.methods import CARDS, Method, Needs, fastest
from eagle_chat.options import Options
from eagle_chat.pairing import check_pairing
from eagle_chat.tree_sizes import given_size
from eagle_chat.weights import WeightsLocation, find_head

ALL = "all"
DRAFT_MODEL = Needs.DRAFT_MODEL.value

KINDS = {method.value: card.needs.value for method, card in CARDS.items() if card.needs is not Needs.NOTHING}
"""The kind of head by method; a draft model counts as one."""

METHODS = (*(method.value for method in CARDS), TRANSFORMERS, TRANSFORMERS_PLD)


@dataclass(frozen=True)
class Chosen:
    """What will be measured."""

    names: list[str]
    heads: Mapping[str, WeightsLocation]  # by kind
    given: Mapping[str, str]  # what --head said, by kind
    left_out: Sequence[str] = ()  # methods of `all` that have no head

    def head_option(self, kind: str) -> str | None:
        """What --head is for a session: the catalogue's are found without a name, but no small model is."""
        if kind == DRAFT_MODEL and kind in self.heads:
            return self.given.get(kind, str(self.heads[kind].folder))
        return self.given.get(kind)

    @property
    def note(self) -> str | None:
        """What to tell whoever asked for all."""
        if not self.left_out:
            return None
        verb = "is" if len(self.left_out) == 1 else "are"
        return f"{_listed(self.left_out)} {verb} left out: no head is known; --head METHOD=FOLDER names one."


def split_methods(text: str) -> list[str]:
    """The names with commas between, each once. Raises UsageError for one that nobody knows."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in (*METHODS, ALL):
            raise UsageError(f"--methods knows no {name!r}: choose from {ALL}, {', '.join(METHODS)}")
    return [ALL] if ALL in names else names


def choose(names: Sequence[str] | None, options: Options, progress: Callable[[Loading], None]) -> Chosen:
    """The methods with their heads; without names a chat's own between plain decoding and transformers.

    Raises UsageError or EagleChatError for a method without a head, and for a head without a method.
    """
    given = _given(options.head)
    if names is None:
        names = [PLAIN, *_own_methods(given, options, progress), TRANSFORMERS]
    everything = list(names) == [ALL]
    names = METHODS if everything else names
    given = _with_kinds(given, names, everything, options, progress)
    heads: dict[str, WeightsLocation] = {}
    for kind in dict.fromkeys(KINDS[name] for name in names if name in KINDS):
        head = _find(kind, given.get(kind), options, progress, optional=everything)
        if head is not None:
            heads[kind] = head
    left_out = [name for name in names if name in KINDS and KINDS[name] not in heads]
    if left_out and not everything:
        raise UsageError(_missing(left_out[0], options.model))
    return Chosen([name for name in names if name not in left_out], heads, given, left_out)


def _own_methods(
    given: Mapping[str, str], options: Options, progress: Callable[[Loading], None]
) -> list[str]:
    """What a chat drafts by with these heads."""
    kinds = [kind or _recognised(given[kind], options, progress) for kind in given]
    methods = [Method(kind) for kind in kinds or [best_method(None, options.model)]]
    return [method if given_size(options) else fastest(method) for method in methods]


def _given(head: str | None) -> dict[str, str]:
    """What --head said, by kind; what names no method under the empty kind. It may be repeated."""
    given: dict[str, str] = {}
    for one in (head or "").splitlines():
        method, is_named, name = one.partition("=")
        if not is_named or (method not in KINDS and Path(one).expanduser().is_dir()):
            method, name = "", one
        elif method not in KINDS:
            raise UsageError(f"--head {one}: {method!r} drafts with no head; these do: {', '.join(KINDS)}")
        kind = KINDS.get(method, "")
        if kind in given:
            raise UsageError(
                f"--head names two heads for {kind}: leave one out"
                if kind
                else f"--head {given[kind]} and --head {one}: say for which method, as in --head METHOD={one}"
            )
        given[kind] = name
    return given


def _with_kinds(
    given: Mapping[str, str],
    names: Sequence[str],
    everything: bool,
    options: Options,
    progress: Callable[[Loading], None],
) -> dict[str, str]:
    """A head that was given without its method is for the one that still wants a head; all are used."""
    wanted = {KINDS[name] for name in names if name in KINDS}
    for kind in given:
        if kind and kind not in wanted:
            raise UsageError(f"--head {kind}={given[kind]} has no use: {kind} is not among --methods")
    if "" not in given:
        return dict(given)
    name, named = given[""], {kind: name for kind, name in given.items() if kind}
    free = [kind for kind in dict.fromkeys(KINDS.values()) if kind in wanted and kind not in named]
    if everything:
        own = _recognised(name, options, progress)
        free = [kind for kind in free if kind == own]
    if not free:
        more = "one more head" if named else "a head"
        raise UsageError(f"--head {name} has no use: none of {', '.join(names)} wants {more}")
    if len(free) > 1:
        raise UsageError(
            f"--head {name} could be for {_listed(free, 'or')}: say which, as in --head {free[0]}={name}"
        )
    return {**named, free[0]: name}


def _recognised(name: str, options: Options, progress: Callable[[Loading], None]) -> str:
    """The kind of a head by its tensors."""
    from eagle_chat.loading import kind_of_head

    head = find_head(name, options.model, best_method(name, options.model), progress)
    assert head is not None  # what is named is found, or refused
    return kind_of_head(options, head).value


def _find(
    kind: str, name: str | None, options: Options, progress: Callable[[Loading], None], *, optional: bool
) -> WeightsLocation | None:
    """The head named, or the catalogue's; None where there is none. It must be of its kind."""
    from eagle_chat.loading import kind_of_head

    if kind == DRAFT_MODEL:
        return find_draft_model(name, options.model, progress)
    check_pairing(replace(options, method=Method(kind), head=name))
    try:
        head = find_head(name, options.model, kind, progress)
    except EagleChatError as error:
        if optional and name is None and not isinstance(error, UsageError):
            return None  # the catalogue has one, but it is not on this machine and cannot be fetched
        raise
    if head is None:
        return None
    kind_of_head(options, head, Method(kind))
    return replace(head, name=name or head.name)


def _missing(method: str, model: str) -> str:
    kind = KINDS[method]
    what = "small model" if kind == DRAFT_MODEL else f"{kind} head"
    return (
        f"no {what} is known for {model}, so {method} cannot be measured: name one with "
        f"--head {kind}=FOLDER, or choose other --methods"
    )


def _listed(names: Sequence[str], word: str = "and") -> str:
    return f" {word} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)

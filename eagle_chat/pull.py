"""`eagle-chat pull`: a target and its heads into the hub's cache, sizes first."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from eagle_chat import hub
from eagle_chat.catalogue import catalogue, entry, entry_for
from eagle_chat.errors import EXIT_INTERRUPTED, EagleChatError, UsageError
from eagle_chat.events import Loading
from eagle_chat.fitting import check_fit, this_machine
from eagle_chat.hub_cache import cached, hub_folder
from eagle_chat.hub_plan import Plan, plan
from eagle_chat.options import Options, Quant
from eagle_chat.sizes import in_words
from eagle_chat.streams import interruptible, loading_status
from eagle_chat.weights import HUB_ID, find_target

Watcher = Callable[[Loading], None]


class InterruptedPullError(EagleChatError):
    """The user stopped it."""

    exit_code = EXIT_INTERRUPTED


def pull(name: str, *, force: bool) -> None:
    """Fetch what `--model NAME` would need. Raises EagleChatError with one sentence."""
    narrator = Console(stderr=True)
    known = catalogue().get(name)
    if known is not None and known.embedded:
        with loading_status(narrator) as progress:
            location = find_target(name, progress)
        print("\n".join((*location.notes, f"{name} is ready: eagle-chat --model {name}")), file=sys.stderr)
        return
    missing = [repo for repo in _repositories(name) if cached(repo) is None]
    if not missing:
        print(f"{name} is already here, with what drafts for it", file=sys.stderr)
        return
    if not force:
        _check_fit(name)
    with loading_status(narrator) as progress:
        progress(Loading("asking the hub for sizes"))
        plans = [plan(repo) for repo in missing]
    _say_sizes(plans)
    _check_disk(plans)
    _fetch(plans, narrator)
    print(f"{name} is ready: eagle-chat --model {name}", file=sys.stderr)


def _repositories(name: str) -> list[str]:
    """The target's and its heads', as far as the hub has them."""
    if entry_for(name) is None and HUB_ID.fullmatch(name):
        return [name]
    known = entry_for(name) or entry(name)
    return [known.target, *(head for head in known.heads.values() if "/" in head)]


def _check_fit(name: str) -> None:
    """Quantized while it is loaded is enough: the files are the same."""
    place = this_machine()
    if place is None:
        return
    refused: UsageError | None = None
    for quant in Quant:
        way = next((way for way in place.formats.values() if way.quant == quant.value), None)
        try:
            if way is not None:
                check_fit(Options(model=name, quant=quant), place.held(way))
                return
        except UsageError as error:
            refused = refused or error
    if refused is not None:
        raise refused


def _say_sizes(plans: list[Plan]) -> None:
    width = max(len(one.repo) for one in plans)
    for one in plans:
        here = one.size - one.missing
        rest = f", {in_words(here)} of them already here" if here else ""
        print(f"{one.repo:{width}}  {in_words(one.size):>8} in {one.files} files{rest}", file=sys.stderr)


def _check_disk(plans: list[Plan]) -> None:
    needed = sum(one.missing for one in plans)
    folder = next(path for path in (hub_folder(), *hub_folder().parents) if path.is_dir())
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise EagleChatError(
            f"the disk has room for {in_words(free)} in {hub_folder()}, and {in_words(needed)} are to be "
            "fetched: free some (`eagle-chat cache` says what is there), or set HF_HOME to another disk"
        )


def _fetch(plans: list[Plan], narrator: Console) -> None:
    stop = threading.Event()
    with interruptible(stop):
        for one in plans:
            with _bar(one, narrator) as show:
                hub.download(one.repo, _stoppable(show, stop))


def _stoppable(show: Watcher, stop: threading.Event) -> Watcher:
    """Ends the threads of a download at their next piece: a large file is not waited for."""

    def progress(event: Loading) -> None:
        if stop.is_set():
            raise InterruptedPullError("interrupted: whole files stay, and the same command fetches the rest")
        show(event)

    return progress


@contextmanager
def _bar(one: Plan, narrator: Console) -> Iterator[Watcher]:
    """Takes progress, and draws it where somebody looks."""
    if not narrator.is_terminal:
        yield lambda event: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(None), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=narrator, transient=True) as bars:
        task = bars.add_task(Path(one.repo).name, total=one.missing or None)

        def show(event: Loading) -> None:
            if event.total:
                bars.update(task, completed=event.done, total=event.total)

        yield show

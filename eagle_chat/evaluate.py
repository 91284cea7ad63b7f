"""`eagle-chat evaluate`: how much of what a head drafts is accepted, task by task, and what others reach."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from eagle_chat.errors import EXIT_DONE, EXIT_FAILURE, EXIT_INTERRUPTED, UsageError
from eagle_chat.evaluation import Score, check_lengths, measure
from eagle_chat.evaluation_tables import tables
from eagle_chat.options import Method, Options
from eagle_chat.progress_bar import question_bar
from eagle_chat.questions import Task, read_tasks
from eagle_chat.streams import check_output, interruptible, loading_status, write, write_json
from eagle_chat.summary import quantization

if TYPE_CHECKING:
    from eagle_chat.events import SessionInfo
    from eagle_chat.session import ChatSession
    from engine import Drafter

PLD = Method.PLD.value


@dataclass(frozen=True)
class Job:
    """What `evaluate` was asked for beside the common options."""

    questions: Sequence[Path]
    limit: int | None = None
    against: Sequence[str] = ()  # other heads: folders, aliases or hub ids
    pld: bool = False
    as_json: bool = False


@dataclass
class Contender:
    """A drafter that is measured."""

    name: str
    method: str
    drafter: Drafter
    score: Score = field(default_factory=Score)


@dataclass(frozen=True)
class Loaded:
    """The target with every drafter, the one in question first."""

    session: ChatSession
    contenders: list[Contender]


def evaluate(options: Options, job: Job) -> int:
    """Measure and print; the exit code. Raises UsageError or EagleChatError with one sentence."""
    check_output()
    options = replace(options, seed=options.seed or 0)  # runs are compared, so nothing is left to chance
    tasks = read_tasks(job.questions, job.limit)
    narrator = Console(stderr=True, highlight=False)
    loaded = _load(options, job, narrator)
    info = loaded.session.info
    for note in info.notes:
        narrator.print(note, markup=False, soft_wrap=True)
    check_lengths(tasks, loaded.session.prompts, info.context, options.system)
    stop = threading.Event()
    with interruptible(stop):
        _measure_all(loaded, tasks, narrator, stop)
    report = _report(options, info, loaded.contenders)
    try:
        if job.as_json:
            write_json(report)
        else:
            write(tables({contender.name: contender.score for contender in loaded.contenders}, report))
    except BrokenPipeError:  # whoever read us has enough
        return EXIT_FAILURE
    return EXIT_INTERRUPTED if stop.is_set() else EXIT_DONE


def _load(options: Options, job: Job, narrator: Console) -> Loaded:
    from eagle_chat.loading import load_head, load_session
    from eagle_chat.loading_drafters import load_prompt_lookup
    from eagle_chat.loading_target import check_drafts
    from eagle_chat.weights import find_head

    names = _names(job)
    with loading_status(narrator) as progress:
        # Before the target, which may be a large download: what is wrong with the heads shows at once.
        heads = [find_head(name, options.model, Method.EAGLE2.value, progress) for name in job.against]
        session = load_session(options, progress, watched=False, sized=False)
        check_drafts(session.engine.target, options.model)
        method, engine = session.info.method, session.engine
        contenders = [Contender(method, method, engine.drafters[method])]
        for name, head in zip(names, heads, strict=True):
            assert head is not None  # a head that is named is found, or refused
            kind, drafter = load_head(options, head, engine.target)
            contenders.append(Contender(name, kind.value, drafter))
    if job.pld:
        if method == PLD:
            raise UsageError("prompt lookup is what is measured already: leave --pld out")
        contenders.append(Contender(PLD, PLD, load_prompt_lookup(engine.target.device)))
    return Loaded(session, contenders)


def _names(job: Job) -> list[str]:
    """What the other heads are called: their folders' names, or all that was given where two are alike."""
    short = [Path(name).name or name for name in job.against]
    times = Counter([*short, PLD])
    names = [name if times[name] == 1 else given for name, given in zip(short, job.against, strict=True)]
    if len(set(names)) < len(names):
        raise UsageError("--against names the same head twice: leave one of them out")
    return names


def _measure_all(loaded: Loaded, tasks: Sequence[Task], narrator: Console, stop: threading.Event) -> None:
    """Task by task, so that after Ctrl+C the drafters can be compared on those that are done."""
    total = sum(len(task.questions) for task in tasks) * len(loaded.contenders)
    with question_bar(narrator, total) as show:
        for task in tasks:
            for contender in loaded.contenders:
                # A drafter observes everything that its engine decodes, so each has an engine to itself.
                session = loaded.session.with_drafter(contender.method, contender.drafter)
                doing = f"{task.name} · {contender.name}"
                show(doing, 0)
                for _ in measure(task, session, contender.score, stop):
                    show(doing, 1)
                if stop.is_set():
                    return


def _report(options: Options, info: SessionInfo, contenders: Sequence[Contender]) -> dict[str, Any]:
    """The JSON object."""
    score = contenders[0].score
    return {
        **score.as_json(),
        "calibration": score.calibration.as_json(),
        "expected_per_round": score.calibration.expected_per_round,
        "accepted_per_round": score.calibration.accepted_per_round,
        "others": {contender.name: contender.score.as_json() for contender in contenders[1:]},
        "model": info.model,
        "head": info.head,
        "method": info.method,
        "weights_sha256": info.weights_sha256,
        "dtype": info.dtype,
        **quantization(info),
        "seed": options.seed,
        "temperature": info.temperature,
        "nodes": info.nodes,
        "depth": info.depth,
        "beam": info.beam,
        "max_new_tokens": options.max_new_tokens,
        "questions": score.questions,
    }

"""`eagle-chat bench`: how fast every method is beside plain decoding and transformers, in one process."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from eagle_chat.bench_asking import Layout, Plan, Stopped, ask
from eagle_chat.bench_files import as_csv, as_markdown, check_writable, write_file
from eagle_chat.bench_heads import Chosen, choose, split_methods
from eagle_chat.bench_loading import Loaded, load
from eagle_chat.bench_machine import machine
from eagle_chat.bench_resume import KeptReplies
from eagle_chat.bench_settings import settings
from eagle_chat.benchmark import PLAIN, TRANSFORMERS, Benchmark
from eagle_chat.benchmark_tables import tables
from eagle_chat.errors import EXIT_DONE, EXIT_FAILURE, EXIT_INTERRUPTED, EagleChatError, UsageError
from eagle_chat.evaluation import check_lengths
from eagle_chat.loading import refuse_server
from eagle_chat.options import Dtype, Options, Quant
from eagle_chat.progress_bar import question_bar
from eagle_chat.questions import own_files, read_tasks
from eagle_chat.streams import check_output, interruptible, loading_status, write, write_json

if TYPE_CHECKING:
    from eagle_chat.text import Vocabulary


@dataclass(frozen=True)
class Job:
    """What `bench` was asked for beside the common options."""

    questions: Sequence[Path]
    tasks: str | None = None  # of our own questions, with commas between
    methods: str | None = None  # with commas between
    temperatures: str | None = None  # with commas between
    repeats: int = 1
    limit: int | None = None
    as_json: bool = False
    csv: Path | None = None
    markdown: Path | None = None
    resume: Path | None = None


def bench(options: Options, job: Job) -> int:
    """Measure and print; the exit code. Raises UsageError or EagleChatError with one sentence."""
    check_output()
    options = replace(options, seed=options.seed or 0)  # runs are compared, so nothing is left to chance
    names, plan = _methods(options, job), _plan(options, job)
    check_writable(job.csv, "--csv")
    check_writable(job.markdown, "--markdown")
    kept = KeptReplies(job.resume) if job.resume else None
    narrator = Console(stderr=True, highlight=False)
    stop = threading.Event()
    refuse_server(options)
    with loading_status(narrator) as progress:
        chosen = choose(names, options, progress)
        loaded = load(options, chosen, progress, stop)
    info = loaded.session.info
    for note in filter(None, (*info.notes, chosen.note)):
        narrator.print(note, markup=False, soft_wrap=True)
    check_lengths(plan.tasks, loaded.session.prompts, info.context, options.system)
    report = _begin(options, plan, chosen, loaded, kept)
    benchmark = Benchmark(chosen.names, list(kept.known) if kept else [])
    known, failure = len(benchmark.asked), None
    with interruptible(stop):
        try:
            _measure(plan, loaded, options, benchmark, narrator, kept)
        except Stopped:
            pass
        except EagleChatError as error:
            if len(benchmark.asked) == known:
                raise
            failure = error  # said once what was measured is safe
        _look_at_forks(loaded, benchmark, narrator, stop)
    is_read = _report(benchmark, benchmark.as_json() | report, job)
    if failure:
        raise failure
    if not is_read:
        return EXIT_FAILURE
    return EXIT_INTERRUPTED if stop.is_set() else EXIT_DONE


def _methods(options: Options, job: Job) -> list[str] | None:
    """Those asked for, each once; None where the head decides."""
    if job.methods is None:
        return [PLAIN, options.method.value, TRANSFORMERS] if options.method else None
    if options.method is not None:
        raise UsageError("--method has no use beside --methods: leave it out")
    return split_methods(job.methods)


def _plan(options: Options, job: Job) -> Plan:
    """What is asked: our own questions first."""
    files = [*(own_files(job.tasks) if job.tasks is not None else ()), *job.questions]
    if not files:
        raise UsageError("there are no questions: say --tasks all, or name a file with --questions")
    return Plan(read_tasks(files, job.limit), _temperatures(options, job), job.repeats)


def _temperatures(options: Options, job: Job) -> list[float]:
    """Those asked for, each once; that of --temperature without any."""
    if job.temperatures is None:
        return [options.temperature]
    found = []
    for text in job.temperatures.split(","):
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (value == 0 or 0.001 <= value < math.inf):
            raise UsageError(
                f"--temperatures has {text.strip()!r}: write numbers with commas between, each 0, which is "
                "greedy, or at least 0.001"
            )
        found.append(abs(value))  # there is a -0
    return list(dict.fromkeys(found))


def _begin(
    options: Options, plan: Plan, chosen: Chosen, loaded: Loaded, kept: KeptReplies | None
) -> dict[str, Any]:
    """How and where it is measured: as before, where that goes on."""
    import torch

    if kept and kept.threads:  # how many are fastest is measured at load, and may come out otherwise
        torch.set_num_threads(kept.threads)
    report = {
        "settings": settings(options, plan, chosen, loaded),
        "machine": machine(loaded.session.info),
    }
    if kept:
        kept.begin(**report)
    return report


def _measure(
    plan: Plan,
    loaded: Loaded,
    options: Options,
    benchmark: Benchmark,
    narrator: Console,
    kept: KeptReplies | None,
) -> None:
    """Ask everything; what is done is in `benchmark` at any moment. Raises Stopped."""
    session = loaded.session
    layout = Layout(session.prompts.encode, _reader(session.vocabulary), session.info.context, options.system)
    contenders, known = loaded.contenders, list(benchmark.asked)
    if len(known) == plan.prompts:
        return
    total, done = (prompts * len(contenders) for prompts in (plan.prompts, len(known)))
    with question_bar(narrator, total, "replies", done=done) as show:
        first = layout.encode(
            [*layout.opening(), {"role": "user", "content": plan.tasks[0].questions[0].turns[0]}]
        )
        for contender in contenders:
            show(f"warming up · {contender.name}", 0)
            contender.answer(first, plan.temperatures[0])
        for asked in ask(plan, contenders, layout, known, show):
            benchmark.asked.append(asked)
            if kept:
                kept.add(asked)


def _reader(vocabulary: Vocabulary) -> Callable[[Sequence[int]], str]:
    """What turns the tokens of a reply into its text."""
    from eagle_chat.text import TextStream

    def read(tokens: Sequence[int]) -> str:
        stream = TextStream(vocabulary)
        return stream.add(list(tokens)) + stream.end()

    return read


def _look_at_forks(loaded: Loaded, benchmark: Benchmark, narrator: Console, stop: threading.Event) -> None:
    """Ask fp32 about every difference, after the clocks have stopped. In fp32 there is nothing to ask."""
    info = loaded.session.info
    if info.dtype == Dtype.FP32.value and info.quant == Quant.NONE.value:
        return
    from eagle_chat.bench_methods import NearTies

    is_near_tie = NearTies(loaded.session.engine.target, loaded.settings)
    forks = list(benchmark.forks())
    with question_bar(narrator, len(forks), "differences") as show:
        for place, fork in enumerate(forks):
            if stop.is_set():
                benchmark.unexamined = frozenset(forks[place:])
                return
            benchmark.near_ties[fork] = is_near_tie(fork)
            show("looking for near ties in fp32", 1)


def _report(benchmark: Benchmark, report: dict[str, Any], job: Job) -> bool:
    """Standard output first, so that a bad file takes nothing from it. False where nobody reads that."""
    try:
        if job.as_json:
            write_json(report)
        else:
            write(tables(benchmark, report["settings"], report["machine"]))
    except BrokenPipeError:  # whoever read us has enough
        return False
    finally:
        write_file(job.csv, lambda: as_csv(benchmark))
        write_file(job.markdown, lambda: as_markdown(benchmark, report))
    return True

"""`eagle-chat bench`: how fast every method is beside plain decoding and transformers, in one process."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from eagle_chat.bench_asking import Layout, Plan, Stopped, ask
from eagle_chat.bench_loading import Loaded, check_methods, load
from eagle_chat.bench_machine import machine, without_path
from eagle_chat.benchmark import PLAIN, TRANSFORMERS, Benchmark
from eagle_chat.benchmark_tables import tables
from eagle_chat.errors import EXIT_DONE, EXIT_FAILURE, EXIT_INTERRUPTED, UsageError
from eagle_chat.evaluation import check_lengths
from eagle_chat.options import Dtype, Options, Quant
from eagle_chat.progress_bar import question_bar
from eagle_chat.questions import read_tasks
from eagle_chat.streams import check_output, interruptible, loading_status, write, write_json

if TYPE_CHECKING:
    from eagle_chat.text import Vocabulary


@dataclass(frozen=True)
class Job:
    """What `bench` was asked for beside the common options."""

    questions: Sequence[Path]
    methods: str | None = None  # with commas between
    temperatures: str | None = None  # with commas between
    repeats: int = 1
    limit: int | None = None
    as_json: bool = False


def bench(options: Options, job: Job) -> int:
    """Measure and print; the exit code. Raises UsageError or EagleChatError with one sentence."""
    check_output()
    options = replace(options, seed=options.seed or 0)  # runs are compared, so nothing is left to chance
    methods, temperatures = _methods(options, job), _temperatures(options, job)
    plan = Plan(read_tasks(job.questions, job.limit), temperatures, job.repeats)
    narrator = Console(stderr=True, highlight=False)
    stop = threading.Event()
    with loading_status(narrator) as progress:
        loaded = load(options, methods, progress, stop)
    info = loaded.session.info
    for note in info.notes:
        narrator.print(note, markup=False, soft_wrap=True)
    check_lengths(plan.tasks, loaded.session.prompts, info.context, options.system)
    benchmark = Benchmark([contender.name for contender in loaded.contenders])
    with interruptible(stop):
        with suppress(Stopped):
            _measure(plan, loaded, options, benchmark, narrator)
        _look_at_forks(loaded, benchmark, narrator, stop)
    report = benchmark.as_json() | {"settings": _settings(options, plan, loaded), "machine": machine(info)}
    try:
        if job.as_json:
            write_json(report)
        else:
            write(tables(benchmark, report["settings"], report["machine"]))
    except BrokenPipeError:  # whoever read us has enough
        return EXIT_FAILURE
    return EXIT_INTERRUPTED if stop.is_set() else EXIT_DONE


def _methods(options: Options, job: Job) -> list[str] | None:
    """Those asked for, each once; None where the head decides."""
    if job.methods is None:
        one = options.method and options.method.value
        names = [PLAIN, one, TRANSFORMERS] if one else None
    elif options.method is not None:
        raise UsageError("--method has no use beside --methods: leave it out")
    else:
        names = [name.strip() for name in job.methods.split(",")]
        check_methods(names)
    return names and list(dict.fromkeys(names))


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


def _measure(plan: Plan, loaded: Loaded, options: Options, benchmark: Benchmark, narrator: Console) -> None:
    """Ask everything; what is done is in `benchmark` at any moment. Raises Stopped."""
    session = loaded.session
    layout = Layout(session.prompts.encode, _reader(session.vocabulary), session.info.context, options.system)
    with question_bar(narrator, plan.prompts, "prompts") as show:
        show("warming up", 0)
        first = layout.encode(
            [*layout.opening(), {"role": "user", "content": plan.tasks[0].questions[0].turns[0]}]
        )
        for contender in loaded.contenders:
            contender.answer(first, plan.temperatures[0])
        for asked in ask(plan, loaded.contenders, layout):
            benchmark.asked.append(asked)
            show(asked.task, 1)


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
        for fork in forks:
            if stop.is_set():
                return
            benchmark.near_ties[fork] = is_near_tie(fork)
            show("looking for near ties in fp32", 1)


def _settings(options: Options, plan: Plan, loaded: Loaded) -> dict[str, Any]:
    """How it was measured: the key `settings` of the JSON object."""
    from engine import LeanTarget

    info = loaded.session.info
    return {
        "target": "lean" if isinstance(loaded.session.engine.target, LeanTarget) else "stock",
        "head": info.head and without_path(info.head),
        "nodes": info.nodes,
        "depth": info.depth,
        "beam": info.beam,
        "sized": info.sized,
        "seed": options.seed,
        "max_new_tokens": options.max_new_tokens,
        "repeats": plan.repeats,
        "prompts": plan.prompts,
    }

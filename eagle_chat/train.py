"""`eagle-chat train`: a draft head for any target, from conversations the target writes itself."""

from __future__ import annotations

import shlex
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from eagle_chat.borrowed_corpus import lender
from eagle_chat.errors import EXIT_DONE, EXIT_INTERRUPTED, EagleChatError, UsageError
from eagle_chat.events import Loading
from eagle_chat.model_card import model_card
from eagle_chat.options import Dtype, Options
from eagle_chat.streams import interruptible, loading_status
from eagle_chat.training import TrainingRun
from eagle_chat.training_forecast import MEGABYTE, check_room, forecast, nearest
from eagle_chat.training_plan import Plan, alone_in
from eagle_chat.training_plot import write_plot

if TYPE_CHECKING:
    from engine.training import Speeds

DEFAULT_METHOD = "eagle2"
DEFAULT_TOKENS = 1_000_000
DEFAULT_PASSES = 4.0
DEFAULT_VOCABULARY = 8192
DRAFT_MODEL = "draft-model"
REGRESSION = {"eagle2": 5.0}  # the outputs of EAGLE-3 are no features
STEPS = {"medusa": 4, "hydra": 4, DRAFT_MODEL: 1}  # heads, as deep as their tree; a draft model has one
WRITTEN = ("config.json", "model.safetensors", "README.md")  # in the end, over what is there


@dataclass(frozen=True)
class Job:
    """What `train` was asked for; None where the choice is ours or, in a run that goes on, was made."""

    out: Path
    method: str | None = None
    minutes: float | None = None
    tokens: int | None = None
    passes: float | None = None
    data: Path | None = None
    corpus: Path | None = None
    vocabulary: int | None = None
    layers: int | None = None
    steps: int | None = None
    regression: float | None = None
    seed: int | None = None
    resume: bool = False
    dry_run: bool = False
    model: str | None = None  # as the next, on the command line alone
    dtype: str | None = None


def train(options: Options, job: Job) -> int:
    """Run what is left to do in `job.out`; the exit code."""
    console = Console(stderr=not job.dry_run, highlight=False, markup=False)
    kept = _check(job)
    if kept is not None:
        options = replace(options, model=kept.model, dtype=Dtype(kept.dtype))
    with loading_status(console) as progress:
        from eagle_chat.loading import load_for_training

        target, prompts, location, stop_ids = load_for_training(options, progress)
    plan = kept or _new_plan(options, job, location.sha256)
    if plan.weights_sha256 != location.sha256:
        raise UsageError(
            f"{plan.model} has other weights than the run in {job.out} began with: start another run"
        )
    run = TrainingRun(job.out, plan, target, prompts, stop_ids)
    run.plan_borrowed(plan.tokens if kept else job.tokens)
    if kept is None:
        with loading_status(console) as progress:
            progress(Loading("measuring how fast this machine is"))
            speeds, sizes = run.measure()
            run.plan = _within_minutes(run.plan, job.minutes, speeds)
            run.plan_borrowed(run.plan.tokens)
            run.plan_own()
        console.print(forecast(run.plan, speeds, sizes))
        if job.dry_run:
            return EXIT_DONE
        check_room(job.out, run.plan, sizes)
    else:
        if job.tokens:
            run.plan_own()
        console.print(f"Going on with {_description(run.plan)}.")
    device = "" if options.device == "auto" else f" --device {shlex.quote(options.device)}"
    resume = f"eagle-chat train --out {shlex.quote(str(job.out))}{device} --resume"
    with alone_in(job.out):
        run.plan.write(job.out)
        return _run(run, console, resume)


def _new_plan(options: Options, job: Job, weights_sha256: str) -> Plan:
    method = job.method or DEFAULT_METHOD
    return Plan(
        model=options.model,
        method=method,
        weights_sha256=weights_sha256,
        tokens=job.tokens or DEFAULT_TOKENS,
        layers=job.layers or 1,
        corpus=str(lender(job.corpus, weights_sha256, options.model)) if job.corpus else None,
        passes=job.passes or DEFAULT_PASSES,
        vocabulary=job.vocabulary or DEFAULT_VOCABULARY,
        steps=job.steps or STEPS.get(method, 3),
        regression=REGRESSION.get(method, 0.0) if job.regression is None else job.regression,
        seed=job.seed or 0,
        data=str(job.data.resolve()) if job.data else None,
        dtype=options.dtype.value,
    )


def _check(job: Job) -> Plan | None:
    """The plan to go on with, if any. Raises UsageError for options that cannot work together."""
    if job.minutes is not None and job.tokens is not None:
        raise UsageError("--minutes and --tokens both size the run: leave one of them out")
    if job.minutes is not None and job.resume:
        raise UsageError("--minutes sizes a new run: make a resumed one longer with --tokens or --passes")
    if job.dry_run and job.resume:
        raise UsageError("--dry-run tells about a run from its start: leave --resume out")
    if job.corpus is not None and (job.data is not None or job.resume):
        raise UsageError(
            "--corpus says which conversations a new run has: leave out "
            + ("--data" if job.data is not None else "--corpus, which a resumed one remembers")
        )
    if job.data is not None and not job.data.is_file():
        raise UsageError(f"there is no file {job.data}: check the path given with --data")
    if not (there := nearest(job.out)).is_dir():
        raise UsageError(f"{there} is a file: give a folder with --out")
    if not job.resume:
        _check_kind(job)
    kept = Plan.read(job.out)
    if job.resume and kept is None:
        raise UsageError(f"there is no run to resume in {job.out}: leave --resume out to start one")
    if kept is not None and not job.resume and not job.dry_run:
        raise UsageError(f"{job.out} holds a run already: add --resume to go on, or choose another folder")
    for name in WRITTEN:
        if kept is None and (job.out / name).exists():
            raise UsageError(
                f"{job.out} has a {name} that is not of a training run: choose another folder with --out"
            )
    return _extended(kept, job) if job.resume and kept else None


def _check_kind(job: Job) -> None:
    """Raises UsageError for what a kind of head cannot have."""
    method = job.method or DEFAULT_METHOD
    if method == "eagle3" and job.regression:
        raise UsageError("the outputs of an EAGLE-3 head are no features: leave --regression out")
    if job.layers is not None and method != DRAFT_MODEL:
        raise UsageError(f"only a draft model has --layers, and {method} has its own: leave it out")
    if job.steps is not None and method == DRAFT_MODEL:
        raise UsageError("a draft model has one step, since it reads tokens alone: leave --steps out")


def _extended(plan: Plan, job: Job) -> Plan:
    """The plan of a run that goes on, longer where --tokens or --passes say so. Raises UsageError.

    Its model may have moved.
    """
    _check_the_same(plan, job)
    tokens, passes = job.tokens or plan.tokens, job.passes or plan.passes
    if tokens < plan.tokens:
        raise UsageError(
            f"the run in {job.out} has {plan.tokens:,} tokens already: --tokens cannot make it fewer"
        )
    return replace(plan, tokens=tokens, passes=passes, model=job.model or plan.model)


def _check_the_same(plan: Plan, job: Job) -> None:
    """Raises UsageError for what a run that goes on could only have had from its start."""
    wanted = {
        "--method": (job.method, plan.method),
        "--data": (str(job.data.resolve()) if job.data else None, plan.data),
        "--vocab": (job.vocabulary, plan.vocabulary),
        "--layers": (job.layers, plan.layers),
        "--steps": (job.steps, plan.steps),
        "--regression": (job.regression, plan.regression),
        "--seed": (job.seed, plan.seed),
        "--dtype": (job.dtype, plan.dtype),
    }
    for option, (asked, had) in wanted.items():
        if asked not in (None, had):
            began = f"without {option}" if had is None else f"with {option} {had}"
            raise UsageError(
                f"the run in {job.out} began {began}: leave {option} out, or choose another folder with --out"
            )


def _within_minutes(plan: Plan, minutes: float | None, speeds: Speeds) -> Plan:
    """As many tokens as can be written and trained on in that time."""
    if minutes is None:
        return plan
    seconds = 1 / speeds.written + plan.passes / speeds.trained  # for each
    wanted = max(1, int(minutes * 60 / seconds))
    return replace(plan, tokens=min(wanted, plan.tokens) if plan.corpus else wanted)


def _description(plan: Plan) -> str:
    source = f"from {plan.data or plan.corpus}" if plan.data or plan.corpus else "of its own"
    return f"the {plan.method} head for {plan.model}: {plan.tokens:,} tokens {source}, {plan.passes:g} passes"


def _run(run: TrainingRun, console: Console, resume: str) -> int:
    """Do it; `resume` is the command that would go on with it."""
    from eagle_chat.training_log import TrainingLog, read_log
    from eagle_chat.training_view import TrainingView

    log = TrainingLog(run.folder / "training.jsonl")
    stop = threading.Event()
    events = run.events()
    stopped = False
    with (
        _full_disk_as_ours(run.folder),
        interruptible(stop, closing=True),
        TrainingView(console, stop) as view,
    ):
        for event in events:
            log.record(event)
            view.show(event)
            if stop.is_set():
                stopped = True
                events.close()
    log.flush()
    records = read_log(log.file)
    write_plot(records, run.folder / "training.svg")
    if stopped:
        console.print("Stopped; everything is kept. Go on with")
        console.print(f"  {resume}", soft_wrap=True)
        return EXIT_INTERRUPTED
    card = model_card(run.facts() | {"command": _command_of(run)}, records)
    (run.folder / "README.md").write_text(card, encoding="utf-8")
    _say_how_to_use(run, console)
    return EXIT_DONE


def _say_how_to_use(run: TrainingRun, console: Console) -> None:
    use = shlex.join(["eagle-chat", "--model", run.plan.model, "--head", str(run.folder)])
    console.print(f"The head is in {run.folder}. Chat with it:")
    console.print(f"  {use}", soft_wrap=True)
    if run.plan.corpus:
        return
    console.print(
        "Its folder corpus/ may be deleted, unless the run is to be made longer (--resume --tokens)."
    )


def _command_of(run: TrainingRun) -> str:
    """What makes the head again, wherever the run was stopped."""
    plan = run.plan
    options: dict[str, object] = {
        "--model": plan.model,
        "--out": run.folder,
        "--method": plan.method,
        "--tokens": plan.tokens,
        "--passes": f"{plan.passes:g}",
        "--vocab": plan.vocabulary,
        "--steps": plan.steps,
        "--regression": f"{plan.regression:g}",
        "--seed": plan.seed,
        "--dtype": plan.dtype,
    }
    if plan.method == DRAFT_MODEL:
        del options["--steps"]
        options["--layers"] = plan.layers
    if plan.data:
        options["--data"] = Path(plan.data).name
    if plan.corpus:
        options["--corpus"] = Path(plan.corpus).name
    words = [str(word) for pair in options.items() for word in pair]
    return shlex.join(["eagle-chat", "train", *words])


@contextmanager
def _full_disk_as_ours(folder: Path) -> Iterator[None]:
    """Every library has its own error for a disk that cannot be written."""
    try:
        yield
    except EagleChatError:
        raise
    except Exception as error:
        if not isinstance(error, OSError) and shutil.disk_usage(folder).free > MEGABYTE:
            raise
        raise EagleChatError(f"{folder} cannot be written ({error}): make room, then --resume") from error

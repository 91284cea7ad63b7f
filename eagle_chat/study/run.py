"""From options to a figure: load, ask, draw, and leave table, SVG or JSON."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from eagle_chat.catalogue import best_method
from eagle_chat.errors import EXIT_DONE, EXIT_FAILURE, EXIT_INTERRUPTED, EagleChatError, UsageError
from eagle_chat.evaluation import check_lengths
from eagle_chat.methods import CARDS, Method
from eagle_chat.options import Options
from eagle_chat.questions import Task, read_tasks
from eagle_chat.streams import check_output, interruptible, loading_status, write, write_json
from eagle_chat.study import What
from eagle_chat.study.chart import counted

if TYPE_CHECKING:
    from eagle_chat.study.asking import Figure
    from eagle_chat.study.lab import Lab

PACKAGED = Path(__file__).parents[1] / "questions"

# Trees as large as EAGLE's fixed one, which they are compared with. As with the paper's 60/6/10, there are as
# many nodes as depth times beam expand: without the rerank nothing is left to choose.
LIKE_EAGLE = {"nodes": 25, "depth": 5, "beam": 5}


@dataclass(frozen=True)
class Job:
    """What `study` was asked for beside the common options."""

    what: What
    questions: Sequence[Path] = ()  # none: those that come with the project
    limit: int | None = None
    ascii_only: bool = False
    svg: Path | None = None
    as_json: bool = False


def study(options: Options, job: Job) -> int:
    """Measure, draw and print; the exit code. Raises UsageError or EagleChatError with one sentence."""
    check_output()
    options = _options(options, job.what)
    tasks = read_tasks(job.questions or sorted(PACKAGED.glob("*.jsonl")), job.limit)
    if job.svg:
        _write_svg(job.svg, "")  # what cannot be written shows now, not after an hour
    narrator = Console(stderr=True, highlight=False)
    lab = _load(options, narrator)
    info = lab.session.info
    for note in info.notes:
        narrator.print(note, markup=False, soft_wrap=True)
    check_lengths(tasks, lab.session.prompts, info.context, options.system)
    stop = threading.Event()
    with interruptible(stop):
        figure = _figure(job.what, lab)
        _measure(figure, tasks, lab, narrator, stop, job.ascii_only)
    try:
        _leave(figure, job, _settings(options, lab, tasks, stop.is_set()))
    except BrokenPipeError:  # whoever read us has enough
        return EXIT_FAILURE
    return EXIT_INTERRUPTED if stop.is_set() else EXIT_DONE


def _options(options: Options, what: What) -> Options:
    """With what the figure leaves open. Raises UsageError for what it has no use for."""
    if options.method not in (None, Method.EAGLE2, Method.EAGLE3):
        raise UsageError(f"--method {options.method} has no draft head to study: leave it out")
    sizes: dict[str, Any] = {}
    if what in (What.POSITIONS, What.ABLATION):
        sizes = {name: getattr(options, name) or size for name, size in LIKE_EAGLE.items()}
    for name in ("depth", "beam"):
        if what is What.POSITIONS and getattr(options, name) is not None:
            raise UsageError(f"--{name} has no use with positions, whose tree is fixed: leave it out")
    return replace(options, seed=options.seed or 0, **sizes)


def _load(options: Options, narrator: Console) -> Lab:
    from eagle_chat.loading import load_session
    from eagle_chat.study.lab import Lab
    from eagle_chat.weights import find_head
    from engine import Eagle2

    with loading_status(narrator) as progress:
        method = options.method or Method(best_method(options.head, options.model))
        # Before the target, which may be a large download.
        if find_head(options.head, options.model, CARDS[method].needs.value, progress) is None:
            raise UsageError(f"no draft head is known for {options.model}: name one with --head")
        session = load_session(options, progress, watched=False, sized=False)
    drafter = session.engine.drafters[session.info.method]
    if not isinstance(drafter, Eagle2):
        raise UsageError(" ".join((*session.info.notes, "There is nothing to study: choose another model.")))
    return Lab(session, drafter.head)


def _figure(what: What, lab: Lab) -> Figure:
    from eagle_chat.study.ablation import AblationFigure
    from eagle_chat.study.calibration import CalibrationFigure
    from eagle_chat.study.positions import PositionsFigure
    from eagle_chat.study.size import SizeFigure
    from eagle_chat.study.vocabulary import VocabularyFigure

    makers: dict[What, Callable[[Lab], Figure]] = {
        What.CALIBRATION: CalibrationFigure,
        What.POSITIONS: PositionsFigure,
        What.ABLATION: AblationFigure,
        What.SIZE: SizeFigure,
        What.VOCABULARY: VocabularyFigure,
    }
    return makers[what](lab)


def _measure(
    figure: Figure,
    tasks: Sequence[Task],
    lab: Lab,
    narrator: Console,
    stop: threading.Event,
    ascii_only: bool,
) -> None:
    """Ask everything, and show the figure as it grows."""
    from eagle_chat.study.asking import ask_all, count_replies
    from eagle_chat.study.shown import live

    with live(narrator, figure.drawing, count_replies(figure, tasks), ascii_only) as show:
        for doing in ask_all(figure, tasks, lab.session, stop):
            show(doing)


def _settings(options: Options, lab: Lab, tasks: Sequence[Task], interrupted: bool) -> dict[str, Any]:
    """How it was measured: the key `settings` of the JSON object."""
    info = lab.session.info
    return {
        "model": info.model,
        "head": info.head,
        "method": info.method,
        "weights_sha256": info.weights_sha256,
        "dtype": info.dtype,
        "device": info.device,
        "seed": options.seed,
        "temperature": info.temperature,
        "nodes": info.nodes,
        "depth": info.depth,
        "beam": info.beam,
        "max_new_tokens": options.max_new_tokens,
        "questions": {task.name: len(task.questions) for task in tasks},
        "interrupted": interrupted,
    }


def _leave(figure: Figure, job: Job, settings: dict[str, Any]) -> None:
    """The SVG file, then standard output."""
    from eagle_chat.study.shown import printed
    from eagle_chat.study.svg_chart import svg

    drawing, words = figure.drawing(), _words(settings)
    if job.svg:
        _write_svg(job.svg, svg(drawing, f"{job.what}: {words}"))
    if job.as_json:
        write_json({"study": job.what.value, **figure.as_json(), "settings": settings})
    else:
        write(printed(drawing, words, job.ascii_only))


def _words(settings: dict[str, Any]) -> str:
    """`smollm2-135m · eagle2 (smollm2-135m) · nodes/depth/beam 25/5/10 · bf16 · …`."""
    asked = sum(settings["questions"].values())
    parts = [
        settings["model"],
        f"{settings['method']} ({settings['head']})",
        "nodes/depth/beam {nodes}/{depth}/{beam}".format(**settings),
        settings["dtype"],
        settings["device"],
        f"temperature {settings['temperature']:g}",
        f"seed {settings['seed']}",
        f"{counted(asked, 'question')} of at most {settings['max_new_tokens']} tokens a reply",
        *(["interrupted"] if settings["interrupted"] else []),
    ]
    return " · ".join(parts)


def _write_svg(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"{file} cannot be written ({error.strerror}): give --svg another place"
        raise (EagleChatError if text else UsageError)(message) from None

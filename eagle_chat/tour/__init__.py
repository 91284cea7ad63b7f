"""`eagle-chat tour`: how speculative decoding works, shown on recorded rounds. No model, no torch."""

from __future__ import annotations

from dataclasses import dataclass, field

from eagle_chat.errors import EXIT_DONE, EXIT_FAILURE, UsageError
from eagle_chat.look import Look
from eagle_chat.streams import check_output, write
from eagle_chat.terminal import has_screen


@dataclass(frozen=True)
class Job:
    """What `tour` was asked for: a chapter, counted from 1, or all."""

    chapter: int | None = None
    theme: str | None = None
    look: Look = field(default_factory=Look)


def tour(job: Job) -> int:
    """Show it, or print it where there is no screen; the exit code."""
    from eagle_chat.tour.chapters import chapters

    every = chapters()
    if job.chapter is not None and not 1 <= job.chapter <= len(every):
        raise UsageError(f"there is no chapter {job.chapter}: the tour has chapters 1 to {len(every)}")
    check_output()
    if has_screen():
        from eagle_chat.tour.app import run_tour_app

        return run_tour_app(job.chapter or 1, job.theme, job.look)
    from eagle_chat.tour.printed import printed

    shown = range(1, len(every) + 1) if job.chapter is None else [job.chapter]
    try:
        for number in shown:
            write(printed(every[number - 1], number))
    except BrokenPipeError:  # whoever read us has enough
        return EXIT_FAILURE
    return EXIT_DONE

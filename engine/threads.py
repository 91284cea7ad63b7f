"""How many CPU threads to decode with: measured, since neither the machine nor its other work is known."""

from __future__ import annotations

from statistics import median

import torch

from engine.generate import Engine, Round
from engine.sampling import GenerationSettings

ROUNDS = 5  # measured for each count


def pick_threads(engine: Engine, prompt: list[int]) -> int:
    """Set the number of threads with which plain rounds are fastest now, and return it.

    Threads of one product wait for each other. Beside other busy processes all of them wait for the one that
    lost its core, so that one thread alone can be ten times faster; on a quiet machine a small model has no
    work for many.
    """
    most = torch.get_num_threads()
    counts = [count for count in (1, 2, 4, 8, 16, 32) if count < most] + [most]
    if len(counts) > 1:
        seconds = {count: _seconds(engine, prompt, count) for count in counts}
        torch.set_num_threads(min(seconds, key=lambda count: seconds[count]))
    return torch.get_num_threads()


def _seconds(engine: Engine, prompt: list[int], threads: int) -> float:
    """Median time of a plain round."""
    torch.set_num_threads(threads)
    events = engine.generate(prompt, GenerationSettings(max_new_tokens=1 + ROUNDS))
    rounds = [event.timing.verify for event in events if isinstance(event, Round)]
    engine.reset()
    return median(rounds[1:] or [0.0])

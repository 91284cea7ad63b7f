"""The shipped head still guesses well.

A wrong position, template or vocabulary keeps the text and costs the speed: only a floor on τ shows it.
"""

from __future__ import annotations

import threading

import pytest

from eagle_chat.catalogue import entry
from eagle_chat.evaluation import Score, measure
from eagle_chat.fingerprint import cache_folder
from eagle_chat.loading import load_session
from eagle_chat.options import Dtype, Method, Options
from eagle_chat.questions import Question, Task

ALIAS = "smollm2-135m"

# One prompt for each kind of the paper's tasks, and what τ may not fall below (the mean is held tighter).
PROMPTS = {
    "chat": ("I am moving to a small town next month. What should I find out about it before I go?", 2.8),
    "code": ("Write a Python function that counts the vowels in a string.", 3.2),
    "maths": ("Tom has 12 marbles. He gives 3 to each of 2 friends. How many does he keep? Explain.", 2.5),
    "instruction": ("List five things to check before a long car journey.", 2.3),
    "question": ("Why is the sky blue?", 1.9),
    "summary": (
        "Shorten this: The old bridge over the river was closed on Monday after engineers found cracks in "
        "two of its pillars. The town council said repairs would take at least six weeks and that buses "
        "would be sent around the valley. Shop owners fear that fewer visitors will come during the summer.",
        1.7,
    ),
}
FLOOR = 2.5  # of the mean; 2.67 was measured
FLOORS = {"medusa": 1.5, "hydra": 1.7, "draft-model": 1.35}  # 1.63, 1.90 and 1.46 were measured


def measured(options: Options) -> Score:
    """In fp32, where the numbers hardly depend on the machine; the default run downloads nothing."""
    if not (cache_folder() / ALIAS / "config.json").is_file():
        pytest.skip(f"{ALIAS} is not in {cache_folder()}: the slow tests, or eagle-chat itself, fetch it")
    session = load_session(options, lambda _: None, watched=False)
    score = Score()
    for name, (prompt, _) in PROMPTS.items():
        for _ in measure(Task(name, (Question((prompt,), name),)), session, score, threading.Event()):
            pass
    return score


def test_the_shipped_head_is_accepted_often_enough() -> None:
    score = measured(
        Options(dtype=Dtype.FP32, device="cpu", nodes=24, depth=5, beam=8, max_new_tokens=40, seed=0)
    )
    taus = {name: task.tau for name, task in score.tasks.items()}
    low = {name: tau for name, tau in taus.items() if tau is None or tau < PROMPTS[name][1]}
    assert not low, taus
    assert score.tau is not None
    assert score.tau >= FLOOR, taus


@pytest.mark.parametrize("method", FLOORS)
def test_the_other_heads_are_too(method: str) -> None:
    if method not in entry(ALIAS).heads:
        pytest.skip(f"{ALIAS} has no head for {method} yet")
    score = measured(
        Options(method=Method(method), dtype=Dtype.FP32, device="cpu", max_new_tokens=40, seed=0)
    )
    assert score.tau is not None
    assert score.tau >= FLOORS[method], {name: task.tau for name, task in score.tasks.items()}

"""How a head is trained."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingSettings:
    """How a head is trained."""

    pairs: int  # (feature, next token) pairs to train on, repeated ones included
    steps: int = 3  # guesses of each pair
    step_decay: float = 0.8  # weight of each step in the loss, relative to the one before
    regression: float = 0.0  # weight of the smooth L1 distance to the target's features
    batch: int = 2048  # pairs, about
    longest: int = 1024  # tokens of a conversation
    learning_rate: float = 0.003  # at its highest
    warm_up: int = 30  # optimiser steps
    weight_decay: float = 0.01
    clip: float = 1.0  # largest norm of the gradient
    validations: int = 10
    validated: int = 32768  # tokens, about
    seed: int = 0

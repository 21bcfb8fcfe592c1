"""Rates by hand."""

import math
from typing import Any

import pytest

from paribus.spec.training import (
    AdamW,
    Constant,
    Cosine,
    InverseSqrt,
    LinearDecay,
    Training,
    Trapezoid,
)
from paribus.train.schedule import learning_rate_at


def training(schedule: Any, n_steps: int = 100, warmup: int = 10) -> Training:
    return Training(n_steps=n_steps, warmup=warmup, schedule=schedule, optimizer=AdamW(rate=2.0))


@pytest.mark.parametrize(
    ("schedule", "step", "rate"),
    [
        (Cosine(), 0, 0.2),
        (Cosine(), 9, 2.0),
        (Cosine(), 10, 2.0),
        (Cosine(), 55, 2 * 0.55),
        (Cosine(floor=0.0), 40, 1 + math.cos(math.pi / 3)),
        (Trapezoid(), 50, 2.0),
        (Trapezoid(), 80, 2.0),
        (Trapezoid(), 90, 1.0),
        (Trapezoid(), 99, 0.1),
        (InverseSqrt(), 10, 2.0),
        (InverseSqrt(), 40, 1.0),
        (Constant(), 4, 1.0),
        (Constant(), 99, 2.0),
        (LinearDecay(), 10, 2.0),
        (LinearDecay(), 55, 1.0),
        (LinearDecay(), 99, 2 / 90),
        (LinearDecay(floor=0.5), 55, 1.5),
    ],
)
def test_the_rate_of_a_step(schedule: Any, step: int, rate: float) -> None:
    assert learning_rate_at(step, training(schedule)) == pytest.approx(rate)


def test_without_a_warm_up_the_first_step_has_the_full_rate() -> None:
    for schedule in (Cosine(), Trapezoid(), InverseSqrt(), Constant(), LinearDecay()):
        assert learning_rate_at(0, training(schedule, warmup=0)) == pytest.approx(2.0)

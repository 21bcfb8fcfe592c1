"""Coordinate check of the maximal update parametrisation: after the first steps of learning, what a
width has changed from initialisation does not depend on it; under the standard parametrisation it
does.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from coordinate_check import N_STEPS, PLACES, width_slopes

MAX_SLOPE = 0.1  # of log rms change on log width
# Small tables: what a random table adds to a tied head's logits shrinks with the root of the width,
# at any rate, and hides what is learnt in the first step.
MUP: dict[str, Any] = {"kind": "mup", "std": 0.005}
STANDARD: dict[str, Any] = {"kind": "normal", "residual": True}
WIDTHS, SEEDS = (64, 128, 256, 512, 1024), (1, 2, 3, 4, 5)


def mean_slopes(slopes: Mapping[tuple[int, str], float]) -> dict[str, float]:
    """The mean over steps, by place."""
    means: dict[str, float] = {}
    for place in PLACES:
        own = [slope for (_, other), slope in slopes.items() if other == place]
        means[place] = sum(own) / len(own)
    return means


def steep(slopes: Mapping[Any, float]) -> dict[Any, float]:
    return {key: slope for key, slope in slopes.items() if abs(slope) > MAX_SLOPE}


def test_changes_do_not_depend_on_the_width_under_mup() -> None:
    """On average over the steps; a few seeds of narrow models are too noisy for each."""
    slopes = width_slopes(MUP, (64, 128, 256), (1, 2))
    assert len(slopes) == N_STEPS * len(PLACES)
    assert not steep(mean_slopes(slopes))


def test_changes_depend_on_the_width_under_the_standard_parametrisation() -> None:
    """At every step and at every place."""
    slopes = width_slopes(STANDARD, (64, 256), (1,))
    assert steep(slopes) == slopes
    assert steep(mean_slopes(slopes)) == mean_slopes(slopes)


@pytest.mark.slow
def test_no_step_after_the_first_depends_on_the_width_under_mup() -> None:
    """The first step is left out: its slope is −0.15 of scores and −0.11 of logits, from what
    random weights add at narrow widths. On average over all steps it counts.
    """
    slopes = width_slopes(MUP, WIDTHS, SEEDS)
    assert not steep({key: slope for key, slope in slopes.items() if key[0] > 1})
    assert not steep(mean_slopes(slopes))


@pytest.mark.slow
def test_every_step_depends_on_the_width_under_the_standard_parametrisation() -> None:
    slopes = width_slopes(STANDARD, WIDTHS, SEEDS)
    assert steep(slopes) == slopes

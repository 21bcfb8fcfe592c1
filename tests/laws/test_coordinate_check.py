"""Coordinate check of the maximal update parametrisation: how far the first steps of learning move
a model from its initialisation does not depend on its width; under the standard parametrisation it
does.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from coordinate_check import N_STEPS, PLACES, width_slopes

MAX_SLOPE = 0.1  # of log rms change on log width
# Small tables: what a random table adds to a tied head's logits shrinks with the root of the width,
# at any rate, and hides what is learnt.
MUP: dict[str, Any] = {"kind": "mup", "std": 0.005}
STANDARD: dict[str, Any] = {"kind": "normal", "residual": True}
WIDTHS, SEEDS = (64, 128, 256, 512, 1024), (1, 2, 3, 4, 5)
FEW_STEPS = 2


def steep(slopes: Mapping[Any, float]) -> dict[Any, float]:
    return {key: slope for key, slope in slopes.items() if abs(slope) > MAX_SLOPE}


def test_changes_do_not_depend_on_the_width_under_mup() -> None:
    slopes = width_slopes(MUP, (64, 128, 256, 512), (1, 2, 3), FEW_STEPS)
    assert len(slopes) == FEW_STEPS * len(PLACES)
    assert not steep(slopes)


def test_changes_depend_on_the_width_under_the_standard_parametrisation() -> None:
    slopes = width_slopes(STANDARD, (64, 256), (1,))
    assert len(slopes) == N_STEPS * len(PLACES)
    assert steep(slopes) == slopes


@pytest.mark.slow
def test_no_step_depends_on_the_width_under_mup() -> None:
    slopes = width_slopes(MUP, WIDTHS, SEEDS)
    assert len(slopes) == N_STEPS * len(PLACES)
    assert not steep(slopes)


@pytest.mark.slow
def test_every_step_depends_on_the_width_under_the_standard_parametrisation() -> None:
    slopes = width_slopes(STANDARD, WIDTHS, SEEDS)
    assert steep(slopes) == slopes

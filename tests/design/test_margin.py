"""A margin in compute that the curves will not price is told before the study, with what would give it a price."""

from pathlib import Path
from typing import Any

import pytest
from pair_design import pair_plan

from little_study import carried, plan_of
from paribus.analyse import findings, points_short
from paribus.design import described

COMPUTE: dict[str, Any] = {"primary.margin": "10 % compute"}


def warned(cache: Path, n_steps: int, valid_every: int, more: dict[str, Any] | None = None) -> tuple[str, ...]:
    training = {"base.training.n_steps": n_steps, "base.training.valid_every": valid_every}
    return plan_of(cache, COMPUTE | training | (more or {})).margin_warnings


def test_a_curve_with_too_few_points_is_told_with_the_number_it_needs(study_cache: Path) -> None:
    assert warned(study_cache, 40, 10) == (
        "the margin of 10 % compute cannot be priced, so nothing will be called equivalent: the learning curve of full "
        "will have 2 validation points in its last third, and 3 are needed; use training.valid_every = 9, which is 10 "
        "for 40 steps now, or a margin in bits per byte",
    )
    assert warned(study_cache, 40, 9) == ()


def test_a_run_too_short_for_any_is_told_the_steps_it_needs(study_cache: Path) -> None:
    (said,) = warned(study_cache, 5, 1)
    assert said.endswith("5 steps are too few: use 6 or more, and training.valid_every = 1")
    assert warned(study_cache, 6, 1) == ()


def test_a_margin_in_bits_needs_no_curve(study_cache: Path) -> None:
    assert warned(study_cache, 5, 5, {"primary.margin": 0.5}) == ()


def test_every_arm_that_others_are_judged_against_is_looked_at(study_cache: Path) -> None:
    pairs = {"comparisons": [["reverse", "causal"], ["causal", "full"]], "factor": ["architecture.mask", "training"]}
    rare = {"arms.causal.training": {"valid_every": 100}, "arms.reverse.training": {"valid_every": 100}}
    assert warned(study_cache, 40, 9, pairs | rare) == (
        "what a gain over causal is worth in compute cannot be said: the learning curve of causal will have 1 "
        "validation point in its last third, and 3 are needed; use training.valid_every = 9, which is 100 for 40 "
        "steps now, or a margin in bits per byte",
    )


def test_the_steps_that_count_are_those_the_budget_gives(study_cache: Path) -> None:
    asked = {"factor": ["architecture.mask", "training.n_sequences"], "budget": "tokens_read", "match": "nothing",
             "arms.causal.training": {"n_sequences": 16}, "comparisons": [["full", "causal"]]}  # fmt: skip
    (said,) = warned(study_cache, 40, 9, asked)
    assert "the learning curve of causal will have 2 validation points" in said
    assert "which is 9 for 20 steps now" in said


@pytest.mark.parametrize(("valid_every", "n_warnings"), [(2, 1), (1, 0)])
def test_what_the_plan_says_is_what_the_study_finds(
    tmp_path: Path, study_cache: Path, valid_every: int, n_warnings: int
) -> None:
    asked = COMPUTE | {"base.training.n_steps": 8, "base.training.valid_every": valid_every, "arms.reverse": None}
    assert len(plan_of(study_cache, asked).margin_warnings) == n_warnings
    found = findings(carried(tmp_path, study_cache, asked, "priced"))
    assert (found.slope is None) == (n_warnings == 1)


def test_a_point_on_the_edge_counts_where_steps_read_equally_much(study_cache: Path, tmp_path: Path) -> None:
    assert warned(study_cache, 600, 100) == ()
    assert points_short(600, 100, is_even=True) is None
    pairs = COMPUTE | {"base.training.n_steps": 600, "base.training.valid_every": 100}
    (said,) = pair_plan(tmp_path, pairs).margin_warnings
    assert "will have 2 validation points in its last third, and 3 are needed; use training.valid_every = 99" in said


def test_the_plan_keeps_and_shows_what_it_warned_of(study_cache: Path) -> None:
    made = plan_of(study_cache, COMPUTE | {"base.training.valid_every": 16})
    assert described(made)["margin_warnings"] == list(made.margin_warnings)
    assert "cannot be priced" in made._repr_html_()

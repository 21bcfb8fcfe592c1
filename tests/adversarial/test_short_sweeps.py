"""Rates that are tuned in a handful of steps, and margins in compute that nothing measured."""

from typing import Any

import pytest

from paribus.design.scaling_checks import fewest_sweep_steps
from paribus.errors import SpecError

TWO_ARMS = """
factor = "architecture.mask"
[arms.plain]
[arms.narrow]
architecture.mask = "causal & window(5)"
"""
LONGER = """
factor = "training.n_steps"
tune = { share = 0.05 }
[arms.plain]
training.n_steps = 20
[arms.longer]
training.n_steps = 400
"""


def test_a_sweep_has_twenty_steps_or_half_of_those_of_a_short_run() -> None:
    assert [fewest_sweep_steps(n) for n in (1, 12, 25, 40, 41, 10_000)] == [1, 6, 13, 20, 20, 20]


@pytest.mark.parametrize(
    ("n_steps", "share", "said"),
    [
        (12, 0.0001, "tuned in runs of 2 of the 12 steps, and 6 are needed: .*share = 0.5 or more"),
        (100, 0.1, "tuned in runs of 10 of the 100 steps, and 20 are needed: .*share = 0.2 or"),
        (1000, 0.01, "tuned in runs of 10 of the 1000 steps, and 20 are needed: .*share = 0.02 or"),
    ],
)
def test_a_handful_of_steps_tunes_nothing(
    plan_design: Any, n_steps: int, share: float, said: str
) -> None:
    text = f"base.training.n_steps = {n_steps}\ntune = {{ share = {share} }}\n{TWO_ARMS}"
    with pytest.raises(
        SpecError, match=f"tune.share is {share}, so that the rate of plain is {said}"
    ):
        plan_design(text)


@pytest.mark.parametrize(("n_steps", "share"), [(12, 0.5), (100, 0.2), (1000, 0.02), (12, 1.0)])
def test_a_sweep_that_trains_is_planned(plan_design: Any, n_steps: int, share: float) -> None:
    text = f"base.training.n_steps = {n_steps}\ntune = {{ share = {share} }}\n{TWO_ARMS}"
    assert plan_design(text).design.tune.share == share


def test_the_shortest_arm_is_told_and_the_share_serves_all(plan_design: Any) -> None:
    said = "rate of plain is tuned in runs of 2 of the 20 steps, .* use tune.share = 0.5 or more"
    with pytest.raises(SpecError, match=said):
        plan_design(LONGER)
    plan_design(LONGER.replace("0.05", "0.5"))


@pytest.mark.parametrize(
    ("margin", "lengths", "said"),
    [
        ("300 %", "[0.5, 0.75, 1]", "lengths from 0.5 to 1 measure what 100% more gains"),
        ("50 %", "[0.25, 0.75, 0.88, 1]", "lengths from 0.75 to 1 measure what 33% more gains"),
        ("150 %", "[0.25, 0.5, 1]", "a slope is continued to 2 times the training at most"),
    ],
)
def test_a_margin_asks_for_no_more_than_the_lengths_measure(
    plan_design: Any, margin: str, lengths: str, said: str
) -> None:
    text = f"lengths = {lengths}\nprimary.margin = '{margin} compute'\n{TWO_ARMS}"
    with pytest.raises(SpecError, match=f"primary.margin is '{margin} compute', .*, but {said}"):
        plan_design(text)


@pytest.mark.parametrize(
    ("margin", "lengths"),
    [("10 %", "[0.25, 0.5, 1]"), ("100 %", "[0.25, 0.5, 1]"), ("30 %", "[0.25, 0.75, 0.88, 1]")],
)
def test_a_margin_that_is_measured_is_planned(plan_design: Any, margin: str, lengths: str) -> None:
    text = f"lengths = {lengths}\nprimary.margin = '{margin} compute'\n{TWO_ARMS}"
    assert plan_design(text).design.primary.margin == f"{margin} compute"

"""A recipe that is another one in a longer run: warm-up in steps, where arms differ in steps."""

from collections.abc import Callable

import pytest

from paribus.design import Plan
from paribus.errors import ConfoundError, SpecError
from paribus.record import Mark
from paribus.spec.training import Training

PlanDesign = Callable[[str], Plan]

# An objective that scores each token, and not only the second half: half the steps score as many.
MOVED = """
factor = "objective"
budget = "tokens_scored"
[base.training]
n_steps = 23
warmup = 5
valid_every = 10
[arms.plain]
objective = "prefix"
[arms.all]
objective = "causal"
"""
LONGER = """
factor = "training.n_steps"
[base.training]
n_steps = 20
warmup = 5
[arms.plain]
[arms.longer]
training = { n_steps = 60 }
"""


def trainings(plan: Plan) -> dict[str, Training]:
    return {arm.name: arm.run.last.training for arm in plan.arms}


def test_a_budget_moves_the_warm_up_with_the_steps(plan_design: PlanDesign) -> None:
    plan = plan_design(MOVED)
    plain, moved = trainings(plan)["plain"], trainings(plan)["all"]
    assert moved.n_steps < plain.n_steps == 23
    assert (plain.warmup, plain.valid_every) == (5, 10)
    share = moved.n_steps / 23
    assert (moved.warmup, moved.valid_every) == (round(5 * share), round(10 * share))
    lines = {line.path: line for line in plan.control_lines}
    for field in ("warmup", "valid_every"):
        line = lines[f"training.{field}"]
        assert (line.mark, line.note) == (Mark.MATCHED, "in proportion to the steps")


def test_arms_of_one_length_keep_their_warm_up(plan_design: PlanDesign) -> None:
    plan = plan_design(
        MOVED.replace('objective = "causal"', "architecture.dropout = 0.1").replace(
            'factor = "objective"', 'factor = "architecture.dropout"'
        )
    )
    assert {own.warmup for own in trainings(plan).values()} == {5}


def test_a_factor_that_moves_steps_moves_the_warm_up_too(plan_design: PlanDesign) -> None:
    longer = trainings(plan_design(LONGER))["longer"]
    assert (longer.n_steps, longer.warmup, longer.valid_every) == (60, 15, 18)


def test_a_warm_up_that_an_arm_writes_is_obeyed(plan_design: PlanDesign) -> None:
    text = LONGER.replace("n_steps = 60", "n_steps = 60, warmup = 5")
    assert trainings(plan_design(text))["longer"].warmup == 5


@pytest.mark.parametrize(
    "factor", ['"training.n_steps"', '["training.n_steps", "training.warmup"]']
)
def test_an_equal_share_of_warm_up_that_is_written_is_no_second_factor(
    plan_design: PlanDesign, factor: str
) -> None:
    text = LONGER.replace('"training.n_steps"', factor).replace("= 60", "= 60, warmup = 15")
    plan = plan_design(text)
    assert trainings(plan)["longer"].warmup == 15
    assert [one.factors for one in plan.judged] == [("n_steps",)]
    (line,) = [line for line in plan.control_lines if line.path == "training.warmup"]
    assert (line.mark, line.note) == (Mark.MATCHED, "in proportion to the steps")


@pytest.mark.parametrize("warmup", [0, 13, 30])
def test_another_share_of_warm_up_is_a_confound_or_a_second_factor(
    plan_design: PlanDesign, warmup: int
) -> None:
    text = LONGER.replace("= 60", f"= 60, warmup = {warmup}")
    with pytest.raises(ConfoundError, match=rf"training\.warmup is 5 in plain, {warmup}"):
        plan_design(text)
    named = text.replace('"training.n_steps"', '["training.n_steps", "training.warmup"]')
    with pytest.raises(ConfoundError, match="differs in 2 factors: n_steps, warmup"):
        plan_design(named)


def test_another_warm_up_in_as_many_steps_is_a_confound(plan_design: PlanDesign) -> None:
    text = LONGER.replace("n_steps = 60", "warmup = 15")
    with pytest.raises(ConfoundError, match=r"training\.warmup is 5 in plain, 15"):
        plan_design(text)


def test_a_warm_up_past_the_end_is_refused(plan_design: PlanDesign) -> None:
    said = (
        r"arms\.plain: training\.warmup is 24, more than n_steps 23, so that the rate never comes"
        r" to its peak; use 4 \(20 % of the steps\), or more steps"
    )
    with pytest.raises(SpecError, match=said):
        plan_design(MOVED.replace("warmup = 5", "warmup = 24"))
    plan_design(MOVED.replace("warmup = 5", "warmup = 23"))

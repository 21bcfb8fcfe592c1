"""What a verdict must add about where its runs begin."""

from pathlib import Path

import pytest
from handmade_study import make_study

from paribus.analyse.remarks import begin_remark, plan_remarks
from paribus.record.plan import PlanRecord, parse_plan
from paribus.record.plan_file import read_plan


def beginning(plan: PlanRecord, weights: list[str | None]) -> PlanRecord:
    """The plan whose arms begin from checkpoints with these weights."""
    table = dict(plan.written)
    arms = {}
    for name, own in zip(plan.order, weights, strict=True):
        run = dict(table["arms"][name]["run"])
        if own is not None:
            run["begin"] = {"name": "gpt2-small", "weights": own * 64, "tokenizer": "f" * 64}
        arms[name] = {**table["arms"][name], "run": run}
    return parse_plan({**table, "arms": arms}, Path("plan.json"))


@pytest.fixture
def plan(tmp_path: Path) -> PlanRecord:
    return read_plan(make_study(tmp_path))


def test_arms_that_begin_from_one_checkpoint_have_only_later_noise(plan: PlanRecord):
    assert begin_remark(plan) is None
    n_arms = len(plan.order)
    one = beginning(plan, ["a"] * n_arms)
    remark = "all arms begin from gpt2-small, so the interval holds only the noise after it"
    assert begin_remark(one) == remark
    assert remark in plan_remarks(one, (1, 2, 3, 4))


def test_arms_that_begin_apart_or_anew_have_no_such_remark(plan: PlanRecord):
    n_others = len(plan.order) - 1
    assert begin_remark(beginning(plan, ["a", *["b"] * n_others])) is None
    assert begin_remark(beginning(plan, ["a", *[None] * n_others])) is None

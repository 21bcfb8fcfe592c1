"""One stage more is more training, too: a budget is asked for, and it holds over all stages."""

import re

import pytest

from paribus.errors import ConfoundError, SpecError
from paribus.record import Mark

MORE = """
factor = "stages.1"
BUDGET
[[base.stages]]
kind = "pretrain"
training = { n_steps = STEPS }
[[base.stages]]
kind = "adapt"
objective = "prefix"
training = { n_steps = 24, warmup = 4 }
[arms.plain]
stages.1 = false
[arms.more]
"""


def more(budget: str, n_steps: int = 12) -> str:
    return MORE.replace("BUDGET", budget).replace("STEPS", str(n_steps))


def test_three_times_the_tokens_are_not_compared_without_a_budget(plan_design) -> None:
    said = r"budget is missing, and more has 2 stages where plain has 1, .* tokens_read by \+200"
    with pytest.raises(SpecError, match=said):
        plan_design(more(""))


def test_a_budget_is_offered_with_what_would_meet_it(plan_design) -> None:
    offered = "say which of them is made equal over all stages, such as budget = 'tokens_read'"
    fewer = "; the stages of more before its last read as much as all of plain, so write baseline"
    why = re.escape(
        " = 'more', whose budget moves the steps of plain and leaves its stages as they are, or why"
        ' none is: allow = { tokens_read = "why" }'
    )
    with pytest.raises(SpecError, match=offered + fewer + why):
        plan_design(more(""))
    shorter = more("") + "stages.0.training = { n_steps = 6, warmup = 1 }\n"
    shorter = shorter.replace('factor = "stages.1"', 'factor = ["stages.1", "stages.0.training"]')
    meant = 'compound = { more = "as long in both stages" }\n'
    with pytest.raises(SpecError, match=offered + ", or why none is"):
        plan_design(meant + shorter)


def test_a_budget_that_the_first_stage_uses_up_is_refused(plan_design) -> None:
    said = "the stages of more before its last come to .*; write baseline = 'more', whose budget"
    with pytest.raises(SpecError, match=said):
        plan_design(more('budget = "tokens_read"'))


def test_a_reason_stands_in_the_control_table(plan_design) -> None:
    plan = plan_design(more('allow = { tokens_read = "what the stage adds is asked" }'))
    (line,) = [line for line in plan.control_lines if line.path == "tokens_read in all"]
    assert (line.mark, line.allowed) == (Mark.CONFOUND, "what the stage adds is asked")


def test_a_budget_over_all_stages_is_the_honest_twin(plan_design) -> None:
    design = more('budget = "tokens_read"\nbaseline = "more"')
    plan = plan_design(design)
    assert {arm.name: arm.total("tokens_read") for arm in plan.arms}["plain"] == pytest.approx(
        plan.arms[0].total("tokens_read")
    )


WRITTEN = """
factor = "stages.1"
budget = "training_flops"
[[base.stages]]
kind = "pretrain"
training = { n_steps = 12 }
[arms.plain]
stages.1 = { kind = "adapt", objective = "prefix", training = { n_steps = 24, warmup = 4 } }
[arms.other]
stages.1 = { kind = "adapt", objective = "causal", training = { n_steps = 24, warmup = 4 } }
"""


def test_a_budget_moves_the_steps_of_stages_that_arms_write_alike(plan_design) -> None:
    plan = plan_design(WRITTEN)
    assert [one.factors for one in plan.judged] == [("stages.1.objective",)]
    totals = [arm.total("training_flops") for arm in plan.arms]
    assert totals[0] == pytest.approx(totals[1], rel=0.02)


def test_a_budget_moves_no_steps_that_arms_write_otherwise(plan_design) -> None:
    sly = WRITTEN.replace(
        '"causal", training = { n_steps = 24', '"causal", training = { n_steps = 48'
    )
    said = (
        r"factor: arms differ in stages\.1\.training\.n_steps, which budget = 'training_flops'"
        " moves; write the same in every arm, or leave the budget out"
    )
    with pytest.raises(SpecError, match=said):
        plan_design(sly)


def test_another_first_stage_is_offered_the_budget_that_moves_no_last_stage(plan_design) -> None:
    text = WRITTEN.replace('"stages.1"', '"stages.0.objective"').replace('"causal"', '"prefix"')
    text = text.replace("[arms.other]", '[arms.other]\nstages.0.objective = "causal"')
    text = text.replace('budget = "training_flops"', "")
    with pytest.raises(SpecError, match="such as budget = 'bytes_read'"):
        plan_design(text)
    plan = plan_design(f'budget = "bytes_read"\n{text}')
    assert {arm.n_steps for arm in plan.arms} == {24}
    assert [one.factors for one in plan.judged] == [("stages.0.objective",)]


def test_longer_training_before_one_stage_more_is_answered_with_the_other_baseline(
    plan_design,
) -> None:
    text = more('budget = "tokens_read"', 60).replace('"stages.1"', '["stages.1", "stages.0"]')
    sly = text + "stages.0.training = { n_steps = 36 }\n"
    said = "with the same n_steps in the stages that both have, baseline = 'more' and a budget"
    with pytest.raises(ConfoundError, match=f"differs in 3 factors: .*{said}"):
        plan_design(sly)

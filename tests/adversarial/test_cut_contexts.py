"""Contexts that are cut in one arm and not in another: what is compared then is how much of the
question each arm was shown.
"""

import re
from collections.abc import Callable

import pytest

from paribus.design import Plan
from paribus.errors import ConfoundError, SpecError
from paribus.record import Mark

PlanDesign = Callable[[str], Plan]

# Texts of 60 bytes and more, and windows of 32: a half and its target fit an
# encoder-decoder, which reads each by itself, and no decoder.
LONG = """
factor = "architecture.encoder"
match = "nothing"
budget = "tokens_read"
[base.corpus]
sources = [{ kind = "copy", n_documents = 400, form = "text", min_length = 60, max_length = 70 }]
[arms.plain]
[arms.apart]
architecture.encoder = { n_layers = 2 }
"""
HALVES = 'primary.measure = { kind = "halves", n_items = 20, max_bytes = %d }\n'
PAIRS = 'primary.measure = { kind = "pairs", n_items = 20 }\n'


def counts(plan: Plan, path: str = "cut contexts") -> dict[str, str]:
    (line,) = [line for line in plan.control_lines if line.path == path]
    return dict(line.values)


def refusal(plan_design: PlanDesign, text: str) -> str:
    with pytest.raises(ConfoundError) as fault:
        plan_design(text)
    (problem,) = fault.value.problems
    return problem


def cure(problem: str, field: str) -> int:
    found = re.search(rf"{field} = (\d+)", problem)
    assert found is not None
    return int(found[1])


def test_contexts_that_only_a_decoder_loses_are_a_confound(plan_design: PlanDesign) -> None:
    problem = refusal(plan_design, HALVES % 60 + LONG)
    assert re.match(
        r"cut contexts: 18 of 18, \d+ bytes \(\d+\.\d%\) in plain; 0 of 18 in apart, so arms would",
        problem,
    )
    assert re.search(r"\(apart against plain -\d+\.\d% of the bytes; none is cut with", problem)
    assert problem.endswith("; use that, or list 'cut contexts' under allow with a reason")


def test_what_the_refusal_advises_is_exact(plan_design: PlanDesign) -> None:
    problem = refusal(plan_design, HALVES % 60 + LONG)
    max_bytes, length = cure(problem, "max_bytes"), cure(problem, "length")
    nothing = {"plain": "0 of 18", "apart": "0 of 18"}
    shorter = HALVES % max_bytes + LONG
    longer = f"{HALVES % 60}base.training.length = {length}\n{LONG}"
    for honest in (shorter, longer):
        assert counts(plan_design(honest)) == nothing
    longer = HALVES % (max_bytes + 1) + LONG
    shorter = f"{HALVES % 60}base.training.length = {length - 1}\n{LONG}"
    for still_cut in (longer, shorter):
        with pytest.raises(ConfoundError, match="cut contexts"):
            plan_design(still_cut)


def test_a_reason_lets_cut_contexts_pass(plan_design: PlanDesign) -> None:
    allowed = 'allow = { "cut contexts" = "windows are asked about" }\n'
    plan = plan_design(allowed + HALVES % 60 + LONG)
    (line,) = plan.allowed_lines
    assert (line.path, line.allowed) == ("cut contexts", "windows are asked about")
    assert plan.unused_allowances == {}


def test_contexts_that_all_arms_lose_alike_are_equal(plan_design: PlanDesign) -> None:
    plan = plan_design(
        HALVES % 60
        + LONG.replace("encoder = { n_layers = 2 }", 'mask = "causal & window(5)"').replace(
            "architecture.encoder", "architecture.mask"
        )
    )
    values = counts(plan)
    assert values["plain"] == values["apart"] != "0 of 18"
    (line,) = [line for line in plan.control_lines if line.path == "cut contexts"]
    assert line.mark == Mark.EQUAL


def test_a_source_that_only_a_decoder_loses_is_a_confound_in_pairs(
    plan_design: PlanDesign,
) -> None:
    pairs = PAIRS + 'base.objective = "seq2seq"\n' + LONG.replace('form = "text", ', "")
    problem = refusal(plan_design, f"base.training.length = 100\n{pairs}")
    assert "max_bytes" not in problem
    length = cure(problem, "length")
    plan = plan_design(f"base.training.length = {length}\n{pairs}")
    assert set(counts(plan).values()) == {"0 of 14"}


def test_a_further_yardstick_is_counted_too(plan_design: PlanDesign) -> None:
    others = 'others = [{ kind = "halves", split = "valid", n_items = 20, max_bytes = 60 }]\n'
    problem = refusal(plan_design, HALVES % 24 + others + LONG)
    assert problem.startswith("cut contexts.others.0: 19 of 19")
    allowed = 'allow = { "cut contexts.others.0" = "shown beside the verdict" }\n'
    plan = plan_design(allowed + HALVES % 24 + others + LONG)
    assert counts(plan) == {"plain": "0 of 18", "apart": "0 of 18"}
    assert [line.path for line in plan.allowed_lines] == ["cut contexts.others.0"]


def test_a_target_without_room_is_refused_with_what_would_do(plan_design: PlanDesign) -> None:
    with pytest.raises(SpecError, match="leaves no room for a context in a window of 32") as fault:
        plan_design(HALVES % 70 + LONG)
    problem = str(fault.value)
    max_bytes, length = cure(problem, "max_bytes"), cure(problem, "length")
    plan_design(HALVES % max_bytes + LONG)
    plan_design(f"{HALVES % 70}base.training.length = {length}\n{LONG}")

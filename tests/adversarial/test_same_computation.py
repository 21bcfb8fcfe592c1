"""A factor that cannot reach the runs: two arms that would be one computation under two names."""

from typing import Any

import pytest
import torch
from sly_designs import sly_table
from torch import Tensor

from paribus.design.arms import arms_of
from paribus.errors import SpecError
from paribus.model import build
from paribus.objectives.permission import example_problem
from paribus.spec import resolve
from paribus.spec.design_reading import load_design
from paribus.spec.objectives import components_of

EXPERTS = 'base.architecture.feed_forward = { kind = "experts", n_active = 1, n_experts = '
RELATIVE = 'base.architecture.positions = "relative_bias"\nbase.training.length = 18\n'
# what all arms have; the factor; the plain arm, the one that is sly and the one that is honest;
# what is said of the sly one
PAIRS = {
    "no prefix": (
        'base.objective = "causal"',
        "architecture.mask",
        ("'causal'", "'prefix'", "'causal & window(9)'"),
        "objective 'causal' has no prefix, .* use objective = 'prefix'",
    ),
    "all prefix": (
        'base.objective = "masked"\n'
        'primary.measure = { kind = "pseudo", n_items = 3, min_bytes = 8, max_bytes = 12 }',
        "architecture.mask",
        ("'full'", "'prefix'", "'causal'"),
        "the whole text that it reads is the prefix",
    ),
    "wide window": (
        "",
        "architecture.mask",
        ("'causal'", "'causal & window(31)'", "'causal & window(30)'"),
        "a row has 32 tokens, .* use a window below 31, or training.length above 32",
    ),
    "nothing scored sees it": (
        "base.architecture.n_layers = 1",
        "architecture.mask",
        ("'causal'", "'prefix'", "'prefix & window(8)'"),
        "each shows the same pairs to what is scored; .* more architecture.n_layers",
    ),
    "whole source": (
        "base.architecture.encoder = { n_layers = 1 }",
        "architecture.encoder.mask",
        ("'full'", "'prefix'", "'causal'"),
        "under objective 'prefix' the whole text that it reads is the prefix",
    ),
    "named by default": (
        "base.architecture.encoder = { n_layers = 1 }",
        "architecture.encoder.cross",
        ("'full'", None, "'same_document'"),
        "each shows the same pairs",
    ),
    "one expert": (
        f"{EXPERTS}1 }}",
        "architecture.feed_forward.balance",
        ("'none'", "'batch'", None),
        "feed_forward.balance.kind is none and batch, but it chooses nothing",
    ),
    "written twice": (
        'match = "nothing"\nbudget = "tokens_read"',
        "architecture.attention.n_kv_heads",
        ("2", None, "1"),
        "n_kv_heads is 2 and None, but it is the same model",
    ),
    "short rows": (
        RELATIVE,
        "architecture.positions.max_distance",
        ("128", "256", "17"),
        "no distance in rows of 18 tokens shows it",
    ),
    "room": (
        "",
        "architecture.max_length",
        ("32", "64", None),
        "max_length is 32 and 64, but no row is longer than training.length 32",
    ),
    "level either way": (
        "",
        "training.schedule",
        ("'constant'", "{ kind = 'linear', floor = 1.0 }", "'linear'"),
        "the rate is the same at every step",
    ),
    "same spans": (
        'budget = "tokens_read"\nbase.objective = "spans"',
        "objective.mean_span",
        ("3.0", "3.01", "1.5"),
        "objective 'spans' asks the same of rows of 32 tokens",
    ),
    "one split": (
        "base.objective = { kind = 'prefix', least = 0.5, most = 0.5 }",
        "objective.grid",
        ("16", "8", None),
        "objective 'prefix' asks the same",
    ),
    "rows of the record": (
        "",
        "training.row_every",
        ("6", "3", None),
        "it changes no weight; use another field of training",
    ),
    "split into parts": (
        "",
        "training.n_micro_batches",
        ("1", "2", None),
        "it changes no weight",
    ),
}


def _design(base: str, factor: str, values: tuple[str | None, ...]) -> str:
    lines = [base, f'factor = "{factor}"']
    for arm, value in zip(("plain", "other"), values, strict=True):
        lines.append(f"[arms.{arm}]")
        if value is not None:
            lines.append(f"{factor} = {value}")
    return "\n".join(lines)


@pytest.mark.parametrize("name", PAIRS)
def test_arms_that_are_computed_alike_are_refused(plan_design: Any, name: str) -> None:
    base, factor, (plain, sly, _), said = PAIRS[name]
    with pytest.raises(SpecError, match=f"'plain' and 'other' would be the same .*: .*({said})"):
        plan_design(_design(base, factor, (plain, sly)))


@pytest.mark.parametrize("name", [name for name, (*_, arms, _) in PAIRS.items() if arms[2]])
def test_arms_that_are_computed_apart_are_planned(plan_design: Any, name: str) -> None:
    base, factor, (plain, _, honest), _ = PAIRS[name]
    planned = plan_design(_design(base, factor, (plain, honest)))
    assert len(planned.arms) == 2


@pytest.mark.parametrize("field", ['cross_positions = "rotary"', 'cross_form = "merged"'])
def test_how_cross_attention_is_made_is_a_difference(plan_design: Any, field: str) -> None:
    text = 'factor = "architecture.encoder"\nmatch = "nothing"\nbudget = "tokens_read"\n'
    for arm, own in (("plain", ""), ("other", f", {field}")):
        text += f"[arms.{arm}]\narchitecture.encoder = {{ n_layers = 1{own} }}\n"
    assert len(plan_design(text).arms) == 2


def test_arms_that_differ_in_name_only_are_meant_to_be_one_run(plan_design: Any) -> None:
    planned = plan_design('factor = "architecture.mask"\n[arms.plain]\n[arms.twin]\n')
    assert planned.arms[0].run == planned.arms[1].run


def test_a_probe_that_looks_inside_sees_what_is_not_scored(plan_design: Any) -> None:
    """In one layer, a prefix mask moves nothing that is scored, but the attention within it."""
    sly = _design("base.architecture.n_layers = 1", "architecture.mask", ("'causal'", "'prefix'"))
    probe = 'others = [{ kind = "probe", probe = "rank", quantity = "effective rank" }]\n'
    assert len(plan_design(probe + sly).arms) == 2


def test_a_shown_share_is_that_of_what_is_trained(plan_design: Any) -> None:
    """An objective without a prefix shows what a causal mask does; one with it, the source too."""
    lines = {}
    for objective in ("causal", "prefix"):
        base = f'base.objective = "{objective}"'
        masks = ("'causal & window(9)'", "'prefix'")
        planned = plan_design(_design(base, "architecture.mask", masks))
        lines[objective] = {line.path: line for line in planned.control_lines}["visible_share"]
    assert lines["causal"].values["other"] == round(32 * 33 / 2 / 32**2, 4)
    assert lines["prefix"].values["other"] > lines["causal"].values["other"]


MASKED = [name for name, (_, factor, *_) in PAIRS.items() if factor.endswith("mask")]


@pytest.mark.parametrize("name", MASKED)
def test_what_is_refused_answers_alike_and_what_is_planned_does_not(name: str) -> None:
    base, factor, (plain, sly, honest), _ = PAIRS[name]
    one, other = _answers(_design(base, factor, (plain, sly)))
    assert torch.allclose(one, other, atol=1e-5)
    one, other = _answers(_design(base, factor, (plain, honest)))
    assert not torch.allclose(one, other, atol=1e-5)


def _answers(text: str) -> list[Tensor]:
    """The logits that each arm is scored by, at the same start, on one row."""
    answers = []
    for arm in arms_of(load_design(sly_table(text))):
        stage, architecture = arm.run.last, arm.run.architecture
        component = components_of(stage.objective)[0]
        problem = example_problem(component, resolve(architecture), stage.training.length)
        is_scored = problem.weights_BM[0] > 0
        with torch.no_grad():
            logits_TV = build(architecture)(problem.inputs).logits_BTV[0]
        answers.append(logits_TV[problem.scored_positions_BM[0][is_scored]])
    return answers

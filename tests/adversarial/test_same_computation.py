"""A factor that cannot reach the runs: two arms that would be one computation under two names."""

from pathlib import Path
from typing import Any

import pytest
import torch
from sly_designs import sly_table
from torch import Tensor

from paribus.design.arms import arms_of
from paribus.errors import SpecError
from paribus.model import build
from paribus.objectives import pose_problem, separates_documents
from paribus.objectives.permission import example_problem
from paribus.spec import resolve
from paribus.spec.design_reading import load_design
from paribus.spec.objectives import components_of

EXPERTS = 'base.architecture.feed_forward = { kind = "experts", n_active = 1, n_experts = '
RELATIVE = 'base.architecture.positions = "relative_bias"\nbase.training.length = 18\n'
# one for each distance below 162
MANY_BUCKETS = 'base.architecture.positions = { kind = "relative_bias", n_buckets = 324 }\n'
SHORT_PAIRS = """
base.objective = "seq2seq"
base.corpus.sources = [{ kind = "translation", n_documents = 400 }]
base.training.length = 256
primary.measure = { kind = "pairs", n_items = 4 }
"""
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
    "a window hides what lies ahead": (
        "",
        "architecture.mask",
        ("'causal & window(8)'", "'prefix & window(8)'", "'prefix & (window(8) | reverse)'"),
        r"window\(8\) shows nothing that lies ahead, .* use \(window\(8\) \| reverse\) in place of",
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
        'compound.other = "a floor is what makes it level"',
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

# likewise, where the text has no row as long as training.length
SHORT_TEXTS = {
    "short pairs": (
        SHORT_PAIRS,
        "architecture.mask",
        ("'causal'", "'causal & window(170)'", "'causal & window(100)'"),
        "the longest pair of its training has 161 tokens, .* use a window below 160, or pairs of"
        " more than 171 tokens",
    ),
    "short sources": (
        f"{SHORT_PAIRS}base.architecture.encoder = {{ n_layers = 1 }}",
        "architecture.encoder.mask",
        ("'causal'", "'causal & window(100)'", "'causal & window(60)'"),
        "the longest source of its training has 80 tokens, .* use a window below 79",
    ),
    "short targets": (
        f"{SHORT_PAIRS}base.architecture.encoder = {{ n_layers = 1 }}",
        "architecture.mask",
        ("'causal'", "'causal & window(100)'", "'causal & window(60)'"),
        "the longest target of its training has 81 tokens, .* use a window below 80",
    ),
    "distances of short pairs": (
        f"{SHORT_PAIRS}{MANY_BUCKETS}",
        "architecture.positions.max_distance",
        ("300", "280", None),
        "the longest pair of its training has 161 tokens, whose distances do not show it; use"
        " longer pairs",
    ),
    "short documents": (
        "base.training.length = 256",
        "architecture.mask",
        (
            "'causal & same_document'",
            "'causal & same_document & window(200)'",
            "'causal & same_document & window(130)'",
        ),
        "the longest document of its training has 161 tokens, .* use a window below 160, or"
        " documents of more than 201 tokens",
    ),
    "distances of short documents": (
        f"base.training.length = 256\nbase.architecture.mask = 'causal & same_document'\n"
        f"{MANY_BUCKETS}",
        "architecture.positions.max_distance",
        ("300", "280", None),
        "the longest document of its training has 161 tokens",
    ),
}
ALL_PAIRS = PAIRS | SHORT_TEXTS


def _design(base: str, factor: str, values: tuple[str | None, ...]) -> str:
    lines = [base, f'factor = "{factor}"']
    for arm, value in zip(("plain", "other"), values, strict=True):
        lines.append(f"[arms.{arm}]")
        if value is not None:
            lines.append(f"{factor} = {value}")
    return "\n".join(lines)


@pytest.mark.parametrize("name", ALL_PAIRS)
def test_arms_that_are_computed_alike_are_refused(plan_design: Any, name: str) -> None:
    base, factor, (plain, sly, _), said = ALL_PAIRS[name]
    with pytest.raises(SpecError, match=f"'plain' and 'other' would be the same .*: .*({said})"):
        plan_design(_design(base, factor, (plain, sly)))


@pytest.mark.parametrize("name", [name for name, (*_, arms, _) in ALL_PAIRS.items() if arms[2]])
def test_arms_that_are_computed_apart_are_planned(plan_design: Any, name: str) -> None:
    base, factor, (plain, _, honest), _ = ALL_PAIRS[name]
    planned = plan_design(_design(base, factor, (plain, honest)))
    assert len(planned.arms) == 2


@pytest.mark.parametrize("field", ['cross_positions = "rotary"', 'cross_form = "merged"'])
def test_how_cross_attention_is_made_is_a_difference(plan_design: Any, field: str) -> None:
    text = 'factor = "architecture.encoder"\nmatch = "nothing"\nbudget = "tokens_read"\n'
    for arm, own in (("plain", ""), ("other", f", {field}")):
        text += f"[arms.{arm}]\narchitecture.encoder = {{ n_layers = 1{own} }}\n"
    assert len(plan_design(text).arms) == 2


def test_text_that_comes_to_the_same_tokens_is_the_same_text(
    plan_design: Any, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        lines = [f"The {n}th line of book {name} says {n * n}.\n" for n in range(4000)]
        (tmp_path / f"{name}.txt").write_text("".join(lines))
    base = "base.corpus = { test = 0.2, valid = 0.2 }\nbudget = 'tokens_read'\n"
    base += "factor = 'corpus.sources'\n"

    def table(first: str, second: str) -> str:
        plain, other = "", ""
        for name, own in (("one", first), ("two", second)):
            source = f"kind = 'files', paths = '{tmp_path / name}.txt', max_document = 256"
            plain, other = f"{plain}{{ {source} }},", f"{other}{{ {source}, {own} }},"
        return (
            f"{base}[arms.plain]\ncorpus.sources = [{plain}]\n"
            f"[arms.other]\ncorpus.sources = [{other}]\n"
        )

    with pytest.raises(SpecError, match="the same text is read in the same shares"):
        plan_design(table("text = 'body'", "weight = 1.0"))
    assert len(plan_design(table("weight = 1.0", "weight = 3.0")).arms) == 2


def test_arms_that_differ_in_name_only_are_meant_to_be_one_run(plan_design: Any) -> None:
    planned = plan_design('factor = "architecture.mask"\n[arms.plain]\n[arms.twin]\n')
    assert planned.arms[0].run == planned.arms[1].run


SHORT_MASKS = [name for name, (_, factor, *_) in SHORT_TEXTS.items() if factor.endswith("mask")]


@pytest.mark.parametrize("name", SHORT_MASKS)
def test_what_is_refused_for_its_text_answers_alike_on_it(plan_design: Any, name: str) -> None:
    base, factor, (plain, sly, honest), _ = SHORT_TEXTS[name]
    planned = plan_design(_design(base, factor, (plain, honest)))
    text = planned.arms[0].dataset.text_batch("train", 1, 0, 64, 256)
    for other, is_alike in ((sly, True), (honest, False)):
        answers = []
        for arm in arms_of(load_design(sly_table(_design(base, factor, (plain, other))))):
            spec = resolve(arm.run.architecture)
            problem = pose_problem(
                arm.run.last.objective,
                text,
                planned.arms[0].dataset.vocabulary,
                0,
                spec.encoder is not None,
                separates_documents(spec),
            )
            with torch.no_grad():
                states = build(arm.run.architecture).hidden_states(problem.inputs).states_BTD
            answers.append(problem.gather_states(states)[problem.weights_BM > 0])
        assert torch.allclose(*answers, atol=1e-5) == is_alike


def test_a_window_within_one_document_of_many_is_a_difference(plan_design: Any) -> None:
    """A document may fill a row in which three have no room for the window."""
    masks = ("'causal & same_document'", "'causal & same_document & window(14)'")
    assert len(plan_design(_design("", "architecture.mask", masks)).arms) == 2


QUESTIONS = """
[[others]]
kind = "task"
[others.task]
kind = "choices"
n_items = 3
language = { kind = "recall", n_documents = 300, min_length = 4, max_length = 6 }
"""
FEW_SHOT = '[others.protocol]\nkind = "few-shot"\nn_demonstrations = 20\n'


def test_items_that_are_longer_than_all_training_show_a_difference(plan_design: Any) -> None:
    sly = _design(SHORT_PAIRS, "architecture.mask", ("'causal'", "'causal & window(170)'"))
    with pytest.raises(SpecError, match="the longest pair of its training has 161 tokens"):
        plan_design(sly + QUESTIONS)
    assert len(plan_design(sly + QUESTIONS + FEW_SHOT).arms) == 2


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

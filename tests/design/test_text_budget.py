"""A budget of tokens counts text and no padding; where it leaves text unequal, the control
table says so.
"""

from pathlib import Path
from typing import Any

import pytest
from pair_design import LENGTH, N_STEPS, pair_design, pair_plan
from trained_study import make_small_plan

from paribus.cli.plan import plan
from paribus.design import Plan, arms_of
from paribus.design.field_paths import require_known_paths
from paribus.errors import ConfoundError, SpecError
from paribus.spec.design_reading import load_design
from paribus.workspace import Workspace

HALVES = {"kind": "halves", "n_items": 5, "max_bytes": 16}
N_LITTLE = 16  # steps of the little study
NO_ARMS: dict[str, Any] = dict.fromkeys(("arms.reverse", "arms.full", "arms.causal"))
DECODERS: dict[str, Any] = NO_ARMS | {  # spans in one sequence have less room for text than in two
    "factor": "architecture.encoder",
    "base.objective": {"kind": "spans", "rate": 0.3, "mean_span": 2},
    "base.architecture.mask": "causal",
    "baseline": "decoder",
    "arms.decoder": {},
    "arms.encoder-decoder": {"architecture": {"encoder": {"n_layers": 1}}},
    "match": "nothing",
    "primary.measure": HALVES,
}


def line(made: Plan, path: str) -> Any:
    return next(one for one in made.control_lines if one.path == path)


def test_an_encoder_decoder_gets_the_steps_of_a_decoder_on_pairs(tmp_path: Path) -> None:
    decoder, other = (made := pair_plan(tmp_path)).arms
    assert other.n_steps == decoder.n_steps == N_STEPS
    assert other.epochs == decoder.epochs
    assert other.step_cost.tokens_read == decoder.step_cost.tokens_read < 6 * LENGTH / 2
    assert (decoder.step_cost.positions_computed, other.step_cost.positions_computed) == (
        6 * LENGTH,
        12 * LENGTH,
    )
    for path in ("tokens_read in all", "bytes_read in all", "epochs"):
        assert line(made, path).mark == "✓"
    assert line(made, "parameters").mark == "→"  # they differ, and are no field
    prices = [arm.step_cost.training_flops / arm.step_cost.tokens_read for arm in (decoder, other)]
    assert (
        list(line(made, "training_flops").values.values()) == prices
    )  # of a token, not of a position
    computed = line(made, "positions_computed in all")
    assert (computed.mark, list(computed.values.values())) == (
        "→",
        [N_STEPS * 6 * LENGTH, N_STEPS * 12 * LENGTH],
    )


def test_tokens_of_pairs_are_those_of_source_target_and_end(tmp_path: Path) -> None:
    arm = pair_plan(tmp_path, {"base.training.n_sequences": 300, "base.training.n_steps": 1}).arms[
        1
    ]
    reading = arm.dataset.text_batch("train", 1, 0, 300, LENGTH)
    assert reading.real_BT is not None
    assert arm.step_cost.tokens_read == int(reading.real_BT.sum())
    n_bytes = int(arm.dataset.vocabulary.bytes_V[reading.tokens_BT].sum())
    assert (
        arm.step_cost.tokens_read == n_bytes + 300
    )  # letters are bytes; each pair has an end, and no pad counts


@pytest.mark.parametrize("objective", ["masked", "causal", "prefix"])
def test_running_text_fills_its_rows_so_tokens_are_positions(
    study_cache: Path, objective: str
) -> None:
    changes: dict[str, Any] = {"base.objective": objective}
    if objective != "masked":
        changes |= NO_ARMS | {"base.architecture.mask": "causal", "arms.fan": {}, "baseline": "fan"}
        changes |= {
            "arms.normal": {"architecture": {"init": "normal"}},
            "factor": "architecture.init",
        }
        changes |= {"primary.measure": HALVES}
    for arm in make_small_plan(study_cache, changes).arms:
        assert arm.step_cost.tokens_read == arm.step_cost.positions_computed == 8 * 32


def test_text_that_could_have_been_equal_is_a_confound_under_a_budget_of_tokens(
    study_cache: Path,
) -> None:
    said = (
        r"bytes_read in all is \d+ in decoder, \d+ in encoder-decoder, but corpus, tokenizer and"
        r" objective of the last stage are equal, "
        r"so the text could be equal too \(encoder-decoder against decoder .* equal bytes would"
        r" give it"
        r" 16 steps\); "
        r"use budget = 'bytes_read', or list bytes_read under allow with a reason"
    )
    with pytest.raises(ConfoundError, match=said) as refused:
        make_small_plan(study_cache, DECODERS | {"budget": "tokens_read"})
    assert len(refused.value.problems) == 1  # a quantity is no field, and is told once
    equal = make_small_plan(study_cache, DECODERS | {"budget": "bytes_read"})
    assert [arm.n_steps for arm in equal.arms] == [16, 16]
    assert line(equal, "bytes_read in all").mark == "✓"


@pytest.mark.parametrize("name", ["bytes_read", "bytes_read in all", "epochs"])
def test_a_quantity_is_allowed_by_its_name(study_cache: Path, name: str) -> None:
    made = make_small_plan(
        study_cache, DECODERS | {"budget": "tokens_read", "allow": {name: "tokens are asked about"}}
    )
    assert {one.path for one in made.allowed_lines} == {"bytes_read in all", "epochs"}
    assert {one.allowed for one in made.allowed_lines} == {"tokens are asked about"}
    assert made.unused_allowances == {}


def test_other_quantities_may_be_named_and_let_nothing_pass(study_cache: Path) -> None:
    made = make_small_plan(
        study_cache, {"allow": {"kernel": "as it comes", "tokens_read": "equal as it is"}}
    )
    assert list(made.unused_allowances) == ["kernel", "tokens_read"]
    design = load_design(pair_design(study_cache, {"allow": {"byte_read": "a slip"}}))
    with pytest.raises(
        SpecError, match="allow has 'byte_read', a field of no arm's run and no quantity"
    ):
        require_known_paths(design, arms_of(design))


def test_text_differs_by_the_budget_where_the_question_differs(study_cache: Path) -> None:
    asked: dict[str, Any] = NO_ARMS | {
        "factor": "objective",
        "baseline": "plain",
        "budget": "tokens_scored",
        "primary.measure": HALVES,
        "base.architecture.mask": "causal",
        "base.objective": "causal",
        "arms.plain": {},
        "arms.spans": {"objective": "spans"},
    }
    made = make_small_plan(study_cache, asked)
    plain, spans = made.arms
    assert spans.n_steps > 2 * plain.n_steps
    text = line(made, "bytes_read in all")
    assert text.mark == line(made, "epochs").mark == "≈"
    apart = (
        spans.step_cost.bytes_read * spans.n_steps / (plain.step_cost.bytes_read * plain.n_steps)
        - 1
    )
    steps = f"equal bytes would give it {N_LITTLE} steps"
    assert text.note == f"spans against plain {apart:+.1%} by the budget chosen, {steps}"


def test_small_differences_are_matched_and_not_told_one_by_one(study_cache: Path) -> None:
    asked = NO_ARMS | {
        "factor": "training.length",
        "baseline": "short",
        "budget": "tokens_read",
        "base.architecture.mask": "full",
        "arms.short": {},
        "base.training.n_steps": 200,
        "match": "nothing",
        "arms.long": {"training": {"length": 33}},
    }
    made = make_small_plan(study_cache, asked)
    assert line(made, "epochs").mark in "≈✓"
    assert line(made, "bytes_read in all").mark == "≈"
    assert line(made, "bytes_read in all").note.endswith("% at most, by the budget chosen")


def test_pairs_that_are_not_judged_confound_nothing(study_cache: Path) -> None:
    third = {
        "arms.two layers": {"architecture": {"encoder": {"n_layers": 2}}},
        "budget": "tokens_read",
    }
    made = make_small_plan(
        study_cache, DECODERS | third | {"comparisons": [["two layers", "encoder-decoder"]]}
    )
    assert line(made, "bytes_read in all").mark == "≈"


def test_the_verb_counts_padding_neither(tmp_path: Path) -> None:
    made = plan(
        pair_design(tmp_path),
        name="pairs",
        workspace=Workspace(cache=tmp_path / "cache", device="cpu"),
    )
    assert len({arm.n_steps for arm in made.arms}) == 1

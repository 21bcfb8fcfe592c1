"""Arms: each a run of its own, and every fault named with the arm that has it."""

from typing import Any

import pytest
from trained_study import design_table

from paribus.design.arms import arm_refusal, arms_of
from paribus.errors import SpecError
from paribus.spec.design import Match
from paribus.spec.design_reading import load_design


def refused(changes: dict[str, Any]) -> list[str]:
    with pytest.raises(SpecError) as caught:
        arms_of(load_design(design_table(changes)))
    return list(caught.value.problems)


def test_the_baseline_comes_first_whatever_the_order_of_writing() -> None:
    assert [arm.name for arm in arms_of(load_design(design_table()))] == [
        "full",
        "reverse",
        "causal",
    ]


def test_an_arms_table_has_presets_and_defaults_but_not_what_follows_from_the_text() -> None:
    arm = arms_of(load_design(design_table({"base.architecture.init": None})))[0]
    assert arm.table["architecture"]["init"]["residual"] is True
    assert arm.table["architecture"]["norm"] == {"kind": "layer", "eps": 1e-5, "bias": True}
    assert not {"n_vocab", "max_length"} & arm.table["architecture"].keys()
    assert arm.run.architecture.n_vocab == 256 + 107
    assert arm.leaves["architecture.mask"] == "full"


def test_an_architecture_may_be_a_presets_name() -> None:
    table = design_table(
        {"base.architecture": None, "arms": None, "baseline": "one", "factor": "architecture"}
    )
    arms = {"one": {"architecture": "bert"}, "two": {"architecture": "mixed-heads"}}
    assert [arm.name for arm in arms_of(load_design({**table, "arms": arms}))] == ["one", "two"]
    with pytest.raises(
        SpecError, match=r"arms.two: .*'unilmm', which does not exist; did you mean 'unilm'\?"
    ):
        arms_of(load_design({**table, "arms": {**arms, "two": {"architecture": "unilmm"}}}))


def test_a_fault_of_every_arm_is_told_once() -> None:
    (said,) = refused({"base.training.n_stepz": 3})
    assert said.startswith(
        "in every arm, training.n_stepz is not a key here; did you mean 'n_steps'?"
    )


def test_a_fault_of_some_arms_names_them() -> None:
    (said,) = refused({"arms.full.architecture.maks": "full"})
    assert said.startswith("arms.full: architecture.maks is not a key here; did you mean 'mask'?")


def test_a_typo_in_a_level_is_named_with_its_arms() -> None:
    levels = {
        "a": {"architecture": {"positons": "none"}},
        "b": {"architecture": {"positions": "none"}},
    }
    mask = {"path": "architecture.mask", "levels": ["full", "causal"]}
    changes = {
        "arms": None,
        "factor": None,
        "baseline": "full+a",
        "factors": {"mask": mask, "p": {"levels": levels}},
    }
    (said,) = refused(changes)
    assert said.startswith(
        "arms.full+a, arms.causal+a: architecture.positons is not a key here; did you mean 'posi"
    )


def test_a_leak_is_refused_with_the_way_it_would_take() -> None:
    halves = {"kind": "halves", "n_items": 5}
    (said,) = refused({"base.objective": "causal", "primary.measure": halves, "arms.reverse": None})
    assert said.startswith("arms.full: ")
    assert "see" in said


@pytest.mark.parametrize(
    ("match", "said"),
    [
        (
            {"by": "parameters"},
            "arms.causal: match.moves is empty, but by is 'parameters'; say which of depth, width",
        ),
        (
            {"by": "parameters", "moves": ["height"]},
            "arms.causal: match.moves.0 is 'height'; use 'depth', 'width' or",
        ),
        (
            {"by": "nothing", "movs": []},
            "arms.causal: match.movs is not a key here; did you mean 'moves'?",
        ),
        ("size", "arms.causal: match.by is 'size'; use 'nothing', 'parameters'"),
        (7, "arms.causal: match is 7 (int); write a table with keys by, "),
    ],
)
def test_a_slip_in_an_arms_match_is_named_by_its_path(match: Any, said: str) -> None:
    assert refused({"arms.causal.match": match})[0].startswith(said)


def test_an_arm_has_its_own_match_or_the_designs() -> None:
    asked = {"match": {"by": "parameters", "moves": ["d_ff"]}, "arms.causal.match": "nothing"}
    own = {arm.name: arm.match for arm in arms_of(load_design(design_table(asked)))}
    assert own["causal"] == Match(by="nothing")
    assert own["reverse"] == own["full"] == Match(by="parameters", moves=("d_ff",))


def test_a_yardstick_that_an_arm_cannot_answer_is_refused_before_training() -> None:
    said = refused({"primary.measure": {"kind": "halves"}})
    assert said[0].startswith(
        "in every arm, the yardstick 'halves' cannot be used: objective.kind is 'masked', which"
    )
    said = refused({"others": [{"kind": "halves"}]})
    assert "the yardstick 'halves' cannot be used" in said[0]


def test_a_mixture_may_be_asked_for_what_any_of_its_parts_learns() -> None:
    parts = [{"objective": "masked"}, {"objective": "last_token"}]
    mixed = {
        "base.objective": {"kind": "mixture", "components": parts},
        "arms.reverse": None,
        "arms.causal": None,
    }
    again = {"arms.again": {"architecture": {"mask": "full"}}, "others": [{"kind": "halves"}]}
    assert len(arms_of(load_design(design_table(mixed | again)))) == 2


@pytest.mark.parametrize("n_vocab", [256 + 107, 400])
def test_a_vocabulary_is_chosen_where_it_is_written(n_vocab: int) -> None:
    """Whatever would have followed from the text."""
    assert "n_vocab" not in arms_of(load_design(design_table()))[0].table["architecture"]
    for place in ("base", "arms.full"):
        arm = arms_of(load_design(design_table({f"{place}.architecture.n_vocab": n_vocab})))[0]
        assert arm.table["architecture"]["n_vocab"] == n_vocab


def test_the_leaves_of_a_run_are_the_paths_one_would_set() -> None:
    leaves = arms_of(load_design(design_table()))[0].leaves
    assert {
        "architecture.d_model",
        "corpus.sources",
        "objective.kind",
        "training.optimizer.rate",
    } <= leaves.keys()
    assert "kind" not in leaves


def test_a_table_is_an_arm_or_the_reason_is_given() -> None:
    design = load_design(design_table())
    table = arms_of(design)[0].table
    assert arm_refusal(design, table) is None
    assert "see" in str(arm_refusal(design, {**table, "objective": "causal"}))
    assert "the yardstick 'pseudo' cannot be used" in str(
        arm_refusal(design, {**table, "objective": "last_token"})
    )


@pytest.mark.parametrize(
    ("stages", "problem"),
    [
        ({"2": False}, "stages.2 is false, but the base has no such stage"),
        ({"0": False}, "stages.0 is false, but only the last stages can be left out"),
        ({"0": False, "1": False}, "stages.0 is false, but only the last stages can be left out"),
    ],
)
def test_an_arm_leaves_out_the_last_stages_of_its_base_and_no_others(
    stages: dict[str, Any], problem: str
) -> None:
    changes = {"base.stages": {"0": {}, "1": {"kind": "adapt"}}}
    arms = arms_of(load_design(design_table({**changes, "arms.causal.stages": {"1": False}})))
    assert {arm.name: len(arm.run.stages) for arm in arms} == {"full": 2, "reverse": 2, "causal": 1}
    (refusal,) = refused({**changes, "arms.causal.stages": stages})
    assert refusal.startswith(f"arms.causal: {problem}")

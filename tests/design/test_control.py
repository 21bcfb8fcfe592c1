"""The control table: six marks, and none of them hides what could have been equal."""

from typing import Any

import pytest

from little_study import little
from paribus.design.arms import arms_of
from paribus.design.control import Line, confounds, fields, under
from paribus.spec.design import declared
from paribus.spec.sound import load_design

HALVES = {"kind": "halves", "n_items": 5}


def lines(changes: dict[str, Any] | None = None, moved: Any = None, tuned: str | None = None) -> dict[str, Line]:
    design = load_design(little(changes))
    found = fields(arms_of(design), declared(design), moved or {}, tuned, design.allow)
    return {line.path: line for line in found}


def marks(changes: dict[str, Any] | None = None) -> dict[str, str]:
    return {path: line.mark for path, line in lines(changes).items() if line.mark != "✓"}


def test_the_factor_alone_differs_in_the_little_design() -> None:
    assert marks() == {"architecture.mask": "Δ"}
    assert len(lines()) > 50


def test_what_could_have_been_set_equal_is_a_confound_with_its_path_and_values() -> None:
    found = lines({"arms.causal.training": {"warmup": 2}})
    assert found["training.warmup"].mark == "✗"
    (said,) = confounds(found.values())
    assert said == (
        "training.warmup is 0 in full, 0 in reverse, 2 in causal, but it is not the factor and could have been set "
        "equal; set it equal, name it in factor, or list it under allow with a reason"
    )


def test_a_confound_may_be_allowed_with_a_reason_which_is_kept() -> None:
    allow = {"training.warmup": "longer text needs it"}
    found = lines({"arms.causal.training": {"warmup": 2}, "allow": allow})
    assert found["training.warmup"].allowed == "longer text needs it"
    assert found["training.warmup"].mark == "✗"
    assert confounds(found.values()) == ()


def test_what_the_factor_forces_follows_and_the_refusal_is_told() -> None:
    objective = {"base.objective": "causal", "primary.measure": HALVES, "arms.reverse": None, "baseline": "causal"}
    found = lines(objective | {"arms.full.objective": "last_token"})
    assert found["objective.kind"].mark == "→"
    assert "see" in found["objective.kind"].note
    assert {path: line.mark for path, line in found.items() if line.mark not in "✓→"} == {"architecture.mask": "Δ"}


def test_fields_that_can_only_move_together_are_confounds_beside_one_that_is_forced() -> None:
    """d_model and n_heads are refused one by one, as heads must divide the width; together they could be equal."""
    sizes = {"d_model": 15, "attention": {"n_heads": 3}, "mask": "full", "positions": "none"}
    changes = {
        "base.objective": "causal", "primary.measure": HALVES, "arms.reverse": None, "baseline": "causal",
        "base.architecture.positions": "none", "arms.full": {"architecture": sizes, "objective": "last_token"},
    }  # fmt: skip
    found = marks(changes)
    assert found["architecture.d_model"] == found["architecture.attention.n_heads"] == "✗"
    assert found["objective.kind"] == "→"


def test_either_of_two_would_do_so_one_of_them_is_a_confound() -> None:
    """A reverse mask forces another objective; nothing forces the second thing that differs."""
    changes = {
        "base.objective": "causal", "primary.measure": HALVES, "arms.reverse": None, "baseline": "causal",
        "arms.full": {"architecture": {"mask": "full"}, "objective": "last_token", "training": {"z_loss": 0.1}},
    }  # fmt: skip
    found = marks(changes)
    assert found["training.z_loss"] == "✗"
    assert found["objective.kind"] == "→"


def test_a_factor_that_names_a_part_of_a_list_does_not_free_the_rest_of_it() -> None:
    copy = {"kind": "copy", "form": "text", "n_documents": 300}
    changes = {"factor": ["architecture.mask", "corpus.sources.0.weight"], "arms.causal.corpus": {"sources": [copy]}}
    assert marks(changes)["corpus.sources"] == "✗"
    changes["factor"] = ["architecture.mask", "corpus.sources"]
    assert marks(changes)["corpus.sources"] == "Δ"


def test_a_kind_in_short_is_the_same_as_its_table() -> None:
    same = {"base.architecture.norm": "rms", "arms.causal.architecture.norm": {"kind": "rms"}}
    assert marks(same) == {"architecture.mask": "Δ"}
    assert marks(same | {"arms.causal.architecture.norm": {"kind": "rms", "eps": 0.1}})["architecture.norm.eps"] == "✗"
    other = {"base.architecture.norm": {"kind": "rms", "eps": 0.1}, "arms.causal.architecture.norm": {"kind": "layer"}}
    assert set(marks(other)) == {
        "architecture.mask", "architecture.norm.kind", "architecture.norm.eps", "architecture.norm.bias",
    }  # fmt: skip


def test_what_was_moved_is_matched_and_a_rate_that_is_swept_is_tuned_alike() -> None:
    design = load_design(little({"arms.causal.architecture.feed_forward": {"d_ff": 60}}))
    moved = {"causal": {"architecture.feed_forward.d_ff": "moved so that parameters agree"}}
    found = {line.path: line for line in fields(arms_of(design), declared(design), moved, "5 rates", {})}
    assert found["architecture.feed_forward.d_ff"].mark == "≈"
    assert found["architecture.feed_forward.d_ff"].note == "moved so that parameters agree"
    assert (found["training.optimizer.rate"].mark, found["training.optimizer.rate"].note) == ("⟳", "5 rates")


@pytest.mark.parametrize(
    ("path", "inside"),
    [("a.b", True), ("a.b.c", True), ("a", True), ("a.bc", False), ("b", False), ("a.c", False)],
)
def test_a_path_is_under_another_inside_it_or_where_it_would_be(path: str, inside: bool) -> None:
    assert under(path, ["a.b"]) is inside

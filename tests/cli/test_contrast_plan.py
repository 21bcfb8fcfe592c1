"""Contrasts reach the plan: its fingerprint, its family, what it can see and what is written
down.
"""

from pathlib import Path
from typing import Any

from trained_study import design_table, make_small_plan

from paribus.canonical import canonical_json
from paribus.design import described

GAP = {"contrasts": {"gap": {"reverse": 1, "causal": -0.5, "full": -0.5}}}


def test_contrasts_are_part_of_the_fingerprint_and_a_plan_without_them_is_what_it_was(
    study_cache: Path,
) -> None:
    other = {"contrasts": {"gap": {"reverse": 1, "causal": -1}}}
    plans = [make_small_plan(study_cache, changes) for changes in ({}, GAP, other)]
    assert len({plan.design_fingerprint for plan in plans}) == 3
    assert "contrasts" not in canonical_json(described(plans[0]))
    assert described(plans[1])["design"]["contrasts"] == {
        "gap": {"reverse": 1.0, "causal": -0.5, "full": -0.5}
    }


def test_the_family_of_a_plan_counts_contrasts(study_cache: Path) -> None:
    assert make_small_plan(study_cache).n_comparisons == 2
    assert make_small_plan(study_cache, GAP).n_comparisons == 1
    pairs = {"comparisons": [["reverse", "full"], ["causal", "full"]]}
    assert make_small_plan(study_cache, GAP | pairs).n_comparisons == 3


def test_what_a_plan_can_see_counts_contrasts_and_each_is_told(
    ask, tmp_path: Path, study_cache: Path
) -> None:
    pairs = {"comparisons": [["reverse", "full"], ["causal", "full"]]}
    (tmp_path / "little.json").write_text(canonical_json(design_table(GAP | pairs)))
    told = ask("plan", "little.json", "--cache", str(study_cache), "--device", "cpu")
    assert told.status == 0, told.err
    assert (
        "power      with 3 seeds and 2 comparisons and 1 contrast: an effect of 5.7 sd" in told.out
    )
    assert "contrast   gap: 1 × reverse − 0.5 × causal − 0.5 × full" in told.out


def test_a_plan_says_what_must_come_out_worse(ask, tmp_path: Path, study_cache: Path) -> None:
    def said(changes: dict[str, Any]) -> str:
        (tmp_path / "little.json").write_text(canonical_json(design_table(changes)))
        told = ask("plan", "little.json", "--cache", str(study_cache), "--device", "cpu")
        assert told.status == 0, told.err
        return told.out

    assert "control    none: nothing shows that the yardstick can see a difference" in said({})
    arm = said({"control": "causal"})
    assert 'control    "causal" must come out worse than "full"; it is not in the family' in arm
    assert "with 3 seeds and 1 comparison: " in arm
    length = said({"control": {"length": 0.5}, "lengths": [0.25, 0.5, 1]})
    assert (
        'control    "full" at 0.5 of its training must come out worse than "full"; it is not'
        in length
    )

"""Contrasts reach the plan: its fingerprint, its family, what it can see and what is written down."""

from pathlib import Path

from little_study import little, plan_of
from paribus.design import described
from paribus.record import canonical

GAP = {"contrasts": {"gap": {"reverse": 1, "causal": -0.5, "full": -0.5}}}


def test_contrasts_are_part_of_the_fingerprint_and_a_plan_without_them_is_what_it_was(study_cache: Path) -> None:
    other = {"contrasts": {"gap": {"reverse": 1, "causal": -1}}}
    plans = [plan_of(study_cache, changes) for changes in ({}, GAP, other)]
    assert len({plan.design_fingerprint for plan in plans}) == 3
    assert "contrasts" not in canonical(described(plans[0]))
    assert described(plans[1])["design"]["contrasts"] == {"gap": {"reverse": 1.0, "causal": -0.5, "full": -0.5}}


def test_the_family_of_a_plan_counts_contrasts(study_cache: Path) -> None:
    assert plan_of(study_cache).n_comparisons == 2
    assert plan_of(study_cache, GAP).n_comparisons == 1
    pairs = {"comparisons": [["reverse", "full"], ["causal", "full"]]}
    assert plan_of(study_cache, GAP | pairs).n_comparisons == 3


def test_what_a_plan_can_see_counts_contrasts_and_each_is_told(ask, tmp_path: Path, study_cache: Path) -> None:
    pairs = {"comparisons": [["reverse", "full"], ["causal", "full"]]}
    (tmp_path / "little.json").write_text(canonical(little(GAP | pairs)))
    told = ask("plan", "little.json", "--cache", str(study_cache), "--device", "cpu")
    assert told.status == 0, told.err
    assert "can see    with 3 seeds and 2 comparisons and 1 contrast: an effect of 5.67 sd" in told.out
    assert "contrast   gap: 1 × reverse − 0.5 × causal − 0.5 × full" in told.out

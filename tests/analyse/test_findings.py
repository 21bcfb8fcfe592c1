"""Findings: every arm against the baseline, from runs that are all there, with what the verdict
rests on.
"""

import shutil
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import pytest
from handmade_study import add_lengths, make_study
from trained_study import design_table, replace_plan

from paribus.analyse import compute_multiplier, study_findings, study_rows, study_verdicts
from paribus.errors import SpecError
from paribus.record import Study, existing_study, read_environments
from paribus.record.checksums import write_listed_file
from paribus.record.disk import json_bytes


@pytest.fixture
def kept(finished_home: Path, tmp_path: Path) -> Study:
    """The finished study in a folder that may be spoilt."""
    shutil.copytree(finished_home, tmp_path / "runs")
    return existing_study(tmp_path / "runs", "little")


def redesigned(kept: Study, **design: Any) -> None:
    plan = kept.read_plan()
    written = {**plan, "design": {**plan["design"], **design}}
    written.pop("judged", None)  # other pairs are judged than those of the plan
    replace_plan(kept, written)


def test_every_arm_is_judged_against_the_baseline(finished_home: Path) -> None:
    found = study_findings(existing_study(finished_home, "little"))
    assert found.baseline == "full"
    assert [(arm.name, arm.against) for arm in found.arms] == [
        ("reverse", "full"),
        ("causal", "full"),
    ]
    assert found.label(found.arm("causal")) == "causal"
    assert (found.margin, found.margin_description) == (0.5, "0.5 bits per byte")
    assert found.remarks == ("at one rate for all arms, not tuned",)
    assert found.lock is not None
    assert found.lock.as_planned
    arm = found.arm("causal")
    assert arm.judgement.comparison is not None
    scores = {row["seed"]: row["pseudo.test"] for row in found.table if row["arm"] == "full"}
    assert {seed.seed: seed.baseline for seed in arm.judgement.seeds} == scores
    gains = [seed.gain for seed in arm.judgement.seeds]
    assert arm.judgement.comparison.effect == pytest.approx(sum(filter(None, gains)) / 3)
    assert "at one rate for all arms, not tuned" in arm.judgement.description
    assert arm.new_documents is not None
    assert (
        arm.new_documents.interval is None
        or arm.new_documents.interval.level == arm.judgement.comparison.level
    )
    assert len(arm.gain_curve) >= 3
    assert arm.gains_by_rate == {}
    assert found.factorial is None
    assert found.control_worked is None


def test_declared_pairs_are_judged_each_against_its_own(kept: Study) -> None:
    default = study_findings(kept)
    redesigned(kept, comparisons=[["causal", "reverse"], ["causal", "full"], ["full", "reverse"]])
    found = study_findings(kept)
    assert [(arm.name, arm.against) for arm in found.arms] == [
        ("causal", "reverse"),
        ("causal", "full"),
        ("full", "reverse"),
    ]
    assert found.arm("causal").against == "full"
    assert found.arm("full").against == "reverse"
    first, second, third = found.arms
    assert [found.label(arm) for arm in found.arms] == [
        "causal against reverse",
        "causal",
        "full against reverse",
    ]
    scores = {(row["arm"], row["seed"]): row["pseudo.test"] for row in found.table}
    for one in first.judgement.seeds:
        assert (one.baseline, one.arm) == (scores["reverse", one.seed], scores["causal", one.seed])
    assert first.judgement.comparison is not None
    assert first.judgement.comparison.n_comparisons == 3
    ends = [arm.gain_curve[-1].effect for arm in (first, second, third)]
    assert ends[0] == pytest.approx(ends[1] + ends[2])
    assert second.gain_curve == default.arm("causal").gain_curve
    table = study_verdicts(kept)
    assert [row["against"] for row in table] == ["reverse", "full", "reverse"]


def test_a_pairs_margin_and_effect_are_priced_by_the_lengths_of_what_it_is_judged_against(
    tmp_path: Path,
) -> None:
    study = add_lengths(make_study(tmp_path), {"causal": 0.2, "prefix": 0.3})
    primary = {**study.read_plan()["design"]["primary"], "margin": "10 % compute"}
    redesigned(
        study, comparisons=[["causal", "prefix"], ["input hidden", "causal"]], primary=primary
    )
    found = study_findings(study)
    for arm, slope in zip(found.arms, (0.3, 0.2), strict=True):
        made_of, own = arm.judgement.comparison, found.lengths[arm.against]
        assert made_of is not None
        assert made_of.margins == pytest.approx([slope * log(1.1)] * 4)
        gains = {one.seed: one.gain for one in arm.judgement.seeds}
        assert arm.multiplier == compute_multiplier(made_of, gains, own)
    assert found.margin == pytest.approx(0.2 * log(1.1))
    assert (
        found.margin_description
        == "10 % compute: 0.01906 bits per byte on average (0.0191 to 0.0191 over seeds), from runs"
        ' of "causal" at several lengths; 0.02859 bits per byte on average (0.0286 to 0.0286 over'
        ' seeds), from runs of "prefix" at several lengths'
    )


def test_a_margin_in_compute_needs_lengths_that_improve(tmp_path: Path) -> None:
    study = add_lengths(make_study(tmp_path), {"causal": -0.1})
    primary = {**study.read_plan()["design"]["primary"], "margin": "10 % compute"}
    redesigned(study, primary=primary)
    found = study_findings(study)
    assert (
        found.margin_description
        == '10 % compute: none against "causal", which does not clearly improve with more tokens'
        " (mean slope −0.1), so nothing is called equivalent there"
    )
    assert {arm.judgement.comparison.margin for arm in found.arms if arm.judgement.comparison} == {
        None
    }
    assert {arm.multiplier.reason for arm in found.arms if arm.multiplier} == {
        "does not clearly improve with more tokens"
    }


def test_a_study_without_lengths_has_no_margin_in_compute(tmp_path: Path) -> None:
    study = make_study(tmp_path)
    redesigned(study, primary={**study.read_plan()["design"]["primary"], "margin": "10 % compute"})
    found = study_findings(study)
    assert (found.margin, found.margins.against["causal"]) == (None, None)
    assert (
        found.margin_description
        == "10 % compute, which this study cannot price: it has no runs of other lengths, so"
        " nothing is called equivalent"
    )


def test_a_length_that_diverged_leaves_no_margin_and_one_that_is_open_no_verdict(
    tmp_path: Path,
) -> None:
    study = add_lengths(make_study(tmp_path), {"causal": 0.2})
    redesigned(study, primary={**study.read_plan()["design"]["primary"], "margin": "10 % compute"})
    lost = next(cell for cell in study.read_cells() if cell.purpose == "length")
    (study.root / lost.run / "state").write_text("failed: DivergedError: the loss is nan\n")
    assert (
        'none against "causal", which has no score after 8 steps in seed 1'
        in study_findings(study).margin_description
    )
    (study.root / lost.run / "state").write_text("running\n")
    with pytest.raises(
        SpecError,
        match=(
            "1 of 8 runs of other lengths is missing or not yet run: causal, seed 1, 8 steps;"
            " `paribus run`"
        ),
    ):
        study_findings(study)


def test_a_contrast_takes_the_baselines_margins_by_seed(tmp_path: Path) -> None:
    study = add_lengths(make_study(tmp_path), {"causal": 0.2})
    half = {"half": {"prefix": 0.5, "causal": -0.5}}
    redesigned(
        study,
        primary={**study.read_plan()["design"]["primary"], "margin": "10 % compute"},
        contrasts=half,
    )
    (one,) = study_findings(study).contrasts
    assert one.comparison is not None
    assert one.comparison.margins == pytest.approx([0.5 * 0.2 * log(1.1)] * 4)


def test_a_plan_of_before_there_were_pairs_is_read_as_ever(kept: Study) -> None:
    plan = kept.read_plan()
    design = {name: own for name, own in plan["design"].items() if name != "comparisons"}
    replace_plan(kept, {**plan, "format": 2, "design": design})
    assert [arm.against for arm in study_findings(kept).arms] == ["full", "full"]


def test_a_run_that_is_missing_or_failed_is_named(kept: Study) -> None:
    cells = [cell for cell in kept.read_cells() if cell.arm == "causal"]
    (kept.root / cells[0].run / "state").write_text("failed: RecordError: no space left\n")
    shutil.rmtree(kept.root / cells[1].run)
    with pytest.raises(SpecError) as caught:
        study_findings(kept)
    assert caught.value.problems == (
        (
            "2 of 9 runs are missing or not yet run:"
            f" causal, seed {cells[0].seed} (failed); causal, seed"
            f" {cells[1].seed}; `paribus run DESIGN` resumes"
        ),
    )
    (kept.folder / "cells.json").write_text("[]")
    with pytest.raises(
        SpecError,
        match=(
            "9 of 9 runs are missing or not yet run: full, seed 1; full, seed 2; full, seed 3; 6 "
        ),
    ):
        study_findings(kept)


def test_a_run_that_was_not_measured_is_no_diverged_run(kept: Study) -> None:
    shutil.rmtree(kept.root / kept.read_cells()[0].run / "evaluations")
    with pytest.raises(
        SpecError,
        match="1 of 9 runs is missing or not yet run: causal, seed 1; `paribus run DESIGN` resumes",
    ):
        study_findings(kept)


def test_the_control_is_found_or_not(kept: Study) -> None:
    redesigned(kept, control="causal")
    found = study_findings(kept)
    assert [arm.name for arm in found.arms] == ["reverse"]
    assert found.control is not None
    assert found.control_worked == found.control.works
    older = {name: value for name, value in kept.read_plan().items() if name != "edition"}
    kept.write_plan({**older, "format": 2})
    older = study_findings(kept)
    assert older.control is None
    assert older.control_worked == (older.arm("causal").judgement.verdict.word == "worse")


def test_looks_come_back_from_json_and_a_verdict_is_read_at_the_last_that_is_complete(
    kept: Study,
) -> None:
    redesigned(kept, looks={"3": 0.05})
    assert study_findings(kept).arm("causal").judgement.comparison is not None
    seeds = [1, 2, 3, 4, 5]
    redesigned(kept, looks={"3": 0.01, "5": 0.04}, seeds=seeds)
    found = study_findings(kept)
    assert found.remarks[0] == "a look at 3 of 5 seeds"
    assert found.seeds == (1, 2, 3)
    assert found.look is not None
    assert (found.look.number, found.look.n_looks, found.family_alpha) == (1, 2, 0.01)
    comparison = found.arm("causal").judgement.comparison
    assert comparison is not None
    assert comparison.level == pytest.approx(1 - 0.01 / 2)
    redesigned(kept, looks={"5": 0.05}, seeds=seeds)
    with pytest.raises(
        SpecError, match="6 of 15 runs are missing or not yet run: full, seed 4; full, seed 5; "
    ):
        study_findings(kept)


def test_a_margin_that_was_not_declared_is_said_to_be_none(kept: Study) -> None:
    redesigned(kept, primary={**kept.read_plan()["design"]["primary"], "margin": None})
    assert (
        study_findings(kept).margin_description
        == "none was declared, so nothing is called equivalent"
    )


def test_two_factors_of_two_levels_are_a_factorial(kept: Study) -> None:
    """The runs of the little study, told as if they were a factorial with its fourth arm a copy
    of its first.
    """
    plan = kept.read_plan()
    copied = {"a+x": "full", "a+y": "reverse", "b+x": "causal", "b+y": "full"}
    arms = {}
    for name, arm in copied.items():
        levels = dict(zip("pq", name.split("+"), strict=True))
        arms[name] = {**plan["arms"][arm], "levels": levels}
    control = []
    for line in plan["control"]:
        values = {name: line["values"][arm] for name, arm in copied.items()}
        control.append({**line, "values": values})
    masks = [{"architecture": {"mask": mask}} for mask in ("full", "causal")]
    factors = {
        "p": {"path": None, "levels": dict(zip("ab", masks, strict=True))},
        "q": {"path": None, "levels": dict(zip("xy", masks, strict=True))},
    }
    design = {**plan["design"], "arms": {}, "factor": [], "factors": factors, "baseline": "a+x"}
    whole = {**plan, "design": design, "arms": arms, "order": list(arms), "control": control}
    whole.pop("judged", None)
    cells = []
    for cell in kept.read_cells():
        cells += [replace(cell, arm=name) for name, arm in copied.items() if arm == cell.arm]
    replace_plan(kept, whole, cells)
    found = study_findings(kept)
    assert found.factorial is not None
    assert found.factorial.factors == {"p": ["a", "b"], "q": ["x", "y"]}
    assert "p, from a to b: " in found.factorial.description
    assert found.arms == ()
    assert len(found.contrasts) == found.n_comparisons == 3


def test_runs_under_different_environments_are_told(kept: Study) -> None:
    folder = kept.root / kept.read_cells()[0].run
    told = read_environments(folder)
    write_listed_file(folder, "environment.json", json_bytes([{**told[0], "n_threads": 99}]))
    assert study_findings(kept).remarks[-1] == "runs were made under different n_threads"


def test_the_order_of_arms_survives_json(finished_home: Path) -> None:
    kept = existing_study(finished_home, "little")
    assert list(kept.read_plan()["arms"]) == sorted(design_table()["arms"])
    assert list(dict.fromkeys(row["arm"] for row in study_rows(kept))) == [
        "full",
        "reverse",
        "causal",
    ]


def test_verdicts_are_a_row_an_arm(tmp_path: Path) -> None:
    table = study_verdicts(make_study(tmp_path))
    assert [(row["arm"], row["against"]) for row in table] == [
        ("prefix", "causal"),
        ("input hidden", "causal"),
    ]
    worse = table[1]
    assert worse["verdict"] == "worse"
    assert worse["low"] < worse["gain"] < worse["high"] < 0
    assert worse["seeds"] == 4
    assert "<td>worse</td>" in table._repr_html_()


def test_the_interval_for_new_documents_has_the_level_of_the_verdict(tmp_path: Path) -> None:
    arm = study_findings(make_study(tmp_path)).arm("prefix")
    assert arm.new_documents is not None
    assert arm.new_documents.interval is not None
    assert arm.judgement.comparison is not None
    assert (
        arm.new_documents.interval.level == arm.judgement.comparison.level == pytest.approx(0.975)
    )
    assert "97.5 % interval" in arm.new_documents.description


def test_rates_that_differ_are_not_called_one(tmp_path: Path) -> None:
    study = make_study(tmp_path)
    plan = study.read_plan()
    plan["arms"]["prefix"]["run"]["stages"][-1]["training"]["optimizer"]["rate"] = 0.002
    study.write_plan(plan)
    assert study_findings(study).remarks == ("each arm at the rate written for it, not tuned",)

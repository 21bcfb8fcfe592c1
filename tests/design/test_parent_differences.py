"""A study that is judged on what its last stage has changed, really trained."""

import copy
from pathlib import Path
from typing import Any

import pytest
from conversation_run import LANGUAGE, preference_table

from paribus.analyse import study_findings, study_rows
from paribus.cli.report import write_report
from paribus.cli.run import run
from paribus.design.plan import Plan, make_plan
from paribus.errors import SpecError
from paribus.record import Study, open_study, read_task_evaluations
from paribus.record.file_names import EVALUATIONS
from paribus.spec.design_reading import load_design
from paribus.workspace import Execution, Workspace

Table = dict[str, Any]
COLUMN = "reversed minus the parent's.test"
TASK: Table = {
    "name": "reversed",
    "kind": "generation",
    "language": {**LANGUAGE, "form": "preferences"},
    "measure": "reward",
    "max_tokens": 6,
    "n_items": 9,
}


def preference_design(**changes: Any) -> Table:
    """A causal and a prefix model, tuned on the same pairs; far too little to learn much."""
    base = preference_table()
    base["training"] = {**base["training"], "n_steps": 4, "valid_every": 4}
    base["architecture"]["n_layers"] = 2  # in one layer, a target sees the same under both masks
    own = {"kind": "task", "task": TASK}
    design: Table = {
        "question": "Who gains by preferences?",
        "base": base,
        "baseline": "causal",
        "factor": ["architecture.mask", "stages.2.objective.swapped"],
        "arms": {
            "causal": {},
            "prefix": {"architecture": {"mask": "prefix"}},
            "swapped": {"stages": {"2": {"objective": {"swapped": True}}}},
        },
        "comparisons": [["prefix", "causal"]],
        "control": "swapped",
        "seeds": 3,
        "tune": False,
        "primary": {"measure": {**own, "minus_parent": True}, "margin": 5.0},
        "others": [own],
    }
    return copy.deepcopy(design | changes)


def execution(folder: Path) -> Execution:
    return Execution(Workspace(folder / "runs", device="cpu", cache=folder / "cache"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("differences")
    run(preference_design(), name="study", execution=execution(folder))
    return folder


@pytest.fixture
def study(home: Path) -> Study:
    return open_study(home / "runs", "study")


def test_a_score_is_that_of_the_run_minus_that_of_its_parent(study: Study) -> None:
    table = study_rows(study)
    assert {row["outcome"] for row in table} == {"finished"}
    for row in table:
        assert row[COLUMN] == pytest.approx(row["reversed.test"] - row["parent_score"])
        assert (row["floor_name"], row["floor"]) == ("parent", 0.0)
        assert row["item_worth"] == pytest.approx(100 / 9)
    parents = {(row["arm"], row["seed"]): row["parent_score"] for row in table}
    for seed in (1, 2, 3):  # these share their first two stages
        assert parents["causal", seed] == parents["swapped", seed]


def test_differences_are_of_the_same_items_and_name_the_parent(study: Study) -> None:
    items, weights = set(), set()
    for row in study_rows(study):
        found = list(read_task_evaluations(study.root / row["run"]))
        plain = [one for one in found if one.head.measure == "reward"]
        differences = [one for one in found if one.head.measure.endswith("minus the parent's")]
        assert len(plain) == len(differences) == 1
        assert [one.item for one in plain[0].answers] == [
            one.item for one in differences[0].answers
        ]
        items.add(differences[0].head.items)
        weights.add(differences[0].head.protocol["parent"])
    assert len(items) == 1
    assert len(weights) == 6  # two architectures, three seeds


def test_a_measured_run_is_not_asked_again(home: Path, study: Study) -> None:
    paths = sorted(study.root.glob(f"*/{EVALUATIONS}/*"))
    before = {path: path.stat().st_mtime_ns for path in paths}
    assert len(before) == 2 * 9
    run(preference_design(), name="study", execution=execution(home))
    assert {path: path.stat().st_mtime_ns for path in paths} == before


def test_a_report_shows_how_far_each_arm_is_from_its_parent(home: Path, study: Study) -> None:
    findings = study_findings(study)
    assert findings.measure.kind == "reward minus the parent's"
    for row in findings.reported_rows:
        assert row["valid_kl"] > 0
        assert 0 <= row["valid_preferred"] <= 1
    files = write_report("study", runs=home / "runs", formats="html,md", out=home / "out")
    for path in files:
        text = path.read_text("utf-8")
        assert "KL divergence from the parent" in text, path
        assert "reward minus the parent" in text, path


def plan_of(design: Table, folder: Path) -> Plan:
    return make_plan(load_design(design), "study", None, execution(folder), show_progress=False)


def test_a_run_of_one_stage_has_no_parent(tmp_path: Path) -> None:
    design = preference_design(factor="architecture.mask", control=None)
    del design["arms"]["swapped"]
    design["base"] |= design["base"].pop("stages")["0"]
    with pytest.raises(SpecError, match="the run has one stage, and so no parent; add a stage"):
        plan_of(design, tmp_path)


def test_a_parent_with_a_head_is_not_asked_in_words(tmp_path: Path) -> None:
    design = preference_design(factor="architecture.mask", control=None)
    del design["arms"]["swapped"]
    labels = {"kind": "labels", "n_labels": 4}
    sources = [{"kind": "python-labels"}]
    design["base"]["stages"] = {
        "0": design["base"]["stages"]["0"],
        "1": {"kind": "tune", "objective": labels, "corpus": {"sources": sources}},
        "2": {**design["base"]["stages"]["1"]},
    }
    with pytest.raises(SpecError, match="the stage before the last has the objective 'labels'"):
        plan_of(design, tmp_path)


def test_items_fit_the_parents_too(tmp_path: Path) -> None:
    design = preference_design()
    whole = plan_of(design, tmp_path).tasks[COLUMN].prepared
    design["base"]["stages"]["1"]["training"] = {"length": 13}
    cut = plan_of(design, tmp_path).tasks[COLUMN].prepared
    assert cut.n_left_out > whole.n_left_out == 0

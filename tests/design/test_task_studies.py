"""Studies that are judged on tasks, really trained: a head that is fine-tuned, and choices asked in
words.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from labelled_texts import ARCHITECTURE, TRAINING, write_labelled

from paribus.analyse import study_findings, study_rows
from paribus.analyse.findings import Findings
from paribus.cli.plan import plan_execution
from paribus.cli.report import write_report
from paribus.cli.run import run
from paribus.design.asked_tasks import read_asked_task
from paribus.design.plan import Plan
from paribus.errors import RecordError, SpecError
from paribus.record import Study, open_study, read_task_evaluations
from paribus.record.file_names import EVALUATIONS, PLAN_FILE, STUDIES, asked_items_name
from paribus.workspace import Execution, Workspace

Table = dict[str, Any]
COPYING: Table = {"kind": "copy", "form": "text", "n_documents": 200}


def head_design(path: Path, **changes: Any) -> Table:
    """Labels after a little pretraining, under a causal mask and under a full one."""
    base: Table = {
        "architecture": {**ARCHITECTURE, "n_layers": 1},
        "training": TRAINING,
        "corpus": {"sources": [COPYING]},
        "stages": {
            "0": {"kind": "pretrain"},
            "1": {
                "kind": "tune",
                "corpus": {
                    "sources": [{"kind": "labelled", "paths": str(path)}],
                    "valid": 0.15,
                    "test": 0.15,
                },
                "objective": {"kind": "labels", "n_labels": 2},
                "training": {"n_steps": 30},
            },
        },
    }
    design: Table = {
        "question": "Does a head need both directions?",
        "base": base,
        "baseline": "causal",
        "factor": "stages.1.architecture.mask",
        "arms": {"causal": {}, "full": {"stages": {"1": {"architecture": {"mask": "full"}}}}},
        "seeds": 3,
        "tune": False,
        "primary": {"measure": "head", "margin": 5.0},
        "others": [{"kind": "head", "split": "valid", "measure": "matthews"}],
    }
    return design | changes


def choice_design(**changes: Any) -> Table:
    """Which of four answers is a copy: far too little training to tell."""
    architecture = {**ARCHITECTURE, "n_layers": 1, "d_model": 16}
    base: Table = {
        "architecture": architecture,
        "objective": "causal",
        "training": {**TRAINING, "n_steps": 4, "length": 64, "valid_every": 4},
        "corpus": {"sources": [COPYING]},
    }
    language = {"kind": "copy", "n_documents": 400, "min_length": 6, "max_length": 8}
    task: Table = {"name": "copies", "kind": "choices", "language": language, "n_items": 12}
    design: Table = {
        "question": "Who sees a copy?",
        "base": base,
        "baseline": "causal",
        "factor": "architecture.mask",
        "arms": {"causal": {}, "window": {"architecture": {"mask": "causal & window(5)"}}},
        "seeds": 3,
        "tune": False,
        "primary": {"measure": {"kind": "task", "task": task}, "margin": 5.0},
    }
    return design | changes


def execution(folder: Path) -> Execution:
    return Execution(Workspace(folder / "runs", device="cpu", cache=folder / "cache"))


def run_design(design: Mapping[str, Any], folder: Path) -> tuple[Study, Findings]:
    run(design, name="study", execution=execution(folder))
    study = open_study(folder / "runs", "study")
    return study, study_findings(study)


@pytest.fixture(scope="module")
def choices(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Findings]:
    return run_design(choice_design(), tmp_path_factory.mktemp("choices"))


def test_heads_that_learn_nothing_are_at_the_floor(tmp_path: Path):
    design = head_design(write_labelled(tmp_path / "labels.jsonl"))
    design["base"]["stages"]["1"]["corpus"]["shuffled_targets"] = True
    _, findings = run_design(design, tmp_path)
    verdict = findings.arm("full").judgement.verdict
    assert verdict.word == "at floor"
    assert "which the majority label scores" in verdict.detail
    assert findings.arm("full").multiplier is None


def test_heads_that_learn_all_are_at_the_ceiling_and_every_format_says_so(tmp_path: Path):
    path = write_labelled(tmp_path / "labels.jsonl")
    _, findings = run_design(head_design(path), tmp_path)
    assert findings.measure.unit == "points"
    assert findings.bounds is not None
    assert findings.bounds.ceiling == 100.0
    judgement = findings.arm("full").judgement
    assert judgement.verdict.word == "at ceiling"
    formats = "html,md,csv,tex"
    files = write_report("study", runs=tmp_path / "runs", formats=formats, out=tmp_path / "out")
    texts = {Path(file).name: Path(file).read_text("utf-8") for file in files}
    for name in ("report.html", "report.md", "report.tex", "verdicts.csv"):
        assert "at ceiling" in texts[name], name
        assert "do equally well" not in texts[name], name
    assert "bits per byte" not in texts["report.md"]
    assert "points of head.test" in texts["report.md"]
    assert "head.valid, matthews in points" in texts["report.md"]
    assert texts["documents.csv"].startswith("arm,seed,document,score,count")
    assert "head.test" in texts["rows.csv"].splitlines()[0]


def test_a_plan_freezes_the_items_and_every_run_answers_these(choices: tuple[Study, Findings]):
    study, findings = choices
    fingerprint = findings.plan.items["copies.test"]
    written = json.loads((study.folder / PLAN_FILE).read_text("utf-8"))
    assert written["items"] == {"copies.test": fingerprint}
    task = read_asked_task(study.folder / asked_items_name(fingerprint), fingerprint)
    assert len(task.prepared.items) == 12
    answers = findings.evaluations["window"][2]
    assert answers.head.items == fingerprint
    assert [one.item for one in answers.answers] == [item.name for item in task.prepared.items]
    assert findings.arm("window").judgement.verdict.word == "at floor"


def test_rows_have_the_floor_and_what_an_item_is_worth(choices: tuple[Study, Findings]):
    study, _ = choices
    for row in study_rows(study):
        assert row["floor"] >= 25.0
        assert row["item_worth"] == pytest.approx(100 / 12)
        assert 0 <= row["copies.test"] <= 100


def test_answers_to_another_prompt_are_no_answers(choices: tuple[Study, Findings], tmp_path: Path):
    """The same runs under a design whose prompt differs are measured again, and counted apart."""
    study, findings = choices
    design = choice_design()
    design["primary"]["measure"]["task"]["context"] = "Copy this: {question}\nAnswer:"
    other = Execution(Workspace(study.root, device="cpu"))
    run(design, name="other-prompt", execution=other)
    again = study_findings(open_study(study.root, "other-prompt"))
    assert again.plan.items != findings.plan.items
    assert again.plan.design_fingerprint != findings.plan.design_fingerprint
    rows = {row["run"] for row in again.table}
    assert rows == {row["run"] for row in findings.table}
    folder = study.root / next(iter(rows)) / EVALUATIONS
    assert len(list(folder.iterdir())) == 2


def test_a_report_on_choices_is_written_with_names_and_without(
    choices: tuple[Study, Findings], tmp_path: Path
):
    study, _ = choices
    for anonymous in (False, True):
        files = write_report(
            study.folder.name,
            runs=study.root,
            formats="html,md,tex,csv",
            out=tmp_path / f"out-{anonymous}",
            anonymous=anonymous,
        )
        text = next(file for file in files if file.suffix == ".md").read_text("utf-8")
        assert "accuracy at a task, zero-shot (copies.test)" in text
        assert "**Floor.** What needs no model scores up to" in text


def test_one_task_by_several_measures_has_a_column_each_over_the_same_items(tmp_path: Path):
    design = choice_design()
    task = design["primary"]["measure"]["task"]
    for measure in ("log loss", "bits per byte"):
        yardstick = {"kind": "task", "task": {**task, "measure": measure}}
        design["others"] = [*design.get("others", []), yardstick]
    study, findings = run_design(design, tmp_path)
    columns = ["copies.test", "copies: log loss.test", "copies: bits per byte.test"]
    assert set(findings.plan.items) == set(columns)
    assert len(set(findings.plan.items.values())) == 1
    for row in study_rows(study):
        answers = {}
        for one in read_task_evaluations(study.root / row["run"]):
            answers[one.head.measure] = one.answers
        key_nats, n_bytes, bits = 0.0, 0, 0.0
        for answer in answers["accuracy"]:
            weights = [math.exp(-nats) for nats in answer.option_nats]  # by `sum`
            bits -= math.log2(weights[int(answer.key)] / sum(weights)) / 12
            key_nats += answer.option_nats[int(answer.key)]
            n_bytes += answer.option_bytes[int(answer.key)]
        assert row["copies: log loss.test"] == pytest.approx(bits, rel=1e-5)
        assert row["copies: bits per byte.test"] == pytest.approx(
            key_nats / math.log(2) / n_bytes, rel=1e-5
        )
    files = write_report("study", runs=tmp_path / "runs", formats="md", out=tmp_path / "out")
    text = files[0].read_text("utf-8")
    assert "copies: log loss.test, in bits per item" in text


def test_the_same_task_by_the_same_measure_is_refused(tmp_path: Path):
    design = choice_design()
    task = {**design["primary"]["measure"]["task"], "measure": "log loss"}
    design["others"] = [{"kind": "task", "task": task}] * 2
    with pytest.raises(SpecError, match="the task copies on test by log loss, the task copies on"):
        planned(design, tmp_path)


def test_items_that_were_changed_are_refused(choices: tuple[Study, Findings], tmp_path: Path):
    study, findings = choices
    fingerprint = findings.plan.items["copies.test"]
    text = (study.folder / asked_items_name(fingerprint)).read_text("utf-8")
    changed = tmp_path / asked_items_name(fingerprint)
    changed.write_text(text.replace('"key":0', '"key":1'))
    with pytest.raises(RecordError, match="does not hold the items that the plan has frozen"):
        read_asked_task(changed, fingerprint)
    changed.write_text("{}\n")
    with pytest.raises(RecordError, match="holds no items of a task"):
        read_asked_task(changed, fingerprint)


def test_a_study_stops_where_the_baseline_is_at_the_floor_in_its_sweep(tmp_path: Path):
    design = choice_design(tune={"n_seeds": 2, "share": 0.5})
    with pytest.raises(SpecError, match=r"tune: causal is at floor: the best rate of its sweep"):
        run(design, name="study", execution=execution(tmp_path))
    study = open_study(tmp_path / "runs", "study")
    assert {row["purpose"] for row in study_rows(study)} == {"sweep"}
    assert "copies.valid" in study_rows(study).columns


def planned(design: Table, folder: Path) -> Plan:
    return plan_execution(
        design, scale=None, changes=None, name="study", seeds=None, execution=execution(folder)
    )


def test_arms_that_are_asked_in_different_ways_get_no_verdict(tmp_path: Path):
    masked = {"objective": "masked", "architecture": {"mask": "full"}}
    design = choice_design(
        arms={"causal": {}, "masked": masked},
        factor=["objective", "architecture.mask"],
        compound={"masked": "masks are filled with a full mask"},
    )
    with pytest.raises(SpecError, match="likelihood in causal, pseudo-likelihood in masked"):
        planned(design, tmp_path)


def test_a_head_is_not_asked_in_words_and_words_not_of_a_head(tmp_path: Path):
    design = choice_design(primary={"measure": "head"})
    with pytest.raises(SpecError, match="'causal', which trains no head"):
        planned(design, tmp_path)
    path = write_labelled(tmp_path / "labels.jsonl")
    task = choice_design()["primary"]
    with pytest.raises(SpecError, match="a head is not asked in words"):
        planned(head_design(path, primary=task), tmp_path)


def test_a_task_without_a_split_for_tuning_is_refused(tmp_path: Path):
    rows = [{"question": f"q{n}", "options": ["a", "b"], "key": str(n % 2)} for n in range(20)]
    path = tmp_path / "task.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task: Table = {
        "name": "mine",
        "kind": "choices",
        "paths": str(path),
        "context": "{question}",
        "options": "{options}",
        "key": "{key}",
    }
    design = choice_design(tune={}, primary={"measure": {"kind": "task", "task": task}})
    with pytest.raises(SpecError, match="on which rates are tuned,: task mine has no valid split"):
        planned(design, tmp_path)
    assert not (tmp_path / "runs" / STUDIES).exists()

"""Planted confounds, one by one: another prompt, other demonstrations, another template, another
split, one stage more, an ancestor of another seed.

Each is refused when it is planned, in whichever stage it is, and when it was measured all the same
and lies in the study as if it had been planned.
"""

import contextlib
import io
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from conversation_run import LANGUAGE, SIZES, TRAINING

from paribus.analyse import study_findings
from paribus.cli.rows import rows
from paribus.cli.run import run
from paribus.design import Plan, find_design, make_plan
from paribus.errors import ConfoundError, RecordError, SpecError
from paribus.evaluate.tasks import TaskSubject, evaluate_task
from paribus.interop.loaded_checkpoint import load_checkpoint
from paribus.record import (
    Study,
    existing_study,
    read_stages,
    read_task_evaluations,
    write_task_evaluation,
)
from paribus.record.address import run_address
from paribus.record.checksums import write_listed_file
from paribus.record.disk import json_bytes
from paribus.record.file_names import CELLS_FILE, SPEC_FILE
from paribus.record.task_answers import task_evaluation_paths
from paribus.spec.merging import set_at_path
from paribus.spec.task_loading import load_task
from paribus.spec.tasks import FewShot
from paribus.workspace import Execution, Workspace

Table = dict[str, Any]
TASK: Table = {
    "name": "reversed",
    "kind": "choices",
    "language": {"kind": "reverse", "n_documents": 400, "min_length": 6, "max_length": 8},
    "n_items": 8,
}
DESIGN: Table = {
    "question": "Does a window harm what is read backwards?",
    "factor": "architecture.mask",
    "baseline": "causal",
    "seeds": 3,
    "tune": False,
    "primary": {
        "measure": {
            "kind": "task",
            "task": TASK,
            "protocol": {"kind": "few-shot", "n_demonstrations": 2},
        },
        "margin": 5.0,
    },
    "base": {
        "architecture": {**SIZES, "preset": "gpt2", "positions": "rotary", "d_model": 16},
        "training": {**TRAINING, "n_steps": 3, "length": 48},
        "stages": [
            {"corpus": {"sources": [{**LANGUAGE, "form": "text"}]}},
            {
                "kind": "instruct",
                "corpus": {"sources": [{**LANGUAGE, "form": "conversations"}]},
                "objective": "seq2seq",
            },
        ],
    },
    "arms": {"causal": {}, "window": {"architecture": {"mask": "causal & window(5)"}}},
}
EVERY_STAGE = pytest.mark.parametrize("stage", [0, 1])


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def planned(cache: Path, changes: Table) -> Plan:
    name, design = find_design(DESIGN, changes=changes)
    execution = Execution(Workspace(cache=cache, device="cpu"))
    return make_plan(design, name, None, execution, show_progress=False)


@EVERY_STAGE
def test_another_prompt_in_any_stage_is_refused(cache: Path, stage: int) -> None:
    form = ("text", "conversations")[stage]
    other = {**LANGUAGE, "form": form, "phrasings": ["backwards {source}:"]}
    with pytest.raises(ConfoundError, match=rf"stages\.{stage}\.corpus\.sources"):
        planned(cache, {f"arms.window.stages.{stage}.corpus.sources": [other]})


@pytest.mark.parametrize(
    "path", ["primary.measure.task.context", "primary.measure.protocol.seed", "primary.margin"]
)
def test_an_arm_has_no_prompt_and_no_demonstrations_of_its_own(cache: Path, path: str) -> None:
    with pytest.raises(SpecError, match=r"arms\.window\.primary is not a key here"):
        planned(cache, {f"arms.window.{path}": 1})


def test_another_template_is_refused(cache: Path) -> None:
    """The same questions without the turns of a conversation around them."""
    with pytest.raises(ConfoundError, match=r"stages\.1\.(kind|corpus\.sources)"):
        planned(
            cache,
            {
                "arms.window.stages.1.kind": "tune",
                "arms.window.stages.1.corpus.sources": [{**LANGUAGE, "form": "pairs"}],
            },
        )


@EVERY_STAGE
def test_another_split_of_any_stage_is_refused(cache: Path, stage: int) -> None:
    with pytest.raises(ConfoundError, match=rf"stages\.{stage}\.corpus\.test is"):
        planned(cache, {f"arms.window.stages.{stage}.corpus.test": 0.2})


def test_one_stage_more_is_refused(cache: Path) -> None:
    more = {"kind": "adapt", "corpus": {"sources": [{**LANGUAGE, "form": "text"}]}}
    with pytest.raises(ConfoundError, match=r"stages\.2 is"):
        planned(cache, {"arms.window.stages.2": {**more, "objective": "causal"}})


@EVERY_STAGE
def test_a_seed_of_its_own_is_refused_in_any_stage(cache: Path, stage: int) -> None:
    with pytest.raises(SpecError, match=rf"stages\.{stage}\.training\.seed is 5, but seeds"):
        planned(cache, {f"arms.window.stages.{stage}.training.seed": 5})


@pytest.fixture(scope="module")
def measured(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the runs of a whole study."""
    home = tmp_path_factory.mktemp("study")
    quiet = contextlib.redirect_stdout(io.StringIO())
    with quiet, contextlib.redirect_stderr(io.StringIO()):
        run(DESIGN, name="planted", execution=Execution(Workspace(home, cache, "cpu")))
    return home


@pytest.fixture
def study(measured: Path, tmp_path: Path) -> Study:
    """A study of one's own to plant something in."""
    shutil.copytree(measured, tmp_path / "runs")
    return existing_study(tmp_path / "runs", "planted")


def test_the_study_itself_is_whole(study: Study) -> None:
    findings = study_findings(study)
    assert findings.agreement.faults == ()
    assert findings.arm("window").judgement.verdict.word != "withheld"
    assert len(rows("planted", runs=study.root)) == 6


def plant_run(study: Study, change: Callable[[list[Table]], None]) -> None:
    """Put a run whose stages differ in the place of an arm's, whole and rightly named."""
    cells = list(study.planned_cells())
    place = next(n for n, cell in enumerate(cells) if (cell.arm, cell.seed) == ("window", 2))
    stages = read_stages(study.root / cells[place].run)
    change(stages)
    name = run_address(stages)[:16]
    assert name != cells[place].run
    shutil.move(study.root / cells[place].run, study.root / name)
    spec = json.loads((study.root / name / SPEC_FILE).read_text())
    write_listed_file(study.root / name, SPEC_FILE, json_bytes({**spec, "stages": stages}))
    cells[place] = replace(cells[place], run=name)
    content = json_bytes([asdict(cell) for cell in cells])
    write_listed_file(study.folder, CELLS_FILE, content)


def require_refusal(study: Study, text: str) -> None:
    findings = study_findings(study)
    verdict = findings.arm("window").judgement.verdict
    assert verdict.word == "withheld"
    assert text in verdict.detail
    with pytest.raises(RecordError, match="of arm 'window' under seed 2"):
        rows("planted", runs=study.root)


def one_stage_more(stages: list[Table]) -> None:
    stages.insert(1, {**stages[0], "kind": "adapt"})


CONFOUNDS: dict[str, tuple[Callable[[list[Table]], None], str]] = {
    "another prompt, first stage": (
        lambda stages: set_at_path(
            stages[0], "corpus.sources", [{**LANGUAGE, "phrasings": ["backwards {source}:"]}]
        ),
        "stages.0 is not that of arm 'window': corpus.sources",
    ),
    "another template, last stage": (
        lambda stages: set_at_path(stages[1], "kind", "tune"),
        "stages.1 is not that of arm 'window': kind 'instruct' → 'tune'",
    ),
    "another split, first stage": (
        lambda stages: set_at_path(stages[0], "corpus.test", 0.2),
        "stages.0 is not that of arm 'window': corpus.test 0.05 → 0.2",
    ),
    "another split, last stage": (
        lambda stages: set_at_path(stages[1], "corpus.test", 0.2),
        "stages.1 is not that of arm 'window': corpus.test 0.05 → 0.2",
    ),
    "another text, first stage": (
        lambda stages: set_at_path(stages[0], "text", "7" * 64),
        "stages.0 is not that of arm 'window': text",
    ),
    "another mask, first stage": (
        lambda stages: set_at_path(stages[0], "architecture.mask", "causal"),
        "stages.0 is not that of arm 'window': architecture.mask",
    ),
    "one stage more": (one_stage_more, "it has 3 stages, and arm 'window' is planned with 2"),
    "an ancestor of another seed": (
        lambda stages: set_at_path(stages[0], "training.seed", 1),
        "stages.0.training.seed is 1 in a run of seed 2",
    ),
    "an ancestor that read in another order": (
        lambda stages: set_at_path(stages[0], "training.data_seed", 10001),
        "orders of several seeds: [10001, 10002]",
    ),
    "another rate": (
        lambda stages: set_at_path(stages[1], "training.optimizer.rate", 0.5),
        "it has the rate 0.5, and its cell",
    ),
    "more steps": (
        lambda stages: set_at_path(stages[1], "training.n_steps", 4),
        "it has 4 steps, and its cell 3",
    ),
    "more steps before": (
        lambda stages: set_at_path(stages[0], "training.n_steps", 4),
        "stages.0 is not that of arm 'window': training.n_steps 3 → 4",
    ),
}


@pytest.mark.parametrize("name", CONFOUNDS)
def test_a_run_of_another_recipe_in_the_place_of_an_arms_is_refused(
    study: Study, name: str
) -> None:
    change, text = CONFOUNDS[name]
    plant_run(study, change)
    require_refusal(study, text)


def answer_again(study: Study, task: Table, protocol: FewShot) -> None:
    """Have one run asked otherwise, and let its answers stand where those to the plan were."""
    cell = next(c for c in study.planned_cells() if (c.arm, c.seed) == ("window", 2))
    folder = study.root / cell.run
    (path,) = task_evaluation_paths(folder)
    subject = TaskSubject(load_checkpoint(folder))
    (asked,) = evaluate_task([subject], load_task(task), protocol, device=torch.device("cpu"))
    (planned_one,) = [one for one in read_task_evaluations(folder) if one != asked]
    assert asked.head.items != planned_one.head.items
    write_task_evaluation(path, asked)


@pytest.mark.parametrize(
    ("task", "protocol"),
    [
        ({**TASK, "context": "backwards {question}"}, FewShot(n_demonstrations=2)),
        (TASK, FewShot(n_demonstrations=2, seed=1)),
        (TASK, FewShot(n_demonstrations=1)),
        ({**TASK, "separator": " | "}, FewShot(n_demonstrations=2)),
    ],
    ids=["another prompt", "other demonstrations", "fewer demonstrations", "another template"],
)
def test_answers_to_something_else_are_not_taken_for_those_to_the_plan(
    study: Study, task: Table, protocol: FewShot
) -> None:
    answer_again(study, task, protocol)
    with pytest.raises(SpecError, match="window"):
        study_findings(study)


def test_answers_on_another_split_are_not_taken_for_those_to_the_plan(study: Study) -> None:
    """The same file under the head of another split of the task."""
    cell = next(c for c in study.planned_cells() if (c.arm, c.seed) == ("window", 2))
    (path,) = task_evaluation_paths(study.root / cell.run)
    (kept,) = read_task_evaluations(study.root / cell.run)
    write_task_evaluation(path, replace(kept, head=replace(kept.head, items="0" * 64)))
    with pytest.raises(SpecError, match="window"):
        study_findings(study)

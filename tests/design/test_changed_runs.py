"""Runs of a study that were changed after they were made: none is taken for another, and none
goes missing unsaid.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from pathlib import Path

import pytest
from trained_study import design_table, train_study

from paribus.analyse import study_verdicts
from paribus.cli.rows import rows
from paribus.cli.run import run
from paribus.errors import RecordError
from paribus.record import CellRecord, Study, existing_study
from paribus.workspace import Execution, Workspace

LAST = "checkpoints/step-000000015"


@pytest.fixture
def kept(finished_home: Path, tmp_path: Path) -> Study:
    shutil.copytree(finished_home, tmp_path / "runs")
    return existing_study(tmp_path / "runs", "little")


def of(study: Study, arm: str, seed: int) -> CellRecord:
    return next(cell for cell in study.read_cells() if (cell.arm, cell.seed) == (arm, seed))


def evaluation(study: Study, cell: CellRecord) -> Path:
    (path,) = (study.root / cell.run / "evaluations").iterdir()
    return path


def test_a_checkpoint_of_another_seed_is_not_measured(
    kept: Study, study_cache: Path, capsys
) -> None:
    own, other = of(kept, "causal", 1), of(kept, "causal", 2)
    shutil.rmtree(kept.root / own.run / LAST)
    shutil.copytree(kept.root / other.run / LAST, kept.root / own.run / LAST)
    evaluation(kept, own).unlink()
    train_study(kept.root, study_cache)
    assert (
        "does not hold the rows up to step 16 as they were when that step was saved"
        in capsys.readouterr().err
    )
    assert not list((kept.root / own.run / "evaluations").iterdir())


def test_a_run_in_the_folder_of_another_is_not_taken_for_it(kept: Study, study_cache: Path) -> None:
    own, other = (kept.root / of(kept, "causal", seed).run for seed in (1, 2))
    own.rename(kept.root / "aside")
    other.rename(own)
    (kept.root / "aside").rename(other)
    with pytest.raises(
        RecordError,
        match=rf"spec.json is of the run ({own.name}|{other.name}); restore it, or remove",
    ):
        train_study(kept.root, study_cache)


@pytest.mark.parametrize("name", ["checksums.jsonl", "environment.json"])
def test_a_run_that_lost_a_file_is_not_done(kept: Study, study_cache: Path, name: str) -> None:
    (kept.root / of(kept, "causal", 1).run / name).unlink()
    with pytest.raises(
        RecordError,
        match=r"cannot be read|is missing; restore it, or remove that folder and run the",
    ):
        train_study(kept.root, study_cache)


def test_rows_tell_of_answers_changed_to_those_of_a_run_that_learnt_nothing(kept: Study) -> None:
    path = evaluation(kept, of(kept, "causal", 1))
    path.write_text(
        re.sub(r'"nats":([0-9.]+)', lambda nats: f'"nats":{float(nats[1]) * 10}', path.read_text())
    )
    with pytest.raises(
        RecordError, match=re.escape(f"evaluations/{path.name} is not what was written")
    ):
        rows("little", kept.root)


@pytest.fixture(scope="module")
def open_home(tmp_path_factory: pytest.TempPathFactory, study_cache: Path) -> Path:
    """Four seeds of a design that leaves their number open."""
    home = tmp_path_factory.mktemp("open")
    with contextlib.redirect_stdout(io.StringIO()):
        run(
            design_table({"seeds": "open", "arms.reverse": None}),
            name="little",
            seeds=4,
            execution=Execution(Workspace(home, cache=study_cache, device="cpu")),
        )
    return home


@pytest.mark.parametrize("change", ["state", "state gone", "evaluation gone", "list gone"])
def test_a_seed_of_an_open_number_cannot_be_made_to_look_open(
    open_home: Path, tmp_path: Path, change: str
) -> None:
    shutil.copytree(open_home, tmp_path / "runs")
    study = existing_study(tmp_path / "runs", "little")
    assert "withheld" not in {row["verdict"] for row in study_verdicts(study)}
    cell = of(study, "causal", 4)
    folder = study.root / cell.run
    match change:
        case "state":
            (folder / "state").write_text("running\n")
        case "evaluation gone":
            evaluation(study, cell).unlink()
        case _:
            (folder / "state").unlink()
    if change == "list gone":
        (folder / "checksums.jsonl").unlink()
    found = study_verdicts(study)
    assert {(row["verdict"], row["gain"]) for row in found} == {("withheld", None)}
    assert f"run {cell.run}: " in found[0]["words"]

"""Runs of a finished study made again, beside what the study holds: the same environment must give
the same bits, another one the same counts and nearly the same losses.
"""

import json
import shutil
from pathlib import Path

import pytest
from shared_studies import CHAIN_TABLE, run_named

from paribus.design.verification import RunCheck, drawn_cells, verify_runs
from paribus.errors import SpecError
from paribus.record import CellRecord, Study, existing_study
from paribus.record.checksums import write_listed_file
from paribus.record.disk import json_bytes, read_json
from paribus.record.file_names import ENVIRONMENT_FILE, ROWS_FILE


@pytest.fixture
def kept(finished_home: Path, tmp_path: Path) -> Study:
    shutil.copytree(finished_home, tmp_path / "runs")
    return existing_study(tmp_path / "runs", "little")


def verify(study: Study, cache: Path, cell: CellRecord | None = None) -> RunCheck:
    (check,) = verify_runs(study, [cell or study.read_cells()[0]], cache)
    return check


def change_environment(study: Study, **changes: object) -> None:
    """The environment that the first run was recorded under, with other values."""
    folder = study.root / study.read_cells()[0].run
    (environment,) = read_json(folder / ENVIRONMENT_FILE)
    write_listed_file(folder, ENVIRONMENT_FILE, json_bytes([{**environment, **changes}]))


def scale_losses(study: Study, factor: float, name: str = "nats") -> None:
    """The rows of the first run with a number scaled."""
    folder = study.root / study.read_cells()[0].run
    rows = [json.loads(line) for line in (folder / ROWS_FILE).read_text().splitlines()]
    for row in rows:
        row[name] = type(row[name])(row[name] * factor)
    lines = [json.dumps(row) + "\n" for row in rows]
    write_listed_file(folder, ROWS_FILE, "".join(lines).encode())


def test_a_word_always_draws_the_same_runs_and_another_word_others(kept: Study) -> None:
    runs = [cell.run for cell in drawn_cells(kept, 4, "a word")]
    assert runs == [cell.run for cell in drawn_cells(kept, 4, "a word")]
    assert runs[:2] == [cell.run for cell in drawn_cells(kept, 2, "a word")]
    assert len(set(runs)) == 4
    assert runs != [cell.run for cell in drawn_cells(kept, 4, "another")]
    assert len(drawn_cells(kept, 9, "a word")) == 9


@pytest.mark.parametrize("n_runs", [0, 10])
def test_no_more_runs_are_drawn_than_there_are(kept: Study, n_runs: int) -> None:
    with pytest.raises(
        SpecError, match=f"--verify is {n_runs}, and little has 9 runs .*use 1 to 9"
    ):
        drawn_cells(kept, n_runs, "a word")


def test_another_loss_under_the_same_environment_is_a_fault(kept: Study, study_cache: Path) -> None:
    scale_losses(kept, 1 + 1e-9)
    check = verify(kept, study_cache)
    assert len(check.faults) == 1
    assert check.faults[0].startswith("nats at step 3 is ")
    assert ", and the record has " in check.faults[0]


def test_another_environment_is_named_and_may_round(kept: Study, study_cache: Path) -> None:
    change_environment(kept, torch="1.0")
    scale_losses(kept, 1.001)
    check = verify(kept, study_cache)
    assert check.faults == ()
    assert check.environment[0].startswith("torch was 1.0, is ")
    assert check.differences == ("losses: up to 0.001 of it",)
    assert "equal but for rounding (losses: up to 0.001 of it), made under" in check.description


def test_another_environment_does_not_explain_other_losses(kept: Study, study_cache: Path) -> None:
    change_environment(kept, torch="1.0")
    scale_losses(kept, 0.5)
    assert verify(kept, study_cache).faults == (
        "losses: up to 1 of it, and rounding explains 0.02",
    )


def test_counts_are_the_same_under_every_environment(kept: Study, study_cache: Path) -> None:
    change_environment(kept, torch="1.0")
    scale_losses(kept, 2, "tokens_read")
    (fault,) = verify(kept, study_cache).faults
    assert fault.startswith("tokens_read at step 3 is ")


def test_text_that_is_another_one_is_named(filed_home: Path, tmp_path: Path) -> None:
    shutil.copytree(filed_home / "runs", tmp_path / "runs")
    study = existing_study(tmp_path / "runs", "filed")
    plan = study.read_plan()
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "a.txt").write_text("\n\n".join(["ab ba " * 40] * 300))
    for arm in plan["arms"].values():
        arm["run"]["stages"][0]["corpus"]["sources"][0]["paths"] = [str(texts)]
    study.write_plan(plan)
    (fault,) = verify(study, tmp_path / "cache").faults
    assert "give the run " in fault
    assert "the text of stage 0 is " in fault
    assert fault.endswith("put the files there that it was read from")


def test_the_stages_of_a_run_are_made_again_too(tmp_path: Path, study_cache: Path) -> None:
    chained = run_named(tmp_path / "runs", study_cache, CHAIN_TABLE, "chain")
    check = verify(chained, study_cache)
    assert check.description.endswith("equal to the bit")

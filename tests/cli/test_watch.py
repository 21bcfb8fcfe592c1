"""Runs watched from another terminal."""

import json
import shutil
from pathlib import Path

import pytest
from trained_study import N_STEPS

import paribus as pb


def test_a_study_is_seen_with_every_run_and_how_it_stands(ask, finished_home: Path) -> None:
    told = ask("watch", "little", "--once", "--runs", finished_home)
    assert told.status == 0, told.err
    head, *lines = told.out.splitlines()
    assert head.split() == ["run", "of", "state", "step", "nats", "valid"]
    assert len(lines) == 10
    assert "full, seed 1" in told.out
    assert f"{N_STEPS}/{N_STEPS}" in lines[0]
    assert lines[-1].strip() == "9 finished"


def test_a_run_that_serves_the_ladder_too_has_one_line(
    ask, finished_home: Path, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(finished_home, runs)
    path = runs / "studies/little/cells.json"
    cells = json.loads(path.read_text())
    path.write_text(json.dumps([*cells, {**cells[0], "purpose": "ladder", "size": 24}]))
    told = ask("watch", "little", "--once", "--runs", runs).out.splitlines()
    assert told[-1].strip() == "9 finished"
    own = [line for line in told if cells[0]["run"] in line]
    assert len(own) == 1
    seed = f"{cells[0]['arm']}, seed {cells[0]['seed']}"
    assert f"{seed}; {seed}, d_model 24, {N_STEPS} steps" in own[0]


def test_runs_that_wait_or_stopped_are_told_apart(ask, finished_home: Path, tmp_path: Path) -> None:
    shutil.copytree(finished_home, tmp_path / "runs")
    cells = pb.rows("little", runs=tmp_path / "runs")
    shutil.rmtree(tmp_path / "runs" / cells[0]["run"])
    (tmp_path / "runs" / cells[1]["run"] / "state").write_text("running\n")
    told = ask("watch", "little", "--once", "--runs", tmp_path / "runs").out.splitlines()
    assert told[-1].strip() == "1 stopped, 1 waiting, 7 finished"
    assert "stopped" in told[1]
    assert f"0/{N_STEPS}" in told[2]


def test_without_a_study_all_runs_are_seen(ask, finished_home: Path, tmp_path: Path) -> None:
    told = ask("watch", "--once", "--runs", finished_home)
    assert told.out.splitlines()[-1].strip() == "9 finished"
    assert ask("watch", "--once", "--runs", tmp_path).out.splitlines()[-1].strip() == "no runs"


def test_a_pipe_is_looked_at_once(ask, finished_home: Path) -> None:
    assert ask("watch", "--runs", finished_home).status == 0


def test_a_study_that_is_not_there_is_met_with_those_that_are(ask, finished_home: Path) -> None:
    told = ask("watch", "litle", "--once", "--runs", finished_home)
    assert told.status == 1
    assert "litle holds no study; studies there are little" in told.err


def test_a_study_without_runs_shows_none_of_the_others(
    ask, finished_home: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished_home, tmp_path / "runs")
    (tmp_path / "runs/studies/little/cells.json").write_text("[]")
    assert (
        ask("watch", "little", "--once", "--runs", tmp_path / "runs").out.splitlines()[-1].strip()
        == "no runs"
    )


def test_python_gets_the_table(finished_home: Path) -> None:
    assert pb.watch("little", finished_home).row_count == 9


@pytest.mark.parametrize("every", ["0.1", "soon"])
def test_a_slip_in_the_pause_is_named(ask, every: str) -> None:
    assert ask("watch", "--every", every).status == 2

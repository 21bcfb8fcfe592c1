"""What no study needs is freed, and nothing else."""

import shutil
from pathlib import Path

import pytest
from shared_studies import CHAIN_TABLE, interrupt_study, run_named

from paribus.errors import RecordError
from paribus.record import (
    existing_study,
    hold_lock,
    open_run_folder,
    read_stages,
    verify_checkpoint,
)
from paribus.record.checkpoints import checkpoint_folders
from paribus.record.disk_use import folder_bytes, optimizer_states
from paribus.record.file_names import MANIFEST_FILE
from paribus.record.manifest import remove_file
from paribus.record.pruning import plan_prune, prune
from paribus.record.study_listing import studies
from paribus.report.markdown import markdown_report
from paribus.report.report_data import gather_report_data


def make_run(root: Path, seed: int, name: str | None = None) -> str:
    """A finished run of no study, with one checkpoint."""
    stages = [{"training": {"seed": seed, "n_steps": 4}}]
    with open_run_folder(root, stages, {}, name=name) as run:
        with run.open_rows(-1)[0] as rows:
            rows.write({"step": 3, "nats": 1.5})
        run.commit_checkpoint(3, fill_checkpoint)
        run.finish()
    return run.folder.name


def fill_checkpoint(folder: Path) -> None:
    (folder / "weights.safetensors").write_bytes(bytes(41))
    (folder / "learning.safetensors").write_bytes(bytes(83))


@pytest.fixture
def home(finished_home: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished_home, tmp_path / "runs")


def test_runs_of_no_study_are_freed_and_those_of_a_study_are_not(home: Path) -> None:
    runs = {cell.run for cell in existing_study(home, "little").read_cells()}
    own, named = make_run(home, 1), make_run(home, 2, "mine")
    plan = plan_prune(home, ("runs",))
    assert [run.name for run in plan.runs] == [own]
    assert plan.run_bytes == folder_bytes(home / own)
    assert plan.notes == ("kept because they were given a name: mine; --named frees them too",)
    assert (home / own).is_dir()
    result = prune(plan)
    assert (result.n_runs, result.n_bytes) == (1, plan.n_bytes)
    assert not (home / own).exists()
    assert all((home / run).is_dir() for run in {*runs, named})
    prune(plan_prune(home, ("runs",), with_names=True))
    assert not (home / named).exists()


def test_without_optimizer_states_a_study_says_the_same_and_its_checkpoints_verify(
    home: Path,
) -> None:
    study = existing_study(home, "little")
    before = markdown_report(gather_report_data(study))
    plan = plan_prune(home)
    n_before = folder_bytes(home)
    assert len(plan.states) == len({cell.run for cell in study.read_cells()})
    result = prune(plan)
    assert result.n_bytes == plan.state_bytes > 0
    assert n_before - folder_bytes(home) < plan.state_bytes  # manifests say what was removed
    for cell in study.read_cells():
        assert not optimizer_states(home / cell.run)
        for place in checkpoint_folders(home / cell.run / "checkpoints"):
            verify_checkpoint(place)
    assert markdown_report(gather_report_data(study)) == before
    assert plan_prune(home).n_bytes == 0


def test_a_state_half_removed_leaves_a_checkpoint_that_verifies(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place, *_) = optimizer_states(home / existing_study(home, "little").read_cells()[0].run)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            remove_file(place.parent, place.name)
    assert place.exists()
    verify_checkpoint(place.parent)
    remove_file(place.parent, place.name)
    verify_checkpoint(place.parent)
    (place.parent / "stray").touch()
    with pytest.raises(RecordError, match="does not list 'stray'"):
        verify_checkpoint(place.parent)


def test_runs_in_progress_are_left_alone(home: Path) -> None:
    own = make_run(home, 1)
    (cell, *_) = existing_study(home, "little").read_cells()
    early = plan_prune(home)
    with hold_lock(home / own / "lock"), hold_lock(home / cell.run / "lock"):
        plan = plan_prune(home)
        assert plan.runs == ()
        assert cell.run not in {state.name for state in plan.states}
        assert f"{own} is kept: a process is at it" in plan.notes
        result = prune(early)  # planned before they were begun
    assert (home / own).is_dir()
    assert optimizer_states(home / cell.run)
    assert [note.partition(":")[0] for note in result.notes] == [
        f"{own} is kept",
        f"{cell.run} keeps optimizer states",
    ]


def test_a_run_that_is_not_finished_keeps_its_optimizer_state(
    tmp_path: Path, study_cache: Path
) -> None:
    study = interrupt_study(tmp_path, study_cache, CHAIN_TABLE, "chain", 1)
    assert not study.has_result()
    plan = plan_prune(tmp_path)
    assert (plan.runs, plan.states) == ((), ())


def test_stages_that_runs_begin_from_are_kept(tmp_path: Path, study_cache: Path) -> None:
    # after the first stage of the first arm, before its second one has a folder
    interrupt_study(tmp_path, study_cache, CHAIN_TABLE, "chain", 3)
    folders = sorted(path.name for path in tmp_path.iterdir() if (path / "spec.json").exists())
    shutil.rmtree(tmp_path / max(folders, key=lambda name: len(read_stages(tmp_path / name))))
    assert len(folders) == 2
    plan = plan_prune(tmp_path)
    assert plan.runs == ()
    assert len(plan.states) == 1
    prune(plan)
    study = run_named(tmp_path, study_cache, CHAIN_TABLE, "chain")
    assert plan_prune(tmp_path).runs == ()
    shutil.rmtree(study.folder)
    assert len(plan_prune(tmp_path).runs) == 9


def test_a_study_that_cannot_be_read_stops_the_removal_of_runs(home: Path) -> None:
    make_run(home, 1)
    (home / "studies/little/cells.json").write_text("{}")
    with pytest.raises(RecordError, match=r"nobody knows which runs it needs: .*cells\.json"):
        plan_prune(home)
    assert plan_prune(home, ("states",)).n_bytes > 0


def test_a_study_that_has_lost_its_cells_stops_the_removal_of_runs(home: Path) -> None:
    own = make_run(home, 1)
    plan = plan_prune(home)
    (home / "studies/little/cells.json").unlink()
    lost = r"nobody knows which runs it needs: .*cells\.json is missing; restore it"
    with pytest.raises(RecordError, match=lost):
        plan_prune(home)
    with pytest.raises(RecordError, match=lost):
        prune(plan)
    assert (home / own).is_dir()
    (entry,) = studies(home)
    assert entry.state == "damaged"
    assert "cells.json is missing" in entry.faults[0]


def test_a_damaged_run_or_checkpoint_is_left_for_a_person_to_look_at(home: Path) -> None:
    own = make_run(home, 1)
    (home / own / "state").write_text("dancing")
    assert plan_prune(home).runs == ()
    (cell, *_) = existing_study(home, "little").read_cells()
    for place in checkpoint_folders(home / cell.run / "checkpoints"):
        (place / MANIFEST_FILE).write_text("[]")
    result = prune(plan_prune(home))
    assert any("is not a manifest" in note for note in result.notes)
    assert optimizer_states(home / cell.run)


def test_what_a_killed_removal_left_is_freed(home: Path) -> None:
    own = make_run(home, 1)
    (home / own).rename(home / f".old-{own}-00")
    plan = plan_prune(home, ("runs",))
    assert plan.n_leftover_bytes > 0
    prune(plan)
    assert not list(home.glob(".old-*"))


def test_a_run_that_a_study_needs_by_now_is_kept(home: Path) -> None:
    (cell, *_) = existing_study(home, "little").read_cells()
    hidden = home.parent / "hidden"
    shutil.move(home / "studies", hidden)
    plan = plan_prune(home, ("runs",))
    assert cell.run in {run.name for run in plan.runs}
    shutil.move(hidden, home / "studies")
    result = prune(plan)
    assert f"{cell.run} is kept: a study needs it by now" in result.notes
    assert (home / cell.run).is_dir()

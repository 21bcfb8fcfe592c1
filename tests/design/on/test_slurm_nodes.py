"""A real SLURM of two nodes, of which one is not fit: its tasks are made by the other."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from placed_study import (
    SOURCE,
    PlacedStudy,
    other_code,
    plain_environment,
    require_equal_runs,
)
from slurm_cluster import SlurmCluster, missing_for_slurm, running_slurm
from study_notes import NoteTaker
from trained_study import make_small_plan

from paribus.design.cell_run import is_complete
from paribus.design.cells import Cell, reported_cells
from paribus.design.on import slurm_round
from paribus.design.on.slurm import SlurmQueue
from paribus.errors import UnsupportedError
from paribus.record import open_study
from paribus.slurm.submission import read_submissions
from paribus.workspace import Execution, Slurm, Workspace

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(
        missing_for_slurm() is not None, reason=missing_for_slurm() or "SLURM can be started"
    ),
    pytest.mark.skipif(find_spec("submitit") is None, reason="needs submitit: make test-cluster"),
]
N_RUNS = 6


def apart(name: str, *mounts: str) -> list[str]:
    """What is put before the command of a node that has a name and mounts of its own."""
    script = " && ".join([f"hostname {name}", *mounts, 'exec "$@"'])
    return ["unshare", "--mount", "--uts", "sh", "-c", script, "sh"]


@contextmanager
def slurm_of(monkeypatch: pytest.MonkeyPatch, **nodes: Sequence[str]) -> Iterator[SlurmCluster]:
    """A SLURM of some nodes, of which the first is taken first; jobs are submitted from here."""
    with running_slurm(n_cpus=2, nodes=nodes) as cluster:
        monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
        monkeypatch.setenv("PYTHONPATH", str(SOURCE))
        yield cluster


@pytest.fixture
def cells(study_cache: Path) -> list[Cell]:
    plan = make_small_plan(study_cache, n_jobs=2)
    return list(reported_cells(plan, dict.fromkeys([arm.name for arm in plan.arms], 0.05)))


def slurm_queue(runs: Path, cache: Path) -> SlurmQueue:
    workspace = Workspace(runs, cache=cache, device="cpu")
    return SlurmQueue(Execution(workspace, n_jobs=2, on=Slurm({"partition": "usual"})))


def test_a_study_is_made_by_the_fit_nodes_alone_and_equals_a_local_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = other_code(tmp_path)
    shared = PlacedStudy(tmp_path, {"arms.reverse": None})
    on_slurm = ("--on", "slurm", "--jobs", "2", "--slurm", "time=30")
    bad = apart("bad", f"mount --bind {other} {SOURCE}")
    with slurm_of(monkeypatch, bad=bad, good=()) as cluster:
        environment = {**plain_environment(), "SLURM_CONF": cluster.environment["SLURM_CONF"]}
        done = shared.run(environment, "slurm", *on_slurm)
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        assert said.count("the node bad has other code: code is ") == 1
        assert said.count("; bad is not used any more") == 1
        assert shared.watch(environment, "slurm").count(" done") == N_RUNS
    study_folder = tmp_path / "slurm/studies/study"
    first, *later = read_submissions(study_folder)
    unfit = [run for run in first.runs if "unfit" in (first.read_answer(run) or {})]
    assert unfit
    assert {run for one in later for run in one.runs} == set(unfit)
    for one in later:
        assert "--exclude=bad\n" in (one.folder / f"{one.job}_submission.sh").read_text()
    local = shared.run(plain_environment(), "local", "--jobs", "2")
    assert local.returncode == 0, local.stderr
    require_equal_runs(shared.runs("slurm"), shared.runs("local"), N_RUNS)


def test_a_node_that_does_not_see_the_folder_of_runs_is_left_out(
    cells: list[Cell], study_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_round, "UNSEEN_SECONDS", 5.0)
    study, watcher = open_study(tmp_path / "runs", "unshared"), NoteTaker()
    bad = apart("bad", f"mount -t tmpfs none {study.root}")
    with (
        slurm_of(monkeypatch, bad=bad, good=()),
        slurm_queue(study.root, study_cache) as queue,
    ):
        assert queue.run_cells(cells, study, watcher) == {}
        assert list(queue.unfit_nodes) == ["bad"]
    assert all(is_complete(cell, study) for cell in cells)
    (note,) = watcher.notes
    assert note.startswith(f"the node bad wrote no log to {study.folder}/slurm/0001-")
    assert note.endswith("; bad is not used any more")


def test_without_a_fit_node_the_study_stops_with_the_reason_of_each(
    cells: list[Cell], study_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, full = other_code(tmp_path), tmp_path / "full"
    full.mkdir()
    monkeypatch.setenv("TMPDIR", str(full))
    study, watcher = open_study(tmp_path / "runs", "unfit"), NoteTaker()
    bad = apart("bad", f"mount --bind {other} {SOURCE}")
    worse = apart("worse", f"mount -t tmpfs -o size=1m none {full}")
    with (
        slurm_of(monkeypatch, bad=bad, worse=worse) as cluster,
        slurm_queue(study.root, study_cache) as queue,
    ):
        with pytest.raises(UnsupportedError) as caught:
            queue.run_cells(cells, study, watcher)
        assert not cluster.job_states()
    said = str(caught.value)
    assert said.startswith("no node of SLURM can take a run any more: the node ")
    assert "the node bad has other code" in said
    assert "the node worse has 1 MB free in its temporary folder" in said
    assert len(watcher.notes) == 2

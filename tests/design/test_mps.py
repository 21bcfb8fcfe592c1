"""A GPU shared through MPS: the daemon is started for the workers, and stopped with them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from trained_study import RATE, make_small_plan

from paribus.design import mps
from paribus.design.cells import Cell, reported_cells
from paribus.design.mps import CONTROL, LOG_VARIABLE, PIPE_VARIABLE, shared_gpu
from paribus.design.on.local import WorkerPool
from paribus.design.on.scheduler import RESUME_STATUS
from paribus.design.study_watcher import StudyWatcher
from paribus.record import open_study
from paribus.workspace import Execution, Local, Workspace

# A program in the daemon's place: it writes down how it was called and what it was told.
# Asked for its servers, it answers where a file says that it runs.
PROGRAM = """#!/bin/sh
said="$(cat)"
echo "$* $said" >> "{told}"
test "$said" = get_server_list && exec test -e "$CUDA_MPS_PIPE_DIRECTORY/running"
test -d "$CUDA_MPS_PIPE_DIRECTORY" && test -d "$CUDA_MPS_LOG_DIRECTORY" && exit {status}
"""

# A program in the place of Python, as which a worker starts: it writes down where it looks for a
# daemon and answers each job. It may press Ctrl-C once for the process that sent the job.
WORKER = """#!/bin/sh
echo "worker $CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_LOG_DIRECTORY" >> "{told}"
while read -r job; do
  {strike} && mkdir "$0.struck" 2>/dev/null && kill -INT $PPID && exec sleep 60
  echo "{{}}"
done
echo "worker ends" >> "{told}"
"""


@pytest.fixture
def told(tmp_path, monkeypatch) -> Path:
    """What the program was told; it does as it is told."""
    return install_program(tmp_path, monkeypatch, status=0)


def install_program(tmp_path, monkeypatch, status: int) -> Path:
    told, program = tmp_path / "told", tmp_path / CONTROL
    program.write_text(PROGRAM.format(told=told, status=status))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv(PIPE_VARIABLE, raising=False)
    monkeypatch.setattr(mps, "USUAL_PIPES", tmp_path / "nobody listens")
    return told


def test_a_daemon_of_our_own_is_started_and_stopped(told):
    with shared_gpu() as variables:
        assert told.read_text() == "-d \n"
        folders = [Path(variables[PIPE_VARIABLE]), Path(variables[LOG_VARIABLE])]
        assert all(folder.is_dir() for folder in folders)
    assert told.read_text() == "-d \n quit\n"
    assert not any(folder.exists() for folder in folders)


def test_it_is_stopped_when_a_study_is_interrupted(told):
    with pytest.raises(SystemExit), shared_gpu():
        raise SystemExit(75)
    assert told.read_text().endswith("quit\n")


def test_a_daemon_that_runs_already_is_used_as_it_is(told, tmp_path, monkeypatch):
    (tmp_path / "control").touch()
    (tmp_path / "running").touch()
    monkeypatch.setenv(PIPE_VARIABLE, str(tmp_path))
    with shared_gpu() as variables:
        assert variables == {}
    assert told.read_text() == " get_server_list\n"


def test_one_that_was_killed_is_replaced(told, tmp_path, monkeypatch):
    (tmp_path / "control").touch()  # the pipe that it left behind
    monkeypatch.setenv(PIPE_VARIABLE, str(tmp_path))
    with shared_gpu() as variables:
        assert variables[PIPE_VARIABLE] != str(tmp_path)
    assert told.read_text() == " get_server_list\n-d \n quit\n"


def test_one_that_does_not_start_is_done_without(tmp_path, monkeypatch):
    told = install_program(tmp_path, monkeypatch, status=1)
    with shared_gpu() as variables:
        assert variables == {}
    assert told.read_text() == "-d \n"


def test_where_none_is_installed_nothing_is_set(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with shared_gpu() as variables:
        assert variables == {}


def untrained_pool(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    device: str = "cuda",
    n_jobs: int = 2,
    use_mps: bool = True,
    strike: bool = False,
) -> WorkerPool:
    """A pool of workers that train nothing, on a machine that seems to have a GPU."""
    program = tmp_path / "worker"
    program.write_text(WORKER.format(told=tmp_path / "told", strike=str(strike).lower()))
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr(
        "paribus.design.on.scheduler.select_device", lambda _name: torch.device(device)
    )
    workspace = Workspace(tmp_path / "runs", cache=tmp_path / "cache")
    return WorkerPool(Execution(workspace, on=Local(use_mps), n_jobs=n_jobs))


@pytest.fixture(scope="module")
def cells(study_cache: Path) -> Sequence[Cell]:
    plan = make_small_plan(study_cache)
    return reported_cells(plan, {arm.name: RATE for arm in plan.arms})[:2]


def test_workers_on_one_gpu_are_told_of_the_daemon_which_ends_after_them(
    told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cells: Sequence[Cell]
) -> None:
    with untrained_pool(tmp_path, monkeypatch) as pool:
        assert told.read_text() == "-d \n"
        assert pool.run_cells(cells, open_study(tmp_path / "runs", "one"), StudyWatcher()) == {}
        variables = pool.worker_variables
        begun = f"worker {variables[PIPE_VARIABLE]} {variables[LOG_VARIABLE]}"
    assert told.read_text().splitlines() == [
        *["-d ", begun, begun],
        *["worker ends", "worker ends"],
        " quit",
    ]


@pytest.mark.parametrize("change", [{"device": "cpu"}, {"use_mps": False}])
def test_workers_of_a_cpu_or_without_mps_have_no_daemon(
    change: dict[str, Any],
    told: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cells: Sequence[Cell],
) -> None:
    with untrained_pool(tmp_path, monkeypatch, **change) as pool:
        assert pool.run_cells(cells, open_study(tmp_path / "runs", "one"), StudyWatcher()) == {}
    assert told.read_text().splitlines() == ["worker  "] * 2 + ["worker ends"] * 2


def test_runs_one_after_another_have_no_daemon(
    told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with untrained_pool(tmp_path, monkeypatch, n_jobs=1):
        pass
    assert not told.exists()


def test_the_daemon_of_workers_is_stopped_when_a_study_fails(
    told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = untrained_pool(tmp_path, monkeypatch)
    with pytest.raises(OSError, match="full"), pool:
        raise OSError("the disk is full")
    assert told.read_text() == "-d \n quit\n"


def test_the_daemon_of_workers_is_stopped_after_ctrl_c(
    told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cells: Sequence[Cell]
) -> None:
    study = open_study(tmp_path / "runs", "one")
    with (
        pytest.raises(SystemExit) as left,
        untrained_pool(tmp_path, monkeypatch, strike=True) as pool,
    ):
        pool.run_cells(cells, study, StudyWatcher())
    assert left.value.code == RESUME_STATUS
    assert all(worker.process.returncode is not None for worker in pool.workers)
    first, *_, last = told.read_text().splitlines()
    assert (first, last) == ("-d ", " quit")


@pytest.mark.gpu
@pytest.mark.skipif(shutil.which(CONTROL) is None, reason=f"{CONTROL} is not installed")
def test_processes_compute_the_same_through_mps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Two processes at once through a real daemon of our own, and one without. A daemon that runs
    on this machine already is not found.
    """
    monkeypatch.setenv(PIPE_VARIABLE, str(tmp_path / "pipes"))
    program = (
        "import torch; torch.manual_seed(0); a = torch.randn(512, 512, device='cuda');"
        "print((a @ a).sum().item())"
    )
    command = [sys.executable, "-c", program]
    alone = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    with shared_gpu() as variables:
        assert variables
        environment = {**os.environ, **variables}
        both = [
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        assert [process.communicate()[0] for process in both] == [alone, alone]

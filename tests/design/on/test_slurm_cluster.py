"""A real SLURM of one node: what is preempted, signalled or left alone by its driver ends as local
runs do, bit for bit.
"""

import os
import re
import shlex
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from placed_study import (
    PATIENCE,
    SOURCE,
    PlacedStudy,
    plain_environment,
    require_equal_runs,
    wait_for_checkpoint,
)
from slurm_cluster import SlurmCluster, missing_for_slurm, running_slurm
from trained_study import make_small_plan

from paribus.design.cell_run import is_complete
from paribus.design.cells import Cell, reported_cells
from paribus.design.on import slurm_round
from paribus.design.on.slurm import SlurmQueue
from paribus.design.study_watcher import StudyWatcher
from paribus.errors import UnsupportedError
from paribus.record import Study, open_study
from paribus.slurm.queue import QueuedTask, queued_tasks
from paribus.slurm.submission import Submission, read_submissions
from paribus.workspace import Execution, Slurm, Workspace

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(
        missing_for_slurm() is not None, reason=missing_for_slurm() or "SLURM can be started"
    ),
    pytest.mark.skipif(find_spec("submitit") is None, reason="needs submitit: make test-cluster"),
]
# long enough to be struck in the middle, however busy this machine is
CHANGES = {
    "arms.reverse": None,
    "base.training.n_steps": 1500,
    "base.training.row_every": 50,
    "base.training.valid_every": 500,
    "base.training.checkpoint_every": 100,
}
N_RUNS = 6
ON_SLURM = ("--on", "slurm", "--jobs", "2", "--slurm", "partition=usual", "--slurm", "time=30")


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with running_slurm(n_cpus=2) as slurm:
        yield slurm


@pytest.fixture
def here(cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    """The cluster, and this process as a machine from which jobs are submitted."""
    monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    return cluster


def wait_until(holds: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until, f"{what} did not come"
        time.sleep(0.2)


def only_array(study_folder: Path) -> Submission:
    (array,) = read_submissions(study_folder)
    return array


def task_of(array: Submission, run: str) -> QueuedTask:
    return queued_tasks([array])[array.job_name, run]


def wait_for_running_task(runs: Path) -> Path:
    """A run in the middle whose task SLURM has running."""

    def is_running(run: Path) -> bool:
        array = only_array(runs / "studies" / "study")
        task = queued_tasks([array]).get((array.job_name, run.name))
        return task is not None and task.state == "RUNNING"

    return wait_for_checkpoint(runs, is_running)


def test_a_study_that_is_left_signalled_and_preempted_ends_as_a_local_one_does(
    here: SlurmCluster, tmp_path: Path
) -> None:
    shared = PlacedStudy(tmp_path, CHANGES)
    environment = {**plain_environment(), "SLURM_CONF": here.environment["SLURM_CONF"]}
    runs, study_folder = tmp_path / "slurm", tmp_path / "slurm/studies/study"

    # A driver that is interrupted leaves its jobs in the queue.
    with shared.driver(environment, "slurm", *ON_SLURM) as driver:
        run = wait_for_running_task(runs)
        driver.send_signal(signal.SIGINT)
        said, _ = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 75, said
    array = only_array(study_folder)
    assert re.search(rf"runs that stay in SLURM's queue: \d.*scancel {array.job}", said)
    assert task_of(array, run.name).state == "RUNNING"

    # The same command waits for them and submits none twice.
    with shared.driver(environment, "slurm", *ON_SLURM) as driver:
        run = wait_for_running_task(runs)
        with here.signal_job(array.task(run.name), "USR2"):
            wait_until(lambda: task_of(array, run.name).n_restarts == 1, "a requeued job")
        assert "finished" not in (run / "state").read_text()

        preempted = wait_for_running_task(runs)
        n_before = task_of(array, preempted.name).n_restarts
        here.submit_urgent(seconds=30, n_cpus=2)
        wait_until(lambda: task_of(array, preempted.name).word == "requeued", "a preempted job")
        assert task_of(array, preempted.name).n_restarts == n_before + 1
        assert re.search(rf"{preempted.name}.* requeued", shared.watch(environment, "slurm"))
        assert "finished" not in (preempted / "state").read_text()
        said, _ = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 0, said
    assert only_array(study_folder) == array
    assert shared.watch(environment, "slurm").count(" done") == N_RUNS

    local = shared.run(plain_environment(), "local", "--jobs", "2")
    assert local.returncode == 0, local.stderr
    require_equal_runs(shared.runs("slurm"), shared.runs("local"), N_RUNS)


# one task of an array, whose worker has its run done when it finds a checkpoint
TASK = """
import os, pathlib, sys
from paribus.slurm.task import run_task
folder = pathlib.Path(sys.argv[1], os.environ["SLURM_ARRAY_TASK_ID"])
command = [sys.executable, "-c", sys.argv[2], str(folder)]
run_task(command, sys.argv[1] + "/job.json", f"{folder}/answer.json", [str(folder)], 600)
"""
WORKER = """
import pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
if (folder / "checkpoints").exists():
    print("{}")
    sys.exit()
def save(*_):
    (folder / "checkpoints" / "step-1").mkdir(parents=True, exist_ok=True)
    sys.exit(143)
for number in (signal.SIGTERM, signal.SIGUSR2):  # SLURM signals every process of a task
    signal.signal(number, save)
(folder / "begun").touch()
while True:
    time.sleep(0.05)
"""


def test_each_task_of_an_array_requeues_itself_and_no_other(
    here: SlurmCluster, tmp_path: Path
) -> None:
    (tmp_path / "job.json").write_text("{}")
    for index in ("0", "1"):
        (tmp_path / index).mkdir()
    command = shlex.join(["srun", sys.executable, "-c", TASK, str(tmp_path), WORKER])
    log = f"--output={tmp_path}/log"
    array = here.ask("sbatch", "--parsable", "--array=0-1", "--requeue", log, f"--wrap={command}")

    def n_restarts(index: str) -> int:
        return int(
            here.ask("squeue", "--noheader", f"--jobs={array}_{index}", "--Format=RestartCnt")
        )

    wait_until(lambda: all((tmp_path / one / "begun").exists() for one in ("0", "1")), "both tasks")
    with here.signal_job(f"{array}_1", "USR2"):
        wait_until(lambda: n_restarts("1") == 1, "a requeued task")
    assert n_restarts("0") == 0
    wait_until((tmp_path / "1" / "answer.json").exists, "the answer of a requeued task")
    with here.signal_job(f"{array}_0", "USR2"):
        wait_until((tmp_path / "0" / "checkpoints").exists, "a saved run")
    wait_until((tmp_path / "0" / "answer.json").exists, "the answer of a requeued task")
    assert (tmp_path / "1" / "answer.json").read_text() == "{}\n"


class Quiet(StudyWatcher):
    """Remembers what began and what ended."""

    def __init__(self) -> None:
        self.ended: dict[str, str | None] = {}

    def end(self, cell: Cell, fault: str | None) -> None:
        self.ended[str(cell)] = fault


def carry_out(
    cells: list[Cell], study: Study, cache: Path, options: dict[str, str]
) -> tuple[dict[str, str], Quiet]:
    watcher = Quiet()
    workspace = Workspace(study.root, cache=cache, device="cpu")
    execution = Execution(workspace, n_jobs=2, on=Slurm({"partition": "usual", **options}))
    with SlurmQueue(execution) as queue:
        return queue.run_cells(cells, study, watcher), watcher


@pytest.fixture
def cells(study_cache: Path) -> list[Cell]:
    plan = make_small_plan(study_cache, n_jobs=2)
    return list(reported_cells(plan, dict.fromkeys([arm.name for arm in plan.arms], 0.05)))[:2]


@pytest.mark.usefixtures("here")
def test_a_run_that_fails_has_the_error_of_a_local_one_and_the_path_of_its_log(
    cells: list[Cell], study_cache: Path, tmp_path: Path
) -> None:
    study = open_study(tmp_path, "failing")
    (tmp_path / cells[0].name).mkdir()
    (tmp_path / cells[0].name / "stray").touch()
    failures, watcher = carry_out(cells, study, study_cache, {})
    assert list(failures) == [str(cells[0])]
    assert watcher.ended == {str(cells[0]): failures[str(cells[0])], str(cells[1]): None}
    said = re.search(r"and no spec.json: it is not a run.*log (\S+)\)$", failures[str(cells[0])])
    assert said is not None
    assert "submitit INFO" in Path(said[1]).read_text()
    assert is_complete(cells[1], study)
    assert (study_cache / "compiled/inductor").is_dir()  # workers on nodes share it
    (tmp_path / cells[0].name / "stray").unlink()
    assert carry_out(cells[:1], study, study_cache, {})[0] == {}
    assert is_complete(cells[0], study)
    assert len(read_submissions(study.folder)) == 2


def test_jobs_that_somebody_cancels_before_they_begin_end_the_study(
    here: SlurmCluster,
    cells: list[Cell],
    study_cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slurm_round, "UNSEEN_SECONDS", 5.0)
    study = open_study(tmp_path, "cancelled")

    def cancel() -> None:
        wait_until(lambda: bool(here.job_states()), "a job")
        here.ask("scancel", "--user=root")

    somebody = threading.Thread(target=cancel)
    somebody.start()
    with pytest.raises(UnsupportedError) as caught:
        carry_out(cells[:1], study, study_cache, {"begin": "now+1hour"})
    somebody.join()
    job = only_array(study.folder).job
    assert "its job left the queue and did not answer; run again to resume it" in str(caught.value)
    assert f"job {job} wrote no log" in str(caught.value)


@pytest.mark.usefixtures("here")
def test_what_slurm_does_not_take_is_said_in_its_words(
    cells: list[Cell], study_cache: Path, tmp_path: Path
) -> None:
    study = open_study(tmp_path, "refused")
    with pytest.raises(
        UnsupportedError, match=r"SLURM did not take the jobs: .*[Ii]nvalid partition.*nowhere"
    ):
        carry_out(cells, study, study_cache, {"partition": "nowhere"})
    assert not read_submissions(study.folder)


@pytest.mark.usefixtures("here")
def test_jobs_that_slurm_took_without_saying_so_make_their_runs(
    cells: list[Cell], study_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "programs" / "sbatch"
    script.parent.mkdir()
    words = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
    submit = f'{shutil.which("sbatch")} "$@" > {tmp_path}/sbatch.log'
    script.write_text(f"#!/bin/sh\n{submit}\necho '{words}' >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent), prepend=os.pathsep)
    study = open_study(tmp_path / "runs", "unanswered")
    failures, watcher = carry_out(cells, study, study_cache, {})
    assert failures == {}
    assert list(watcher.ended.values()) == [None, None]
    assert all(is_complete(cell, study) for cell in cells)
    assert only_array(study.folder).job in (tmp_path / "sbatch.log").read_text()

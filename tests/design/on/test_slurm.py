"""What a job of SLURM is asked for; SLURM itself is in test_slurm_cluster.py."""

import os
import sys
from importlib import util
from pathlib import Path

import pytest
import torch
from shared_studies import CHAIN_TABLE
from study_notes import NoteTaker
from trained_study import RATE, make_small_plan

from paribus.design import find_design, make_plan
from paribus.design.cells import reported_cells
from paribus.design.on import slurm, slurm_round
from paribus.design.on.slurm import (
    SlurmQueue,
    chain_folders,
    may_be_queued,
    require_slurm,
    sbatch_options,
    task_cpus,
    without_nodes,
    worker_command,
)
from paribus.design.on.slurm_round import Round, describe_log
from paribus.design.stage_tuning import rates_without_sweep
from paribus.design.study_watcher import StudyWatcher
from paribus.errors import SpecError, UnsupportedError
from paribus.record import open_study
from paribus.slurm.submission import Submission, read_submissions
from paribus.train.parent import parent_folder
from paribus.workspace import Execution, Slurm, Workspace

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
WORKER = [sys.executable, "-m", "paribus.design.worker"]


def test_a_run_on_a_cpu_asks_for_its_threads() -> None:
    assert sbatch_options({}, CPU, 3) == {"requeue": True, "time": "60", "cpus-per-task": "3"}


def test_a_run_on_cuda_asks_for_one_gpu_unless_it_is_told_which() -> None:
    assert sbatch_options({}, CUDA, 7) == {
        "requeue": True,
        "time": "60",
        "cpus-per-task": "7",
        "gres": "gpu:1",
    }
    for name in ("gres", "gpus", "gpus-per-node"):
        assert sbatch_options({name: "a100:1"}, CUDA, 7)[name] == "a100:1"
    assert "gres" not in sbatch_options({"gpus": "1"}, CUDA, 7)


def test_what_is_given_goes_over_what_is_usual() -> None:
    options = sbatch_options({"time": "1-0", "cpus-per-task": "5", "exclusive": True}, CPU, 1)
    assert options == {"requeue": True, "time": "1-0", "cpus-per-task": "5", "exclusive": True}


def test_unfit_nodes_are_left_out_beside_those_that_the_user_leaves_out() -> None:
    assert without_nodes({"time": "60"}, []) == {"time": "60"}
    assert without_nodes({"time": "60"}, ["b", "c"]) == {"time": "60", "exclude": "b,c"}
    assert without_nodes({"exclude": "a[1-3]"}, ["b"]) == {"exclude": "a[1-3],b"}


def test_a_task_compiles_with_as_many_threads_as_it_has_cpus() -> None:
    assert task_cpus(sbatch_options({}, CUDA, 3)) == 3
    assert task_cpus(sbatch_options({"cpus-per-task": "5"}, CUDA, 3)) == 5
    for refused in ("0", "many", True):
        assert task_cpus({"cpus-per-task": refused}) == 1


def test_a_worker_has_the_threads_of_a_local_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert worker_command(2) == ["env", "OMP_NUM_THREADS=1", *WORKER]
    assert worker_command(1) == ["env", "OMP_NUM_THREADS=5", *WORKER]
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert worker_command(1) == ["env", "--unset=OMP_NUM_THREADS", *WORKER]


def test_without_submitit_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "find_spec", lambda _: None)
    with pytest.raises(UnsupportedError, match=r"pip install 'paribus\[cluster\]'"):
        require_slurm()


@pytest.mark.skipif(util.find_spec("submitit") is None, reason="needs submitit")
def test_without_the_programs_of_slurm_they_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match="needs sbatch, squeue, scontrol, srun on the path"):
        require_slurm()


def test_a_device_that_slurm_cannot_share_out_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "require_slurm", lambda: None)
    monkeypatch.setattr("paribus.design.on.scheduler.select_device", lambda _: torch.device("mps"))
    with pytest.raises(UnsupportedError, match="cannot ask for the device mps; use cpu or cuda"):
        SlurmQueue(Execution(on=Slurm()))


def test_a_folder_of_runs_that_slurm_would_read_otherwise_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(slurm, "require_slurm", lambda: None)
    study = open_study(tmp_path / "100%", "mine")
    execution = Execution(Workspace(study.root, device="cpu"), on=Slurm())
    with SlurmQueue(execution) as queue, pytest.raises(SpecError, match="SLURM replaces %"):
        queue.run_cells([], study, StudyWatcher())


def test_a_fault_names_the_log_or_says_that_there_is_none(tmp_path: Path) -> None:
    submission = Submission(tmp_path, "study-aa", ("run1", "run2"), "12")
    assert describe_log({}, "run1") == "it was not submitted"
    said = describe_log({"run2": submission}, "run2")
    assert said.startswith(f"job 12_1 wrote no log {tmp_path}/12_1_0_log.out: its node may not see")
    submission.log_path("run2").touch()
    assert describe_log({"run2": submission}, "run2") == f"job 12_1, log {tmp_path}/12_1_0_log.out"


def test_progress_is_looked_for_in_the_folder_of_each_stage(
    study_cache: Path, tmp_path: Path
) -> None:
    plan = make_small_plan(study_cache)
    rates = dict.fromkeys([arm.name for arm in plan.arms], RATE)
    cell = reported_cells(plan, rates)[0]
    assert chain_folders(cell, open_study(tmp_path, "mine")) == [str(tmp_path / cell.name)]


def test_progress_of_a_chain_is_looked_for_in_its_first_stage_too(
    study_cache: Path, tmp_path: Path
) -> None:
    name, design = find_design(CHAIN_TABLE)
    execution = Execution(Workspace(cache=study_cache, device="cpu"))
    plan = make_plan(design, name, None, execution, show_progress=False)
    cell = reported_cells(plan, rates_without_sweep(plan))[0]
    parent = parent_folder(cell.run, cell.texts, tmp_path)
    assert parent is not None
    folders = chain_folders(cell, open_study(tmp_path, "mine"))
    assert folders == [str(tmp_path / cell.name), str(parent)]


def add_program(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is found before any other of its name."""
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


# A task that is running when it is asked for first; then `later` is done, by the number of the call
QUEUE = """echo >> {folder}/calls
n=$(wc -l < {folder}/calls)
if [ $n -eq 1 ]; then echo "mine-aa|12|N/A|RUNNING|0|None|"; exit; fi
{later}"""


ADOPTED = (
    "runs in SLURM's queue already: 1, with the options that they were submitted with; scancel"
    " 12 takes them out"
)


def wait_in_queue(
    later: str, cache: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, str], NoteTaker]:
    """What comes of a run that an earlier driver submitted, with a queue that answers so."""
    monkeypatch.setattr(slurm, "require_slurm", lambda: None)
    monkeypatch.setattr(slurm, "QUEUE_SECONDS", 0.01)
    plan = make_small_plan(cache)
    cell = reported_cells(plan, dict.fromkeys([arm.name for arm in plan.arms], RATE))[0]
    study = open_study(folder / "runs", "mine")
    submission = Submission(study.folder / "slurm/0001-aa", "mine-aa", (cell.name,), "12")
    submission.folder.mkdir(parents=True)
    submission.write()
    path = submission.answer_path(cell.name)
    answer = f"echo '{{}}' > {path}"
    later = later.format(answer=answer, path=path, folder=submission.folder)
    script = QUEUE.format(folder=folder, later=later)
    add_program(folder, "squeue", script, monkeypatch)
    execution = Execution(Workspace(study.root, cache=cache, device="cpu"), on=Slurm())
    watcher = NoteTaker()
    with SlurmQueue(execution) as queue:
        return queue.run_cells([cell], study, watcher), watcher


def test_a_queue_that_does_not_answer_is_noted_once_and_asked_again(
    study_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = "if [ $n -lt 5 ]; then echo busy >&2; exit 1; fi; {answer}"
    failures, watcher = wait_in_queue(later, study_cache, tmp_path, monkeypatch)
    assert failures == {}
    assert watcher.notes == [
        ADOPTED,
        "the queue of SLURM cannot be read: busy; run this where squeue works; it is asked again"
        " until it answers",
    ]


def test_the_answer_of_a_task_that_left_the_queue_is_waited_for(
    study_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = "if [ $n -ge 9 ]; then {answer}; fi"
    failures, watcher = wait_in_queue(later, study_cache, tmp_path, monkeypatch)
    assert (failures, watcher.notes) == ({}, [ADOPTED])


def test_a_task_that_left_the_queue_and_never_answers_has_failed(
    study_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_round, "UNSEEN_SECONDS", 0.05)
    log = "touch {folder}/12_0_log.out"
    failures, _ = wait_in_queue(log, study_cache, tmp_path, monkeypatch)
    (said,) = failures.values()
    assert said.startswith("its job left the queue and did not answer; run again to resume it")


@pytest.mark.parametrize(
    ("later", "reason"),
    [
        ("", "its job left the queue and did not answer; .* wrote no log .*12_0_log.out: its node"),
        ('echo \'{{"unfit": "the node b has other code"}}\' > {path}', "the node b has other code"),
    ],
)
def test_a_round_of_which_no_job_could_begin_its_run_ends_the_study(
    study_cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    later: str,
    reason: str,
) -> None:
    monkeypatch.setattr(slurm_round, "UNSEEN_SECONDS", 0.05)
    said = f"no job of SLURM could begin its run: {reason}.*; what was done is kept, and the same"
    with pytest.raises(UnsupportedError, match=said):
        wait_in_queue(later, study_cache, tmp_path, monkeypatch)


def test_why_no_run_of_the_queue_begins_is_noted_once(
    study_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_round, "WAIT_SECONDS", 0.0)
    waits = 'echo "mine-aa|12|N/A|PENDING|0|PartitionTimeLimit|"'
    later = f"if [ $n -lt 7 ]; then {waits}; exit; fi; {{answer}}"
    failures, watcher = wait_in_queue(later, study_cache, tmp_path, monkeypatch)
    assert failures == {}
    assert watcher.notes == [
        ADOPTED,
        "runs that wait in SLURM's queue: 1, and none is being made: PartitionTimeLimit; if this"
        " does not pass, scancel 12 takes them out, and other options after --slurm may help",
    ]


@pytest.mark.skipif(util.find_spec("submitit") is None, reason="needs submitit")
def test_a_slurm_that_cannot_be_reached_is_said_in_one_line(
    study_cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name in ("squeue", "srun", "scontrol"):
        add_program(tmp_path, name, "exit 1", monkeypatch)
    words = "echo 'sbatch: error: no host' >&2; echo 'sbatch: fatal: no source' >&2; exit 1"
    add_program(tmp_path, "sbatch", words, monkeypatch)
    plan = make_small_plan(study_cache)
    cells = reported_cells(plan, dict.fromkeys([arm.name for arm in plan.arms], RATE))[:1]
    study = open_study(tmp_path / "runs", "mine")
    execution = Execution(Workspace(study.root, cache=study_cache, device="cpu"), on=Slurm())
    said = "sbatch: error: no host, sbatch: fatal: no source; mend the options after --slurm, or"
    with SlurmQueue(execution) as queue, pytest.raises(UnsupportedError, match=said):
        queue.run_cells(cells, study, StudyWatcher())
    assert not list((study.folder / "slurm").glob("0*"))
    assert capfd.readouterr().err == ""


TIMED_OUT = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"


def test_words_of_sbatch_say_whether_jobs_may_be_queued() -> None:
    assert may_be_queued(TIMED_OUT)
    assert may_be_queued("")
    assert not may_be_queued("sbatch: error: invalid partition specified: nowhere")
    assert not may_be_queued("sbatch: fatal: Could not establish a configuration source")


# The queue of a SLURM that has a job under the name on record, if `taken` is there; an answer to it
# comes when it is asked for the second time
LATE_QUEUE = """[ -e {folder}/taken ] || exit 0
name=$(sed -n 's/.*"job_name": "\\([^"]*\\)".*/\\1/p' {array}/submission.json)
if [ -e {folder}/asked ]; then echo '{{}}' > {array}/{run}.answer.json; exit 0; fi
touch {folder}/asked
echo "$name|12|N/A|RUNNING|0|None|"
"""


@pytest.mark.skipif(util.find_spec("submitit") is None, reason="needs submitit")
@pytest.mark.parametrize("is_late", [False, True])
def test_jobs_that_slurm_took_without_saying_so_are_found_by_their_name(
    study_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    monkeypatch.setattr(slurm, "QUEUE_SECONDS", 0.01)
    monkeypatch.setattr(slurm, "LOOK_SECONDS", 0.05)
    plan = make_small_plan(study_cache)
    cells = reported_cells(plan, dict.fromkeys([arm.name for arm in plan.arms], RATE))[:1]
    study = open_study(tmp_path / "runs", "mine")
    for name in ("srun", "scontrol"):
        add_program(tmp_path, name, "exit 1", monkeypatch)
    array = f"{study.folder}/slurm/0001-*"
    queue_script = LATE_QUEUE.format(folder=tmp_path, array="$array", run=cells[0].name)
    add_program(tmp_path, "squeue", f"array=$(echo {array})\n{queue_script}", monkeypatch)
    add_program(tmp_path, "sbatch", f"echo '{TIMED_OUT}' >&2; exit 1", monkeypatch)
    execution = Execution(Workspace(study.root, cache=study_cache, device="cpu"), on=Slurm())
    with SlurmQueue(execution) as queue:
        if is_late:
            said = "SLURM did not say whether it took the jobs: .*; they may still come into its"
            with pytest.raises(UnsupportedError, match=said):
                queue.run_cells(cells, study, StudyWatcher())
            assert [one.job for one in read_submissions(study.folder)] == [None]
        (tmp_path / "taken").touch()
        assert queue.run_cells(cells, study, StudyWatcher()) == {}
    (submission,) = read_submissions(study.folder)
    assert submission.job == "12"
    assert (submission.folder / "12_submitted.pkl").exists()


def recorded_round(cache: Path, folder: Path, n_cells: int) -> tuple[Round, Submission]:
    """Cells of which all are on record as tasks of an array of an earlier driver."""
    plan = make_small_plan(cache)
    cells = reported_cells(plan, dict.fromkeys([arm.name for arm in plan.arms], RATE))[:n_cells]
    study = open_study(folder / "runs", "mine")
    runs = tuple(cell.name for cell in cells)
    submission = Submission(study.folder / "slurm/0001-aa", "mine-aa", runs, "12")
    submission.folder.mkdir(parents=True)
    submission.write()
    return Round(study, NoteTaker(), {cell.name: cell for cell in cells}, {}), submission


def test_a_queue_that_fails_before_runs_are_submitted_again_is_asked_again(
    study_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "require_slurm", lambda: None)
    work, _ = recorded_round(study_cache, tmp_path, 1)
    add_program(tmp_path, "squeue", "echo busy >&2; exit 1", monkeypatch)
    queue = SlurmQueue(Execution(Workspace(work.study.root, device="cpu"), on=Slurm()))
    with pytest.raises(UnsupportedError, match="cannot be read: busy"):
        queue._submit_missing(work)
    work.has_submitted = True
    queue._submit_missing(work)
    assert isinstance(work.watcher, NoteTaker)
    assert len(work.watcher.notes) == 1
    assert not work.is_queue_read
    assert not work.submissions


def test_an_interrupted_driver_says_how_many_jobs_it_leaves(
    study_cache: Path, tmp_path: Path
) -> None:
    work, submission = recorded_round(study_cache, tmp_path, 2)
    work.submissions[submission.runs[0]] = submission
    slurm._note_jobs_left(work)
    work.submissions.clear()
    slurm._note_jobs_left(work)
    assert isinstance(work.watcher, NoteTaker)
    assert work.watcher.notes == [
        "runs that stay in SLURM's queue: 1; the same command waits for them again, and scancel 12"
        " takes them out",
        "no run is in SLURM's queue; the same command submits those that are left",
    ]


# Two tasks that wait until one finds its node unfit; the other is done when it is kept off that
UNFIT_QUEUE = """if [ -e {folder}/kept-off ]; then echo '{{}}' > {second}; exit; fi
echo >> {folder}/calls
n=$(wc -l < {folder}/calls)
[ $n -gt 1 ] && echo '{{"unfit": "its disk is full", "node": "b7"}}' > {first}
echo "mine-aa|12|0|PENDING|0|Priority|"
echo "mine-aa|12|1|PENDING|0|Priority|"
"""


def test_what_waits_is_kept_off_an_unfit_node_also_if_no_run_is_submitted_again(
    study_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "require_slurm", lambda: None)
    monkeypatch.setattr(slurm, "QUEUE_SECONDS", 0.01)
    monkeypatch.setattr(slurm_round, "MAX_UNFIT_NODES", 1)
    work, submission = recorded_round(study_cache, tmp_path, 2)
    first, second = (submission.answer_path(run) for run in submission.runs)
    script = UNFIT_QUEUE.format(folder=tmp_path, first=first, second=second)
    add_program(tmp_path, "squeue", script, monkeypatch)
    add_program(tmp_path, "scontrol", f'echo "$@" > {tmp_path}/kept-off', monkeypatch)
    workspace = Workspace(work.study.root, cache=study_cache, device="cpu")
    queue = SlurmQueue(Execution(workspace, on=Slurm()))
    queue.own_arrays.add("mine-aa")
    failures = queue.run_cells(list(work.cells.values()), work.study, NoteTaker())
    assert list(failures) == [str(work.cells[submission.runs[0]])]
    assert (tmp_path / "kept-off").read_text() == "update JobId=12 ExcNodeList=b7\n"

"""A task as SLURM starts it, with workers that are small programs."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from paribus.slurm.task import RESUME_STATUS, run_task

ECHO = "import json, sys; print(json.dumps({'failed': json.loads(input())['run']}))"
# says that it is at work, and when told to stop leaves a checkpoint and goes
SAVING = """
import pathlib, signal, sys, time
def save(*_):
    pathlib.Path(sys.argv[1], "checkpoints", "step-1").mkdir(parents=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
pathlib.Path(sys.argv[1], "begun").touch()
while True:
    time.sleep(0.05)
"""
STUCK = SAVING.replace('pathlib.Path(sys.argv[1], "checkpoints", "step-1").mkdir(parents=True)', "")
# the scontrol of a cluster: it notes what it was asked
PROGRAM = '#!/bin/sh\necho "$@" > "${{0%/*}}/asked"\nexit {status}\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "job.json").write_text(json.dumps({"run": "a\nb"}, indent=2))
    (tmp_path / "run").mkdir()
    return tmp_path


def answer_of(home: Path) -> dict[str, str] | None:
    path = home / "answer.json"
    return json.loads(path.read_text()) if path.exists() else None


def arguments(home: Path, program: str, time_limit: float = 3600) -> tuple[object, ...]:
    command = [sys.executable, "-c", program, str(home / "run")]
    folders = [str(home / "run")]
    return command, str(home / "job.json"), str(home / "answer.json"), folders, time_limit


def start(
    home: Path, program: str, time_limit: float = 3600, job: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """A task in a process of its own, when its worker has begun."""
    code = (
        "import json, sys; from paribus.slurm.task import run_task;"
        " run_task(*json.loads(sys.argv[1]))"
    )
    environment = {"PATH": str(home), "SLURM_JOB_ID": "17", **(job or {})}
    environment["PYTHONPATH"] = ":".join(filter(None, sys.path))
    process = subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(arguments(home, program, time_limit))],
        env=environment,
    )
    while not (home / "run" / "begun").exists():
        assert process.poll() is None
        time.sleep(0.02)
    return process


def write_scontrol(home: Path, status: int = 0) -> None:
    (home / "scontrol").write_text(PROGRAM.format(status=status))
    (home / "scontrol").chmod(0o755)


def write_squeue(home: Path, state: str) -> None:
    (home / "squeue").write_text(f"#!/bin/sh\necho {state}\n")
    (home / "squeue").chmod(0o755)


@pytest.fixture
def handlers() -> object:
    """A task sets handlers for good: its process ends with it. Here they come back."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
    before = {number: signal.getsignal(number) for number in numbers}
    yield None
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_a_worker_is_asked_in_one_line_and_its_answer_is_written(home: Path) -> None:
    run_task(*arguments(home, ECHO))  # type: ignore[arg-type]
    assert answer_of(home) == {"failed": "a\nb"}


@pytest.mark.usefixtures("handlers")
def test_an_unfit_node_is_named_as_slurm_names_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "b7")
    run_task(*arguments(home, ECHO))  # type: ignore[arg-type]
    assert answer_of(home) == {"failed": "a\nb"}
    run_task(*arguments(home, ECHO.replace("failed", "unfit")))  # type: ignore[arg-type]
    assert answer_of(home) == {"unfit": "a\nb", "node": "b7"}


@pytest.mark.usefixtures("handlers")
def test_a_worker_that_dies_is_a_failure_with_its_status(home: Path) -> None:
    run_task(*arguments(home, "import sys; sys.exit(9)"))  # type: ignore[arg-type]
    assert answer_of(home) == {"failed": "its process ended with status 9; run again to resume it"}


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_a_signal_before_the_time_is_over_saves_the_run_and_then_requeues_the_job(
    home: Path, number: signal.Signals
) -> None:
    write_scontrol(home)
    process = start(home, SAVING)
    process.send_signal(number)
    assert process.wait(60) == RESUME_STATUS
    assert (home / "run" / "checkpoints" / "step-1").is_dir()
    assert (home / "asked").read_text() == "requeue 17\n"
    assert answer_of(home) is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_job_that_is_preempted_or_cancelled_saves_and_leaves_the_rest_to_slurm(
    home: Path, number: signal.Signals
) -> None:
    write_scontrol(home)
    process = start(home, SAVING)
    process.send_signal(number)
    assert process.wait(60) == RESUME_STATUS
    assert (home / "run" / "checkpoints" / "step-1").is_dir()
    assert not (home / "asked").exists()
    assert answer_of(home) is None


def test_a_task_of_an_array_requeues_itself_and_not_the_array(home: Path) -> None:
    write_scontrol(home)
    process = start(home, SAVING, job={"SLURM_ARRAY_JOB_ID": "17", "SLURM_ARRAY_TASK_ID": "3"})
    process.send_signal(signal.SIGUSR2)
    assert process.wait(60) == RESUME_STATUS
    assert (home / "asked").read_text() == "requeue 17_3\n"


def test_a_job_that_waits_again_already_need_not_be_requeued(home: Path) -> None:
    write_scontrol(home, 1)
    write_squeue(home, "PENDING")
    process = start(home, SAVING)
    process.send_signal(signal.SIGUSR2)
    assert process.wait(60) == RESUME_STATUS
    assert answer_of(home) is None


@pytest.mark.parametrize("status", [1, None])
def test_a_job_that_cannot_be_requeued_is_a_failure(home: Path, status: int | None) -> None:
    if status is not None:
        write_scontrol(home, status)
        write_squeue(home, "RUNNING")
    process = start(home, SAVING)
    process.send_signal(signal.SIGUSR2)
    assert process.wait(60) == 0
    answer = answer_of(home)
    assert answer is not None
    assert answer["failed"].startswith("it was saved, and SLURM did not requeue it")


def test_a_job_that_used_its_time_and_did_nothing_is_not_requeued_for_ever(home: Path) -> None:
    write_scontrol(home)
    process = start(home, STUCK, time_limit=0.01)
    process.send_signal(signal.SIGUSR2)
    assert process.wait(60) == 0
    answer = answer_of(home)
    assert answer is not None
    assert "and nothing of it was done; give more, such as --slurm time=240" in answer["failed"]
    assert not (home / "asked").exists()


def test_a_job_that_used_its_time_and_saved_something_is_requeued(home: Path) -> None:
    write_scontrol(home)
    process = start(home, SAVING, time_limit=0.01)
    process.send_signal(signal.SIGUSR2)
    assert process.wait(60) == RESUME_STATUS
    assert (home / "asked").exists()


def test_a_job_without_a_time_limit_is_requeued_whatever_it_has_done(home: Path) -> None:
    write_scontrol(home)
    process = start(home, STUCK, time_limit=0)
    process.send_signal(signal.SIGUSR2)
    assert process.wait(60) == RESUME_STATUS
    assert (home / "asked").exists()

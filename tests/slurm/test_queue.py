import io
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from paribus.cli.watch import watch
from paribus.errors import UnsupportedError
from paribus.record import existing_study
from paribus.slurm.queue import QueuedTask, queued_tasks, study_queue, task_nodes
from paribus.slurm.submission import Submission, next_folder

NO_QUEUE = "the queue of SLURM cannot be read"


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (QueuedTask("1", "PENDING", 0, "Priority"), "pending: Priority"),
        (QueuedTask("1", "PENDING", 1, "BeginTime"), "requeued: BeginTime"),
        (
            QueuedTask("1", "PENDING", 0, "Nodes required for job are DOWN, DRAINED or reserved"),
            "pending: Nodes required for job are DOWN, …",
        ),
        (QueuedTask("1", "RUNNING", 1, "None"), "running"),
        (QueuedTask("1", "COMPLETING", 0, "None"), "completing"),
    ],
)
def test_a_task_is_described_in_a_word_and_the_reason_why_it_waits(
    task: QueuedTask, said: str
) -> None:
    assert task.description == said


def submit(study: Path, *runs: str) -> Submission:
    folder = next_folder(study, "aa")
    folder.mkdir(parents=True)
    submission = Submission(folder, f"study-{folder.name}", runs, "12")
    submission.write()
    return submission


def test_a_machine_without_squeue_is_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match=f"{NO_QUEUE}.*run this where squeue works"):
        queued_tasks([submit(tmp_path, "run1")])


def test_the_node_of_a_task_is_told_as_long_as_slurm_knows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "squeue"
    script.write_text("#!/bin/sh\necho '0|b7|'; echo '1||'; echo '9|b8|'\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert task_nodes(submit(tmp_path, "run1", "run2")) == {"run1": "b7"}


def test_runs_stand_by_their_latest_answer_where_there_is_no_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert study_queue(tmp_path) is None
    first = submit(tmp_path, "run1", "run2", "run3")
    first.answer_path("run1").write_text('{"failed": "no memory"}')
    first.answer_path("run2").write_text('{"unfit": "other code"}')
    second = submit(tmp_path, "run1")
    second.answer_path("run1").write_text("{}")
    queue = study_queue(tmp_path)
    assert queue is not None
    assert queue.words == {"run1": "done", "run2": "unfit node", "run3": "gone"}
    assert NO_QUEUE in (queue.fault or "")


def watched(runs: Path) -> str:
    page = Console(width=200, file=io.StringIO(), record=True)
    page.print(watch("little", runs))
    return page.export_text()


def test_watch_has_a_column_for_the_queue_of_a_study_that_was_submitted(
    finished_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "queue" not in watched(finished_home)
    shutil.copytree(finished_home, tmp_path / "runs")
    study = existing_study(tmp_path / "runs", "little")
    run = study.planned_cells()[0].run
    submit(study.folder, run)
    monkeypatch.setenv("PATH", str(tmp_path))
    text = watched(tmp_path / "runs")
    line = next(line for line in text.splitlines() if line.startswith(run))
    assert line.rstrip().endswith("gone")
    assert NO_QUEUE in text

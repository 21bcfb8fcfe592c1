import json
import threading
from pathlib import Path

import pytest

from paribus.errors import RecordError
from paribus.record.file_names import SUBMISSION_FILE
from paribus.slurm.submission import (
    Submission,
    next_folder,
    open_submissions,
    read_submissions,
    submission_lock,
)


def submit(study: Path, token: str, *runs: str, job: str | None = None) -> Submission:
    folder = next_folder(study, token)
    folder.mkdir(parents=True)
    submission = Submission(folder, f"study-{token}", runs, job)
    submission.write()
    return submission


def test_submissions_are_read_as_they_were_written_the_latest_last(tmp_path: Path) -> None:
    first = submit(tmp_path, "ff", "run1", "run2", job="12")
    second = submit(tmp_path, "aa", "run3")
    assert read_submissions(tmp_path) == (first, second)


def test_a_task_is_named_as_slurm_names_it(tmp_path: Path) -> None:
    array = submit(tmp_path, "aa", "run1", "run2", job="12")
    alone = submit(tmp_path, "bb", "run1", job="13")
    assert [array.task("run2"), alone.task("run1")] == ["12_1", "13"]
    assert array.log_path("run2").name == "12_1_0_log.out"
    assert submit(tmp_path, "cc", "run1").task("run1") == "study-cc"


def test_an_array_is_open_until_its_last_task_has_answered(tmp_path: Path) -> None:
    array = submit(tmp_path, "aa", "run1", "run2")
    array.answer_path("run1").write_text("{}")
    assert array.read_answer("run1") == {}
    assert array.read_answer("run2") is None
    assert open_submissions(tmp_path) == (array,)
    array.answer_path("run2").write_text('{"failed": "no memory"}')
    assert open_submissions(tmp_path) == ()


def test_an_array_without_a_number_takes_the_one_that_the_queue_has(tmp_path: Path) -> None:
    array = submit(tmp_path, "aa", "run1", "run11", "run2")
    for name, run in (("x", "run11"), ("y", "run1")):
        text = f"\x8c{array.answer_path(run)}\x94"
        (array.folder / f"{name}.pkl").write_text(text)
    (array.folder / "12_2_submitted.pkl").write_text(f"{array.answer_path('run1')}")
    adopted = array.adopt_job("12")
    assert adopted == array.with_job("12")
    assert read_submissions(tmp_path) == (adopted,)
    assert sorted(path.name for path in array.folder.glob("*.pkl")) == [
        "12_0_submitted.pkl",
        "12_1_submitted.pkl",
        "12_2_submitted.pkl",
    ]
    assert str(array.answer_path("run11")) in (array.folder / "12_1_submitted.pkl").read_text()


@pytest.mark.parametrize(
    "table",
    [
        [],
        {"job_name": "a,b", "runs": [], "job": None},
        {"job_name": "--help me", "runs": ["run1"], "job": None},
        {"job_name": "a", "runs": ["../run"], "job": None},
        {"job_name": "a", "runs": ["run1"], "job": 3},
    ],
)
def test_a_record_that_is_none_is_said_so(tmp_path: Path, table: object) -> None:
    folder = submit(tmp_path, "aa", "run1").folder
    (folder / SUBMISSION_FILE).write_text(json.dumps(table))
    with pytest.raises(RecordError, match="is no record of a submission; remove that folder"):
        read_submissions(tmp_path)


def test_an_answer_that_is_none_is_said_so(tmp_path: Path) -> None:
    array = submit(tmp_path, "aa", "run1")
    array.answer_path("run1").write_text("3")
    with pytest.raises(RecordError, match="is no answer of a job"):
        array.read_answer("run1")


def test_one_process_at_a_time_submits(tmp_path: Path) -> None:
    entered = threading.Event()

    def enter() -> None:
        with submission_lock(tmp_path):
            entered.set()

    other = threading.Thread(target=enter)
    with submission_lock(tmp_path):
        other.start()
        assert not entered.wait(0.5)
    assert entered.wait(60)
    other.join()

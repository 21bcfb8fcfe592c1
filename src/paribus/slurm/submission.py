"""Arrays of jobs that were submitted for a study: which task of which array makes which run.

runs/studies/NAME/slurm/
  lock                  held while somebody looks at the queue and submits
  0001-3f2a09c1/        one array
    submission.json     its name in the queue, its number, and the run of each task
    RUN.json            what a task is asked to do
    RUN.answer.json     what it answered: {} of a run that is done, why it failed, or why its node
                        is not fit
    12_0_submitted.pkl  what submitit starts for a task; before the number is known, another name
    12_0_0_log.out      the log of a task
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from paribus.errors import InUseError, RecordError
from paribus.files import MAX_RECORD_BYTES, read_bytes
from paribus.record.disk import explained, read_json, write_json
from paribus.record.file_names import LOCK_FILE, SLURM, SUBMISSION_FILE
from paribus.record.lock import hold_lock

_PAUSE_SECONDS = 0.2
_JOB_NAME = re.compile(r"[\w.+-]+")
_SUBMITTED = "_submitted"  # ends the name of what submitit starts for a task
_REMEDY = "remove that folder, and the same command submits its runs again"


@dataclass(frozen=True)
class Submission:
    """An array of jobs, one task for each run; of a single run, a job without an array."""

    folder: Path
    job_name: str  # unique, so that the queue can be asked for it
    runs: tuple[str, ...]
    job: str | None = None  # its number; None: whoever submitted it did not live to write it

    def write(self) -> None:
        table = {key: value for key, value in asdict(self).items() if key != "folder"}
        write_json(self.folder / SUBMISSION_FILE, table)

    def with_job(self, job: str) -> Submission:
        return replace(self, job=job)

    def job_path(self, run: str) -> Path:
        """Where it is written what the task of a run is to do."""
        return self.folder / f"{run}.json"

    def answer_path(self, run: str) -> Path:
        return self.folder / f"{run}.answer.json"

    def task(self, run: str) -> str:
        """The number of a run's task in messages: 12_3, or 12 where there is no array."""
        if len(self.runs) == 1:
            return self.job or self.job_name
        return f"{self.job or self.job_name}_{self.runs.index(run)}"

    def log_path(self, run: str) -> Path:
        """Where submitit lets SLURM write the log of a run's task."""
        return self.folder / f"{self.task(run)}_0_log.out"

    def adopt_job(self, job: str) -> Submission:
        """Write down the number of an array that SLURM took without our hearing of it. What its
        tasks start has no name with that number yet: it is found by the answer that it names.
        """
        numbered = self.with_job(job)
        for path in self.folder.glob("*.pkl"):
            if not path.stem.endswith(_SUBMITTED):
                content = read_bytes(path, MAX_RECORD_BYTES)
                for run in self.runs:
                    if f"/{self.answer_path(run).name}".encode() in content:
                        path.rename(self.folder / f"{numbered.task(run)}{_SUBMITTED}.pkl")
        numbered.write()
        return numbered

    def n_answers(self) -> int:
        return sum(self.answer_path(run).exists() for run in self.runs)

    def read_answer(self, run: str) -> dict[str, Any] | None:
        """What a task answered; None where it has not yet."""
        path = self.answer_path(run)
        if not path.exists():
            return None
        answer = read_json(path, _REMEDY)
        if not isinstance(answer, dict):
            raise RecordError(f"{path} is no answer of a job; {_REMEDY}")
        return answer


def next_folder(study_folder: Path, token: str) -> Path:
    """The folder of the next array of a study: their names are in the order of submission."""
    n_before = sum(1 for _ in (study_folder / SLURM).glob("*-*"))
    return study_folder / SLURM / f"{n_before + 1:04d}-{token}"


def read_submissions(study_folder: Path) -> tuple[Submission, ...]:
    """Every array that was submitted for a study, the latest last."""
    paths = sorted((study_folder / SLURM).glob(f"*/{SUBMISSION_FILE}"))
    return tuple(_parse_submission(path) for path in paths)


def open_submissions(study_folder: Path) -> tuple[Submission, ...]:
    """The arrays of a study of which some task has not answered."""
    submissions = read_submissions(study_folder)
    return tuple(one for one in submissions if one.n_answers() < len(one.runs))


def _parse_submission(path: Path) -> Submission:
    match read_json(path, _REMEDY):
        case {"job_name": str(name), "runs": [*runs], "job": str() | None as job} if (
            _JOB_NAME.fullmatch(name) and _are_names(runs)
        ):
            return Submission(path.parent, name, tuple(runs), job)
    raise RecordError(f"{path} is no record of a submission; {_REMEDY}")


def _are_names(runs: Sequence[Any]) -> bool:
    return all(isinstance(run, str) and re.fullmatch(r"\w+", run) for run in runs)


@contextmanager
def submission_lock(study_folder: Path) -> Iterator[None]:
    """One process at a time looks at the queue and submits what is not there."""
    folder = study_folder / SLURM
    with explained(folder, "made", "give a folder you may write to"):
        folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(hold_lock(folder / LOCK_FILE))
                break
            except InUseError:
                time.sleep(_PAUSE_SECONDS)
        yield

"""A worker: one process that makes the runs it is sent, one JSON line each, and answers each
with a line.

OMP_NUM_THREADS=1 python -m paribus.design.worker
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, TextIO

from paribus.corpus import TokenisedCorpus, VerifiedText, prepare_corpus, reopen_text
from paribus.corpus.verified_text import FileStamp
from paribus.design.cell_run import train_and_measure
from paribus.errors import ParibusError
from paribus.escapes import escaped_streams
from paribus.runtime import select_device
from paribus.spec.corpus import Corpus
from paribus.spec.run import RunSpec
from paribus.spec.yardstick import read_yardstick


def _run_job(line: str) -> dict[str, Any]:
    job = json.loads(line)
    try:
        run = RunSpec.model_validate_json(json.dumps(job["run"]))
        train_and_measure(
            run,
            _open_text(run.stages[-1].corpus, job),
            list(map(read_yardstick, job["measures"])),
            Path(job["root"]),
            select_device(job["device"]),
            accept_environment=job["accept_environment"],
        )
    except ParibusError as fault:
        return {"failed": str(fault)}
    except Exception:
        return {"failed": traceback.format_exc(limit=4)}
    return {}


def _open_text(corpus: Corpus, job: dict[str, Any]) -> TokenisedCorpus:
    """The text that the plan was made with, as whoever sent the job verified it; without one,
    what there is now.
    """
    if "text" not in job:
        return prepare_corpus(corpus, Path(job["cache"]), show_progress=False)
    files = {name: FileStamp(*stamp) for name, stamp in job["text"]["files"].items()}
    return reopen_text(
        corpus, VerifiedText(job["text"]["folder"], job["text"]["fingerprint"], files)
    )


class _Jobs:
    """Lines as they come; when whoever sends them is gone, the run at work is saved and left."""

    def __init__(self) -> None:
        self.lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.busy = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self.busy.set()
            self.lines.put(line)
        self.lines.put(None)
        if self.busy.is_set():
            os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    answers = sys.stdout
    sys.stdout = sys.stderr  # whatever a library prints is no answer
    with escaped_streams():
        _answer_all(answers)


def _answer_all(answers: TextIO) -> None:
    jobs = _Jobs()
    while (line := jobs.lines.get()) is not None:
        answer = _run_job(line)
        jobs.busy.clear()
        try:
            print(json.dumps(answer), file=answers, flush=True)
        except (
            BrokenPipeError
        ):  # whoever sent it is gone; the run is on disk, and Python would complain once more
            os._exit(0)


if __name__ == "__main__":
    main()

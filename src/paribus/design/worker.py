"""A worker: one process that makes the runs it is sent, one JSON line each, and answers each with a line.

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

from paribus.corpus import Built, VerifiedText, build, reopen
from paribus.corpus.verified_text import FileStamp
from paribus.design.perform import perform
from paribus.errors import ParibusError
from paribus.escapes import visible_streams
from paribus.runtime import device_named
from paribus.spec.corpus import Corpus
from paribus.spec.run import RunSpec
from paribus.spec.yardstick import read_yardstick


def _worked(line: str) -> dict[str, Any]:
    job = json.loads(line)
    try:
        run = RunSpec.model_validate_json(json.dumps(job["run"]))
        perform(
            run, _text(run.stages[-1].corpus, job),
            [read_yardstick(told) for told in job["measures"]], Path(job["root"]), device_named(job["device"]),
            accept_environment=job["accept_environment"],
        )  # fmt: skip
    except ParibusError as fault:
        return {"failed": str(fault)}
    except Exception:
        return {"failed": traceback.format_exc(limit=4)}
    return {}


def _text(corpus: Corpus, job: dict[str, Any]) -> Built:
    """The text that the plan was made with, as whoever sent the job verified it; without one, what there is now."""
    if "text" not in job:
        return build(corpus, Path(job["cache"]), show_progress=False)
    files = {name: FileStamp(*stamp) for name, stamp in job["text"]["files"].items()}
    return reopen(corpus, VerifiedText(job["text"]["folder"], job["text"]["fingerprint"], files))


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
    with visible_streams():
        _answer_all(answers)


def _answer_all(answers: TextIO) -> None:
    jobs = _Jobs()
    while (line := jobs.lines.get()) is not None:
        told = _worked(line)
        jobs.busy.clear()
        try:
            print(json.dumps(told), file=answers, flush=True)
        except BrokenPipeError:  # whoever sent it is gone; the run is on disk, and Python would complain once more
            os._exit(0)


if __name__ == "__main__":
    main()

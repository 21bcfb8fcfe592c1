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
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from paribus.corpus import TokenisedCorpus, VerifiedText, prepare_corpus, reopen_text
from paribus.corpus.verified_text import FileStamp
from paribus.design.asked_tasks import AskedTasks
from paribus.design.cell_run import train_and_measure
from paribus.design.compiled_cache import CompileSettings
from paribus.design.on.node_check import NodeCheck, require_fit_node
from paribus.errors import ParibusError
from paribus.escapes import escaped_streams
from paribus.spec.corpus import Corpus
from paribus.spec.run import RunSpec
from paribus.spec.yardstick import read_design_yardstick
from paribus.train.chain import prepare_texts
from paribus.train.parent import Texts
from paribus.workspace import Workspace


def _run_job(line: str) -> dict[str, Any]:
    job = json.loads(line)
    if "node_check" in job:
        try:
            require_fit_node(NodeCheck(**job["node_check"]))
        except ParibusError as fault:
            return {"unfit": str(fault)}
    if "compile" in job:
        os.environ.update(CompileSettings(**job["compile"]).node_variables(os.environ))
    if "run" not in job:
        return {}
    try:
        run = RunSpec.model_validate_json(json.dumps(job["run"]))
        train_and_measure(
            run,
            _open_texts(run, job),
            list(map(read_design_yardstick, job["measures"])),
            Workspace(
                job["root"],
                device=job["device"],
                accept_environment=job["accept_environment"],
            ),
            asked_tasks=_read_asked_tasks(job),
        )
    except ParibusError as fault:
        return {"failed": str(fault)}
    except Exception:
        return {"failed": traceback.format_exc(limit=4)}
    return {}


def _read_asked_tasks(job: dict[str, Any]) -> AskedTasks:
    """Where the items of each task are kept, and their fingerprint, by column."""
    tasks = {}
    for column, (path, fingerprint) in job.get("asked_tasks", {}).items():
        tasks[column] = (Path(path), fingerprint)
    return tasks


def _open_texts(run: RunSpec, job: dict[str, Any]) -> Texts:
    """The texts that the plan was made with, as whoever sent the job verified them; without any,
    what there is now.
    """
    if "texts" not in job:
        prepare = partial(prepare_corpus, cache=Path(job["cache"]), show_progress=False)
        return prepare_texts(run, prepare)
    texts = iter(job["texts"])
    return prepare_texts(run, lambda corpus: _reopen_text(corpus, next(texts)))


def _reopen_text(corpus: Corpus, text: dict[str, Any]) -> TokenisedCorpus:
    files = {name: FileStamp(*stamp) for name, stamp in text["files"].items()}
    return reopen_text(corpus, VerifiedText(text["folder"], text["fingerprint"], files))


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

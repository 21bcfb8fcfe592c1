"""What Ray starts on a node: an actor that holds one worker process and passes it jobs.

This file goes to the node by value and needs the standard library alone. So the code that makes the
runs is the node's own, in `python -m paribus.design.worker`, whose environment is ours and not
Ray's: Ray sets OMP_NUM_THREADS, which would change the last digits of every sum.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any


class NodeWorker:
    """A worker process on a node, started again where it has ended.

    Ray calls `run_job` in one thread and `stop` in another.
    """

    def __init__(self, variables: Mapping[str, str | None], folder: str):
        self.variables = variables  # of its environment; None takes one out
        self.folder = folder  # the current one of whoever sends jobs
        self.process: subprocess.Popen[str] | None = None
        self.job_lock = threading.Lock()  # held while the worker has a job
        self.is_stopped = False

    def run_job(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """What the worker answers to a job, or the status with which it ended."""
        with self.job_lock:
            if self.is_stopped:
                return {"ended": 0}
            if self.process is None or self.process.poll() is not None:
                self._close()
                self.process = self._start()
            if self.is_stopped:  # meanwhile
                return {"ended": self._close()}
            line = self._send(self.process, job)
            if not line:
                return {"ended": self._close()}
            return json.loads(line)

    def stop(self) -> None:
        """Let the worker save its run, and end."""
        self.is_stopped = True
        process = self.process
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
        with self.job_lock:
            self._close()

    def _send(self, process: subprocess.Popen[str], job: Mapping[str, Any]) -> str:
        """The line that a worker answers; none where it ends."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            return process.stdout.readline()
        except OSError:
            return ""

    def _close(self) -> int:
        """The status with which the process ends that is sent no more jobs."""
        process, self.process = self.process, None
        if process is None:
            return 0
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):  # of one that has died, with a line on its way
            process.stdin.close()
        status = process.wait()
        process.stdout.close()
        return status

    def _start(self) -> subprocess.Popen[str]:
        surroundings = dict(os.environ)
        for name, value in self.variables.items():
            surroundings.pop(name, None)
            if value is not None:
                surroundings[name] = value
        # A group of its own: if this actor ends, the worker sees that its input has ended, saves
        # its run and leaves.
        return subprocess.Popen(
            [sys.executable, "-m", "paribus.design.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=surroundings,
            cwd=self.folder if os.path.isdir(self.folder) else None,
            start_new_session=True,
        )

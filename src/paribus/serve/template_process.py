"""A process that renders chat templates: started when the first is asked for, and again after one
that took too long or too much.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from paribus.errors import SpecError, UnsupportedError

MAX_SECONDS = 1.0  # of one rendering
MAX_START_SECONDS = 60.0  # until the process is there, on a busy machine
MAX_BYTES = 256 << 20  # of its memory
MAX_TEXT_BYTES = 8 << 20  # of what it renders
_RENDERER = Path(__file__).with_name("template_renderer.py")


class TemplateProcess:
    """Renders one template at a time, within limits of time and memory."""

    def __init__(self, max_seconds: float = MAX_SECONDS):
        self._max_seconds = max_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = Lock()

    def render(self, source: str, values: Mapping[str, Any]) -> str:
        """The text of a template; SpecError where it fails, or asks for too much."""
        question = json.dumps({"source": source, "values": dict(values)}).encode() + b"\n"
        with self._lock:
            process = self._started_process()
            answer = _ask(process, question, self._max_seconds)
            if answer is None:
                self._stop()
                raise SpecError(
                    f"the chat template of the model takes more than {self._max_seconds:g} s or"
                    f" {MAX_BYTES >> 20} MiB; give fewer messages, or repair the template"
                )
        table = json.loads(answer)
        if "fault" in table:
            raise SpecError(
                f"the chat template of the model refuses the messages: {table['fault']}"
            )
        return table["text"]

    def close(self) -> None:
        """End the process, if there is one."""
        with self._lock:
            self._stop()

    def _started_process(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._stop()
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(_RENDERER), str(MAX_BYTES), str(MAX_TEXT_BYTES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", "")},  # templates can see none of ours
        )
        if _read_line(self._process, MAX_START_SECONDS) is None:
            self._stop()
            raise UnsupportedError(
                "the process that renders chat templates does not start; install jinja2, as with"
                " pip install 'paribus[serve]'"
            )
        return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()


def _ask(process: subprocess.Popen[bytes], question: bytes, seconds: float) -> bytes | None:
    """A line of answer; None where none comes in time."""
    assert process.stdin is not None
    try:
        process.stdin.write(question)
        process.stdin.flush()
    except OSError:
        return None
    return _read_line(process, seconds)


def _read_line(process: subprocess.Popen[bytes], seconds: float) -> bytes | None:
    assert process.stdout is not None
    deadline = time.monotonic() + seconds
    line = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            if not selector.select(max(deadline - time.monotonic(), 0)):
                return None
            more = os.read(process.stdout.fileno(), 1 << 16)
            if not more:  # it has ended
                return None
            line += more
    return bytes(line)

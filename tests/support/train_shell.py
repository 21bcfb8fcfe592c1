"""A person at a shell: tiny runs by the command line, without starting another Python, and what
they leave behind.
"""

import contextlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from paribus.cli import main
from paribus.record.rows import CLOCK_FIELDS

COPY = {"kind": "copy", "form": "text", "n_documents": 500, "max_length": 24}
TRAINING = {
    "n_steps": 12,
    "n_sequences": 4,
    "length": 32,
    "row_every": 1,
    "valid_every": 4,
    "valid_batches": 1,
    "checkpoint_every": 4,
}
PROGRAM = "import sys; from paribus.cli import main; sys.exit(main())"


@dataclass(frozen=True)
class ShellResult:
    """What a shell gets back."""

    status: int
    out: str
    err: str


class TriggerPage(io.StringIO):
    """A page whose reader does something as soon as a line begins so."""

    def __init__(self, line: str, do: Callable[[], object]):
        super().__init__()
        self.trigger, self.action = line, do
        self.has_fired = False

    def write(self, text: str) -> int:
        if text.startswith(self.trigger) and not self.has_fired:
            self.has_fired = True
            self.action()
        return super().write(text)


def step_line(step: int) -> str:
    """How the line of a step begins, counted from 1 as people do."""
    return f"step {step:>6}"


@dataclass(frozen=True)
class TrainShell:
    """A folder to work in, with texts cached where all tests find them."""

    home: Path
    cache: Path

    def write_spec(self, corpus: dict[str, Any] | None = None, **training: Any) -> Path:
        """The file of a tiny run; fields of the corpus and of the training may be changed."""
        table = {
            "architecture": {
                "preset": "gpt2",
                "n_layers": 1,
                "d_model": 16,
                "attention": {"n_heads": 2},
            },
            "corpus": {"sources": [COPY], **(corpus or {})},
            "training": {**TRAINING, **training},
        }
        path = self.home / "run.json"
        path.write_text(json.dumps(table))
        return path

    def arguments(self, name: str | None = "run") -> list[str]:
        named = [] if name is None else ["--name", name]
        kept = ["--runs", str(self.home), "--cache", str(self.cache)]
        return ["train", str(self.home / "run.json"), "--device", "cpu", *kept, *named]

    def train(
        self, *more: str, name: str | None = "run", page: io.StringIO | None = None
    ) -> ShellResult:
        """`paribus train` with these words added."""
        out, err = page or io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main([*self.arguments(name), *more])
        assert "Traceback" not in err.getvalue()
        return ShellResult(status, out.getvalue(), err.getvalue())

    def train_or_fail(self, *more: str, name: str | None = "run") -> ShellResult:
        answer = self.train(*more, name=name)
        assert answer.status == 0, answer.err
        return answer


def rows_without_seconds(folder: Path) -> list[dict[str, Any]]:
    """The rows of a run, but for the time they took."""
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    return [
        {name: value for name, value in row.items() if name not in CLOCK_FIELDS} for row in rows
    ]


def checkpoint_steps(folder: Path) -> list[int]:
    """The steps of which a run has checkpoints; nothing else lies beside them."""
    return sorted(
        int(path.name.removeprefix("step-")) for path in (folder / "checkpoints").iterdir()
    )


def newest_tensors(folder: Path) -> dict[str, Tensor]:
    """The newest weights and the optimizer's memory of them, without counters: seconds are
    among those.
    """
    newest = folder / "checkpoints" / f"step-{checkpoint_steps(folder)[-1]:09}"
    held = load_file(newest / "weights.safetensors") | load_file(newest / "learning.safetensors")
    return {name: tensor for name, tensor in held.items() if name != "pending.counters"}


def assert_same_run(one: Path, other: Path) -> None:
    """Two runs have the same rows and the same weights, bit for bit."""
    assert rows_without_seconds(one) == rows_without_seconds(other)
    left, right = newest_tensors(one), newest_tensors(other)
    assert left.keys() == right.keys()
    assert [name for name in left if not left[name].equal(right[name])] == []

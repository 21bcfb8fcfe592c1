"""Studies for others: interrupted ones, ones that read files, and ones of several stages."""

from __future__ import annotations

import contextlib
import io
import random
from pathlib import Path
from typing import Any

import pytest
from trained_study import DESIGN_TABLE, LANGUAGES, design_table

from paribus.cli.run import run
from paribus.record import Study, existing_study
from paribus.record.run import Run
from paribus.workspace import Execution, Workspace

TWO_ARMS = {"arms.reverse": None, "seeds": 3}
CHAIN_TABLE: dict[str, Any] = {
    "question": "Does a causal model fill masks better if it may then look both ways?",
    "factor": "stages.1.architecture.mask",
    "baseline": "causal",
    "seeds": 3,
    "tune": False,
    "primary": {"measure": {"kind": "pseudo", "n_items": 9, "max_bytes": 32}, "margin": 0.5},
    "base": {
        "architecture": DESIGN_TABLE["base"]["architecture"],
        "corpus": {"sources": LANGUAGES},
        "training": {**DESIGN_TABLE["base"]["training"], "n_steps": 8, "checkpoint_every": 4},
        "stages": [{}, {"kind": "adapt", "objective": "masked"}],
    },
    "arms": {"causal": {}, "full": {"stages": {"1": {"architecture": {"mask": "full"}}}}},
}


class Interruption:
    """Ends a study in the middle, as Ctrl-C would, after so many checkpoints."""

    def __init__(self, patch: pytest.MonkeyPatch, n_checkpoints: int):
        self.n_left = n_checkpoints
        commit = Run.commit_checkpoint

        def commit_and_count(own: Run, *arguments: Any, **options: Any) -> Any:
            checkpoint = commit(own, *arguments, **options)
            self.n_left -= 1
            if self.n_left == 0:
                raise KeyboardInterrupt
            return checkpoint

        patch.setattr(Run, "commit_checkpoint", commit_and_count)


def interrupt_study(
    home: Path, cache: Path, table: dict[str, Any], name: str, n_checkpoints: int
) -> Study:
    """A study that was interrupted after so many checkpoints."""
    quiet = contextlib.redirect_stdout(io.StringIO())
    noiseless = contextlib.redirect_stderr(io.StringIO())
    with pytest.MonkeyPatch.context() as patch, quiet, noiseless:
        Interruption(patch, n_checkpoints)
        with pytest.raises(SystemExit):
            run_named(home, cache, table, name)
    return existing_study(home, name)


def run_named(home: Path, cache: Path, table: dict[str, Any], name: str) -> Study:
    """A study run to its end, in silence."""
    quiet = contextlib.redirect_stdout(io.StringIO())
    with quiet, contextlib.redirect_stderr(io.StringIO()):
        run(table, name=name, execution=Execution(Workspace(home, cache=cache, device="cpu")))
    return existing_study(home, name)


def train_on_files(home: Path, cache: Path, texts: Path) -> Study:
    """A study whose text lies in a folder of this machine, and which has a prompt."""
    texts.mkdir(parents=True)
    draw = random.Random(1)
    documents = []
    for _ in range(300):
        documents.append(" ".join(draw.choice(["ab", "ba", "aab", "bba"]) for _ in range(30)))
    (texts / "a.txt").write_text("\n\n".join(documents))
    return run_named(home, cache, file_design(str(texts)), "filed")


def file_design(path: str) -> dict[str, Any]:
    """The design of such a study, whose text lies at a path."""
    source = {"kind": "files", "paths": [path], "max_document": 256}
    changes = {**TWO_ARMS, "prompts": ["ab"], "base.corpus": {"sources": [source]}}
    return design_table(changes)

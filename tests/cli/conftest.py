"""Ask paribus as a shell would, without starting another Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from paribus.cli import main


@dataclass(frozen=True)
class CommandResult:
    status: int
    out: str
    err: str


Ask = Callable[..., CommandResult]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.chdir(tmp_path)

    def one(*words: str | Path) -> CommandResult:
        status = main([str(word) for word in words])
        captured = capsys.readouterr()
        return CommandResult(status, captured.out, captured.err)

    return one

"""Under torchrun, what a user must know stands in the summary that it prints last."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import paribus.cli
from paribus.cli import main
from paribus.cli.terminal.torchrun_summary import ERROR_FILE_VARIABLE, write_to_summary


@pytest.fixture
def error_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that torchrun has for a process."""
    path = tmp_path / "error.json"
    monkeypatch.setenv(ERROR_FILE_VARIABLE, str(path))
    return path


def summary_text(path: Path) -> str:
    return json.loads(path.read_text())["message"]["message"]


def test_the_last_that_torchrun_prints_is_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("nonsense = 3\n")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, "-m", "paribus", "train", "bad.toml", "--fsdp"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 1
    _, _, root_cause = done.stderr.partition("Root Cause")
    assert "error: nonsense is not a key here; keys are architecture, corpus" in root_cause
    assert "error: architecture is missing; name a preset, or give a table" in root_cause


@pytest.mark.parametrize(("local_rank", "is_printed"), [("0", True), ("1", False)])
def test_one_process_of_a_machine_prints_an_error_that_all_have(
    error_file: Path,
    local_rank: str,
    is_printed: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("LOCAL_RANK", local_rank)
    assert main(["trian"]) == 2
    said = capsys.readouterr().err
    assert ("'trian' is not a verb" in said) == is_printed
    assert summary_text(error_file).startswith("error: 'trian' is not a verb of paribus")


def test_an_error_that_torchrun_cannot_be_told_is_printed_by_every_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(ERROR_FILE_VARIABLE, str(tmp_path / "nowhere/error.json"))
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert main(["trian"]) == 2
    assert "'trian' is not a verb" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [ValueError, RuntimeError])
def test_a_fault_of_ours_keeps_its_traceback(
    error_file: Path, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(_: Any) -> int:
        raise kind("a mistake \x1b of ours")

    monkeypatch.setattr(paribus.cli, "_dispatch", break_down)
    with pytest.raises(kind, match="of ours"):
        main(["train"])
    text = summary_text(error_file)
    assert text.startswith("Traceback")
    assert "in break_down" in text
    assert "\x1b" not in text


def test_without_torchrun_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ERROR_FILE_VARIABLE, raising=False)
    assert not write_to_summary("anything")

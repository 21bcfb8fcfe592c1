"""Every benchmark still runs with the library as it is: as far as its own help."""

import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
PROGRAMS = sorted(path for path in FOLDER.glob("*.py") if "__main__" in path.read_text())


def test_all_files_but_those_that_are_imported_are_programs() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} - {path.name for path in PROGRAMS} == {
        "minimal_gpt.py"
    }


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_benchmark_says_how_it_is_asked(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    monkeypatch.syspath_prepend(FOLDER)  # as Python does for a program
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    assert ended.value.code == 0
    assert "usage: " in capsys.readouterr().out

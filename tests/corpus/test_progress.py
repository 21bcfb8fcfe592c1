import io

import pytest
from rich.console import Console

from paribus.corpus.progress import Progress


def test_nothing_is_said_unless_asked_for(capfd):
    progress = Progress()
    with progress.stage("reading", 3):
        progress.advance(3)
    assert capfd.readouterr() == ("", "")


def test_plain_lines_come_now_and_then(capfd, monkeypatch):
    clock = iter(range(0, 1000, 6))
    monkeypatch.setattr("paribus.corpus.progress.time.monotonic", lambda: float(next(clock)))
    progress = Progress(is_shown=True)
    with progress.stage("reading", 8):
        for _ in range(4):
            progress.advance(2)
    with progress.stage("counting", 0):
        progress.advance(1234)
        progress.advance(1)
    assert capfd.readouterr().err.splitlines() == [
        "reading: 50%",
        "reading: 100%",
        "reading: done",
        "counting: 1,235",
        "counting: done",
    ]


def test_a_terminal_gets_a_bar(monkeypatch):
    page = io.StringIO()
    monkeypatch.setattr(
        "paribus.corpus.progress.SafeConsole",
        lambda **_: Console(file=page, force_terminal=True, width=80),
    )
    progress = Progress(is_shown=True)
    with progress.stage("reading", 8):
        progress.advance(8)
    assert "reading" in page.getvalue()
    assert "100%" in page.getvalue()


def test_a_stage_that_fails_passes_its_fault_on():
    with pytest.raises(ValueError, match="inside"), Progress(is_shown=True).stage("reading", 8):
        raise ValueError("inside")

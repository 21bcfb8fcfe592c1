"""paribus demo: the whole way from a design to its page, killed and resumed."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from paribus.cli.demo import DESIGN, SCALE, best_format, n_jobs
from paribus.design import find_design
from paribus.report import formats

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r'<section aria-labelledby="times-title".*?</section>', re.DOTALL)


def started(folder: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    words = [
        sys.executable,
        "-m",
        "paribus",
        "demo",
        "--runs",
        "runs",
        "--cache",
        "../cache",
        "--device",
        "cpu",
    ]
    return subprocess.Popen(
        words, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_the_demo_has_a_control_and_enough_seeds():
    _, design = find_design(DESIGN, SCALE)
    assert (design.baseline, design.control) == ("causal", "input hidden")
    assert len(design.seeds) >= 4
    assert len(design.arms) == 3


def test_on_a_cpu_there_is_a_run_a_core():
    assert 1 <= n_jobs("cpu") <= (os.cpu_count() or 1)


def test_without_the_packages_of_a_page_the_demo_ends_in_text(monkeypatch, capsys):
    assert best_format() == "html"
    monkeypatch.setattr(formats, "find_spec", lambda name: None if name == "jinja2" else name)
    assert best_format() == "md"
    assert (
        "needs jinja2, which is not installed; run pip install 'paribus[report]'"
        in capsys.readouterr().err
    )


def struck(folder, number, n_begun, moment):
    """Killed a moment after so many runs have begun."""
    process = started(folder)
    while len(list(folder.glob("runs/*/state"))) < n_begun:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    time.sleep(moment)
    process.send_signal(number)
    process.communicate()
    return process.returncode


@pytest.mark.slow
def test_a_demo_that_was_killed_gives_the_same_page_but_for_the_times(tmp_path):
    pages, draw = [], random.Random(5)
    for name, kill in (("whole", False), ("killed", True)):
        folder = tmp_path / name
        folder.mkdir()
        if kill:
            assert struck(folder, signal.SIGKILL, 1, draw.uniform(0, 9)) == -signal.SIGKILL
            assert struck(folder, signal.SIGTERM, 4, draw.uniform(0, 9)) == 75
            assert struck(folder, signal.SIGKILL, 8, draw.uniform(0, 9)) == -signal.SIGKILL
        process = started(folder)
        told, _ = process.communicate()
        assert process.returncode == 0, told
        assert "architecture.mask" in told
        assert re.search(r'^worse +"input hidden" does worse than "causal"', told, re.MULTILINE)
        assert told.rstrip().endswith("runs/studies/bidirectional-input-laptop/report.html")
        pages.append(
            (folder / "runs/studies/bidirectional-input-laptop/report.html").read_text("utf-8")
        )
    assert BLOCK.sub("", pages[0]) == BLOCK.sub("", pages[1])

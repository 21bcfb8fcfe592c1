"""A model that no machine holds: every verb that would train it says so in a line, before
anything is made.
"""

import json
from pathlib import Path

import pytest
from trained_study import design_table

WIDE = ("--set", "base.architecture.d_model=100000")
TRAIN = {
    "architecture": {
        "preset": "gpt2",
        "n_layers": 1,
        "d_model": 100_000,
        "attention": {"n_heads": 2},
    },
    "corpus": {"sources": [{"kind": "copy", "form": "text", "n_documents": 200}]},
    "training": {"n_steps": 2, "n_sequences": 2, "length": 16},
}


def lack(what: str = "it") -> str:
    return f"architecture: training {what} needs at least "


@pytest.fixture
def design(tmp_path: Path) -> Path:
    path = tmp_path / "little.json"
    path.write_text(json.dumps(design_table()))
    return path


def test_train_refuses_it_and_makes_no_run(ask, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(TRAIN))
    told = ask("train", "run.json", "--device", "cpu", "--cache", "cache")
    assert told.status == 1
    assert told.err.splitlines()[-1].startswith(f"error: {lack()}")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("jobs", "what"), [("1", "it"), ("3", "3 such runs at once")])
def test_run_refuses_it_and_makes_no_study(
    ask, design: Path, study_cache: Path, tmp_path: Path, jobs: str, what: str
) -> None:
    told = ask("run", design, *WIDE, "--device", "cpu", "--cache", study_cache, "--jobs", jobs)
    assert told.status == 1
    assert told.err.splitlines()[-1].startswith(f"error: {lack(what)}")
    assert not (tmp_path / "runs").exists()


def test_plan_says_which_arms_cannot_be_trained_here(ask, design: Path, study_cache: Path) -> None:
    told = ask("plan", design, *WIDE, "--device", "cpu", "--cache", study_cache)
    assert told.status == 0, told.err
    noted = [line for line in told.out.splitlines() if lack() in line]
    assert [line.split()[:2] for line in noted] == [
        ["note", f"{arm}:"] for arm in ("full", "reverse", "causal")
    ]

"""A study is the same study wherever its design and its text lie."""

import json
from pathlib import Path

import pytest

import paribus as pb
from paribus.record import run_address
from paribus.spec.run import addressed_stages
from paribus.workspace import Workspace

TEXT = "\n\n".join(
    f"Line {number} of a small text that is long enough to be held out." for number in range(300)
)


def written(folder: Path) -> Path:
    """A design beside its text."""
    folder.mkdir()
    (folder / "notes.txt").write_text(TEXT)
    base = {
        "architecture": {
            "preset": "gpt2",
            "n_layers": 1,
            "d_model": 8,
            "attention": {"n_heads": 2},
        },
        "corpus": {"sources": [{"kind": "files", "paths": "notes.txt", "max_document": 128}]},
        "training": {"n_steps": 3, "n_sequences": 2, "length": 32},
    }
    design = {
        "question": "?",
        "baseline": "with",
        "seeds": 3,
        "tune": False,
        "factor": "architecture.positions",
        "primary": {"measure": {"kind": "halves", "n_items": 3, "max_bytes": 40}},
        "base": base,
        "arms": {
            "with": {"architecture": {"positions": "rotary"}},
            "without": {"architecture": {"positions": "none"}},
        },
    }
    path = folder / "mine.json"
    path.write_text(json.dumps(design))
    return path


def test_a_plan_and_its_runs_have_the_same_names_wherever_the_design_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = written(tmp_path / "here"), written(tmp_path / "there")
    monkeypatch.chdir(here.parent)
    plans = [
        pb.plan(source, workspace=Workspace(tmp_path / "runs", cache=tmp_path / "cache"))
        for source in ("mine.json", there)
    ]
    assert plans[0].fingerprint == plans[1].fingerprint
    chains = [
        addressed_stages(plan.arms[0].run, [plan.arms[0].dataset.fingerprint]) for plan in plans
    ]
    assert chains[0] != chains[1]  # the record says where the text lay
    assert run_address(chains[0]) == run_address(chains[1])

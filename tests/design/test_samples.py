"""What a report shows beside rows is made when a study ends, and again the same."""

from pathlib import Path

import pytest
import torch

import paribus as pb
from paribus.cli.plan import plan
from paribus.design.samples import write_study_samples
from paribus.record import existing_study
from paribus.record.samples import read_item_texts, read_samples
from paribus.workspace import Execution, Workspace

DESIGN = {
    "question": "Does it see?",
    "factor": "architecture.mask",
    "baseline": "causal",
    "seeds": 3,
    "tune": False,
    "primary": {"measure": {"kind": "halves", "n_items": 6, "max_bytes": 48}},
    "prompts": ["koba laba"],
    "base": {
        "architecture": {
            "preset": "gpt2",
            "positions": "rotary",
            "n_layers": 2,
            "d_model": 16,
            "attention": {"n_heads": 2},
        },
        "corpus": {"sources": [{"kind": "translation", "n_documents": 400, "form": "text"}]},
        "objective": "prefix",
        "training": {
            "n_steps": 60,
            "n_sequences": 8,
            "length": 64,
            "warmup": 2,
            "row_every": 10,
            "valid_every": 20,
            "checkpoint_every": 60,
            "optimizer": {"rate": 0.02},
        },
    },
    "arms": {
        "causal": {"architecture": {"mask": "causal"}},
        "prefix": {"architecture": {"mask": "prefix"}},
    },
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("shown")
    pb.run(
        DESIGN, execution=Execution(Workspace(root / "runs", cache=root / "cache", device="cpu"))
    )
    return root


def test_every_arm_goes_on_from_every_prompt(root):
    (sample,) = read_samples(existing_study(root / "runs", "design"))
    assert sample.prompt == "koba laba"
    assert sorted(sample.continuations) == ["causal", "prefix"]
    assert all(sample.continuations.values())


def test_the_telling_items_are_kept_with_their_text(root):
    kept = read_item_texts(existing_study(root / "runs", "design"))
    assert len(kept) == 6
    assert all(item.context and item.target for item in kept.values())


def test_they_are_made_again_the_same(root):
    study = existing_study(root / "runs", "design")
    before = read_samples(study), read_item_texts(study)
    write_study_samples(
        plan(DESIGN, workspace=Workspace(cache=root / "cache", device="cpu")),
        study,
        torch.device("cpu"),
    )
    assert (read_samples(study), read_item_texts(study)) == before


def test_an_arm_that_never_trained_says_so(root):
    study = existing_study(root / "runs", "design")
    for cell in study.read_cells():
        if cell.arm == "prefix":
            (root / "runs" / cell.run / "state").write_text("failed: DivergedError: nan\n")
    write_study_samples(
        plan(DESIGN, workspace=Workspace(cache=root / "cache", device="cpu")),
        study,
        torch.device("cpu"),
    )
    (sample,) = read_samples(study)
    assert sample.refusals == {
        "prefix": "none of its runs trained; there is nothing to sample from"
    }
    assert read_item_texts(study) == {}

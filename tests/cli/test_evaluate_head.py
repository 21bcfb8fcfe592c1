"""A run with a head measured from the command line."""

import json
from pathlib import Path

import pytest
from labelled_texts import write_labelled

SPEC = """
architecture = { preset = "gpt2", n_layers = 1, d_model = 16, attention = { n_heads = 2 } }
corpus = { sources = [{ kind = "labelled", paths = "texts.jsonl" }], valid = 0.2, test = 0.2 }
objective = { kind = "labels", n_labels = 2 }
training = { n_steps = 4, n_sequences = 4, length = 16, valid_batches = 1 }
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "run.toml").write_text(SPEC)
    write_labelled(tmp_path / "texts.jsonl")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_a_head_is_asked_for_the_labels_of_its_test_split(ask, here: Path) -> None:
    done = ask("train", "run.toml", "--name", "first", "--device", "cpu")
    assert done.status == 0, done.err
    assert "texts are longer than 15 tokens: their ends are left out" in done.out
    told = ask("evaluate", "first", "--device", "cpu")
    assert told.status == 0, told.err
    heading, row = told.out.splitlines()
    headings = "head split step items accuracy Matthews macro F1 uniform majority"
    assert " ".join(heading.split()) == headings
    assert row.split()[:3] == ["labels", "test", "4"]
    assert "texts are longer than the window and lost their ends" in told.err
    assert ask("evaluate", "first", "--device", "cpu").out == told.out
    table = json.loads(ask("evaluate", "first", "--set", "split=valid", "--json").out)
    assert table["task"]["split"] == "valid"
    assert table["summary"]["accuracy"] == table["score"]
    assert len(list((here / "runs/first/evaluations").iterdir())) == 2
    refused = ask("evaluate", "first", "--items", "3")
    assert refused.status == 2
    assert "n_items is given, but a head is asked for every label" in refused.err
    other = ask("evaluate", "first", "--yardstick", "pairs")
    assert other.status == 2
    assert "its head gives labels; measure the labels" in other.err

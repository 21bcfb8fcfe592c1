"""A run measured from the command line and in a notebook."""

import json
import re
import shutil
from pathlib import Path

import pytest

import paribus as pb

SPEC = """
architecture = { preset = "gpt2", n_layers = 1, d_model = 16, attention = { n_heads = 2 } }
corpus = { sources = [{ kind = "copy", form = "text", n_documents = 400 }] }
training = { n_steps = 2, n_sequences = 4, length = 32, valid_batches = 1 }
"""
MASKED = ("--set", "objective=masked", "--set", "architecture.mask=full")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "run.toml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def trained(ask, name: str, *words: str) -> None:
    done = ask("train", "run.toml", "--name", name, "--device", "cpu", *words)
    assert done.status == 0, done.err


def test_a_run_is_measured_and_read_again(ask, here: Path) -> None:
    trained(ask, "first")
    words = ("evaluate", "first", "--device", "cpu", "--set", "max_bytes=40")
    told = ask(*words)
    assert told.status == 0, told.err
    heading, row = told.out.splitlines()
    headings = "yardstick label objective step items bytes nats bits per byte unigram contexts cut"
    assert " ".join(heading.split()) == headings
    assert row.split()[:5] == ["halves", "likelihood", "causal", "2", "16"]
    assert "note: 200 items were asked for, but the held-out text has only 16" in told.err
    assert "16 of 16 contexts are longer than the window" in told.err
    assert ask(*words).out == told.out
    assert len(list((here / "runs/first/evaluations").iterdir())) == 1


def test_numbers_are_exact_for_other_programs_and_in_a_notebook(ask, here: Path) -> None:
    trained(ask, "first")
    told = json.loads(
        ask("evaluate", "runs/first", "--items", "3", "--set", "max_bytes=20", "--json").out
    )
    made = pb.evaluate_run("first", {"max_bytes": 20, "n_items": 3})
    assert told["n_items"] == len(made.answers) == 3
    assert told["nats_sum"] == pytest.approx(sum(answer.nats for answer in made.answers))
    assert told["items"] == made.head.items
    assert {"bits_per_byte", "n_bytes", "unigram_nats", "label", "step"} <= told.keys()
    assert told["untrained"] is (told["nats_sum"] > told["unigram_nats"])


def test_what_fills_masks_is_measured_by_pseudo_likelihood_and_told_so(ask, here: Path) -> None:
    trained(ask, "filler", *MASKED)
    told = ask("evaluate", "filler", "--items", "2", "--set", "max_bytes=20")
    assert told.status == 0, told.err
    row = told.out.splitlines()[1].split()
    assert row[:3] == ["pseudo", "pseudo-likelihood", "masked"]
    assert 0 < float(row[-2]) < float(row[-3])  # two steps do not beat the unigram model
    assert "note: untrained: it does worse than a unigram model over its own tokens" in told.err
    refused = ask("evaluate", "filler", "--yardstick", "halves")
    assert refused.status == 2
    assert "which gives no likelihood of a target after its context" in refused.err


def test_a_record_of_before_chance_was_kept_is_shown_without_it(ask, here: Path) -> None:
    trained(ask, "filler", *MASKED)
    words = ("evaluate", "filler", "--items", "2", "--set", "max_bytes=20")
    before = ask(*words).out.splitlines()[1].split()
    (path,) = (here / "runs/filler/evaluations").iterdir()
    path.write_text(re.sub(r'"unigram_nats":[^,]+', '"unigram_nats":null', path.read_text()))
    refused = ask(*words)
    assert refused.status == 1
    assert (
        "is not what was written (sha256 differs); remove it, and the same command measures again"
        in refused.err
    )
    (here / "runs/filler/checksums.jsonl").unlink()  # nor were checksums kept then
    assert ask(*words).out.splitlines()[1].split() == [*before[:-2], "–", before[-1]]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("nobody",), 1, "holds no run; `paribus runs` lists the runs"),
        (("first", "--yardstick", "pairs"), 2, "yardstick.kind is 'pairs', which needs pairs"),
        (("first", "--yardstick", "half"), 2, "yardstick.kind is 'half'; did you mean 'halves'?"),
        (
            ("first", "--set", "max_byte=9"),
            2,
            "yardstick.max_byte is not a key here; did you mean 'max_bytes'?",
        ),
        (("first",), 1, "which leaves no room for a context in a window of 32"),
        (("first", "--device", "cudda"), 1, "device is 'cudda', which this machine does not have"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    ask, here: Path, words: tuple[str, ...], status: int, message: str
) -> None:
    trained(ask, "first")
    refused = ask("evaluate", *words)
    assert (refused.status, "Traceback" in refused.err) == (status, False)
    assert message in refused.err


def test_text_that_has_changed_is_said_so(ask, here: Path) -> None:
    trained(ask, "first")
    path = here / "runs/first/spec.json"
    path.write_text(path.read_text().replace('"text": "', '"text": "0'))
    told = ask("evaluate", "first", "--items", "2", "--set", "max_bytes=20")
    assert told.status == 0, told.err
    assert (
        "the text is not the text that the run was trained on: its sources have changed" in told.err
    )


def test_a_run_whose_checkpoints_are_gone_says_that_it_has_none(ask, here: Path) -> None:
    trained(ask, "first")
    shutil.rmtree(here / "runs/first/checkpoints")
    for given in ("first", "runs/first"):
        refused = ask("evaluate", given)
        assert refused.status == 1
        assert refused.err.endswith(
            "runs/first has no complete checkpoint; train it further, or if it has finished, remove"
            " its folder and make it again\n"
        )

"""A run from the command line: trained, listed, spoken with, interrupted, and refused."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SPEC = """
architecture = { preset = "gpt2", n_layers = 1, d_model = 16, attention = { n_heads = 2 } }
corpus = { sources = [{ kind = "copy", form = "text", n_documents = 500 }] }
[training]
n_steps = 6
n_sequences = 4
length = 32
row_every = 2
valid_batches = 1
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "run.toml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_a_run_is_trained_listed_and_spoken_with(ask, here: Path) -> None:
    trained = ask("train", "run.toml", "--name", "first")
    assert trained.status == 0, trained.err
    assert "step      6  nats" in trained.out
    assert all(
        line.endswith(" % of peak") for line in trained.out.splitlines() if line.startswith("step ")
    )
    assert trained.out.splitlines()[-1] == "6 steps: runs/first"
    again = ask("train", "run.toml", "--name", "first")
    assert "note: it was finished before; nothing was done" in again.out
    listed = ask("runs").out
    assert "first  finished  causal     causal     6   6" in listed
    assert json.loads(ask("runs", "--json").out)[0]["last"]["step"] == 5
    said = ask("generate", "first", "abc", "--tokens", "5", "--temperature", "1")
    assert said.status == 0, said.err


def test_the_same_spec_finds_its_own_run_and_another_makes_another(ask, here: Path) -> None:
    first = ask("train", "run.toml").out.splitlines()[-1]
    other = ask("train", "run.toml", "--set", "objective=prefix").out.splitlines()[-1]
    assert first == ask("train", "run.toml").out.splitlines()[-1]
    assert first != other


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--set", "training.n_step=3"),
            "training.n_step is not a key here; did you mean 'n_steps'?",
        ),
        (
            ("--set", "corpus.sources=[{kind='files'}]"),
            "corpus.sources.0.paths is missing; give it a value",
        ),
        (("--set", "objective=maskd"), "objective.kind is 'maskd'; did you mean 'masked'?"),
        (("--set", "objective=seq2seq"), "objective.kind is 'seq2seq', which needs pairs"),
        (
            ("--set", "architecture.mask=full"),
            "position 0 must predict the token at 1, but it can see it",
        ),
        (
            ("--set", "architecture.n_vocab=99"),
            "architecture.n_vocab is 99, but the tokenizer and our special tokens need 363",
        ),
        (
            ("--set", "training.n_micro_batches=3"),
            "training.n_micro_batches is 3, which does not divide n_sequences 4",
        ),
        (("--set", "architecture.n_heads=3"), "architecture.n_heads is not a key here"),
        (("--device", "cudda"), "device is 'cudda', which this machine does not have; use cpu"),
        (("--name", "../out"), "the run name '../out' cannot be the name of a folder"),
        (("--name", ""), "the run name '' cannot be the name of a folder"),
        (
            ("--name", "studies"),
            "the run name 'studies' is the name of the folder of studies",
        ),
        (("--runs", ""), "error: --runs is empty; name a folder, such as '.', or leave it out"),
        (("--cache", ""), "error: --cache is empty; name a folder, such as '.', or leave it out"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_it_starts(
    ask, here: Path, words: tuple[str, ...], message: str
) -> None:
    refused = ask("train", "run.toml", *words)
    assert refused.status in (1, 2)
    assert message in refused.err
    assert "Traceback" not in refused.err


def test_a_design_is_sent_to_the_command_that_runs_it(ask, here: Path) -> None:
    (here / "mine.toml").write_text('question = "why?"\nbase = "run.toml"\n')
    refused = ask("train", "mine.toml")
    assert refused.status == 2
    said = "error: mine.toml is a design, which has many runs; use `paribus run mine.toml`"
    assert refused.err.strip() == said


def test_a_run_that_is_not_there_is_said_so(ask, here: Path) -> None:
    assert "holds no run; `paribus runs` lists the runs" in ask("generate", "nobody", "hello").err
    assert "no runs in runs" in ask("runs").out


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_the_run_and_the_same_command_goes_on(
    here: Path, number: int, status: int
) -> None:
    words = [
        "train",
        "run.toml",
        "--name",
        "long",
        "--set",
        "training.n_steps=3000",
        "--set",
        "training.row_every=1",
    ]
    program = "import sys; from paribus.cli import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    while not process.stdout.readline().startswith("step"):
        assert process.poll() is None
    time.sleep(0.1)
    process.send_signal(number)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == status
    saved = max((here / "runs/long/checkpoints").glob("step-*"))
    assert (here / "runs/long/state").read_text().startswith("running")
    done = int(saved.name.removeprefix("step-"))
    rows = (here / "runs/long/rows.jsonl").read_text().splitlines()
    assert json.loads(rows[-1])["step"] == done
    told = f"note: interrupted: step {done + 1} of 3000 is saved; the same command resumes"
    assert said.splitlines()[-1] == told


def test_a_gradient_that_is_not_finite_stops_the_run_and_keeps_the_state_before_it(
    ask, here: Path
) -> None:
    words = (
        "--name",
        "wild",
        "--set",
        "training.optimizer.rate=1e30",
        "--set",
        "training.n_steps=20",
    )
    stopped = ask("train", "run.toml", *words)
    assert stopped.status == 1
    assert (
        "the gradient of step 1 is not finite, on global batch 1; the state before it is saved"
        in stopped.err
    )
    assert [place.name for place in (here / "runs/wild/checkpoints").iterdir()] == [
        "step-000000000"
    ]
    assert (here / "runs/wild/state").read_text().startswith("failed: DivergedError")


def test_a_last_update_that_breaks_the_weights_ends_the_run_as_diverged(ask, here: Path) -> None:
    words = (
        "--name",
        "wild",
        "--set",
        "training.optimizer.rate=1e38",
        "--set",
        "training.n_steps=1",
    )
    stopped = ask("train", "run.toml", *words)
    assert stopped.status == 1
    assert "after step 0" in stopped.err
    assert "; there is no checkpoint; lower the rate" in stopped.err
    assert list((here / "runs/wild/checkpoints").iterdir()) == []
    assert "wild  failed: DivergedError: " in ask("runs").out


def test_runs_that_are_damaged_are_listed_with_what_is_wrong(ask, here: Path) -> None:
    assert ask("train", "run.toml", "--name", "whole").status == 0
    for name, content in (("rows.jsonl", "garbage\n"), ("spec.json", "{}"), ("state", "dancing")):
        damaged = here / "runs" / name.partition(".")[0]
        shutil.copytree(here / "runs/whole", damaged)
        (damaged / name).write_text(content)
    lines = ask("runs").out.splitlines()
    states = {"rows": "finished, damaged", "spec": "finished, damaged", "state": "stopped, damaged"}
    for line, (name, state) in zip(lines[1:4], states.items(), strict=True):
        assert line.startswith(f"{name:<5}  {state}  ")
    assert lines[4].startswith("whole  finished           causal")
    assert lines[5].startswith("rows: runs/rows/rows.jsonl, last line is not JSON: ")
    assert lines[6].startswith("spec: runs/spec/spec.json is not a list of stages; restore it")
    assert lines[7].startswith("state: runs/state/state holds 'dancing'; restore it")
    assert len(lines) == 8


def test_widths_that_a_preset_keeps_are_told(ask, here: Path) -> None:
    wide = SPEC.replace('"gpt2"', '"t5-v1.1"').replace("n_steps = 6", "n_steps = 1")
    (here / "wide.toml").write_text(wide.replace("corpus =", 'objective = "prefix"\ncorpus ='))
    told = ask("train", "wide.toml", "--set", "architecture.encoder.n_layers=1")
    assert told.status == 0, told.err
    assert (
        "note: d_model is 16, and t5-v1.1 has 768; d_head 64 and d_ff 2048 stay as t5-v1.1 has them"
        in told.out
    )
    quiet = ask("train", "run.toml", "--set", "training.n_steps=1")
    assert "d_model is" not in quiet.out

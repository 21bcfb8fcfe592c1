"""Ranks are invisible: two gloo processes under DDP are, bit for bit, one that works through
the same two parts.

Rows, weights and the optimizer's memory are compared, through the command line, over objectives and
an expert model.
"""

import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from paribus.errors import SpecError
from paribus.spec.training import Training
from paribus.train.ranks import Ranks

SPEC = """
objective = "{objective}"

[architecture]
preset = "{preset}"
n_layers = 2
d_model = 32
dropout = 0.1
{more}

[corpus]
sources = [{{ kind = "copy", form = "{form}", n_documents = 600, max_length = 24 }}]

[training]
n_steps = 12
n_sequences = 6
n_micro_batches = 2
length = 48
row_every = 3
valid_every = 6
valid_batches = 1
checkpoint_every = 5
warmup = 5
"""
CHAIN = """
[architecture]
preset = "gpt2"
n_layers = 2
d_model = 32
attention = {{ n_heads = 2 }}

[corpus]
sources = [{{ kind = "copy", form = "text", n_documents = 600, max_length = 24 }}]

[training]
n_steps = 6
n_sequences = 4
n_micro_batches = 2
length = 64
row_every = 3
valid_every = 3
valid_batches = 1
checkpoint_every = 6

[[stages]]
kind = "pretrain"
{stages}
"""
INSTRUCT = """
[[stages]]
kind = "instruct"
objective = "seq2seq"
corpus.sources = [{ kind = "copy", form = "conversations", n_documents = 600, max_length = 24 }]
"""
PREFER = """
[[stages]]
kind = "prefer"
objective = "preference"
corpus.sources = [{ kind = "copy", form = "preferences", n_documents = 600, max_length = 24 }]
"""
LABELS = """
[[stages]]
kind = "tune"
objective = { kind = "labels", n_labels = 4 }
corpus = { sources = [{ kind = "labelled", paths = "labelled.csv" }], test = 0.1 }
"""
CHAINS = {"preferences": INSTRUCT + PREFER, "a head": LABELS}
HEADS = "attention = { n_heads = 2 }"
EXPERTS = (
    "attention = { n_heads = 2, d_latent = 16, d_query_latent = 16, d_content = 8, d_rotary = 8,"
    " d_value = 16 }\nfeed_forward = { n_experts = 8, n_active = 2, d_expert = 16, n_dense_layers ="
    " 1, d_ff = 32, router = { n_groups = 1, n_active_groups = 1 } }"
)
CASES = [
    ("gpt2", "causal", HEADS),
    ("deepseek-v3", "causal", EXPERTS),
    ("unilm", "prefix", HEADS),
    ("t5", "seq2seq", f"{HEADS}\nencoder = {{ n_layers = 1 }}"),
]
DIVERGING = {
    "1e30": "the held-out loss after step 0 is not finite",
    "1e38": " is not finite after step 0",
}
# One process works through all runs: importing torch takes longer than training one of them.
TRAIN = """
import json, os, sys
from pathlib import Path
from paribus.cli import main

results = []
for port, arguments in json.loads(sys.argv[1]):
    os.environ["MASTER_PORT"] = port
    for stream, end in ((sys.stdout, "out"), (sys.stderr, "err")):
        os.dup2(os.open(f"{sys.argv[2]}.{end}", os.O_CREAT | os.O_TRUNC | os.O_WRONLY),
                stream.fileno())
    status = main(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    results.append([status, *(Path(f"{sys.argv[2]}.{end}").read_text() for end in ("out", "err"))])
Path(f"{sys.argv[2]}.json").write_text(json.dumps(results))
"""


@dataclass(frozen=True)
class Result:
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str


def specs() -> dict[str, str]:
    """Every run that is trained, by its name."""
    texts = {}
    for preset, objective, more in CASES:
        form = "pairs" if objective == "seq2seq" else "text"
        texts[preset] = SPEC.format(preset=preset, objective=objective, more=more, form=form)
    for name, stages in CHAINS.items():
        texts[name] = CHAIN.format(stages=stages)
    return texts


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def train_all(n: int, home: Path, jobs: dict[str, list[str]]) -> dict[str, list[Result]]:
    """The same commands as so many ranks, or without any word of ranks as one: by the name of each
    job, the result of each rank.
    """
    home.mkdir()
    commands = []
    for name, words in jobs.items():
        kept = ["--cache", str(home.parent / "cache"), "--device", "cpu"]
        command = ["train", *words, *kept, "--name", "run", "--runs", str(home / name)]
        commands.append((free_port(), command))
    started = []
    for rank in range(n):
        told = {"WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1"}
        told |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **(told if n > 1 else {})}
        program = [sys.executable, "-c", TRAIN, json.dumps(commands), str(home / f"rank{rank}")]
        started.append(subprocess.Popen(program, env=environment))
    statuses = [process.wait(timeout=240) for process in started]
    faults = [(home / f"rank{rank}.err").read_text() for rank in range(n)]
    assert statuses == [0] * n, faults
    by_rank = [json.loads((home / f"rank{rank}.json").read_text()) for rank in range(n)]
    results = {}
    for job, *own in zip(jobs, *by_rank, strict=True):
        results[job] = [Result(*result) for result in own]
    return results


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all specs and runs."""
    folder = tmp_path_factory.mktemp("ranks")
    for name, text in specs().items():
        (folder / f"{name}.toml").write_text(text)
    lines = [f"{number} is a number,{number % 4}" for number in range(600)]
    (folder / "labelled.csv").write_text("\n".join(["text,label", *lines]))
    return folder


@pytest.fixture(scope="module")
def alone(home: Path) -> dict[str, list[Result]]:
    """Every run as one process makes it."""
    return train_all(1, home / "one", {name: [str(home / f"{name}.toml")] for name in specs()})


@pytest.fixture(scope="module")
def together(home: Path, alone: dict[str, list[Result]]) -> dict[str, list[Result]]:
    """Every run as two ranks make it, and those that diverge."""
    jobs = {name: [str(home / f"{name}.toml")] for name in specs()}
    for rate in DIVERGING:
        jobs[rate] = [
            str(home / "gpt2.toml"),
            "--set",
            f"training.optimizer.rate={rate}",
            "--set",
            "training.warmup=0",
            "--set",
            "training.valid_every=1",
        ]
    return train_all(2, home / "two", jobs)


def rows(folder: Path) -> list[dict[str, object]]:
    lines = (folder / "rows.jsonl").read_text().splitlines()
    return [
        {name: value for name, value in json.loads(line).items() if name != "seconds"}
        for line in lines
    ]


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    newest = sorted((folder / "checkpoints").iterdir())[-1]
    held = load_file(newest / "weights.safetensors") | load_file(newest / "learning.safetensors")
    return {name: tensor for name, tensor in held.items() if name != "pending.counters"}


def require_same_runs(one: Path, two: Path) -> None:
    assert rows(one) == rows(two)
    mine, theirs = tensors(one), tensors(two)
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize("preset", [preset for preset, *_ in CASES])
def test_two_ranks_are_one_process_with_two_parts(
    preset: str, home: Path, alone: dict[str, list[Result]], together: dict[str, list[Result]]
) -> None:
    (one,), (first, second) = alone[preset], together[preset]
    assert (one.status, first.status, second.status) == (0, 0, 0)
    assert one.out.splitlines()[-1].startswith("12 steps: ")
    assert first.out.splitlines()[-1].startswith("12 steps: ")
    assert second.out == ""  # the rank that leads speaks for all
    two = home / "two" / preset / "run"
    require_same_runs(home / "one" / preset / "run", two)
    assert json.loads((two / "environment.json").read_text())[0]["device"] == "2 × cpu"


@pytest.mark.parametrize("name", CHAINS)
def test_two_ranks_train_a_chain_as_one_process_does(
    name: str, home: Path, alone: dict[str, list[Result]], together: dict[str, list[Result]]
) -> None:
    (one,), (first, second) = alone[name], together[name]
    assert (one.status, first.status, second.status) == (0, 0, 0)
    assert second.out == ""
    stages = sorted(path.name for path in (home / "one" / name).iterdir())
    assert stages == sorted(path.name for path in (home / "two" / name).iterdir())
    assert len(stages) == 1 + CHAINS[name].count("[[stages]]")
    for stage in stages:
        require_same_runs(home / "one" / name / stage, home / "two" / name / stage)


@pytest.mark.parametrize("rate", DIVERGING)
def test_ranks_whose_run_diverges_stop_together(
    rate: str, together: dict[str, list[Result]]
) -> None:
    results = together[rate]
    assert [result.status for result in results] == [1, 1]
    for result in results:
        assert DIVERGING[rate] in result.err
        assert "Traceback" not in result.err
    assert [result.out == "" for result in results] == [False, True]


def test_ranks_share_a_batch_in_equal_parts_no_larger_than_asked() -> None:
    training = Training(n_steps=1, n_sequences=24, n_micro_batches=3)
    assert [Ranks(0, size).n_micro_batches(training) for size in (1, 2, 4, 24)] == [3, 4, 4, 24]
    with pytest.raises(
        SpecError,
        match="n_sequences is 24, which 5 ranks cannot share equally; use a multiple of 5",
    ):
        Ranks(0, 5).n_micro_batches(training)

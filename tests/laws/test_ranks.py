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
corpus = { sources = [{ kind = "python-labels" }], test = 0.1 }
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
MARKED = [
    pytest.param(*case, id=case[0], marks=[pytest.mark.slow] * (case[0] == "unilm"))
    for case in CASES
]
TRAIN = "import sys; from paribus.cli import main; sys.exit(main(sys.argv[1:]))"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def processes(n: int, home: Path, *arguments: str) -> list[subprocess.Popen[str]]:
    """The same command as so many ranks, or without any word of ranks as one."""
    command = [
        sys.executable,
        "-c",
        TRAIN,
        "train",
        str(home / "spec.toml"),
        "--name",
        "run",
        *arguments,
    ]
    port = str(free_port())
    common = {**os.environ, "OMP_NUM_THREADS": "1"}
    told = {"WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ranks = [
        {**told, "RANK": str(rank), "LOCAL_RANK": str(rank)} if n > 1 else {} for rank in range(n)
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return [subprocess.Popen(command, env={**common, **rank}, **pipes) for rank in ranks]


def done(started: list[subprocess.Popen[str]]) -> list[str]:
    said = [process.communicate(timeout=240) for process in started]
    assert [process.returncode for process in started] == [0] * len(started), said
    return [out for out, _ in said]


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


@pytest.mark.parametrize(("preset", "objective", "more"), MARKED)
def test_two_ranks_are_one_process_with_two_parts(
    preset: str, objective: str, more: str, tmp_path: Path
) -> None:
    form = "pairs" if objective == "seq2seq" else "text"
    (tmp_path / "spec.toml").write_text(
        SPEC.format(preset=preset, objective=objective, more=more, form=form)
    )
    cache = ["--cache", str(tmp_path / "cache"), "--device", "cpu"]
    (alone,) = done(processes(1, tmp_path, *cache, "--runs", str(tmp_path / "one")))
    first, second = done(processes(2, tmp_path, *cache, "--runs", str(tmp_path / "two")))
    assert alone.splitlines()[-1].startswith("12 steps: ")
    assert first.splitlines()[-1].startswith("12 steps: ")
    assert second == ""  # the rank that leads speaks for all
    one, two = tmp_path / "one/run", tmp_path / "two/run"
    assert rows(one) == rows(two)
    mine, theirs = tensors(one), tensors(two)
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert json.loads((two / "environment.json").read_text())[0]["device"] == "2 × cpu"


@pytest.mark.parametrize("name", CHAINS)
def test_two_ranks_train_a_chain_as_one_process_does(name: str, tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(CHAIN.format(stages=CHAINS[name]))
    cache = ["--cache", str(tmp_path / "cache"), "--device", "cpu"]
    done(processes(1, tmp_path, *cache, "--runs", str(tmp_path / "one")))
    _, second = done(processes(2, tmp_path, *cache, "--runs", str(tmp_path / "two")))
    assert second == ""
    stages = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert stages == sorted(path.name for path in (tmp_path / "two").iterdir())
    assert len(stages) == 1 + CHAINS[name].count("[[stages]]")
    for stage in stages:
        one, two = tmp_path / "one" / stage, tmp_path / "two" / stage
        assert rows(one) == rows(two)
        mine, theirs = tensors(one), tensors(two)
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        ("1e30", "the held-out loss after step 0 is not finite"),
        ("1e38", " is not finite after step 0"),
    ],
)
def test_ranks_whose_run_diverges_stop_together(rate: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(
        SPEC.format(preset="gpt2", objective="causal", more=HEADS, form="text")
    )
    words = [
        "--set",
        f"training.optimizer.rate={rate}",
        "--set",
        "training.warmup=0",
        "--set",
        "training.valid_every=1",
    ]
    kept = ["--cache", str(tmp_path / "cache"), "--device", "cpu", "--runs", str(tmp_path)]
    started = processes(2, tmp_path, *kept, *words)
    told = [process.communicate(timeout=240) for process in started]
    assert [process.returncode for process in started] == [1, 1]
    assert all(said in err and "Traceback" not in err for _, err in told), told
    assert [out == "" for out, _ in told] == [False, True]


def test_ranks_share_a_batch_in_equal_parts_no_larger_than_asked() -> None:
    training = Training(n_steps=1, n_sequences=24, n_micro_batches=3)
    assert [Ranks(0, size).n_micro_batches(training) for size in (1, 2, 4, 24)] == [3, 4, 4, 24]
    with pytest.raises(
        SpecError,
        match="n_sequences is 24, which 5 ranks cannot share equally; use a multiple of 5",
    ):
        Ranks(0, 5).n_micro_batches(training)

"""A resumed run is the same run: killed at any moment and resumed, its rows and weights equal the uninterrupted one's.

Bit for bit, on CPU at the same thread count. Every second kill waits for a checkpoint being written, shown by the
temporary folder it leaves.
"""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

PROGRAM = """
import sys
from pathlib import Path
import torch
from paribus.corpus import build
from paribus.spec.run import load_run
from paribus.train.loop import train
torch.set_num_threads(1)
home = Path(sys.argv[1])
spec = load_run({
    "architecture": {"preset": "gpt2", "n_layers": 2, "d_model": 32, "dropout": 0.1, "attention": {"n_heads": 2}},
    "corpus": {"sources": [{"kind": "copy", "form": "text", "n_documents": 2000, "max_length": 24}]},
    "objective": sys.argv[2],
    "training": {"n_steps": 90, "n_sequences": 6, "n_parts": 2, "length": 48, "row_every": 3, "valid_every": 15,
                 "valid_batches": 1, "checkpoint_every": 4, "warmup": 5},
})
corpus = build(spec.stages[0].corpus, home / "cache", False)
print("ready", flush=True)
outcome = train(spec, corpus, home / sys.argv[3], device=torch.device("cpu"), name="run")
print(*outcome.notes, sep="\\n")
"""


def started(home: Path, root: str, objective: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, str(home), objective, root]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line == "ready\n", process.communicate()[1]
    return process


def finished(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def killed(process: subprocess.Popen[str], checkpoints: Path, draw: random.Random, in_checkpoint: bool) -> bool:
    """Kill it, at once or inside a checkpoint write; whether it was still running, and a draft was left."""
    time.sleep(draw.uniform(0.0, 0.4))
    while in_checkpoint and process.poll() is None and not list(checkpoints.glob(".tmp-*")):
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return bool(list(checkpoints.glob(".tmp-*")))


def told(folder: Path) -> list[dict[str, object]]:
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def same(home: Path, objective: str, n_kills: int, seed: int) -> None:
    finished(started(home, "whole", objective))
    draw, drafts = random.Random(seed), 0
    for number in range(n_kills):
        process = started(home, "torn", objective)
        in_checkpoint = number % 2 == 0 or drafts == 0
        drafts += killed(process, home / "torn/run/checkpoints", draw, in_checkpoint)
    finished(started(home, "torn", objective))
    assert drafts >= n_kills / 5
    whole, torn = home / "whole/run", home / "torn/run"
    assert told(torn) == told(whole)
    for name in ("weights.safetensors", "learning.safetensors"):
        one, other = (load_file(folder / "checkpoints/step-000000089" / name) for folder in (whole, torn))
        assert one.keys() == other.keys()
        for key in one:
            if key != "pending.counters":  # seconds are among them
                assert one[key].equal(other[key]), key


def test_five_kills_change_nothing(tmp_path: Path) -> None:
    same(tmp_path, "causal", 5, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["masked", "spans", "continuation", "prefix", "causal"])
def test_fifty_kills_change_nothing(objective: str, tmp_path: Path) -> None:
    same(tmp_path, objective, 10, seed=2)

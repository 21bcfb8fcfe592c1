"""What NVIDIA's MPS gives a study whose runs share one GPU.

    python benchmarks/mps.py --files books.tar.xz

The same study is run with MPS and with --no-mps, in turn, each time in a new folder; rounds swap
the order. Before the first round a study of short runs compiles the code. Nothing else should run
on the machine meanwhile. The speed is that of all runs at a time together: --jobs times the tokens
of the last four fifths of each run's steps, over the seconds that they took without compiling.
Every round of jobs should be full, so --jobs divides three times --seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from paribus.record import read_rows
from paribus.record.file_names import ROWS_FILE

LENGTH = 256
ARMS = {
    "causal": {},
    "prefix": {"architecture": {"mask": "prefix"}},
    "input hidden": {"architecture": {"mask": "causal & same_side"}},
}
SHARE = 0.8  # of the steps of a run, the last ones, that are timed
N_FIRST_STEPS = 60  # of the runs that only compile


@dataclass(frozen=True)
class Measurement:
    """A study that was run once."""

    tokens_per_second: float
    seconds: float  # of the whole command


def design_of(asked: argparse.Namespace, n_steps: int) -> dict[str, object]:
    source: dict[str, object] = {"kind": "python-docs"}
    if asked.files:
        source = {"kind": "files", "paths": [str(Path(asked.files).absolute())]}
    return {
        "question": "How fast are runs that share a GPU?",
        "factor": "architecture.mask",
        "baseline": "causal",
        "control": "input hidden",
        "seeds": list(range(1, asked.seeds + 1)),
        "tune": False,
        "primary": {"measure": {"kind": "halves", "n_items": 100, "max_bytes": 512}},
        "base": {
            "architecture": {
                "preset": "gpt2",
                "positions": "rotary",
                "n_layers": asked.layers,
                "d_model": asked.width,
                "attention": {"n_heads": asked.width // 32},
            },
            "objective": "prefix",
            "corpus": {"sources": [source], "tokenizer": {"kind": "bpe", "n_vocab": 3989}},
            "training": {
                "n_steps": n_steps,
                "n_sequences": asked.sequences,
                "length": LENGTH,
                "warmup": n_steps // 10,
                "optimizer": {"rate": 2e-3},
                "row_every": max(1, n_steps // 20),
                "valid_every": n_steps,
                "checkpoint_every": n_steps,
            },
        },
        "arms": ARMS,
    }


def run_study(folder: Path, asked: argparse.Namespace, n_steps: int, *more: str) -> Measurement:
    """Runs the study from the beginning, in a new folder."""
    folder.mkdir()
    design = folder / "design.json"
    design.write_text(json.dumps(design_of(asked, n_steps)))
    command = [sys.executable, "-m", "paribus", "run", str(design), "--runs", str(folder / "runs")]
    command += ["--name", "shared-gpu", "--cache", str(asked.cache), "--jobs", str(asked.jobs)]
    if asked.device:
        command += ["--device", asked.device]
    begin = time.perf_counter()
    done = subprocess.run([*command, *more], text=True, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    seconds = time.perf_counter() - begin
    return Measurement(asked.jobs * tokens_per_second(folder / "runs"), seconds)


def tokens_per_second(runs: Path) -> float:
    """The mean speed of a run, over all that lie in a folder."""
    tokens, seconds = 0.0, 0.0
    for path in sorted(runs.glob(f"*/{ROWS_FILE}")):
        rows = read_rows(path).rows
        last = rows[-1]
        first = next(row for row in rows if row["step"] >= (1 - SHARE) * last["step"])
        tokens += last["tokens_read"] - first["tokens_read"]
        seconds += last["seconds"] - first["seconds"]
        seconds -= last.get("compile_seconds", 0) - first.get("compile_seconds", 0)
    return tokens / seconds


def print_spread(name: str, values: list[float], unit: str) -> None:
    """The median, and the range."""
    middle, low, high = map(rounded, (median(values), min(values), max(values)))
    print(f"{name}: {middle} {unit} ({low} to {high})")


def rounded(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--sequences", type=int, default=64, help="of a batch")
    parser.add_argument("--files", default=None, help="text; Python's documentation if left out")
    parser.add_argument("--device", default=None)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "paribus-mps")
    asked = parser.parse_args()
    if len(ARMS) * asked.seeds % asked.jobs:
        parser.error(f"--jobs must divide the {len(ARMS) * asked.seeds} runs of a study")
    with_mps: list[Measurement] = []
    without: list[Measurement] = []
    with tempfile.TemporaryDirectory(prefix="paribus-mps-") as place:
        run_study(Path(place) / "first", asked, min(N_FIRST_STEPS, asked.steps))
        print(f"compiled; load {os.getloadavg()[0]:.1f}", flush=True)
        for number in range(asked.rounds):
            order = [("--no-mps", without), ("", with_mps)]
            if number % 2:
                order.reverse()
            for option, kept in order:
                folder = Path(place) / f"{number}{option}"
                found = run_study(folder, asked, asked.steps, *filter(None, [option]))
                kept.append(found)
                speed, seconds = rounded(found.tokens_per_second), rounded(found.seconds)
                print(f"{option or 'MPS'}: {speed} tokens/s, {seconds} s", flush=True)
    for name, kept in (("without MPS", without), ("with MPS", with_mps)):
        print_spread(name, [one.tokens_per_second for one in kept], "tokens/s")
        print_spread(name, [one.seconds for one in kept], "s for the whole command")
    pairs = zip(with_mps, without, strict=True)
    ratios = [own.tokens_per_second / other.tokens_per_second for own, other in pairs]
    print_spread("ratio of speeds", ratios, "times")


if __name__ == "__main__":
    main()

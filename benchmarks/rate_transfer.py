"""Does the best learning rate stay where it is as a model gets wider? The standard initialisation
against μP, every width at the same rates.

    python benchmarks/rate_transfer.py --widths 32 64 --sequences 4 --tokens 200000   # on a CPU
    python benchmarks/rate_transfer.py --device cuda --jobs 8 --files books.tar.xz   # on a GPU

Models have 4 layers and heads of 32, and predict the next token. Each run is a run of paribus, kept
under --runs: the same command goes on where it stopped. A parabola goes through the losses on
validation text at the best rate and at two on either side of it, in log₂ rate; how far its vertex
moves from the narrowest width is printed in octaves, with a 95 % interval.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import hypot, inf
from pathlib import Path
from statistics import fmean
from typing import Any

import paribus as pb
from paribus.analyse.rate_fit import RateFit, fit_rates
from paribus.design.compiled_cache import compile_threads, compile_variables
from paribus.design.mps import shared_gpu
from paribus.record.file_names import ROWS_FILE, STATE_FILE
from paribus.record.rows import last_row
from paribus.record.state import read_state

INITS = {"standard": "normal", "mup": "mup"}
D_HEAD, N_LAYERS, LENGTH = 32, 4, 256
STEP = 2**0.5  # from one rate to the next
N_BESIDE = 2  # rates on either side of the best that the parabola goes through
WARMUP_SHARE = 0.2


@dataclass(frozen=True)
class Trial:
    """One run: how it begins, how wide it is, and its rate."""

    init: str
    width: int
    rate: float
    seed: int

    def tables(self, asked: argparse.Namespace) -> dict[str, Any]:
        """The run's spec."""
        n_steps = max(10, round(asked.tokens / (asked.sequences * LENGTH)))
        source = {"kind": "python-docs"}
        if asked.files:
            source = {"kind": "files", "paths": [str(Path(asked.files).absolute())]}
        return {
            "architecture": {
                "preset": "gpt2",
                "positions": "rotary",
                "n_layers": N_LAYERS,
                "d_model": self.width,
                "attention": {"n_heads": self.width // D_HEAD},
                "init": INITS[self.init],
            },
            "corpus": {"sources": [source], "tokenizer": {"kind": "bpe", "n_vocab": 3989}},
            "objective": "causal",
            "training": {
                "n_steps": n_steps,
                "n_sequences": asked.sequences,
                "length": LENGTH,
                "warmup": max(1, round(WARMUP_SHARE * n_steps)),
                "optimizer": {"rate": self.rate},
                "seed": self.seed,
                "data_seed": self.seed,
                "valid_every": n_steps,
                "checkpoint_every": n_steps,
            },
        }


def train(trial: Trial, asked: argparse.Namespace) -> float:
    """The loss on validation text at the end; inf where it diverged."""
    workspace = pb.Workspace(runs=asked.runs, cache=asked.cache, device=asked.device)
    outcome = pb.train_run(trial.tables(asked), workspace=workspace)
    last = last_row(outcome.folder / ROWS_FILE)
    state = read_state(outcome.folder / STATE_FILE)
    if state is None or state.status != "finished" or last is None:
        return inf
    return last["valid_nats"]


def fit(losses: Mapping[float, list[float]]) -> RateFit | None:
    """The parabola about the best rate; None where that is at an end of the grid."""
    finite = {rate: own for rate, own in losses.items() if max(own) < inf}
    rates = sorted(finite)
    best = rates.index(min(rates, key=lambda rate: fmean(finite[rate])))
    if best in (0, len(rates) - 1):
        return None
    near = rates[max(0, best - N_BESIDE) : best + N_BESIDE + 1]
    return fit_rates({rate: finite[rate] for rate in near})


def print_transfer(losses: Mapping[Trial, float], widths: list[int]) -> None:
    """Losses by rate, the vertex of each width, and how far it moved."""
    for init in INITS:
        fits: dict[int, RateFit | None] = {}
        for width in widths:
            own: dict[float, list[float]] = {}
            for trial, loss in losses.items():
                if (trial.init, trial.width) == (init, width):
                    own.setdefault(trial.rate, []).append(loss)
            cells = "  ".join(f"{rate:.2g}: {fmean(own[rate]):.4f}" for rate in sorted(own))
            print(f"{init}, width {width}: {cells}")
            fits[width] = fit(own)
        first = fits[widths[0]]
        for width, found in fits.items():
            if found is None or found.vertex is None:
                print(f"{init}, width {width}: the best rate is at an end of the grid")
                continue
            text = f"{init}, width {width}: best rate {2**found.vertex:.3g}"
            if width != widths[0] and first is not None and first.vertex is not None:
                moved = found.vertex - first.vertex
                half = hypot(found.half_width, first.half_width)
                ends = f"{moved - half:+.2f} to {moved + half:+.2f}"
                text += f"; moved by {moved:+.2f} octaves ({ends if half < inf else 'no interval'})"
            print(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 256, 512])
    parser.add_argument("--rate", type=float, default=8e-3, help="in the middle of the grid")
    parser.add_argument("--rates", type=int, default=7)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=10_000_000)
    parser.add_argument("--sequences", type=int, default=64, help="of a batch")
    parser.add_argument("--files", default=None, help="text; Python's documentation if left out")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default=None)
    parser.add_argument("--runs", type=Path, default=Path("runs/rate-transfer"))
    parser.add_argument("--cache", type=Path, default=None)
    asked = parser.parse_args()
    grid = [asked.rate * STEP**place for place in range(-(asked.rates // 2), asked.rates // 2 + 1)]
    trials = [
        Trial(init, width, float(f"{rate:.4g}"), seed)
        for seed in range(1, asked.seeds + 1)
        for width in asked.widths
        for init in INITS
        for rate in grid
    ]
    pb.build_corpus({"corpus": trials[0].tables(asked)["corpus"]}, cache=asked.cache)
    cache = pb.Workspace(cache=asked.cache).cache_folder
    n_threads = compile_threads(os.cpu_count() or 1, asked.jobs)
    with shared_gpu() as variables:
        os.environ.update(variables | compile_variables(cache, n_threads, os.environ))
        os.environ["OMP_NUM_THREADS"] = "1"
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(asked.jobs, context) as pool:
            found = pool.map(train, trials, [asked] * len(trials))
            losses = dict(zip(trials, found, strict=True))
    print_transfer(losses, asked.widths)


if __name__ == "__main__":
    main()

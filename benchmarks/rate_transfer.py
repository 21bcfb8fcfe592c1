"""Where is the best learning rate, as a model gets wider, and as it reads more? The standard
initialisation against μP, every width and duration at the same rates.

    python benchmarks/rate_transfer.py --widths 32 64 --sequences 4 --tokens 200000   # on a CPU
    python benchmarks/rate_transfer.py --device cuda --jobs 8 --files books.tar.xz   # on a GPU

Models have heads of 32. Each run is a run of paribus, kept under --runs: the same command goes on
where it stopped. For each seed, a parabola goes through the losses on validation text at the rate
that is best over all seeds and at two on either side of it, in log₂ rate. Where the best rate is
near an end of the grid, rates are added there. A vertex is the best rate of its seed. Ratios to the
narrowest width, and of durations to the one before, are paired by seed: their mean is printed with
a 95 % t interval.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Iterable
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any

import paribus as pb
from paribus.analyse.interval import MIN_SEEDS, interval
from paribus.analyse.rate_fit import fit_rates
from paribus.design.compiled_cache import compile_threads, compile_variables
from paribus.design.mps import shared_gpu
from paribus.record.file_names import ROWS_FILE, STATE_FILE
from paribus.record.rows import last_row
from paribus.record.state import read_state

INITS = {"standard": "normal", "mup": "mup"}
D_HEAD, LENGTH = 32, 256
STEP = 2**0.5  # from one rate to the next
N_BESIDE = 2  # rates on either side of the best that the parabola goes through
MAX_ROUNDS = 4  # of rates that are added to the grid
WARMUP_SHARE = 0.2


@dataclass(frozen=True)
class Setting:
    """What has one best rate."""

    init: str
    width: int
    tokens: int

    def __str__(self) -> str:
        return f"{self.init}, width {self.width}, {self.tokens / 1e6:g}M tokens"


@dataclass(frozen=True)
class Trial:
    """One run: its setting, rate and seed. Rates are the grid's middle times STEP^place."""

    setting: Setting
    place: int
    seed: int

    def rate(self, asked: argparse.Namespace) -> float:
        return float(f"{asked.rate * STEP**self.place:.4g}")

    def tables(self, asked: argparse.Namespace) -> dict[str, Any]:
        """The run's spec."""
        width = self.setting.width
        n_steps = max(10, round(self.setting.tokens / (asked.sequences * LENGTH)))
        source = {"kind": "python-docs"}
        if asked.files:
            source = {"kind": "files", "paths": [str(Path(asked.files).absolute())]}
        return {
            "architecture": {
                "preset": "gpt2",
                "positions": "rotary",
                "n_layers": asked.layers,
                "d_model": width,
                "attention": {"n_heads": width // D_HEAD},
                "init": INITS[self.setting.init],
            },
            "corpus": {"sources": [source], "tokenizer": {"kind": "bpe", "n_vocab": 3989}},
            "objective": asked.objective,
            "training": {
                "n_steps": n_steps,
                "n_sequences": asked.sequences,
                "length": LENGTH,
                "warmup": max(1, round(asked.warmup * n_steps)),
                "optimizer": {"rate": self.rate(asked)},
                "seed": self.seed,
                "data_seed": self.seed,
                "valid_every": n_steps,
                "checkpoint_every": n_steps,
            },
        }


Losses = dict[int, dict[int, float]]  # of one setting: by the place of the rate, then by seed


def train(trial: Trial, asked: argparse.Namespace) -> float:
    """The loss on validation text at the end; inf where it diverged."""
    workspace = pb.Workspace(runs=asked.runs, cache=asked.cache, device=asked.device)
    outcome = pb.train_run(trial.tables(asked), workspace=workspace)
    last = last_row(outcome.folder / ROWS_FILE)
    state = read_state(outcome.folder / STATE_FILE)
    if state is None or state.status != "finished" or last is None:
        return inf
    return last["valid_nats"]


def mean_loss(losses: Losses, place: int) -> float:
    return fmean(losses[place].values())


def best_place(losses: Losses) -> int:
    return min(losses, key=lambda place: mean_loss(losses, place))


def missing_places(losses: Losses) -> list[int]:
    """The places to be tried: two on either side of the best one must be there."""
    best = best_place(losses)
    return [place for place in range(best - N_BESIDE, best + N_BESIDE + 1) if place not in losses]


def best_rates(losses: Losses, asked: argparse.Namespace) -> list[float] | None:
    """log₂ of the best rate of each seed; None where a seed has none, because its losses do not
    bend upward or the best rate is at an end of those that did not diverge.
    """
    best = best_place(losses)
    near = {
        place: own
        for place, own in losses.items()
        if abs(place - best) <= N_BESIDE and max(own.values()) < inf
    }
    if not {best - 1, best, best + 1} <= near.keys():
        return None
    vertices: list[float] = []
    for seed in losses[best]:
        own = {asked.rate * STEP**place: [near[place][seed]] for place in near}
        vertex = fit_rates(own).vertex
        if vertex is None:
            return None
        vertices.append(vertex)
    return vertices


def train_all(
    trials: Iterable[Trial],
    asked: argparse.Namespace,
    pool: Executor,
    losses: dict[Setting, Losses],
) -> None:
    """Adds the loss of each trial to those of its setting. The longest runs begin first."""
    work = sorted(trials, key=lambda one: one.setting.tokens * one.setting.width, reverse=True)
    for trial, loss in zip(work, pool.map(train, work, [asked] * len(work)), strict=True):
        losses.setdefault(trial.setting, {}).setdefault(trial.place, {})[trial.seed] = loss


def print_losses(losses: dict[Setting, Losses], asked: argparse.Namespace) -> None:
    for setting, own in losses.items():
        cells = [
            f"{asked.rate * STEP**place:.2g}: {mean_loss(own, place):.4f}" for place in sorted(own)
        ]
        print(f"{setting}: {'  '.join(cells)}")


def print_best(setting: Setting, own: list[float] | None) -> None:
    """The best rate of a setting: the geometric mean over seeds, and their range."""
    if own is None:
        print(f"{setting}: a seed has no best rate among those that were tried")
        return
    low, high = 2 ** min(own), 2 ** max(own)
    print(f"{setting}: best rate {2 ** fmean(own):.3g} (seeds {low:.3g} to {high:.3g})")


def print_ratio(name: str, own: list[float] | None, first: list[float] | None) -> None:
    """How far the best rate moves between two settings, paired by seed."""
    if own is None or first is None:
        print(f"{name}: no ratio")
        return
    moved = [one - other for one, other in zip(own, first, strict=True)]
    ends = f"no interval below {MIN_SEEDS} seeds"
    if len(moved) >= MIN_SEEDS:
        low, high = interval(moved)
        ends = f"{2**low:.3g} to {2**high:.3g}"
    print(f"{name}: {2 ** fmean(moved):.3g} ({ends})")


def print_transfer(losses: dict[Setting, Losses], asked: argparse.Namespace) -> None:
    """The best rate of each width and duration, and its ratio to that of another."""
    rates = {setting: best_rates(own, asked) for setting, own in losses.items()}
    for setting, own in rates.items():
        print_best(setting, own)
    narrowest, *wider = asked.widths
    for init in asked.inits:
        for tokens in asked.tokens:
            first = rates[Setting(init, narrowest, tokens)]
            for width in wider:
                setting = Setting(init, width, tokens)
                print_ratio(f"{setting}, over width {narrowest}", rates[setting], first)
        for width in asked.widths:
            for before, tokens in pairwise(asked.tokens):
                setting, shorter = Setting(init, width, tokens), Setting(init, width, before)
                print_ratio(
                    f"{setting}, over {before / 1e6:g}M tokens", rates[setting], rates[shorter]
                )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inits", choices=INITS, nargs="+", default=list(INITS))
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 256, 512])
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--objective", choices=["causal", "prefix"], default="causal")
    parser.add_argument("--rate", type=float, default=8e-3, help="in the middle of the grid")
    parser.add_argument("--rates", type=int, default=7)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tokens", type=int, nargs="+", default=[10_000_000])
    parser.add_argument("--sequences", type=int, default=64, help="of a batch")
    parser.add_argument("--warmup", type=float, default=WARMUP_SHARE, help="share of the steps")
    parser.add_argument("--files", default=None, help="text; Python's documentation if left out")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default=None)
    parser.add_argument("--runs", type=Path, default=Path("runs/rate-transfer"))
    parser.add_argument("--cache", type=Path, default=None)
    return parser.parse_args()


def main() -> None:
    asked = parse_arguments()
    seeds = range(1, asked.seeds + 1)
    settings = [
        Setting(init, width, tokens)
        for init in asked.inits
        for width in sorted(asked.widths)
        for tokens in sorted(asked.tokens)
    ]
    asked.widths, asked.tokens = sorted(asked.widths), sorted(asked.tokens)
    places: dict[Setting, list[int]] = {}
    for setting in settings:
        places[setting] = list(range(-(asked.rates // 2), asked.rates // 2 + 1))
    first = Trial(settings[0], 0, 1)
    pb.build_corpus({"corpus": first.tables(asked)["corpus"]}, cache=asked.cache)
    cache = pb.Workspace(cache=asked.cache).cache_folder
    n_threads = compile_threads(os.cpu_count() or 1, asked.jobs)
    losses: dict[Setting, Losses] = {}
    with shared_gpu() as variables:
        os.environ.update(variables | compile_variables(cache, n_threads, os.environ))
        os.environ["OMP_NUM_THREADS"] = "1"
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(asked.jobs, context) as pool:
            for _ in range(1 + MAX_ROUNDS):
                trials = [
                    Trial(setting, place, seed)
                    for setting, own in places.items()
                    for place in own
                    for seed in seeds
                ]
                train_all(trials, asked, pool, losses)
                places = {setting: missing_places(losses[setting]) for setting in settings}
                print_losses(losses, asked)
                if not any(places.values()):
                    break
    print_transfer(losses, asked)


if __name__ == "__main__":
    main()

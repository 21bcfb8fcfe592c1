"""Training on one GPU against a minimal compiled GPT, architectures against each other, and a small model's real loop.

    python benchmarks/train_cuda.py             # 124M: d=768, 12 layers, T=1024, 50,304 words, batch 32, bf16

The row against the minimal GPT first shows both losses over 20 steps from the same weights on the same batches: it is
void if they part by more than 1e-3. Then rounds are interleaved: every side takes a few steps in turn. A step includes
reading, posing, the transfer, clipping and the schedule; a round ends with its row, the one place where the host asks.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from pathlib import Path

import torch

from minimal_gpt import twin
from paribus.corpus import Built
from paribus.corpus import build as build_corpus
from paribus.model import build
from paribus.objectives import Problem, keeps_documents
from paribus.record import read_rows
from paribus.spec import Architecture, Flops, load, price, resolve
from paribus.spec.corpus import N_SIGNS, BytePairs, Corpus, PythonDocs
from paribus.spec.objectives import CausalLM, Continuation, MaskedLM, Objective, PrefixLM
from paribus.spec.run import RunSpec, Stage
from paribus.spec.training import Training
from paribus.train import replay
from paribus.train.learner import Learner
from paribus.train.lesson import Lessons
from paribus.train.loop import train
from paribus.train.schedule import rate_at

DEVICE = torch.device("cuda")
N_WORDS, LENGTH, N_SEQUENCES, N_STEPS = 50304, 1024, 32, 100_000
N_TOLD = 24_000  # words of the embedded text; the table has N_WORDS rows all the same
STEPS = 10  # of a round
WARM = 60  # before the first round: every split of a prefix has come up and been captured
EXPERTS = {"kind": "experts", "n_experts": 8, "n_active": 2, "n_shared": 1, "d_expert": 1024,
           "router": {"scores": "sigmoid", "bias_rate": 0.001}, "balance": "sequence"}  # fmt: skip
GATED = {"kind": "dense", "gated": True, "activation": "silu", "d_ff": 3072}


def gpt(**changes: object) -> Architecture:
    return load("gpt2", n_vocab=N_WORDS, max_length=LENGTH, changes=changes)


ROWS: dict[str, tuple[Callable[[], Architecture], Objective]] = {
    "causal": (lambda: gpt(), CausalLM()),
    "prefix": (lambda: gpt(mask="prefix"), PrefixLM()),
    "encoder-only": (lambda: gpt(mask="full"), MaskedLM()),
    "encoder-decoder": (lambda: gpt(n_layers=6, encoder={"n_layers": 6}), Continuation(rate=0.5)),
    "BART": (lambda: load("bart", n_vocab=N_WORDS, max_length=LENGTH), Continuation(rate=0.5)),
    "dense, gated": (lambda: gpt(feed_forward=GATED), CausalLM()),
    "experts": (lambda: gpt(feed_forward=EXPERTS), CausalLM()),
}


@dataclass
class Side:
    """Something that takes steps."""

    name: str
    step: Callable[[int, list[Problem]], torch.Tensor]
    ahead: Iterator[list[Problem]]
    k: int = 0

    def steps(self, n: int) -> tuple[float, float]:
        """Seconds and tokens of n steps, and their row."""
        tokens, losses = 0, []
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(n):
            parts = next(self.ahead)
            losses.append(self.step(self.k, parts))
            tokens += sum(_read(part) for part in parts)
            self.k += 1
        torch.stack(losses).tolist()
        return time.perf_counter() - begin, tokens


def _read(part: Problem) -> int:
    source = part.inputs.source
    return part.inputs.tokens_BT.numel() + (0 if source is None else source.tokens_BT.numel())


def text() -> Built:
    corpus = Corpus(sources=(PythonDocs(),), tokenizer=BytePairs(n_vocab=N_TOLD))
    return build_corpus(corpus, Path.home() / ".cache" / "paribus", show_progress=False)


def stage(built: Built, objective: Objective) -> Stage:
    training = Training(n_steps=N_STEPS, n_sequences=N_SEQUENCES, length=LENGTH, warmup=200, optimizer={"rate": 3e-4})
    return Stage(corpus=built.corpus, objective=objective, training=training)


def ours(name: str, built: Built) -> Side:
    architecture, objective = ROWS[name]
    model = build(architecture(), seed=1, device=DEVICE)
    asked = stage(built, objective)
    lessons = Lessons(built, asked, model.encoder is not None, keeps_documents(model.spec), pinned=True)
    learner = Learner(model, asked.training, built.vocabulary)

    def step(k: int, parts: list[Problem]) -> torch.Tensor:
        sums = learner.step(k, parts)
        return sums.nats_sum / sums.target_count

    return Side(name, step, lessons.ahead(0, N_STEPS))


def minimal(built: Built) -> Side:
    model = twin(build(gpt(), seed=1, device=DEVICE), LENGTH)
    asked = stage(built, CausalLM())
    given = asked.training.optimizer
    lessons = Lessons(built, asked, False, False, pinned=True)
    no_decay = [p for name, p in model.named_parameters() if p.dim() < 2 or "places" in name]
    decay = [p for name, p in model.named_parameters() if p.dim() == 2 and "places" not in name]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": given.decay}, {"params": no_decay, "weight_decay": 0.0}],
        lr=given.rate, betas=(given.beta1, given.beta2), eps=given.eps, fused=True,
    )  # fmt: skip
    compiled = torch.compile(model)

    def step(k: int, parts: list[Problem]) -> torch.Tensor:
        (problem,) = parts
        told = (problem.inputs.tokens_BT, problem.targets_BM, problem.weights_BM)
        tokens, targets, weights = (tensor.to(DEVICE, non_blocking=True) for tensor in told)
        targets = torch.where(weights > 0, targets, -100)
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), given.clip or float("inf"))
        for group in optimizer.param_groups:
            group["lr"] = rate_at(k, asked.training)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return Side("minimal", step, lessons.ahead(0, N_STEPS))


def agree(first: Side, second: Side) -> None:
    """Both sides' losses over 20 steps: a row is void if they part."""
    a, b = ([side.step(k, next(side.ahead)).item() for k in range(20)] for side in (first, second))
    first.k = second.k = 20
    parted = max(abs(one - other) for one, other in zip(a, b, strict=True))
    print(
        f"losses of 20 steps, {a[0]:.4f} … {a[-1]:.4f} and {b[0]:.4f} … {b[-1]:.4f}, part by {parted:.1e}", flush=True
    )
    if parted > 1e-3:
        print("VOID", flush=True)


def measured(sides: list[Side], rounds: int) -> dict[str, list[float]]:
    """Tokens a second of each round of each side, one after another."""
    for side in sides:
        began = time.perf_counter()
        side.steps(WARM)
        print(f"  {side.name}: first {WARM} steps {time.perf_counter() - began:.0f} s", flush=True)
    speeds: dict[str, list[float]] = {side.name: [] for side in sides}
    for _ in range(rounds):
        for side in sides:
            seconds, tokens = side.steps(STEPS)
            speeds[side.name].append(tokens / seconds)
    return speeds


def compared(sides: list[Side], against: str, rounds: int) -> None:
    speeds = measured(sides, rounds)
    print(f"\n| | tokens/s | × {against} | quartiles |\n|---|---|---|---|")
    for side in sides:
        ratios = [own / other for own, other in zip(speeds[side.name], speeds[against], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(
            f"| {side.name} | {statistics.median(speeds[side.name]):,.0f} | {middle:.3f} | {low:.3f}–{high:.3f} |",
            flush=True,
        )


def held(name: str) -> float:
    """GiB that a process of its own holds on the device after a few steps of one side."""
    command = [sys.executable, __file__, "--held", name]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def flops(name: str) -> Flops:
    """Training FLOPs of a text of this row."""
    spec = ROWS[name][0]()
    lengths = (LENGTH // 2, LENGTH // 2) if spec.encoder is not None else (LENGTH, None)
    return price(resolve(spec), *lengths, 0).training


def small_loop(built: Built, n_captured: int) -> float:
    """Tokens a second of the whole loop, d=256, 4 layers, T=256, batch 32: the median of its later rows."""
    replay.MOST = n_captured
    training = Training(
        n_steps=1200, n_sequences=32, length=256, row_every=50, valid_every=1200, valid_batches=1, checkpoint_every=1200
    )
    spec = load("gpt2", n_layers=4, d_model=256, n_heads=4, n_vocab=4096, max_length=256)
    stages = (Stage(corpus=built.corpus, objective=CausalLM(), training=training),)
    with tempfile.TemporaryDirectory() as root:
        folder = train(RunSpec(architecture=spec, stages=stages), built, Path(root), device=DEVICE).folder
        rows = list(read_rows(folder / "rows.jsonl").rows)
    pairs = pairwise(rows[9:])
    return statistics.median((b["tokens_read"] - a["tokens_read"]) / (b["seconds"] - a["seconds"]) for a, b in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--rows", nargs="*", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--held", help=argparse.SUPPRESS)
    parser.add_argument("--no-small", action="store_true", help="leave the small model's loop out")
    wanted = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    if wanted.held:
        built = text()
        side = minimal(built) if wanted.held == "minimal" else ours(wanted.held, built)
        side.steps(8)
        print(torch.cuda.max_memory_reserved() / 2**30)
        return
    print(f"{date.today()}, {torch.cuda.get_device_name()}, torch {torch.__version__}, bf16")
    built = text()
    first = minimal(built)
    sides = [first, *(ours(name, built) for name in wanted.rows)]
    if wanted.rows[0] == "causal":
        agree(first, sides[1])
    compared(sides, first.name, wanted.rounds)
    print("\nGiB held: " + ", ".join(f"{name} {held(name):.1f}" for name in ("minimal", "causal")), flush=True)
    for name in wanted.rows:
        own, causal = flops(name), flops("causal")
        dense, visible = own.dense / causal.dense, own.visible / causal.visible
        print(f"{name}: {dense:.3f} × the dense, {visible:.3f} × the visible FLOPs of causal a token")
    if not wanted.no_small:
        words = Corpus(tokenizer=BytePairs(n_vocab=4096 - N_SIGNS))
        small = build_corpus(words, Path.home() / ".cache" / "paribus", show_progress=False)
        for name, limit in (("replayed", replay.MOST), ("launched", 0)):
            print(f"small model, whole loop, {name}: {small_loop(small, limit):,.0f} tokens/s", flush=True)


if __name__ == "__main__":
    main()

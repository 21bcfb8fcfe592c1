"""Training on one GPU against a minimal compiled GPT, architectures against each other, and a
small model's real loop.

    python benchmarks/train_cuda.py           # 124M: d=768, 12 layers, T=1024, batch 32, bf16
    python benchmarks/train_cuda.py --modes   # what determinism costs; no minimal GPT
    python benchmarks/train_cuda.py --noise   # how far apart the same small run ends, made again

The row against the minimal GPT first shows both losses over 20 steps from the same weights on the
same batches: it is void if they part by more than 1e-3. Then rounds are interleaved: every side
takes a few steps in turn. A step includes reading, posing, the transfer, clipping and the schedule;
a round ends with its row, the one place where the host asks.

Every architecture is trained in both modes, `training.deterministic` true and false, in turn: what
the first costs is the ratio of the two, round by round.
"""

from __future__ import annotations

import argparse
import fcntl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from pathlib import Path

import torch

from minimal_gpt import twin
from paribus.corpus import TokenisedCorpus
from paribus.corpus import prepare_corpus as build_corpus
from paribus.model import build
from paribus.objectives import Problem, separates_documents
from paribus.record import read_rows
from paribus.spec import Architecture, Flops, load, price, resolve
from paribus.spec.corpus import N_SPECIAL_TOKENS, BPETokenizer, Corpus, PythonDocs
from paribus.spec.objectives import CausalLM, Continuation, MaskedLM, Objective, PrefixLM
from paribus.spec.run import RunSpec, Stage
from paribus.spec.training import AdamW, Training
from paribus.train import cuda_graph
from paribus.train.learner import Learner
from paribus.train.loader import ProblemLoader
from paribus.train.loop import train
from paribus.train.schedule import learning_rate_at
from paribus.workspace import Workspace

DEVICE = torch.device("cuda")
N_WORDS, LENGTH, N_SEQUENCES, N_STEPS = 50304, 1024, 32, 100_000
N_TOLD = 24_000  # words of the embedded text; the table has N_WORDS rows all the same
STEPS = 10  # of a round
WARM = 60  # before the first round: every split of a prefix has come up and been captured
EXPERTS = {
    "kind": "experts",
    "n_experts": 8,
    "n_active": 2,
    "n_shared": 1,
    "d_expert": 1024,
    "router": {"scores": "sigmoid", "bias_rate": 0.001},
    "balance": "sequence",
}
FREE = ", not deterministic"  # after the name of a side
SMALL, SMALL_STEPS = "small causal", 200  # d=256, 4 layers, T=256; steps of its rounds
LIMITS = {"causal": 0.97, SMALL: 0.99}  # what determinism may cost: of the speed without it
LIMIT = 0.95  # of all others
N_RUNS, N_NOISE_STEPS = 3, 150  # of one seed, to see how far apart they end
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
    n_steps: int = STEPS  # of a round

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


def text() -> TokenisedCorpus:
    corpus = Corpus(sources=(PythonDocs(),), tokenizer=BPETokenizer(n_vocab=N_TOLD))
    return build_corpus(corpus, Path.home() / ".cache" / "paribus", show_progress=False)


def small_text() -> TokenisedCorpus:
    words = Corpus(tokenizer=BPETokenizer(n_vocab=4096 - N_SPECIAL_TOKENS))
    return build_corpus(words, Path.home() / ".cache" / "paribus", show_progress=False)


def small_gpt(**changes: object) -> Architecture:
    return load(
        "gpt2", n_layers=4, d_model=256, n_heads=4, n_vocab=4096, max_length=256, changes=changes
    )


def stage(
    built: TokenisedCorpus, objective: Objective, length: int = LENGTH, deterministic: bool = True
) -> Stage:
    training = Training(
        n_steps=N_STEPS,
        n_sequences=N_SEQUENCES,
        length=length,
        warmup=200,
        optimizer=AdamW(rate=3e-4),
        deterministic=deterministic,
    )
    return Stage(corpus=built.spec, objective=objective, training=training)


def ours(name: str, built: TokenisedCorpus, deterministic: bool = True) -> Side:
    architecture, objective = ROWS[name]
    asked = stage(built, objective, deterministic=deterministic)
    return learning(name if deterministic else name + FREE, architecture(), asked, built)


def small(built: TokenisedCorpus, deterministic: bool) -> Side:
    asked = stage(built, CausalLM(), 256, deterministic)
    side = learning(SMALL if deterministic else SMALL + FREE, small_gpt(), asked, built)
    side.n_steps = SMALL_STEPS
    return side


def learning(name: str, architecture: Architecture, asked: Stage, built: TokenisedCorpus) -> Side:
    model = build(architecture, seed=1, device=DEVICE)
    lessons = ProblemLoader(
        built, asked, model.encoder is not None, separates_documents(model.spec), pin_memory=True
    )
    learner = Learner(model, asked.training, built.vocabulary)

    def step(k: int, parts: list[Problem]) -> torch.Tensor:
        sums = learner.step(k, parts)
        return sums.nats_sum / sums.target_count

    return Side(name, step, lessons.prefetch(0, N_STEPS))


def minimal(built: TokenisedCorpus) -> Side:
    model = twin(build(gpt(), seed=1, device=DEVICE), LENGTH)
    asked = stage(built, CausalLM())
    given = asked.training.optimizer
    assert isinstance(given, AdamW)
    lessons = ProblemLoader(built, asked, False, False, pin_memory=True)
    no_decay = [p for name, p in model.named_parameters() if p.dim() < 2 or "places" in name]
    decay = [p for name, p in model.named_parameters() if p.dim() == 2 and "places" not in name]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": given.decay}, {"params": no_decay, "weight_decay": 0.0}],
        lr=given.rate,
        betas=(given.beta1, given.beta2),
        eps=given.eps,
        fused=True,
    )
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
            group["lr"] = learning_rate_at(k, asked.training)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return Side("minimal", step, lessons.prefetch(0, N_STEPS))


def agree(first: Side, second: Side) -> None:
    """Both sides' losses over 20 steps: a row is void if they part."""
    a, b = ([side.step(k, next(side.ahead)).item() for k in range(20)] for side in (first, second))
    first.k = second.k = 20
    parted = max(abs(one - other) for one, other in zip(a, b, strict=True))
    print(
        f"losses of 20 steps, {a[0]:.4f} … {a[-1]:.4f} and {b[0]:.4f} … {b[-1]:.4f}, part by"
        f" {parted:.1e}",
        flush=True,
    )
    if parted > 1e-3:
        print("VOID", flush=True)


def measured(sides: list[Side], rounds: int, lock: Path | None = None) -> dict[str, list[float]]:
    """Tokens a second of each round of each side, one after another."""
    for side in sides:
        began = time.perf_counter()
        side.steps(WARM)
        print(f"  {side.name}: first {WARM} steps {time.perf_counter() - began:.0f} s", flush=True)
    speeds: dict[str, list[float]] = {side.name: [] for side in sides}
    with turn(lock):
        for _ in range(rounds):
            for side in sides:
                seconds, tokens = side.steps(side.n_steps)
                speeds[side.name].append(tokens / seconds)
    return speeds


@contextmanager
def turn(path: Path | None) -> Iterator[None]:
    """Alone with the device: of several such processes, one times at a time."""
    if path is None:
        yield
        return
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def print_costs(names: list[str], speeds: dict[str, list[float]]) -> None:
    """What determinism costs, row by row, and whether that is within its limit."""
    print(
        "\n| | deterministic | not deterministic | ratio | quartiles | limit"
        " |\n|---|---|---|---|---|---|"
    )
    for name in names:
        own, free = speeds[name], speeds[name + FREE]
        low, middle, high = statistics.quantiles(
            [a / b for a, b in zip(own, free, strict=True)], n=4
        )
        limit = LIMITS.get(name, LIMIT)
        missed = "" if middle >= limit else ", MISSED"
        print(
            f"| {name} | {statistics.median(own):,.0f} | {statistics.median(free):,.0f} |"
            f" {middle:.3f} | {low:.3f}–{high:.3f} | {limit:.2f}{missed} |",
            flush=True,
        )


def modes(names: list[str], with_small: bool, rounds: int, lock: Path | None) -> None:
    """Both modes of one row in turn, row by row: what was compiled for other lengths is
    forgotten in between.
    """
    for name in names:
        built = text()
        sides = [ours(name, built, mode) for mode in (True, False)]
        print_costs([name], measured(sides, rounds, lock))
        torch.compiler.reset()
    if with_small:
        built = small_text()
        print_costs([SMALL], measured([small(built, mode) for mode in (True, False)], rounds, lock))


def print_noise() -> None:
    """How far apart the same run of a small model ends, made several times in each mode, in
    nats of held-out text.
    """
    built = small_text()
    rows = {
        "causal": ({}, CausalLM()),
        "masked": ({"mask": "full"}, MaskedLM()),
        "prefix": ({"mask": "prefix"}, PrefixLM()),
        "experts": ({"feed_forward": {**EXPERTS, "d_expert": 256}}, CausalLM()),
    }
    print(
        f"\n| {N_NOISE_STEPS} steps, {N_RUNS} runs of one seed | mode | held-out nats | greatest"
        " difference |"
    )
    print("|---|---|---|---|")
    for name, (changes, objective) in rows.items():
        for mode in (True, False):
            ends = [_end(small_gpt(**changes), objective, built, mode) for _ in range(N_RUNS)]
            told = ", ".join(f"{end:.4f}" for end in ends)
            word = "deterministic" if mode else "not deterministic"
            print(f"| {name} | {word} | {told} | {max(ends) - min(ends):.4f} |", flush=True)


def _end(
    architecture: Architecture, objective: Objective, built: TokenisedCorpus, deterministic: bool
) -> float:
    """Held-out nats after a short run at a rate as one would use."""
    training = Training(
        n_steps=N_NOISE_STEPS,
        n_sequences=32,
        length=256,
        warmup=15,
        optimizer=AdamW(rate=3e-3),
        valid_every=150,
        checkpoint_every=150,
        deterministic=deterministic,
    )
    stages = (Stage(corpus=built.spec, objective=objective, training=training),)
    with tempfile.TemporaryDirectory() as root:
        folder = train(
            RunSpec(architecture=architecture, stages=stages),
            built,
            Workspace(Path(root), device=str(DEVICE)),
        ).folder
        return read_rows(folder / "rows.jsonl").rows[-1]["valid_nats"]


def compared(sides: list[Side], against: str, rounds: int) -> dict[str, list[float]]:
    speeds = measured(sides, rounds)
    print(f"\n| | tokens/s | × {against} | quartiles |\n|---|---|---|---|")
    for side in sides:
        ratios = [
            own / other for own, other in zip(speeds[side.name], speeds[against], strict=True)
        ]
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(
            f"| {side.name} | {statistics.median(speeds[side.name]):,.0f} | {middle:.3f} |"
            f" {low:.3f}–{high:.3f} |",
            flush=True,
        )
    return speeds


def memory_of_side(name: str) -> float:
    """GiB that a process of its own holds on the device after a few steps of one side."""
    command = [sys.executable, __file__, "--held", name]
    return float(
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]
    )


def flops(name: str) -> Flops:
    """Training FLOPs of a text of this row."""
    spec = ROWS[name][0]()
    lengths = (LENGTH // 2, LENGTH // 2) if spec.encoder is not None else (LENGTH, None)
    return price(resolve(spec), *lengths, 0).training


def small_loop(built: TokenisedCorpus, n_captured: int) -> float:
    """Tokens a second of the whole loop, d=256, 4 layers, T=256, batch 32: the median of its
    later rows.
    """
    cuda_graph.MAX_GRAPHS = n_captured
    training = Training(
        n_steps=1200,
        n_sequences=32,
        length=256,
        row_every=50,
        valid_every=1200,
        valid_batches=1,
        checkpoint_every=1200,
    )
    stages = (Stage(corpus=built.spec, objective=CausalLM(), training=training),)
    with tempfile.TemporaryDirectory() as root:
        folder = train(
            RunSpec(architecture=small_gpt(), stages=stages),
            built,
            Workspace(Path(root), device=str(DEVICE)),
        ).folder
        rows = list(read_rows(folder / "rows.jsonl").rows)
    pairs = pairwise(rows[9:])
    return statistics.median(
        (b["tokens_read"] - a["tokens_read"]) / (b["seconds"] - a["seconds"]) for a, b in pairs
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--rows", nargs="*", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--held", help=argparse.SUPPRESS)
    parser.add_argument("--no-small", action="store_true", help="leave the small model's loop out")
    parser.add_argument("--modes", action="store_true", help="only what determinism costs")
    parser.add_argument(
        "--noise", action="store_true", help="only how far apart the same run ends, made again"
    )
    parser.add_argument(
        "--turn", type=Path, metavar="FILE", help="with --modes: time while holding this lock"
    )
    wanted = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    if wanted.held:
        built = text()
        side = minimal(built) if wanted.held == "minimal" else ours(wanted.held, built)
        side.steps(8)
        print(torch.cuda.max_memory_reserved() / 2**30)
        return
    print(f"{date.today()}, {torch.cuda.get_device_name()}, torch {torch.__version__}, bf16")
    if wanted.modes:
        modes(wanted.rows, not wanted.no_small, wanted.rounds, wanted.turn)
    elif wanted.noise:
        print_noise()
    else:
        against_minimal(wanted.rows, not wanted.no_small, wanted.rounds)


def against_minimal(rows: list[str], with_small: bool, rounds: int) -> None:
    """Every row in both modes beside the minimal GPT, all in turn."""
    built = text()
    first = minimal(built)
    sides = [first, *(ours(name, built, mode) for name in rows for mode in (True, False))]
    if rows[0] == "causal":
        agree(first, sides[1])
    print_costs(rows, compared(sides, first.name, rounds))
    print(
        "\nGiB held: "
        + ", ".join(f"{name} {memory_of_side(name):.1f}" for name in ("minimal", "causal")),
        flush=True,
    )
    for name in rows:
        own, causal = flops(name), flops("causal")
        dense, visible = own.dense / causal.dense, own.visible / causal.visible
        print(
            f"{name}: {dense:.3f} × the dense, {visible:.3f} × the visible FLOPs of causal a token"
        )
    if with_small:
        words = small_text()
        for name, limit in (("replayed", cuda_graph.MAX_GRAPHS), ("launched", 0)):
            print(
                f"small model, whole loop, {name}: {small_loop(words, limit):,.0f} tokens/s",
                flush=True,
            )


if __name__ == "__main__":
    main()

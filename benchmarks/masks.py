"""Each mask's forward and backward time against SDPA's causal attention, all in one run.

    python benchmarks/masks.py                      # this machine's best device, its default shapes
    python benchmarks/masks.py --shape 2x256 --kernel dense

Rounds are interleaved: every round times every mask once, and SDPA causal right after each, since a
chip's clock follows its load. The ratio is the median over rounds, the range its least and
greatest. On CUDA one call is the replay of a captured graph, so that launches cost nothing.
"""

import argparse
import platform
import statistics
import time
from collections.abc import Callable
from datetime import date

import torch
import torch.nn.functional as F

from paribus.batch import BatchLayout
from paribus.errors import UnsupportedError
from paribus.masks import parse_rule
from paribus.model.kernels import (
    AttentionMask,
    KernelChoice,
    ScoreChange,
    attend,
    choose_kernel,
    parse_kernel,
)

MASKS = (
    "causal",
    "full",
    "prefix",
    "causal & same_side",
    "by_head(causal, reverse)",
    "reverse",
    "window(256)",
    "causal & same_document",
    "documents_so_far",
    "causal & (window(256) | strided(64))",
)
SHAPES = {"cuda": ("32x1024", "8x4096"), "cpu": ("4x256", "1x1024"), "mps": ("4x256", "1x1024")}
N_HEADS, D_HEAD, N_DOCUMENTS = 12, 64, 4
Step = Callable[[], None]


def step(
    mask: str,
    shape: tuple[int, int],
    device: torch.device,
    dtype: torch.dtype,
    kernel: KernelChoice,
) -> tuple[str, Step]:
    """The kernel that does a mask, and one forward and backward pass through it; 'sdpa …' is
    SDPA itself.
    """
    n_sequences, length = shape
    query, key, value, upstream = (
        torch.randn(n_sequences, length, N_HEADS, D_HEAD, device=device, dtype=dtype).transpose(
            1, 2
        )
        for _ in range(4)
    )
    if mask.startswith("sdpa"):
        name, run = (
            "sdpa",
            lambda q, k, v: F.scaled_dot_product_attention(
                q, k, v, is_causal=mask == "sdpa causal"
            ),
        )
    else:
        view = _view(mask, shape, device)
        name, run = (
            choose_kernel(view, dtype, D_HEAD, False, kernel),
            lambda q, k, v: attend(q, k, v, view, ScoreChange(D_HEAD**-0.5), kernel),
        )

    def once() -> None:
        inputs = [tensor.detach().requires_grad_() for tensor in (query, key, value)]
        torch.autograd.grad(run(*inputs), inputs, upstream)

    return name, once if device.type == "cpu" else _graph(once)


def _view(mask: str, shape: tuple[int, int], device: torch.device) -> AttentionMask:
    n_sequences, length = shape
    documents_BT = None
    if "document" in mask:
        documents_BT = (torch.arange(length, device=device) * N_DOCUMENTS // length).expand(
            n_sequences, -1
        )
    layout = BatchLayout(n_sequences, length, prefix=length // 2, documents_BT=documents_BT)
    return AttentionMask.of(parse_rule(mask), layout, layout, N_HEADS, device)


def _graph(once: Step) -> Step:
    if not torch.cuda.is_available():
        return once
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            once()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        once()

    def replay(_tensors_kept_alive: Step = once) -> None:
        graph.replay()

    return replay


def seconds(once: Step, device: torch.device, repeats: int) -> float:
    """Mean time of one call over a few in a row."""
    if device.type != "cuda":
        begin = time.perf_counter()
        for _ in range(repeats):
            once()
        return (time.perf_counter() - begin) / repeats
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(repeats):
        once()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1e3 / repeats


def table(
    shape: tuple[int, int],
    device: torch.device,
    dtype: torch.dtype,
    kernel: KernelChoice,
    rounds: int,
) -> list[str]:
    """One line a mask: kernel, milliseconds, ratio to the SDPA causal beside it, and its range."""
    cases: dict[str, tuple[str, Step]] = {}
    for mask in ("sdpa causal", "sdpa full", *MASKS):
        try:
            cases[mask] = step(
                mask, shape, device, dtype, "auto" if mask.startswith("sdpa") else kernel
            )
        except UnsupportedError as reason:
            print(f"{mask}: left out: {reason}")
    repeats = 20 if device.type == "cuda" else 1
    base = cases["sdpa causal"][1]
    times: dict[str, list[tuple[float, float]]] = {mask: [] for mask in cases}
    for _ in range(rounds + 1):
        for mask, (_, once) in cases.items():
            times[mask].append((seconds(once, device, repeats), seconds(base, device, repeats)))
    lines = [
        f"| B={shape[0]}, T={shape[1]} | kernel | ms | × SDPA causal | range |",
        "|---|---|---|---|---|",
    ]
    for mask, (name, _) in cases.items():
        warm = times[mask][1:]
        ratios = [mine / other for mine, other in warm]
        middle = statistics.median(mine for mine, _ in warm)
        cell = mask.replace("|", r"\|")
        ratio = statistics.median(ratios)
        lines.append(
            f"| {cell} | {name} | {middle * 1e3:.3f} | {ratio:.3f} |"
            f" {min(ratios):.3f}–{max(ratios):.3f} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--shape", action="append", help="sequences x length, such as 32x1024; may be repeated"
    )
    parser.add_argument("--kernel", default="auto", help="auto, dense, masked, fused or flex")
    parser.add_argument("--rounds", type=int, default=15)
    wanted = parser.parse_args()
    device = torch.device(wanted.device)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    machine = (
        torch.cuda.get_device_name()
        if device.type == "cuda"
        else f"{platform.machine()}, {torch.get_num_threads()} threads"
    )
    print(
        f"{date.today()}, {machine}, torch {torch.__version__}, {dtype}, {N_HEADS} heads ×"
        f" {D_HEAD}, prefix at T/2\n"
    )
    for text in wanted.shape or SHAPES[device.type]:
        n_sequences, length = (int(part) for part in text.split("x"))
        print(
            "\n".join(
                table(
                    (n_sequences, length), device, dtype, parse_kernel(wanted.kernel), wanted.rounds
                )
            ),
            "\n",
        )


if __name__ == "__main__":
    main()

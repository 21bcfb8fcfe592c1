"""Time and memory of a corpus: so much text is invented, built, and read for ten steps by a
tiny model.

    python benchmarks/corpus_memory.py                             # 1 GB of text, bytes
    python benchmarks/corpus_memory.py --gigabytes 10 --tokenizer bpe --n-vocab 32768

Memory is RssAnon, what a process holds and the disk does not, summed over the process and its
children every few milliseconds: memory-mapped tokens do not count, since the system takes them back
when it needs the room. Building and training are processes of their own; the second finds what the
first has built. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import paribus as pb
from paribus.workspace import Workspace

N_WORDS, BLOCK_WORDS, PARAGRAPH = 50_000, 2_000_000, 120
FILE_BYTES = 2**28
N_STEPS = 10
BETWEEN_LOOKS = 0.01  # seconds


class Cost(NamedTuple):
    """What a process took: seconds, and MiB at its peak."""

    seconds: float
    peak: float


def spec(text: Path, tokenizer: dict[str, Any]) -> dict[str, Any]:
    return {
        "architecture": {
            "preset": "gpt2",
            "n_layers": 2,
            "d_model": 64,
            "attention": {"n_heads": 2},
        },
        "corpus": {"sources": [{"kind": "files", "paths": str(text)}], "tokenizer": tokenizer},
        "training": {"n_steps": N_STEPS, "n_sequences": 8, "length": 256, "valid_batches": 1},
    }


def write_text(folder: Path, n_bytes: int) -> None:
    """Words drawn by Zipf's law, in sentences and paragraphs; no two blocks alike."""
    draw = np.random.default_rng(1)
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    words = np.array(
        ["".join(draw.choice(letters, length)) for length in draw.integers(2, 12, N_WORDS)], object
    )
    chances = 1 / np.arange(1, N_WORDS + 1)
    chances /= chances.sum()
    written, number = 0, 0
    while written < n_bytes:
        with open(folder / f"{number:04}.txt", "wb") as file:
            while file.tell() < FILE_BYTES and written < n_bytes:
                written += file.write(
                    _block(words[draw.choice(N_WORDS, BLOCK_WORDS, p=chances)])[: n_bytes - written]
                )
        number += 1


def _block(words: np.ndarray) -> bytes:
    paragraphs = (" ".join(words[at : at + PARAGRAPH]) for at in range(0, len(words), PARAGRAPH))
    return (".\n\n".join(paragraphs) + ".\n\n").encode()


def watched(words: list[str]) -> Cost:
    """Run this file once more, and look at its memory until it ends."""
    begin, peak = time.perf_counter(), 0.0
    process = subprocess.Popen([sys.executable, __file__, *words], stdout=subprocess.DEVNULL)
    while process.poll() is None:
        peak = max(peak, sum(map(_anonymous, _family(process.pid))) / 1024)
        time.sleep(BETWEEN_LOOKS)
    if process.returncode:
        raise SystemExit(process.returncode)
    return Cost(time.perf_counter() - begin, peak)


def _family(process: int) -> list[int]:
    """A process and its descendants; those that end meanwhile are left out."""
    found = [process]
    for one in found:
        try:
            for thread in os.listdir(f"/proc/{one}/task"):
                found += map(int, Path(f"/proc/{one}/task/{thread}/children").read_text().split())
        except OSError:
            continue
    return found


def _anonymous(process: int) -> int:
    """KiB."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    return next(
        (int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")), 0
    )


def work(what: str, folder: Path, tokenizer: dict[str, Any]) -> None:
    """What a watched process does; importing alone is what the others are to be compared with."""
    run = spec(folder / "text", tokenizer)
    if what == "build":
        pb.build_corpus(run, cache=folder / "cache")
    elif what == "train":
        pb.train_run(
            run, workspace=Workspace(folder / "runs", cache=folder / "cache", device="cpu")
        )
    else:
        assert callable(pb.train_run)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--tokenizer", choices=["bytes", "bpe"], default="bytes")
    parser.add_argument("--n-vocab", type=int, default=4096)
    parser.add_argument(
        "--folder", type=Path, help="where there is room; by default the system's for such things"
    )
    parser.add_argument(
        "--work", nargs=3, metavar=("WHAT", "FOLDER", "TOKENIZER"), help=argparse.SUPPRESS
    )
    wanted = parser.parse_args()
    if wanted.work:
        work(wanted.work[0], Path(wanted.work[1]), json.loads(wanted.work[2]))
        return
    tokenizer = (
        {"kind": "bpe", "n_vocab": wanted.n_vocab}
        if wanted.tokenizer == "bpe"
        else {"kind": "bytes"}
    )
    with tempfile.TemporaryDirectory(dir=wanted.folder) as place:
        folder = Path(place)
        (folder / "text").mkdir()
        write_text(folder / "text", round(wanted.gigabytes * 1e9))
        print(
            f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores, torch"
            f" {torch.__version__}, {wanted.gigabytes:g} GB of text, {tokenizer}\n"
        )
        print("| | seconds | peak RssAnon, MiB |\n|---|---|---|")
        for what in ("import", "build", "train"):
            cost = watched(["--work", what, place, json.dumps(tokenizer)])
            print(f"| {what} | {cost.seconds:.1f} | {cost.peak:.0f} |", flush=True)


if __name__ == "__main__":
    main()

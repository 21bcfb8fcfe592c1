"""Probes of a GPT-2 with random weights: seconds and peak memory of each.

    python benchmarks/probes.py --layers 2 --d-model 64 --length 64      # on a CPU
    python benchmarks/probes.py --device cuda                            # 124M at length 1,024

Spectra of 2 texts, everything else of 64; with --spectra 4 an H200 takes more than a minute. Texts
are random bytes.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from paribus.corpus.dataset import vocabulary_of
from paribus.corpus.tokenizer import byte_tokenizer
from paribus.interop.loaded_checkpoint import load_checkpoint
from paribus.model import build, save
from paribus.probe.run import probe_model
from paribus.probe.subject import ProbedModel
from paribus.probe.texts import ProbeText, ProbeTexts
from paribus.record.file_names import TOKENIZER_FILE
from paribus.runtime import select_device
from paribus.spec import load
from paribus.spec.probes import PROBES, HeldOutProbe, load_probe
from paribus.watcher import Watcher

NOT_HERE = ("experts", "corruption", "descent", "in-context")  # a GPT-2 has nothing to show there


def random_texts(n_texts: int, length: int) -> ProbeTexts:
    draws = np.random.default_rng(0)
    texts = []
    for number in range(n_texts):
        texts.append(
            ProbeText(str(number), "bytes", tuple(draws.integers(256, size=length).tolist()))
        )
    return ProbeTexts(tuple(texts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--d-model", type=int, default=768)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--spectra", type=int, default=2, help="texts of the probe of rank")
    parser.add_argument("--device", default=None)
    asked = parser.parse_args()
    device, tokenizer = select_device(asked.device), byte_tokenizer()
    n_vocab = max(50257, vocabulary_of(tokenizer).size)
    sizes = {"n_layers": asked.layers, "d_model": asked.d_model, "n_heads": asked.d_model // 64}
    model = build(load("gpt2", n_vocab=n_vocab, max_length=asked.length, **sizes))
    with TemporaryDirectory() as folder:
        save(model, Path(folder) / "model")
        (Path(folder) / "model" / TOKENIZER_FILE).write_text(tokenizer.json)
        subject = ProbedModel.of(load_checkpoint(Path(folder) / "model"), device)
        for kind in PROBES:
            if kind in NOT_HERE:
                continue
            settings = {"start": False} if "start" in PROBES[kind].model_fields else {}
            n_texts = asked.spectra if kind == "rank" else asked.texts
            probe = load_probe(kind, {"n_texts": n_texts, **settings})
            assert isinstance(probe, HeldOutProbe)
            if device.type == "cuda":
                torch.cuda.reset_peak_memory_stats()
            begin = time.perf_counter()
            n_rows = len(
                list(probe_model(subject, random_texts(n_texts, asked.length), probe, Watcher()))
            )
            seconds, peak = time.perf_counter() - begin, ""
            if device.type == "cuda":
                peak = f", {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB at most"
            print(f"{kind}: {n_texts} texts, {n_rows} rows, {seconds:.1f} s{peak}", flush=True)


if __name__ == "__main__":
    main()

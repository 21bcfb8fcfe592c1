"""Choices that share a context: read once and continued over a cache, against read whole each.

    python benchmarks/shared_contexts.py                  # 4 layers of 256, on a CPU
    python benchmarks/shared_contexts.py --size large --device cuda

Both ways score the same items, of random tokens, in turn. A ratio above 1 says how many times
faster the shared way is. It is the median over rounds.
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from typing import Any

import numpy as np
import torch

from paribus.corpus.dataset import vocabulary_of
from paribus.corpus.tokenizer import byte_tokenizer
from paribus.evaluate.tasks import target_scores
from paribus.model import Transformer, build
from paribus.objectives.framing import ItemLayout, LaidItem, item_layout, lay_item
from paribus.runtime import select_device
from paribus.spec import load
from paribus.spec.objectives import CausalLM, MixtureComponent

SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"n_layers": 2, "d_model": 64, "n_heads": 2},
    "small": {"n_layers": 4, "d_model": 256, "n_heads": 4},
    "large": {"n_layers": 12, "d_model": 768, "n_heads": 12},
    "xl": {"n_layers": 48, "d_model": 1600, "n_heads": 25},
}
MAX_LENGTH = 1024
CONTEXTS = (4, 16, 64, 256)
CHOICES = ((2, 8), (4, 8), (4, 32))  # how many, and tokens of each
NEVER = 2**62


def random_items(
    layout: ItemLayout, n_items: int, n_context: int, n_choices: int, n_target: int, ragged: bool
) -> list[LaidItem]:
    draws = np.random.default_rng(1)
    items = []
    for number in range(n_items):
        length = n_context
        if ragged:
            length = int(draws.integers(max(n_context // 2, 1), n_context + 1))
        context = draws.integers(256, size=length).tolist()
        for _ in range(n_choices):
            target = draws.integers(256, size=n_target).tolist()
            items.append(lay_item(layout, str(number), context, target))
    return items


def seconds_of(model: Transformer, layout: ItemLayout, items: list[LaidItem], least: int) -> float:
    """How long the items take where a group must save so many tokens to be shared."""
    begin = time.perf_counter()
    target_scores(model, layout, items, min_saved=least)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--contexts", type=int, nargs="+", default=CONTEXTS)
    parser.add_argument("--preset", default="gpt2")
    parser.add_argument("--items", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default=None)
    asked = parser.parse_args()
    device = select_device(asked.device)
    vocabulary = vocabulary_of(byte_tokenizer())
    sizes = SIZES[asked.size]
    architecture = load(asked.preset, n_vocab=vocabulary.size, max_length=MAX_LENGTH, **sizes)
    data_type = torch.bfloat16 if device.type == "cuda" else torch.float32
    model = build(architecture, seed=0).to(device, data_type)
    component = MixtureComponent(objective=CausalLM())
    layout = item_layout(component, model.spec, vocabulary, MAX_LENGTH)
    print(f"{asked.preset}, {sizes}, {asked.items} items, {device}, {data_type}")
    for n_context in asked.contexts:
        for n_choices, n_target in CHOICES:
            ratios = []
            for ragged in (False, True):
                items = random_items(layout, asked.items, n_context, n_choices, n_target, ragged)
                rounds = []
                for _ in range(asked.rounds + 1):
                    whole = seconds_of(model, layout, items, NEVER)
                    rounds.append(whole / seconds_of(model, layout, items, 0))
                ratios.append(median(rounds[1:]))
            print(
                f"context {n_context:4}, {n_choices} choices of {n_target:2}:"
                f" {ratios[0]:6.2f} at one length, {ratios[1]:6.2f} at several",
                flush=True,
            )


if __name__ == "__main__":
    main()

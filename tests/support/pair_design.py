"""A small design on pairs, as of captions and their translations: a decoder against an
encoder-decoder.
"""

import random
from pathlib import Path
from typing import Any

import torch

from paribus.design import Plan, find_design, make_plan
from paribus.spec.merging import set_at_path
from paribus.workspace import Execution, Workspace

CPU = torch.device("cpu")
N_PAIRS, LENGTH, N_STEPS = 300, 96, 24


def write_pairs(folder: Path) -> Path:
    """Pairs of unequal lengths, none of which fills a row."""
    draws = random.Random(5)
    lines = [f"{_words(draws, 'aeiou')}\t{_words(draws, 'klmnp')}" for _ in range(N_PAIRS)]
    path = folder / "captions.tsv"
    path.write_text("\n".join(["source\ttarget", *lines]) + "\n")
    return path


def _words(draws: random.Random, letters: str) -> str:
    return " ".join(
        letters[draws.randrange(5)] * draws.randint(1, 4) for _ in range(draws.randint(3, 8))
    )


def pair_design(folder: Path, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    table: dict[str, Any] = {
        "question": "Is an encoder worth having?",
        "factor": "architecture.encoder",
        "baseline": "decoder",
        "match": "nothing",
        "budget": "tokens_read",
        "seeds": 3,
        "tune": False,
        "primary": {"measure": {"kind": "pairs", "n_items": 5}, "margin": 0.5},
        "base": {
            "architecture": {
                "preset": "gpt2",
                "positions": "rotary",
                "n_layers": 1,
                "d_model": 16,
                "attention": {"n_heads": 2},
                "mask": "causal",
            },
            "corpus": {"sources": [{"kind": "pairs", "paths": str(write_pairs(folder))}]},
            "objective": "seq2seq",
            "training": {
                "n_steps": N_STEPS,
                "n_sequences": 6,
                "length": LENGTH,
                "row_every": 4,
                "valid_every": 4,
                "valid_batches": 1,
                "checkpoint_every": 8,
                "optimizer": {"rate": 0.01},
            },
        },
        "arms": {"decoder": {}, "encoder-decoder": {"architecture": {"encoder": {"n_layers": 1}}}},
    }
    for path, value in (changes or {}).items():
        set_at_path(table, path, value)
    return table


def pair_plan(folder: Path, changes: dict[str, Any] | None = None) -> Plan:
    name, design = find_design(pair_design(folder, changes))
    return make_plan(
        design,
        name,
        None,
        Execution(Workspace(cache=folder / "cache", device="cpu")),
        show_progress=False,
    )

"""A chain of three small stages, and its texts."""

from functools import partial
from pathlib import Path
from typing import Any

from paribus.corpus import prepare_corpus
from paribus.spec.run import RunSpec, load_run
from paribus.train.chain import prepare_texts
from paribus.train.parent import Texts

CHAIN: dict[str, Any] = {
    "architecture": {
        "preset": "gpt2",
        "positions": "rotary",
        "n_layers": 2,
        "d_model": 32,
        "dropout": 0.1,
        "attention": {"n_heads": 2},
    },
    "corpus": {
        "sources": [{"kind": "copy", "form": "text", "n_documents": 400, "max_length": 24}],
        "tokenizer": {"kind": "bpe", "n_vocab": 270},
    },
    "training": {
        "n_steps": 20,
        "n_sequences": 4,
        "length": 48,
        "row_every": 3,
        "valid_every": 10,
        "valid_batches": 1,
        "checkpoint_every": 4,
    },
    "stages": {
        "0": {"kind": "pretrain"},
        "1": {"kind": "adapt", "architecture": {"mask": "prefix"}, "objective": "prefix"},
        "2": {
            "kind": "tune",
            "corpus": {
                "sources": [
                    {"kind": "reverse", "n_documents": 400, "min_length": 4, "max_length": 8}
                ]
            },
            "objective": "seq2seq",
            "training": {"n_steps": 12},
        },
    },
}


def chain_spec(changes: dict[str, Any] | None = None) -> RunSpec:
    return load_run(CHAIN, changes)


def chain_texts(run: RunSpec, cache: Path) -> Texts:
    return prepare_texts(run, partial(prepare_corpus, cache=cache, show_progress=False))

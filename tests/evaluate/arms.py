"""Tiny arms over bytes, items of odd lengths, and corpora from texts written in the test."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from paribus.corpus import Built, build
from paribus.corpus.built import vocabulary_of
from paribus.corpus.tokenizer import byte_tokenizer
from paribus.evaluate import Item
from paribus.model import Transformer
from paribus.model import build as build_model
from paribus.spec import Corpus
from tiny import tiny

BYTES = byte_tokenizer()
WORDS = vocabulary_of(BYTES)
LETTERS = "abcdefghijklmnopqrstuvwxyz "


def item(n_context: int, n_target: int, seed: int = 0) -> Item:
    draws = np.random.default_rng([seed, n_context, n_target])
    text = "".join(draws.choice(list(LETTERS), n_context + n_target))
    return Item(f"{n_context}+{n_target}", "", text[:n_context], text[n_context:])


ITEMS = (item(37, 5), item(23, 1), item(11, 60), item(3, 13), item(67, 7), item(2, 2), item(29, 31))


def arm(preset: str, max_length: int = 83, changes: dict[str, Any] | None = None) -> Transformer:
    """A tiny model of a preset that reads bytes."""
    sizes = {"n_vocab": WORDS.size, "max_length": max_length}
    return build_model(tiny(preset, {**sizes, **(changes or {})}), seed=3)


@torch.no_grad()
def token_nats(logits_V: torch.Tensor, token: int) -> float:
    return -logits_V.double().log_softmax(-1)[token].item()


def of_texts(folder: Path, documents: list[str], **fields: Any) -> Built:
    """A corpus of documents, all of them in the test split unless told otherwise."""
    return _built(folder, [{"text": text} for text in documents], "files", fields)


def of_pairs(folder: Path, pairs: list[tuple[str, str]], **fields: Any) -> Built:
    return _built(folder, [{"source": source, "target": target} for source, target in pairs], "pairs", fields)


def _built(folder: Path, rows: list[dict[str, str]], kind: str, fields: dict[str, Any]) -> Built:
    path = folder / "given.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = {"sources": [{"kind": kind, "paths": str(path)}], "valid": 0.0, "test": 0.999999} | fields
    return build(Corpus.model_validate(table), folder / "cache", show_progress=False, n_workers=1)

"""Tiny arms over bytes, items of odd lengths, and corpora from texts written in the test."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tiny_model import tiny_architecture

from paribus.corpus import TokenisedCorpus, prepare_corpus
from paribus.corpus.dataset import vocabulary_of
from paribus.corpus.tokenizer import byte_tokenizer
from paribus.evaluate import Item
from paribus.model import Transformer
from paribus.model import build as build_model
from paribus.spec import Corpus

BYTE_TOKENIZER = byte_tokenizer()
VOCABULARY = vocabulary_of(BYTE_TOKENIZER)
LETTERS = "abcdefghijklmnopqrstuvwxyz "


def random_item(n_context: int, n_target: int, seed: int = 0) -> Item:
    draws = np.random.default_rng([seed, n_context, n_target])
    text = "".join(draws.choice(list(LETTERS), n_context + n_target))
    return Item(f"{n_context}+{n_target}", "", text[:n_context], text[n_context:])


ITEMS = (
    random_item(37, 5),
    random_item(23, 1),
    random_item(11, 60),
    random_item(3, 13),
    random_item(67, 7),
    random_item(2, 2),
    random_item(29, 31),
)


def byte_model(
    preset: str, max_length: int = 83, changes: dict[str, Any] | None = None
) -> Transformer:
    """A tiny model of a preset that reads bytes."""
    sizes = {"n_vocab": VOCABULARY.size, "max_length": max_length}
    return build_model(tiny_architecture(preset, {**sizes, **(changes or {})}), seed=3)


@torch.no_grad()
def token_nats(logits_V: torch.Tensor, token: int) -> float:
    return -logits_V.double().log_softmax(-1)[token].item()


def held_out_texts(folder: Path, documents: list[str], **fields: Any) -> TokenisedCorpus:
    """A corpus of documents, all of them in the test split unless told otherwise."""
    return _build_corpus(folder, [{"text": text} for text in documents], "files", fields)


def held_out_pairs(folder: Path, pairs: list[tuple[str, str]], **fields: Any) -> TokenisedCorpus:
    return _build_corpus(
        folder, [{"source": source, "target": target} for source, target in pairs], "pairs", fields
    )


def _build_corpus(
    folder: Path, rows: list[dict[str, str]], kind: str, fields: dict[str, Any]
) -> TokenisedCorpus:
    path = folder / "given.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = {
        "sources": [{"kind": kind, "paths": str(path)}],
        "valid": 0.0,
        "test": 0.999999,
    } | fields
    return prepare_corpus(
        Corpus.model_validate(table), folder / "cache", show_progress=False, n_workers=1
    )

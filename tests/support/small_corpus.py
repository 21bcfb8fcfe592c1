"""Small corpora from texts written in the test."""

import json
from pathlib import Path
from typing import Any

from paribus.corpus import Split, TokenisedCorpus, document_text, prepare_corpus
from paribus.spec import Corpus


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_texts(path: Path, documents: list[str]) -> Path:
    return write_jsonl(path, [{"text": document} for document in documents])


def build_small_corpus(
    tmp_path: Path, *sources: dict[str, Any], n_workers: int = 2, **fields: Any
) -> TokenisedCorpus:
    """Built without anything held out, unless told otherwise."""
    table = {"sources": list(sources), "valid": 0, "test": 0} | fields
    return prepare_corpus(
        Corpus.model_validate(table), tmp_path / "cache", show_progress=False, n_workers=n_workers
    )


def corpus_of_texts(tmp_path: Path, documents: list[str], **fields: Any) -> TokenisedCorpus:
    return build_small_corpus(
        tmp_path,
        {"kind": "files", "paths": str(write_texts(tmp_path / "given.jsonl", documents))},
        **fields,
    )


def all_documents(corpus: TokenisedCorpus, split: Split, source: int = 0) -> list[tuple[str, ...]]:
    """Every document as it lies on disk."""
    shard = corpus.readers[split][source].shard
    return [document_text(corpus, split, source, n, 10**9) for n in range(shard.n_documents)]

"""Small corpora from texts written in the test."""

import json
from pathlib import Path
from typing import Any

from paribus.corpus import Built, Split, build, document
from paribus.spec import Corpus


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def texts(path: Path, documents: list[str]) -> Path:
    return jsonl(path, [{"text": document} for document in documents])


def built(tmp_path: Path, *sources: dict[str, Any], n_workers: int = 2, **fields: Any) -> Built:
    """Built without anything held out, unless told otherwise."""
    table = {"sources": list(sources), "valid": 0, "test": 0} | fields
    return build(Corpus.model_validate(table), tmp_path / "cache", show_progress=False, n_workers=n_workers)


def of_texts(tmp_path: Path, documents: list[str], **fields: Any) -> Built:
    return built(tmp_path, {"kind": "files", "paths": str(texts(tmp_path / "given.jsonl", documents))}, **fields)


def all_documents(corpus: Built, split: Split, source: int = 0) -> list[tuple[str, ...]]:
    """Every document as it lies on disk."""
    shard = corpus.readers[split][source].shard
    return [document(corpus, split, source, n, 10**9) for n in range(shard.n_documents)]

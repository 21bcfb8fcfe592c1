"""Texts that probes read, and what their domains are called."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from paribus.corpus import prepare_corpus
from paribus.probe.texts import held_out_texts
from paribus.spec.corpus import Corpus


def fill_folder(folder: Path) -> None:
    """Thirty documents of ten letters."""
    folder.mkdir()
    for number in range(30):
        (folder / f"{number}.txt").write_text(f"letter {number:03}", "utf-8")


@pytest.mark.parametrize(
    ("path", "domain"),
    [("books.train.tar.xz", "books.train"), ("books/*.txt", "books"), ("books", "books")],
)
def test_a_domain_has_the_name_of_its_file_or_folder(
    tmp_path: Path, path: str, domain: str
) -> None:
    fill_folder(tmp_path / "books")
    with tarfile.open(tmp_path / "books.train.tar.xz", "w:xz") as archive:
        archive.add(tmp_path / "books", "books")
    source = {"kind": "files", "paths": str(tmp_path / path)}
    spec = Corpus.model_validate({"sources": [source], "tokenizer": "bytes", "test": 0.5})
    corpus = prepare_corpus(spec, tmp_path / "cache")
    texts = held_out_texts(lambda text: tuple(text.encode()), corpus, n_texts=2, length=10)
    assert texts.domains == (domain,)

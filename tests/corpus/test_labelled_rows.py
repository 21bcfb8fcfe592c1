"""Labelled texts: what is read of files, how rows are filled, and what is refused with its line."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from labelled_texts import write_labelled, write_tagged

from paribus.corpus import TokenisedCorpus, corpus_remarks, prepare_corpus, slice_batch
from paribus.corpus.labelled_rows import LabelledCorpus
from paribus.corpus.splits import SPLITS
from paribus.errors import RecordError, SpecError
from paribus.spec import Corpus
from paribus.spec.objectives import Seq2Seq, TextLabels, WordTags

LABELS, TAGS = TextLabels(n_labels=2), WordTags(n_labels=2)


def corpus_of(folder: Path, source: dict[str, Any], **fields: Any) -> TokenisedCorpus:
    table = {"sources": [source], "valid": 0.2, "test": 0.2, **fields}
    spec = Corpus.model_validate(table)
    return prepare_corpus(spec, folder / "cache", show_progress=False, n_workers=1)


def read_all(folder: Path, content: str, name: str, **source: Any) -> list[tuple[str, str]]:
    """Every text of a file with its label, from all splits."""
    path = folder / name
    path.write_text(content)
    dataset = corpus_of(folder, {"paths": str(path), **source})
    objective = TAGS if source["kind"] == "tagged" else LABELS
    labelled = LabelledCorpus(dataset, objective)
    pairs = []
    for split in SPLITS:
        pairs += [(one.text, one.label) for one in labelled.documents(split)]
    return sorted(pairs)


def test_texts_and_labels_are_columns(tmp_path):
    found = read_all(tmp_path, "text,label\none,yes\ntwo,no\n", "texts.csv", kind="labelled")
    assert found == [("one", "yes"), ("two", "no")]


def test_a_pair_of_texts_is_two_lines_and_a_label_may_be_a_number(tmp_path):
    rows = [{"a": "one", "b": "two", "c": 1}, {"a": "three", "b": "four", "c": 0}]
    content = "\n".join(map(json.dumps, rows))
    fields = {"text": "a", "second": "b", "label": "c"}
    found = read_all(tmp_path, content, "texts.jsonl", kind="labelled", **fields)
    assert found == [("one\ntwo", "1"), ("three\nfour", "0")]


def test_words_and_tags_are_columns_of_conll(tmp_path):
    content = "-DOCSTART- -X- O\n\nEU NNP B\nrejects VBZ O\n\n\nGerman JJ B\n"
    found = read_all(tmp_path, content, "words.conll", kind="tagged")
    assert found == [("EU rejects", "B O"), ("German", "B")]
    found = read_all(tmp_path, content, "again.conll", kind="tagged", word=1, tag=2)
    assert found == [("JJ", "B"), ("NNP VBZ", "B O")]


@pytest.mark.parametrize(
    ("name", "content", "source", "message"),
    [
        ("t.csv", "text,class\na,b\n", {"kind": "labelled"}, "has no column 'label'; its columns"),
        (
            "t.csv",
            "text,label\na, b\n",
            {"kind": "labelled"},
            "line 2 has the label ' b'; give",
        ),
        ("t.csv", "text,label\na,b\nc,\n", {"kind": "labelled"}, "line 3 has the label ''; give"),
        (
            "t.jsonl",
            '{"text": "a", "label": 0.5}\n',
            {"kind": "labelled"},
            "line 1 has 'label' = 0.5",
        ),
        ("t.jsonl", '{"text": "a", "label": true}\n', {"kind": "labelled"}, "'label' = True"),
        (
            "t.conll",
            "a B\nb\n",
            {"kind": "tagged", "tag": 1},
            "line 2 has 1 columns, and none of the number 1",
        ),
    ],
)
def test_a_bad_row_is_refused_with_its_line(tmp_path, name, content, source, message):
    with pytest.raises((RecordError, SpecError), match=message):
        read_all(tmp_path, content, name, **source)


@pytest.mark.parametrize("tokenizer", [{"kind": "bytes"}, {"kind": "bpe", "n_vocab": 270}])
def test_rows_hold_texts_and_the_numbers_of_their_labels(tmp_path, tokenizer):
    source = {"kind": "labelled", "paths": str(write_labelled(tmp_path / "texts.jsonl"))}
    dataset = corpus_of(tmp_path, source, tokenizer=tokenizer)
    labelled = LabelledCorpus(dataset, LABELS)
    labelled.require_labels()
    assert labelled.names == ("even", "odd")
    known = {one.text: one.label for one in labelled.documents("train")}
    batch = labelled.text_batch("train", 1, 0, 32, 24)
    assert batch.real_BT is not None
    assert batch.labels_BM is not None
    for row in range(32):
        ids = batch.tokens_BT[row][batch.real_BT[row]]
        assert labelled.names[int(batch.labels_BM[row, 0])] == known[dataset.decode(ids)]
    assert not bool(batch.real_BT[:, -1].any())  # a place is left for what stands before a text
    again = labelled.text_batch("train", 1, 0, 32, 24)
    assert batch.tokens_BT.equal(again.tokens_BT)
    assert not batch.tokens_BT.equal(labelled.text_batch("train", 2, 0, 32, 24).tokens_BT)
    half = slice_batch(batch, 16, 32)
    assert half.labels_BM is not None
    assert half.labels_BM.equal(batch.labels_BM[16:])


def test_an_epoch_has_every_text_once(tmp_path):
    source = {"kind": "labelled", "paths": str(write_labelled(tmp_path / "texts.jsonl"))}
    labelled = LabelledCorpus(corpus_of(tmp_path, source), LABELS)
    texts = [one.text for one in labelled.documents("train")]
    batch = labelled.text_batch("train", 1, 0, len(texts), 24)
    assert batch.real_BT is not None
    rows = []
    for row, real in zip(batch.tokens_BT, batch.real_BT, strict=True):
        rows.append(labelled.dataset.decode(row[real]))
    assert sorted(rows) == sorted(texts)
    (epochs,) = labelled.dataset.epochs(1, 1, len(texts), 24)
    assert epochs == 1.0


@pytest.mark.parametrize("tokenizer", [{"kind": "bytes"}, {"kind": "bpe", "n_vocab": 270}])
def test_a_tag_lies_at_the_last_token_of_its_word(tmp_path, tokenizer):
    source = {"kind": "tagged", "paths": str(write_tagged(tmp_path / "words.conll"))}
    dataset = corpus_of(tmp_path, source, tokenizer=tokenizer)
    labelled = LabelledCorpus(dataset, TAGS)
    labelled.require_labels()
    assert labelled.names == ("E", "O")
    batch = labelled.text_batch("train", 1, 0, 16, 24)
    assert batch.real_BT is not None
    assert batch.labels_BM is not None
    for tokens, labels, real in zip(batch.tokens_BT, batch.labels_BM, batch.real_BT, strict=True):
        text = dataset.decode(tokens[real])
        words, places = text.split(" "), torch.nonzero(labels >= 0)[:, 0].tolist()
        assert len(words) == len(places)
        for number, place in enumerate(places):
            assert dataset.decode(tokens[: place + 1]) == " ".join(words[: number + 1])
            letter = words[number][0]
            assert labelled.names[int(labels[place])] == ("O" if letter in "acegikmoqsuwy" else "E")


def test_a_text_that_does_not_fit_loses_its_end_and_is_counted(tmp_path):
    source = {"kind": "labelled", "paths": str(write_labelled(tmp_path / "texts.jsonl"))}
    dataset = corpus_of(tmp_path, source)
    labelled = LabelledCorpus(dataset, LABELS)
    texts = [one.text for one in labelled.documents("train")]
    n_long = sum(len(text) > 9 for text in texts)
    assert labelled.n_truncated("train", 10) == n_long > 0
    (remark,) = corpus_remarks(dataset, 10, LABELS)
    assert remark == f"{n_long:,} texts are longer than 9 tokens: their ends are left out"
    assert "beginnings of their sources" in " ".join(corpus_remarks(dataset, 16, Seq2Seq()))
    batch = labelled.text_batch("train", 1, 0, 8, 10)
    assert batch.real_BT is not None
    for row, real in zip(batch.tokens_BT, batch.real_BT, strict=True):
        assert any(text.startswith(dataset.decode(row[real])) for text in texts)


def test_labelled_texts_are_pairs_too(tmp_path):
    """Text to text, the label is the target."""
    source = {"kind": "labelled", "paths": str(write_labelled(tmp_path / "texts.jsonl"))}
    dataset = corpus_of(tmp_path, source)
    batch = dataset.text_batch("train", 1, 0, 4, 32)
    assert batch.target_starts_B is not None
    for row, start in zip(batch.tokens_BT, batch.target_starts_B.tolist(), strict=True):
        assert dataset.decode(row[start:]) in ("even", "odd")


def test_the_label_column_is_part_of_the_fingerprint(tmp_path):
    source = {"kind": "labelled", "paths": str(write_labelled(tmp_path / "texts.jsonl"))}
    one = corpus_of(tmp_path, source)
    assert one.fingerprint != corpus_of(tmp_path, {**source, "label": "other"}).fingerprint
    assert one.fingerprint != corpus_of(tmp_path, source, valid=0.1).fingerprint
    assert one.fingerprint == corpus_of(tmp_path, source).fingerprint

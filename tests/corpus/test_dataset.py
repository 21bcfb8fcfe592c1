"""Same step, same text: global batch k is a pure function of (data seed, k)."""

import hashlib
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from small_corpus import (
    all_documents,
    build_small_corpus,
    corpus_of_texts,
    write_jsonl,
    write_texts,
)
from tokenizers import Tokenizer as Library
from tokenizers import models

from paribus.batch import TextBatch
from paribus.corpus import TokenisedCorpus, corpus_remarks, slice_batch
from paribus.errors import SpecError

TEXTS = [
    f"Text {number} begins. " + f"And goes on{number % 7 * ' and on'}. " * (number % 5)
    for number in range(97)
]
TENSORS = ("rows_B", "tokens_BT", "documents_BT", "sentences_BT", "real_BT", "target_starts_B")


def same(left: TextBatch, right: TextBatch) -> bool:
    pairs = [(getattr(left, name), getattr(right, name)) for name in TENSORS]
    return left.k == right.k and all(a is b if a is None else torch.equal(a, b) for a, b in pairs)


def mixed(tmp_path) -> TokenisedCorpus:
    sources = [
        {"kind": "files", "paths": str(write_texts(tmp_path / "t.jsonl", TEXTS)), "weight": 3},
        {"kind": "copy", "form": "text", "n_documents": 50},
    ]
    return build_small_corpus(tmp_path, *sources)


def pairs(tmp_path, rows: list[tuple[str, str]], **fields) -> TokenisedCorpus:
    path = write_jsonl(
        tmp_path / "p.jsonl", [{"source": source, "target": target} for source, target in rows]
    )
    return build_small_corpus(tmp_path, {"kind": "pairs", "paths": str(path)}, **fields)


def test_one_document_in_one_row_by_hand(tmp_path):
    corpus = corpus_of_texts(tmp_path, ["Ab. C"])
    reading = corpus.text_batch("train", 1, 0, 1, 6)
    assert reading.k == 0
    assert reading.rows_B.tolist() == [0]
    assert reading.tokens_BT.tolist() == [[65, 98, 46, 32, 67, corpus.vocabulary.eos]]
    assert reading.documents_BT.tolist() == [[0] * 6]
    assert reading.sentences_BT.tolist() == [[0, 0, 0, 0, 1, 1]]
    assert reading.real_BT is None
    assert reading.target_starts_B is None


def test_documents_and_sentences_are_numbered_within_each_row(tmp_path):
    corpus = corpus_of_texts(tmp_path, ["aa", "bb", "cc"])
    reading = corpus.text_batch("train", 1, 0, 1, 9)
    assert reading.documents_BT.tolist() == [[0, 0, 0, 1, 1, 1, 2, 2, 2]]
    assert reading.sentences_BT.tolist() == reading.documents_BT.tolist()
    rows = corpus.text_batch("train", 1, 0, 2, 4)  # eight of the nine tokens
    for tokens, documents in zip(rows.tokens_BT.tolist(), rows.documents_BT.tolist(), strict=True):
        assert (
            documents
            == np.cumsum([0, *(token == corpus.vocabulary.eos for token in tokens[:-1])]).tolist()
        )


def test_an_epoch_reads_every_document_once(tmp_path):
    corpus = corpus_of_texts(tmp_path, TEXTS)
    reader = corpus.readers["train"][0]
    for epoch in range(3):
        whole = reader.rows(7, epoch, np.arange(1), reader.n_rows(1)).tokens[0].tolist()
        read = "".join(chr(token) if token < 256 else "\0" for token in whole)
        assert Counter(read.split("\0")[:-1]) == Counter(TEXTS)


def test_rows_of_an_epoch_are_the_epoch_cut_at_an_offset(tmp_path):
    corpus = corpus_of_texts(tmp_path, TEXTS)
    reader = corpus.readers["train"][0]
    whole = reader.rows(7, 2, np.arange(1), reader.n_rows(1)).tokens[0]
    n_rows = reader.n_rows(31)
    rows = reader.rows(7, 2, np.arange(n_rows), 31).tokens
    starts = [
        start
        for start in range(32)
        if {row.tobytes() for row in rows} == cuts(whole[start:], n_rows)
    ]
    assert len(starts) == 1
    assert n_rows == len(whole) // 31


def cuts(tokens: np.ndarray, n_rows: int) -> set[bytes]:
    return {tokens[31 * row : 31 * row + 31].tobytes() for row in range(n_rows)}


def test_rows_are_shuffled_and_each_epoch_otherwise(tmp_path):
    reader = corpus_of_texts(tmp_path, TEXTS).readers["train"][0]
    first, second = (
        reader.rows(7, epoch, np.arange(reader.n_rows(31)), 31).tokens for epoch in (0, 1)
    )
    assert not np.array_equal(first, second)
    other = reader.rows(8, 0, np.arange(reader.n_rows(31)), 31).tokens
    assert not np.array_equal(first, other)


def test_a_batch_is_the_same_whenever_and_wherever_it_is_asked_for(tmp_path):
    corpus = mixed(tmp_path)
    forward = [corpus.text_batch("train", 3, k, 5, 17) for k in range(60)]
    backward = {
        k: mixed(tmp_path).text_batch("train", 3, k, 5, 17) for k in reversed(range(0, 60, 7))
    }
    assert all(same(forward[k], reading) for k, reading in backward.items())
    assert not same(forward[0], corpus.text_batch("train", 4, 0, 5, 17))


def test_rows_are_the_same_where_the_order_of_documents_is_too_long_to_keep(tmp_path, monkeypatch):
    kept = [mixed(tmp_path).text_batch("train", 3, k, 5, 17) for k in range(0, 60, 9)]
    monkeypatch.setattr("paribus.corpus.token_rows.MAX_CACHED_ORDER", 0)
    found = [mixed(tmp_path).text_batch("train", 3, k, 5, 17) for k in range(0, 60, 9)]
    assert all(same(one, other) for one, other in zip(kept, found, strict=True))


def test_a_batch_is_the_same_in_another_process(tmp_path):
    tokens = mixed(tmp_path).text_batch("train", 3, 11, 5, 17).tokens_BT
    folders = [str(Path(__file__).parent), *sys.path]
    code = (
        f"import sys; sys.path[:0] = {folders!r}\n"
        "import hashlib, pathlib\n"
        "from test_dataset import mixed\n"
        f"corpus = mixed(pathlib.Path({str(tmp_path)!r}))\n"
        "tokens = corpus.text_batch('train', 3, 11, 5, 17).tokens_BT\n"
        "print(hashlib.sha256(tokens.numpy().tobytes()).hexdigest())"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert told.stdout.decode().strip() == hashlib.sha256(tokens.numpy().tobytes()).hexdigest()


def test_batches_of_another_size_hold_the_same_rows_in_the_same_order(tmp_path):
    corpus = mixed(tmp_path)
    wide = torch.cat([corpus.text_batch("train", 3, k, 12, 17).tokens_BT for k in range(5)])
    narrow = torch.cat([corpus.text_batch("train", 3, k, 5, 17).tokens_BT for k in range(12)])
    assert torch.equal(wide, narrow)


def test_parts_put_together_are_the_whole(tmp_path):
    for corpus in (mixed(tmp_path), pairs(tmp_path / "..", [(f"s{n}", f"t{n}") for n in range(9)])):
        whole = corpus.text_batch("train", 3, 2, 7, 11)
        parts = [slice_batch(whole, 0, 3), slice_batch(whole, 3, 7)]
        for name in TENSORS:
            pieces = [getattr(one, name) for one in parts]
            if getattr(whole, name) is None:
                assert pieces == [None, None]
            else:
                assert torch.equal(torch.cat(pieces), getattr(whole, name))
        assert parts[1].rows_B.tolist() == [3, 4, 5, 6]


def test_a_mixture_reads_its_sources_in_their_shares(tmp_path):
    corpus = mixed(tmp_path)
    rows = torch.cat([corpus.text_batch("train", 3, k, 50, 8).tokens_BT for k in range(8)])
    from_copy = sum(not any(chr(t) in ". " for t in row) for row in rows.tolist())
    assert (
        abs(from_copy - 100)
        <= 4 + sum(not {46, 32} & set(row) for row in rows.tolist()) - from_copy
    )


def test_epochs_are_counted_by_source(tmp_path):
    corpus = mixed(tmp_path)
    rows = corpus.n_rows("train", 16)
    assert corpus.epochs(3, 0, 8, 16) == (0.0, 0.0)
    read = corpus.epochs(3, 100, 8, 16)
    assert read[0] * rows[0] + read[1] * rows[1] == pytest.approx(800)
    assert read[0] * rows[0] == pytest.approx(600, abs=3)
    assert read[1] > 1


def test_the_whole_text_has_been_read_when_an_epoch_is_over(tmp_path):
    corpus = corpus_of_texts(tmp_path, TEXTS)
    (n_rows,) = corpus.n_rows("train", 13)
    assert corpus.epochs(1, n_rows, 1, 13) == (1.0,)
    first = corpus.text_batch("train", 1, 0, n_rows, 13).tokens_BT
    crossing = corpus.text_batch("train", 1, 0, n_rows + 5, 13).tokens_BT
    assert torch.equal(crossing[:n_rows], first)
    single = [corpus.text_batch("train", 1, n_rows + row, 1, 13).tokens_BT for row in range(5)]
    assert torch.equal(crossing[n_rows:], torch.cat(single))


def test_bytes_of_tokens_sum_to_the_bytes_of_the_text(tmp_path):
    given = [*TEXTS, "naïve 中文 😀"]
    for tokenizer in ({"kind": "bytes"}, {"kind": "bpe", "n_vocab": 290}):
        corpus = corpus_of_texts(tmp_path, given, tokenizer=tokenizer)
        vocabulary = corpus.vocabulary
        assert vocabulary.bytes_V.shape == (vocabulary.size,)
        assert vocabulary.bytes_V[vocabulary.n_text :].sum() == 0
        length = corpus.readers["train"][0].n_rows(1)
        tokens = corpus.text_batch("train", 1, 0, 1, length).tokens_BT
        assert vocabulary.bytes_V[tokens].sum() == sum(len(text.encode()) for text in given)
        assert sorted(corpus.decode(tokens[0])) == sorted("".join(given))


def test_text_is_encoded_as_in_the_corpus(tmp_path):
    corpus = corpus_of_texts(tmp_path, TEXTS, tokenizer={"kind": "bpe", "n_vocab": 290})
    assert corpus.decode(corpus.encode("And goes on é")) == "And goes on é"
    shard = corpus.readers["train"][0].shard
    assert corpus.encode(TEXTS[0]) == shard.tokens[: int(shard.offsets[1])].tolist()


def test_a_pair_in_a_row_by_hand(tmp_path):
    corpus = pairs(tmp_path, [("Ab. C", "xy")])
    end, pad = corpus.vocabulary.eos, corpus.vocabulary.pad
    reading = corpus.text_batch("train", 1, 0, 1, 10)
    assert reading.tokens_BT.tolist() == [[65, 98, 46, 32, 67, 120, 121, end, pad, pad]]
    assert reading.documents_BT.tolist() == [[0] * 10]
    assert reading.sentences_BT.tolist() == [[0, 0, 0, 0, 1, 2, 2, 2, 2, 2]]
    assert reading.real_BT is not None
    assert reading.real_BT.tolist() == [[True] * 8 + [False] * 2]
    assert reading.target_starts_B is not None
    assert reading.target_starts_B.tolist() == [5]


@pytest.mark.parametrize(
    ("length", "text", "target_from"),
    [(8, "abcdeXY|", 5), (7, "bcdeXY|", 4), (4, "eXY|", 1)],
)
def test_a_pair_too_long_loses_the_beginning_of_its_source(tmp_path, length, text, target_from):
    corpus = pairs(tmp_path, [("abcde", "XY")])
    reading = corpus.text_batch("train", 1, 0, 1, length)
    letters = [
        "|" if token == corpus.vocabulary.eos else chr(token)
        for token in reading.tokens_BT[0].tolist()
    ]
    assert "".join(letters) == text
    assert reading.target_starts_B is not None
    assert reading.target_starts_B.tolist() == [target_from]
    assert corpus.n_truncated_pairs("train", length) == (length < 8)
    assert corpus.n_unscored_pairs("train", length) == 0


def test_the_longest_pairs_of_a_row_are_no_part_of_each_other(tmp_path):
    corpus = pairs(tmp_path, [("abcde", "X"), ("abc", "X"), ("ab", "XYZ"), ("a", "XY")])
    assert corpus.longest_pairs(16) == [(2, 4), (5, 2)]
    assert corpus.longest_pairs(5) == [(1, 4), (3, 2)]  # the beginning of a source is cut off
    assert corpus.longest_pairs(2) == []
    assert corpus.longest_source == 5


def test_a_source_without_a_token_is_not_asked_and_counted(tmp_path):
    library = Library(models.BPE(vocab={"X": 0, "Y": 1}, merges=[]))
    library.save(str(tmp_path / "t.json"))
    tokenizer = {"kind": "file", "path": str(tmp_path / "t.json")}
    corpus = pairs(tmp_path, [("ab", "X"), ("XY", "Y"), ("c", "XY")], tokenizer=tokenizer)
    assert corpus.n_unscored_pairs("train", 9) == 2


def test_a_target_that_leaves_no_room_for_its_source_is_read_alone_and_counted_apart(tmp_path):
    corpus = pairs(tmp_path, [("abcde", "XY"), ("a", "X"), ("abc", "X")])
    for length, n_cut, n_unasked in [(2, 0, 3), (3, 1, 1), (4, 2, 0), (5, 1, 0), (8, 0, 0)]:
        assert (
            corpus.n_truncated_pairs("train", length),
            corpus.n_unscored_pairs("train", length),
        ) == (
            n_cut,
            n_unasked,
        )
    reading = corpus.text_batch("train", 1, 0, 3, 3)
    assert reading.target_starts_B is not None
    rows = zip(reading.tokens_BT.tolist(), reading.target_starts_B.tolist(), strict=True)
    assert {"".join(map(chr, row[:2])): at for row, at in rows} == {"XY": 0, "aX": 1, "cX": 1}
    said = (
        "pairs have targets of 3 tokens or more, with their end, which leave no room for a source, "
        "or sources without a token: they are not asked"
    )
    assert list(corpus_remarks(corpus, 3)) == [
        "1 pairs are longer than 3 tokens: the beginnings of their sources are left out",
        f"1 {said}",
    ]


def test_a_source_of_which_no_pair_can_be_asked_is_refused_with_the_lengths_that_fit(tmp_path):
    corpus = pairs(tmp_path, [("abcde", "XYZ"), ("ab", "XY"), ("a", "VWXYZ")])
    corpus.require_rows("train", 4)
    told = (
        r"sources.0 \(pairs\) has no pair of train text whose target leaves room for a source in a"
        r" row of length 3; "
        r"use a length of 4, which fits one, or 7, which fits all"
    )
    with pytest.raises(SpecError, match=told):
        corpus.require_rows("train", 3)
    with pytest.raises(SpecError, match=told):
        corpus.text_batch("train", 1, 0, 1, 3)


def test_sources_that_a_tokenizer_cannot_write_are_refused(tmp_path):
    library = Library(models.BPE(vocab={"X": 0, "Y": 1}, merges=[]))
    library.save(str(tmp_path / "t.json"))
    corpus = pairs(
        tmp_path,
        [("a", "X"), ("b", "Y")],
        tokenizer={"kind": "file", "path": str(tmp_path / "t.json")},
    )
    told = (
        r"sources.0 \(pairs\) has no pair of train text with a token in its source; use a tokenizer"
        r" that writes them"
    )
    with pytest.raises(SpecError, match=told):
        corpus.require_rows("train", 9)


def test_every_pair_is_read_once_an_epoch(tmp_path):
    rows = [(f"s{n}", f"t{n}") for n in range(23)]
    corpus = pairs(tmp_path, rows)
    for epoch in range(3):
        reading = corpus.text_batch("train", 5, epoch, 23, 12)
        assert reading.target_starts_B is not None
        read = [
            (corpus.decode(row[:at]), corpus.decode(row[at:]))
            for row, at in zip(reading.tokens_BT, reading.target_starts_B.tolist(), strict=True)
        ]
        assert sorted(read) == sorted(rows)
    assert all_documents(corpus, "train") == rows
    assert corpus.n_rows("train", 12) == (23,)
    assert corpus.n_truncated_pairs("train", 5) == 13  # 's10' and 't10' with their end


def test_a_split_with_too_little_to_read_says_so(tmp_path):
    corpus = corpus_of_texts(tmp_path, ["short"])
    with pytest.raises(
        SpecError,
        match=(
            r"sources.0 \(files\) has 6 tokens of train text, not one row of length 7; read more"
            r" text, "
            "cut it into smaller documents by max_document, hold out another share, or use shorter"
            " rows"
        ),
    ):
        corpus.text_batch("train", 1, 0, 1, 7)
    with pytest.raises(
        SpecError, match=r"sources.0 \(files\) has 0 tokens of valid text, not one row of length 1"
    ):
        corpus.text_batch("valid", 1, 0, 1, 1)
    with pytest.raises(
        SpecError,
        match=r"sources.0 \(pairs\) has no pair of test text, .*; read more text, hold out",
    ):
        pairs(tmp_path, [("a", "b")]).text_batch("test", 1, 0, 1, 7)


def test_a_large_vocabulary_is_kept_in_two_bytes(tmp_path):
    corpus = corpus_of_texts(tmp_path, TEXTS, tokenizer={"kind": "bpe", "n_vocab": 290})
    shard = corpus.readers["train"][0].shard
    assert shard.tokens.dtype == np.uint16
    assert (corpus.folder / "0.train.tokens").stat().st_size == 2 * shard.n_tokens

"""From sources to the cache: splits, fingerprints, and what happens to a torn cache."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_corpus import (
    all_documents,
    build_small_corpus,
    corpus_of_texts,
    write_jsonl,
    write_texts,
)

from paribus.corpus import document_text, prepare_corpus, split_counts
from paribus.corpus.cache import (
    build_folder,
    corpus_fingerprint,
    read_whole_index,
    source_key,
    text_fingerprint,
)
from paribus.corpus.splits import SPLITS, split_of
from paribus.errors import RecordError, SpecError
from paribus.spec import Corpus

MANY = [f"Document number {number}. It has two sentences." for number in range(500)]
HELD_OUT = {"valid": 0.2, "test": 0.1}
NAMES = ("cb5a95da94478942", "b5eb75ac34ebc92d", "6f0478aa3474d6d8")  # runs are found by these


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, but for when they were written."""
    return {
        path.name: re.sub(rb'"time_ns": \d+', b"", path.read_bytes()) for path in folder.iterdir()
    }


def test_every_document_is_in_one_split_whole_and_in_order(tmp_path):
    corpus = corpus_of_texts(tmp_path, MANY, **HELD_OUT)
    found = {split: [text for (text,) in all_documents(corpus, split)] for split in SPLITS}
    assert sorted(text for documents in found.values() for text in documents) == sorted(MANY)
    for documents in found.values():
        assert documents == sorted(documents, key=MANY.index)
    assert len(found["valid"]) in range(70, 131)
    assert len(found["test"]) in range(30, 71)


def test_the_same_text_is_never_in_two_splits_whatever_its_source(tmp_path):
    one = write_texts(tmp_path / "one.jsonl", MANY + MANY[:250])
    two = write_texts(tmp_path / "two.jsonl", MANY[::-1])
    sources = [{"kind": "files", "paths": str(path)} for path in (one, two)]
    corpus = build_small_corpus(tmp_path, *sources, **HELD_OUT)
    found = [
        {text for n in (0, 1) for (text,) in all_documents(corpus, split, n)} for split in SPLITS
    ]
    assert sum(map(len, found)) == len(set.union(*found)) == 500


def test_a_pair_goes_where_its_source_goes(tmp_path):
    rows = [{"source": f"s{n % 200}", "target": f"t{n}"} for n in range(400)]
    corpus = build_small_corpus(
        tmp_path,
        {"kind": "pairs", "paths": str(write_jsonl(tmp_path / "p.jsonl", rows))},
        **HELD_OUT,
    )
    found = [{source for source, _ in all_documents(corpus, split)} for split in SPLITS]
    assert sum(map(len, found)) == 200
    assert sorted(
        target for split in SPLITS for _, target in all_documents(corpus, split)
    ) == sorted(row["target"] for row in rows)


def test_shares_are_stretches_of_the_hash():
    assert split_of(bytes(16), 0.1, 0.1) == "test"
    assert split_of(bytes([50]) + bytes(15), 0.1, 0.1) == "valid"  # 50/256 lies between 0.1 and 0.2
    assert split_of(bytes([52]) + bytes(15), 0.1, 0.1) == "train"
    assert split_of(bytes(16), 0.0, 0.0) == "train"


def test_counts_are_those_of_the_text(tmp_path):
    corpus = corpus_of_texts(tmp_path, ["naïve", "two words", "", " \n"])
    train, valid, test = split_counts(corpus)
    assert (train.n_documents, train.n_tokens, train.n_bytes) == (2, 15, 15)
    assert (valid.n_documents, test.n_documents) == (0, 0)
    assert (train.kind, train.share, train.split) == ("files", 1.0, "train")
    assert corpus.index.sources[0].n_empty == 2
    assert document_text(corpus, "train", 0, 0) == ("naïve",)


@pytest.mark.parametrize("row", [("s", ""), ("", "t"), ("s", " \n")])
def test_a_pair_with_an_empty_side_is_left_out(tmp_path, row):
    rows = [{"source": source, "target": target} for source, target in [("One.", "Two."), row]]
    path = write_jsonl(tmp_path / "p.jsonl", rows)
    corpus = build_small_corpus(tmp_path, {"kind": "pairs", "paths": str(path)})
    assert all_documents(corpus, "train") == [("One.", "Two.")]
    assert corpus.index.sources[0].n_empty == 1


@pytest.mark.parametrize("tokenizer", [{"kind": "bytes"}, {"kind": "bpe", "n_vocab": 300}])
def test_the_number_of_workers_changes_nothing(tmp_path, monkeypatch, tokenizer):
    monkeypatch.setattr("paribus.corpus.documents.BATCH_DOCUMENTS", 7)
    path = str(write_texts(tmp_path / "t.jsonl", MANY))
    sources = [
        {"kind": "files", "paths": path},
        {"kind": "copy", "form": "text", "n_documents": 100},
    ]
    made = [
        build_small_corpus(
            tmp_path / str(n), *sources, n_workers=n, tokenizer=tokenizer, **HELD_OUT
        )
        for n in (1, 2, 5)
    ]
    assert len({one.fingerprint for one in made}) == 1
    assert contents(made[0].folder) == contents(made[1].folder) == contents(made[2].folder)


def test_a_second_build_reads_nothing(tmp_path, monkeypatch):
    first = corpus_of_texts(tmp_path, MANY)
    monkeypatch.setattr("paribus.corpus.splits.piece_digests", None)
    assert of_texts_again(tmp_path).fingerprint == first.fingerprint


def of_texts_again(tmp_path: Path, **fields):
    return build_small_corpus(
        tmp_path, {"kind": "files", "paths": str(tmp_path / "given.jsonl")}, **fields
    )


def test_a_changed_file_is_another_corpus(tmp_path):
    first = corpus_of_texts(tmp_path, MANY)
    second = corpus_of_texts(tmp_path, [*MANY[:-1], "Another ending."])
    assert first.fingerprint != second.fingerprint
    assert first.folder != second.folder


def test_the_same_text_elsewhere_is_the_same_corpus(tmp_path):
    first = corpus_of_texts(tmp_path, MANY)
    moved = write_texts(tmp_path / "moved.jsonl", MANY)
    second = build_small_corpus(tmp_path, {"kind": "files", "paths": str(moved)})
    assert first.fingerprint == second.fingerprint
    assert first.folder == second.folder


def test_a_file_touched_but_not_changed_is_read_again_and_is_the_same(tmp_path):
    first = corpus_of_texts(tmp_path, MANY)
    os.utime(tmp_path / "given.jsonl", (1, 1))
    assert of_texts_again(tmp_path).fingerprint == first.fingerprint
    assert len(list((tmp_path / "cache/keys").iterdir())) == 2


@pytest.mark.parametrize("change", [{"valid": 0.1}, {"tokenizer": {"kind": "bpe", "n_vocab": 258}}])
def test_what_changes_tokens_or_splits_changes_the_fingerprint(tmp_path, change):
    first, second = corpus_of_texts(tmp_path, MANY), of_texts_again(tmp_path, **change)
    assert first.fingerprint != second.fingerprint
    assert first.folder != second.folder


def test_weights_change_the_fingerprint_but_not_the_shards(tmp_path):
    path = str(write_texts(tmp_path / "t.jsonl", MANY))
    languages = [
        {"kind": "copy", "form": "text", "n_documents": 9, "weight": weight} for weight in (1, 2, 4)
    ]
    one, two, four = (
        build_small_corpus(
            tmp_path,
            {"kind": "files", "paths": path, "weight": 1 if weight["weight"] < 4 else 2},
            weight,
        )
        for weight in languages
    )
    assert one.folder == two.folder == four.folder
    assert one.fingerprint != two.fingerprint == four.fingerprint  # 1 to 2 is 2 to 4


@pytest.mark.parametrize(
    "fault", ["cut", "gone", "other bytes", "other cuts", "no index", "bad index", "old", "older"]
)
def test_a_torn_cache_is_built_again(tmp_path, fault):
    first = corpus_of_texts(tmp_path, MANY)
    before = contents(first.folder)
    path = first.folder / "0.train.tokens"
    index = first.folder / "index.json"
    if fault == "cut":
        path.write_bytes(path.read_bytes()[:-1])
    elif fault == "gone":
        path.unlink()
    elif fault == "other bytes":
        path.write_bytes(path.read_bytes()[::-1])
    elif fault == "other cuts":
        cuts = first.folder / "0.train.cuts"
        cuts.write_bytes(b"\xff" * cuts.stat().st_size)
    elif fault == "no index":
        index.unlink()
    elif fault == "bad index":
        index.write_text("{")
    elif fault == "older":
        sizes = {path.name: path.stat().st_size for path in first.folder.iterdir() if path != index}
        index.write_text(json.dumps(json.loads(index.read_text()) | {"files": sizes}))
    else:
        index.write_text(json.dumps(json.loads(index.read_text()) | {"format": 0}))
    second = of_texts_again(tmp_path)
    assert second.fingerprint == first.fingerprint
    assert contents(second.folder) == before


def test_a_copied_cache_is_believed_by_its_content(tmp_path, monkeypatch):
    first = corpus_of_texts(tmp_path, MANY)
    for path in first.folder.iterdir():
        os.utime(path, (1, 1))
    monkeypatch.setattr("paribus.corpus.splits.piece_digests", None)  # nothing is read
    assert of_texts_again(tmp_path).fingerprint == first.fingerprint
    monkeypatch.setattr("paribus.corpus.cache.file_sha256", None)  # and from then on by its times
    assert of_texts_again(tmp_path).fingerprint == first.fingerprint


def test_what_somebody_else_finished_meanwhile_stays(tmp_path, monkeypatch, capfd):
    first = corpus_of_texts(tmp_path, MANY)
    (tmp_path / "cache/keys").rename(tmp_path / "keys")
    number, looks = first.folder.stat().st_ino, iter([None])
    monkeypatch.setattr(
        "paribus.corpus.cache.read_whole_index",
        lambda folder: next(looks, read_whole_index(folder)),
    )
    prepare_corpus(first.spec, tmp_path / "cache")
    assert first.folder.stat().st_ino == number
    assert capfd.readouterr().err == "reading files: done\n"
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == sorted(
        [first.folder.name, "keys"]
    )


def test_a_folder_that_is_built_anew_is_told_of(tmp_path, capfd):
    first = corpus_of_texts(tmp_path, MANY)
    (first.folder / "0.train.tokens").write_bytes(
        bytes((first.folder / "0.train.tokens").stat().st_size)
    )
    prepare_corpus(first.spec, tmp_path / "cache")
    told = capfd.readouterr().err.splitlines()
    assert told == [
        "reading files: done",
        f"{first.folder} was damaged, or of an earlier form, and is built anew",
    ]


def test_names_of_texts_stay_what_they_were():
    corpus = Corpus.model_validate(
        {"sources": {"kind": "copy", "n_documents": 9}, "tokenizer": "bytes"}
    )
    text = text_fingerprint(corpus, ["aa"], "{}")
    assert (text[:16], corpus_fingerprint(corpus, text)[:16], source_key(corpus)[:16]) == NAMES


def test_what_was_met_while_reading_belongs_to_where_it_was_read(tmp_path):
    sources = []
    for name, others in (("one", []), ("two", ["a.pdf", "b.png"])):
        (tmp_path / name).mkdir()
        write_texts(tmp_path / name / "t.jsonl", [*MANY, *("" for _ in others)])
        for other in others:
            (tmp_path / name / other).touch()
        sources.append({"kind": "files", "paths": str(tmp_path / name)})
    for _ in ("built", "looked up"):
        one, two = (build_small_corpus(tmp_path, source) for source in sources)
        assert one.folder == two.folder
        assert [
            (of.index.sources[0].n_empty, of.index.sources[0].n_passed_over) for of in (one, two)
        ] == [
            (0, 0),
            (2, 2),
        ]


def test_a_failed_build_leaves_nothing_behind(tmp_path):
    with pytest.raises(SpecError, match="n_vocab is 9999"):
        corpus_of_texts(tmp_path, MANY[:3], tokenizer={"kind": "bpe", "n_vocab": 9999})
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_killed_build_is_swept_away_by_the_next_but_a_running_one_is_not(tmp_path):
    host = os.uname().nodename
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    dead, alive = (
        tmp_path / "cache" / f".building-{host}-{pid}-00" for pid in (done.pid, os.getpid())
    )
    for folder in (dead, alive):
        folder.mkdir(parents=True)
    corpus_of_texts(tmp_path, MANY)
    assert alive.exists()
    assert not dead.exists()


@pytest.mark.parametrize("host", ["vm", "vm-2", "2", "a-1-beef", "[v]m*", "", "-"])
def test_only_this_host_s_killed_builds_are_swept_away(tmp_path, monkeypatch, host):
    monkeypatch.setattr("platform.node", lambda: host)
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    others = [f"{host}-2", f"{host}-{done.pid}-1", f"{host}2", f"x-{host}", f"-{host}"]
    theirs = [f".building-{other}-{done.pid}-0123abcd" for other in others]
    junk = [
        f".building-{host}-abc-def",
        f".building-{host}",
        ".building-",
        f".building-{host}-{done.pid}",
        f".building-{host}-{done.pid}-xyz",
        f".building-{host}-0-ab",
        f".building-{host}-{'9' * 40}-ab",
        f".building-{host}-\u0663-ab",
        f".building-{host}--{done.pid}-ab\n",
    ]
    own = [f".building-{host}-{done.pid}-0123abcd", f".building-{host}-{done.pid}-0123abcd4567ef01"]
    for name in (*theirs, *junk, *own):
        (tmp_path / "cache" / name).mkdir(parents=True, exist_ok=True)
    corpus_of_texts(tmp_path, MANY)
    left = {path.name for path in (tmp_path / "cache").iterdir()}
    assert left >= {*theirs, *junk}
    assert not left & {*own}


def test_two_that_build_at_once_end_with_one(tmp_path):
    first = corpus_of_texts(tmp_path, MANY)
    shutil.rmtree(tmp_path / "cache/keys")
    second = of_texts_again(tmp_path)
    assert second.folder == first.folder
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == sorted(
        [first.folder.name, "keys"]
    )


def test_an_empty_corpus_is_refused(tmp_path):
    empty = (
        "corpus source 'files' is empty: no document with a letter in it, 2 without, 0 files passed"
        " over; give it text"
    )
    with pytest.raises(SpecError, match=empty):
        corpus_of_texts(tmp_path, [" ", "\n"])
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(SpecError, match="corpus source 'files' is empty"):
        build_small_corpus(tmp_path, {"kind": "files", "paths": str(tmp_path / "a.txt")})


def test_bad_utf8_is_counted_in_the_index(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"good \xff text")
    source = {"kind": "files", "paths": str(path)}
    with pytest.raises(RecordError, match="not UTF-8 at byte 5"):
        build_small_corpus(tmp_path, source)
    assert (
        build_small_corpus(tmp_path, source | {"errors": "replace"}).index.sources[0].n_replaced
        == 1
    )


def test_progress_is_told_in_plain_lines_when_there_is_no_terminal(tmp_path, capfd):
    path = str(write_texts(tmp_path / "t.jsonl", MANY))
    table = {
        "sources": [{"kind": "files", "paths": path}],
        "tokenizer": {"kind": "bpe", "n_vocab": 258},
    }
    prepare_corpus(Corpus.model_validate(table), tmp_path / "cache", show_progress=True)
    told = capfd.readouterr()
    assert told.err.splitlines() == [
        "reading files: done",
        "training the tokenizer: done",
        "tokenising files: done",
    ]
    assert told.out == ""


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (
            errno.ENOSPC,
            "No space left on device; free some space, or choose another folder for texts",
        ),
        (errno.EACCES, "Permission denied; make it writable, or choose another folder for texts"),
        (errno.EROFS, "Read-only file system; choose another folder for texts"),
    ],
)
def test_a_cache_that_cannot_be_written_says_what_would_do(tmp_path, number, said):
    with (
        pytest.raises(RecordError, match=f"cache cannot be written: {said}$"),
        build_folder(tmp_path / "cache"),
    ):
        raise OSError(number, os.strerror(number))

"""A text in the cache is believed after every byte was read, and read again where it may have
changed.
"""

import json
import os
from pathlib import Path

import pytest
from small_corpus import corpus_of_texts, write_texts

from paribus.corpus import prepare_corpus, reopen_text, reverify_text, verify_text
from paribus.errors import RecordError

MANY = [f"Document number {number}. It has two sentences." for number in range(200)]
REMEDY = "remove that folder of the cache, and the same command builds the text again"


def flip(path: Path) -> None:
    """Another byte at the same size and time, as a disk or a hand may leave it."""
    stat, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.parametrize(
    "name", ["0.train.tokens", "0.train.cuts", "0.train.sentences", "tokenizer.json"]
)
def test_a_byte_changed_at_the_same_size_and_time_is_found(tmp_path, name):
    text = corpus_of_texts(tmp_path, MANY, valid=0.2)
    known = verify_text(text)
    flip(text.folder / name)
    for found in (
        lambda: verify_text(text),
        lambda: reverify_text(known),
        lambda: reopen_text(text.spec, known),
    ):
        with pytest.raises(
            RecordError, match=rf"{name} is not what was written \(sha256 differs\); {REMEDY}"
        ):
            found()


def test_a_file_that_is_gone_is_found(tmp_path):
    text = corpus_of_texts(tmp_path, MANY, valid=0.2)
    known = verify_text(text)
    (text.folder / "0.valid.tokens").unlink()
    for found in (lambda: verify_text(text), lambda: reverify_text(known)):
        with pytest.raises(
            RecordError, match=f"0.valid.tokens cannot be read: No such file or directory; {REMEDY}"
        ):
            found()


@pytest.mark.parametrize("damage", ["{}", "null", "", "[]"])
def test_an_index_that_is_none_proves_nothing(tmp_path, damage):
    text = corpus_of_texts(tmp_path, MANY)
    (text.folder / "index.json").write_text(damage)
    with pytest.raises(
        RecordError, match=f"index.json is missing or not what was written; {REMEDY}"
    ):
        verify_text(text)


def test_an_index_that_lists_less_proves_nothing(tmp_path):
    text = corpus_of_texts(tmp_path, MANY)
    path = text.folder / "index.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "files": {}}))
    with pytest.raises(
        RecordError, match=f"index.json does not list '0.test.cuts', which lies beside it; {REMEDY}"
    ):
        verify_text(text)


def test_what_a_system_leaves_beside_a_text_is_no_part_of_it(tmp_path):
    text = corpus_of_texts(tmp_path, MANY)
    known = verify_text(text)
    for name in (".DS_Store", ".nfs0000000000c40c1b00000001"):
        (text.folder / name).write_bytes(b"1")
    assert verify_text(text) == known


def test_what_did_not_change_is_not_read_again_and_another_time_alone_is_no_change(
    tmp_path, monkeypatch
):
    text = corpus_of_texts(tmp_path, MANY)
    known = verify_text(text)
    read = []
    monkeypatch.setattr(
        "paribus.corpus.verified_text.file_sha256", lambda path: read.append(path.name) or "0"
    )
    assert reverify_text(known) == known
    assert read == []
    monkeypatch.undo()
    os.utime(text.folder / "0.train.tokens")
    again = reverify_text(known)
    assert again != known
    assert {name: one.sha256 for name, one in again.files.items()} == {
        name: one.sha256 for name, one in known.files.items()
    }


def test_the_text_of_a_plan_is_opened_wherever_its_sources_are_by_now(tmp_path):
    text = corpus_of_texts(tmp_path, MANY, valid=0.2)
    known = verify_text(text)
    write_texts(tmp_path / "given.jsonl", [document.upper() for document in MANY])
    assert (
        prepare_corpus(text.spec, tmp_path / "cache", show_progress=False).fingerprint
        != text.fingerprint
    )
    again = reopen_text(text.spec, known)
    assert again.fingerprint == text.fingerprint
    assert (again.readers["train"][0].shard.tokens == text.readers["train"][0].shard.tokens).all()


def test_another_text_is_not_taken_for_it(tmp_path):
    text = corpus_of_texts(tmp_path, MANY, valid=0.2)
    known = verify_text(text)
    other = text.spec.model_copy(update={"sources": (*text.spec.sources, *text.spec.sources)})
    with pytest.raises(
        RecordError, match=rf"holds the text .*, not {text.fingerprint[:16]} of the plan; {REMEDY}"
    ):
        reopen_text(other, known)

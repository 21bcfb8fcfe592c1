"""Bytes, byte pairs and foreign tokenizers."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest
from small_corpus import all_documents, build_small_corpus, corpus_of_texts
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, trainers

from paribus.corpus import corpus_remarks
from paribus.corpus.encoding import tokenizer_text
from paribus.corpus.progress import Progress
from paribus.corpus.tokenizer import (
    Tokenizer,
    byte_tokenizer,
    explain_panics,
    open_tokenizer,
    read_tokenizer_file,
    train_tokenizer,
)
from paribus.errors import RecordError, SpecError, UnsupportedError
from paribus.spec import BPETokenizer, Corpus, TokenizerFile
from paribus.spec.run import n_text

TEXT = (re.__doc__ or "") + "naïve café, 中文 and 😀 don't  stop\n\n\tindented"
ODD = " '  \n\t\r.,a'sllBé \u00a0\u3000中½_1²-😀\x1c\x85\x00"


def strings(n: int) -> list[str]:
    draw = Random(3)
    return ["".join(draw.choices(ODD, k=draw.randint(1, 30))) for _ in range(n)]


def test_a_byte_is_its_own_id():
    tokenizer = byte_tokenizer()
    assert tokenizer.n_text == 256
    assert tokenizer.bytes_of_ids.tolist() == [1] * 256
    assert tokenizer.encode("aé\n😀") == list("aé\n😀".encode())
    for text in strings(300):
        assert tokenizer.encode(text) == list(text.encode())
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_signs_say_nothing_and_torn_letters_are_shown_as_such():
    tokenizer = byte_tokenizer()
    assert tokenizer.decode([104, 257, 105, 256]) == "hi"
    assert tokenizer.decode([195]) == "\ufffd"


def test_byte_pairs_bring_every_text_back_and_count_its_bytes():
    tokenizer = train_tokenizer(BPETokenizer(n_vocab=307), [TEXT])
    assert tokenizer.n_text == 307
    for text in [TEXT, *strings(2000)]:
        (encoded,) = tokenizer.encode_batch([text])
        ids = encoded.ids
        assert encoded.ends is None
        assert encoded.n_lost == 0
        assert ids.tolist() == tokenizer.encode(
            text
        )  # remembered words give what the library gives
        assert tokenizer.decode(ids.tolist()) == text
        assert tokenizer.bytes_of_ids[ids].sum() == len(text.encode())
    assert len(tokenizer.encode(TEXT)) < 0.7 * len(TEXT)


def test_fewer_tokens_than_can_be_told_before_never_stand_for_a_text():
    pairs = train_tokenizer(BPETokenizer(n_vocab=307), [TEXT])
    assert byte_tokenizer().longest_token_bytes == 1
    assert pairs.longest_token_bytes == max(map(len, map(pairs.token_bytes, range(307))))
    for tokenizer in (pairs, byte_tokenizer()):
        for text in [TEXT, TEXT * 100, "  " * 5000, *strings(300)]:
            assert tokenizer.least_tokens(text) <= len(tokenizer.encode(text))


def test_an_unknown_word_may_be_long():
    library = Library(models.WordLevel({"a": 0, "?": 1}, unk_token="?"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()  # pyright: ignore[reportAttributeAccessIssue]
    tokenizer = Tokenizer(library)
    assert len(tokenizer.encode("é" * 200)) == 1
    assert tokenizer.least_tokens("é" * 200) == 1
    assert tokenizer.least_tokens("é" * 2000) == 8


def test_a_long_text_has_the_ids_of_its_parts():
    for tokenizer in (train_tokenizer(BPETokenizer(n_vocab=307), [TEXT]), byte_tokenizer()):
        assert tokenizer.encode(" a" * 5000) == tokenizer.encode(" a") * 5000
        with pytest.raises(UnsupportedError, match="half a letter"):
            tokenizer.encode("\ud800" * 5000)


@pytest.mark.parametrize("text", ["", " ", "a", " a b", "a b ", "a  b", "a\tb c", "né e", "x\n y"])
def test_short_texts_have_the_ids_that_the_library_gives(text: str):
    for tokenizer in (train_tokenizer(BPETokenizer(n_vocab=307), [TEXT]), byte_tokenizer()):
        assert tokenizer.encode_short([text, TEXT]) == [
            tuple(tokenizer.encode(text)),
            tuple(tokenizer.encode(TEXT)),
        ]


def test_many_short_texts_have_the_ids_that_the_library_gives():
    tokenizer = train_tokenizer(BPETokenizer(n_vocab=307), [TEXT])
    texts = strings(2000)
    assert tokenizer.encode_short(texts) == [tuple(tokenizer.encode(text)) for text in texts]


def test_remembered_words_are_forgotten_when_they_are_many(monkeypatch):
    monkeypatch.setattr("paribus.corpus.tokenizer.MAX_WORDS", 3)
    tokenizer = train_tokenizer(BPETokenizer(n_vocab=307), [TEXT])
    for text in ["a b c d e f", "g h " + "long" * 30, TEXT]:
        (encoded,) = tokenizer.encode_batch([text])
        assert encoded.ids.tolist() == tokenizer.encode(text)
        assert tokenizer.encode_short([text]) == [tuple(tokenizer.encode(text))]


def test_the_same_text_gives_the_same_byte_pairs_in_another_process():
    here = hashlib.sha256(
        train_tokenizer(BPETokenizer(n_vocab=400), [TEXT] * 3).json.encode()
    ).hexdigest()
    code = (
        "import hashlib, sys; from paribus.corpus.tokenizer import train_tokenizer; "
        "from paribus.spec import BPETokenizer; text = sys.stdin.buffer.read().decode(); "
        "tokenizer = train_tokenizer(BPETokenizer(n_vocab=400), [text] * 3); "
        "print(hashlib.sha256(tokenizer.json.encode()).hexdigest())"
    )
    for threads in ("1", "3"):
        environment = {"PYTHONPATH": ":".join(sys.path), "RAYON_NUM_THREADS": threads}
        told = subprocess.run(
            [sys.executable, "-c", code],
            input=TEXT.encode(),
            capture_output=True,
            check=True,
            env=environment,
        )
        assert told.stdout.decode().strip() == here


def test_more_ids_than_the_text_gives_are_refused():
    with pytest.raises(
        SpecError,
        match="n_vocab is 5000, but the training text gives only 260 ids; use at most 260",
    ):
        train_tokenizer(BPETokenizer(n_vocab=5000), ["abcabc abcabc"])


def wordpiece(path: Path) -> TokenizerFile:
    library = Library(models.WordPiece(unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()  # pyright: ignore[reportAttributeAccessIssue]
    library.decoder = decoders.WordPiece()  # pyright: ignore[reportAttributeAccessIssue]
    trainer = trainers.WordPieceTrainer(
        vocab_size=90, special_tokens=["[UNK]", "[CLS]"], show_progress=False
    )
    library.train_from_iterator(["low lower lowest new newer newest. wide wider!"] * 9, trainer)
    library.enable_truncation(3)
    library.save(str(path))
    return TokenizerFile(path=str(path))


def test_any_tokenizer_can_be_read_from_its_file(tmp_path):
    tokenizer = read_tokenizer_file(wordpiece(tmp_path / "t.json"))
    ids = tokenizer.encode("lower newest low low low")
    assert tokenizer.decode(ids) == "lower newest low low low"  # not cut short as the file asks
    assert tokenizer.bytes_of_ids[tokenizer.library.token_to_id("[CLS]")] == 0
    assert tokenizer.bytes_of_ids[ids].sum() == len("lowernewestlowlowlow")
    assert tokenizer.library.token_to_id("[CLS]") not in tokenizer.encode(
        "[CLS]"
    )  # text cannot write signs


def test_what_stands_for_unknown_words_is_told_whatever_the_model(tmp_path):
    tokenizer = read_tokenizer_file(wordpiece(tmp_path / "t.json"))
    assert (
        tokenizer.encode("日本")
        == [tokenizer.unknown_id]
        == [tokenizer.library.token_to_id("[UNK]")]
    )
    assert (
        Tokenizer(
            Library(models.Unigram([("a", -1.0), ("<unk>", 0.0)], unk_id=1, byte_fallback=False))
        ).unknown_id
        == 1
    )
    assert byte_tokenizer().unknown_id is None


@pytest.mark.parametrize("is_byte_level", [True, False])
def test_letters_that_no_token_stands_for_are_counted(tmp_path, is_byte_level):
    library = Library(models.BPE(vocab={letter: n for n, letter in enumerate("abcdeĠ")}, merges=[]))
    if is_byte_level:
        library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # pyright: ignore[reportAttributeAccessIssue]
        library.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    else:
        library.pre_tokenizer = pre_tokenizers.Whitespace()  # pyright: ignore[reportAttributeAccessIssue]
    library.save(str(tmp_path / "t.json"))
    tokenizer = {"kind": "file", "path": str(tmp_path / "t.json")}
    corpus = corpus_of_texts(tmp_path, ["abc xyz dz", "bead"], tokenizer=tokenizer)
    assert (corpus.index.sources[0].n_lost, corpus.index.sources[0].n_unknown) == (4, 0)
    assert "corpus.sources.0 (files): some 4 letters have no token and are lost" in set(
        corpus_remarks(corpus, 4)
    )


def test_words_that_a_tokenizer_does_not_know_are_counted(tmp_path):
    corpus = corpus_of_texts(
        tmp_path, ["low 日本 newer 日本"], tokenizer=wordpiece(tmp_path / "t.json").model_dump()
    )
    assert (corpus.index.sources[0].n_lost, corpus.index.sources[0].n_unknown) == (0, 2)
    told = "corpus.sources.0 (files): 2 tokens stand for words that the tokenizer does not know"
    assert told in set(corpus_remarks(corpus, 4))


def test_text_that_a_tokenizer_cannot_write_is_refused(tmp_path):
    library = Library(models.WordLevel({"low": 0}))
    library.pre_tokenizer = pre_tokenizers.Whitespace()  # pyright: ignore[reportAttributeAccessIssue]
    library.save(str(tmp_path / "t.json"))
    with pytest.raises(
        UnsupportedError,
        match=r"cannot write this text: .*; give it a word for what it does not know",
    ):
        corpus_of_texts(
            tmp_path, ["low lower"], tokenizer={"kind": "file", "path": str(tmp_path / "t.json")}
        )


def test_half_a_letter_is_refused():
    with pytest.raises(
        UnsupportedError,
        match=r"holds half a letter .*, which no tokenizer can write; give it in UTF-8",
    ):
        byte_tokenizer().encode("a\udcff")


def test_a_corpus_in_a_foreign_tokenizer_keeps_its_sentences(tmp_path):
    spec = wordpiece(tmp_path / "t.json")
    corpus = corpus_of_texts(tmp_path, ["low. newer lowest! wide"], tokenizer=spec.model_dump())
    reading = corpus.text_batch("train", 1, 0, 1, corpus.readers["train"][0].n_rows(1))
    words = [corpus.decode([token]) for token in reading.tokens_BT[0].tolist()]
    found = dict(zip(words, reading.sentences_BT[0].tolist(), strict=True))
    assert (found["low"], found["."], found["newer"], found["!"], found["wide"]) == (0, 0, 1, 1, 2)


def test_byte_pairs_keep_sentences_and_documents(tmp_path):
    texts = ["One is here. Two is there.\n\nThree", "Alone"] + [TEXT] * 3
    corpus = corpus_of_texts(tmp_path, texts, tokenizer={"kind": "bpe", "n_vocab": 300})
    assert [text for (text,) in all_documents(corpus, "train")] == texts
    shard = corpus.readers["train"][0].shard
    first = np.arange(int(shard.offsets[1]))
    parts = np.split(shard.tokens[first], np.flatnonzero(shard.begins_sentence(first))[1:])
    assert [corpus.decode(part.tolist()) for part in parts] == [
        "One is here. ",
        "Two is there.\n\n",
        "Three",
    ]


def test_a_long_piece_is_encoded_in_stretches_and_brought_back(tmp_path, monkeypatch):
    monkeypatch.setattr("paribus.corpus.encoding.CHUNK_BYTES", 50)
    monkeypatch.setattr("paribus.corpus.encoding.LIBRARY_BATCH_BYTES", 200)
    corpus = corpus_of_texts(
        tmp_path, [TEXT, "x" * 333, TEXT], tokenizer={"kind": "bpe", "n_vocab": 280}
    )
    assert [text for (text,) in all_documents(corpus, "train")] == [TEXT, "x" * 333, TEXT]


def test_a_file_of_bytes_gives_what_bytes_give(tmp_path, monkeypatch):
    monkeypatch.setattr("paribus.corpus.encoding.CHUNK_BYTES", 50)
    monkeypatch.setattr("paribus.corpus.encoding.LIBRARY_BATCH_BYTES", 200)
    (tmp_path / "t.json").write_text(byte_tokenizer().json, "utf-8")
    file = {"kind": "file", "path": str(tmp_path / "t.json")}
    texts = ["One is here. Two is there.\n\nThree", "x" * 333, TEXT, "Alone"]
    one = corpus_of_texts(tmp_path, texts).readers["train"][0].shard
    other = corpus_of_texts(tmp_path, texts, tokenizer=file).readers["train"][0].shard
    for name in ("tokens", "sentence_bits", "offsets"):
        assert getattr(other, name).tolist() == getattr(one, name).tolist()


def test_turns_in_a_file_of_bytes_are_special_tokens(tmp_path):
    (tmp_path / "t.json").write_text(byte_tokenizer().json, "utf-8")
    file = {"kind": "file", "path": str(tmp_path / "t.json")}
    source = {"kind": "copy", "n_documents": 20, "form": "conversations"}
    one, other = (
        build_small_corpus(tmp_path, source, tokenizer=tokenizer).readers["train"][0].shard
        for tokenizer in ({"kind": "bytes"}, file)
    )
    assert other.tokens.tolist() == one.tokens.tolist()
    assert (one.tokens >= 256).sum() == 20 * 3  # user, end of turn, assistant


def test_only_plain_bytes_are_taken_for_their_ids():
    assert byte_tokenizer().is_bytes
    assert not train_tokenizer(BPETokenizer(n_vocab=307), [TEXT]).is_bytes
    renumbered = json.loads(byte_tokenizer().json)
    vocabulary = renumbered["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    assert not Tokenizer(Library.from_str(json.dumps(renumbered))).is_bytes


def test_a_tokenizer_learns_from_an_even_part_of_much_text(tmp_path, monkeypatch):
    texts = [f"{n:02} " + "some words" * 9 for n in range(100)]
    shard = corpus_of_texts(tmp_path, texts).readers["train"][0].shard
    assert list(tokenizer_text([shard], Progress())) == texts
    monkeypatch.setattr("paribus.corpus.encoding.MAX_TOKENIZER_TEXT", 2000)
    told = list(tokenizer_text([shard], Progress()))
    assert len(told) == 22  # of 93 bytes each: the first to reach 2000
    assert set(told) < set(texts)
    assert sum(text >= "50" for text in told) in range(5, 18)


def test_what_is_no_tokenizer_is_refused(tmp_path):
    with pytest.raises(
        SpecError,
        match=(
            r"path 'gone' cannot be read: No such file .*; give a tokenizer.json \(looked for"
            r" /.*gone\)"
        ),
    ):
        read_tokenizer_file(TokenizerFile(path="gone"))
    path = tmp_path / "t.json"
    path.write_text("{}")
    with pytest.raises(SpecError, match=r"t.json' is not a tokenizer: .*; give a tokenizer.json"):
        read_tokenizer_file(TokenizerFile(path=str(path)))


def word_level(path: Path, ids: list) -> TokenizerFile:
    words = {f"word{place}": number for place, number in enumerate(ids)}
    model = {"type": "WordLevel", "vocab": words, "unk_token": "word0"}
    path.write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": model}))
    return TokenizerFile(path=str(path))


@pytest.mark.parametrize("wrong", [2**31, 2**22, -1, 1.5, "1", True, None, 2**70])
def test_ids_that_no_table_could_have_are_refused(tmp_path, wrong):
    spec = word_level(tmp_path / "t.json", [0, 1, wrong])
    with pytest.raises(
        SpecError, match=rf"t\.json' is not a tokenizer: it has the id {wrong!r}, where ids are"
    ):
        read_tokenizer_file(spec)
    said = f"it has the id {wrong!r}, where ids are whole numbers from 0 to 4,194,303; give"
    with pytest.raises(SpecError, match=rf"t\.json is not a tokenizer\.json: {said}"):
        n_text(Corpus(tokenizer=spec))


def test_the_largest_id_that_is_read_has_its_row(tmp_path):
    spec = word_level(tmp_path / "t.json", [0, 2**22 - 1])
    assert read_tokenizer_file(spec).n_text == n_text(Corpus(tokenizer=spec)) == 2**22


def test_a_tokenizer_that_is_a_pipe_or_lies_deep_is_refused(tmp_path):
    os.mkfifo(tmp_path / "t.json")
    spec = TokenizerFile(path=str(tmp_path / "t.json"))
    for read in (read_tokenizer_file, lambda one: n_text(Corpus(tokenizer=one))):
        with pytest.raises(
            SpecError, match="cannot be read: it is a pipe, not a regular file; give a token"
        ):
            read(spec)
    with pytest.raises(
        RecordError, match="cannot be read: it is a pipe, not a regular file; write it again"
    ):
        open_tokenizer(tmp_path / "t.json")
    (tmp_path / "d.json").write_text("[" * 100_000)
    with pytest.raises(SpecError, match=r"d\.json is not a tokenizer\.json: "):
        n_text(Corpus(tokenizer=TokenizerFile(path=str(tmp_path / "d.json"))))


def test_a_tokenizer_in_the_home_of_nobody_is_no_traceback():
    spec = TokenizerFile(path="~nobody-here/t.json")
    said = (
        r"tokenizer\.path '~nobody-here/t\.json' begins with the home folder of an unknown user;"
        r" write a path"
    )
    with pytest.raises(SpecError, match=rf"^{said}"):
        read_tokenizer_file(spec)
    with pytest.raises(SpecError, match=rf"^corpus\.{said}"):
        n_text(Corpus(tokenizer=spec))


def bad_tokenizer(**parts: object) -> str:
    """A tokenizer.json of two words, with parts that the library takes for granted."""
    table = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {"a": 0, "?": 1}, "unk_token": "?"},
    }
    return json.dumps(table | parts)


def charsmap(content: bytes) -> dict[str, str]:
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(content).decode()}


PANICS = [
    ({"normalizer": charsmap(b"")}, "Cannot parse precompiled_charsmap"),
    ({"normalizer": charsmap(bytes(8))}, "index out of bounds"),  # only once a text is encoded
    ({"pre_tokenizer": {"type": "FixedLength", "length": 0}}, "chunk size must be non-zero"),
    (
        {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]}},
        "out of range for slice",
    ),
]


@pytest.mark.parametrize(("parts", "words"), PANICS)
def test_what_the_library_does_not_expect_is_an_error_without_a_trace(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], parts: dict[str, object], words: str
):
    path = tmp_path / "tokenizer.json"
    path.write_text(bad_tokenizer(**parts))
    with pytest.raises(RecordError, match=f"cannot be read as a tokenizer: .*{words}.*write it"):
        open_tokenizer(path)
    with pytest.raises(SpecError, match=f"is not a tokenizer: .*{words}.*; give a tokenizer.json"):
        read_tokenizer_file(TokenizerFile(path=str(path)))
    path.write_text(bad_tokenizer())
    assert open_tokenizer(path).encode("a") == [0]
    assert capfd.readouterr() == ("", "")


def test_what_others_write_to_stderr_meanwhile_is_kept(capfd: pytest.CaptureFixture[str]):
    with explain_panics():
        os.write(2, b"a line of another thread\n")
    assert capfd.readouterr().err == "a line of another thread\n"


def test_a_panic_while_a_text_is_encoded_is_a_refusal():
    tokenizer = Tokenizer(Library.from_str(bad_tokenizer(normalizer=charsmap(bytes(8)))))
    with pytest.raises(UnsupportedError, match="cannot write this text: index out of bounds"):
        tokenizer.encode("a")

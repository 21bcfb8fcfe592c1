"""Text as its tokens come: whole letters, and nothing from a stop string on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, trainers

from paribus.corpus import Tokenizer
from paribus.corpus.dataset import vocabulary_of
from paribus.corpus.tokenizer import byte_tokenizer, train_tokenizer
from paribus.generate import TextDecoder, TextStream
from paribus.generate.text_stream import first_stop
from paribus.spec.corpus import BPETokenizer

TEXT = "naïve 文字 🙂🙃, the other words\n\nStop. und weiter: ÄÖÜ, the other words"


def bpe_tokenizer() -> Tokenizer:
    return train_tokenizer(BPETokenizer(n_vocab=280), [TEXT] * 3)


def metaspace_tokenizer() -> Tokenizer:
    """As of Llama: a token begins with its space, and what has no token is written in bytes."""
    words = ["▁the", "▁other", "▁words", "t", "h", "e", "▁", "o"]
    vocabulary = {f"<0x{byte:02X}>": byte for byte in range(256)}
    vocabulary |= {word: 256 + place for place, word in enumerate(words)}
    scores = [(word, -1.0) for word in vocabulary]
    library = Library(models.Unigram(scores, unk_id=0, byte_fallback=True))
    parts: Any = [
        decoders.Replace("▁", " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
        decoders.Strip(" ", 1, 0),
    ]
    library.pre_tokenizer = pre_tokenizers.Metaspace()  # pyright: ignore[reportAttributeAccessIssue]
    library.decoder = decoders.Sequence(parts)  # pyright: ignore[reportAttributeAccessIssue]
    return Tokenizer(library)


def word_piece_tokenizer() -> Tokenizer:
    library = Library(models.WordPiece(unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()  # pyright: ignore[reportAttributeAccessIssue]
    library.decoder = decoders.WordPiece(cleanup=False)  # pyright: ignore[reportAttributeAccessIssue]
    trainer = trainers.WordPieceTrainer(
        vocab_size=90, show_progress=False, special_tokens=["[UNK]"]
    )
    library.train_from_iterator([TEXT], trainer)
    return Tokenizer(library)


TOKENIZERS = {
    "bytes": byte_tokenizer,
    "bpe": bpe_tokenizer,
    "metaspace": metaspace_tokenizer,
    "word pieces": word_piece_tokenizer,
}


def decoder_of(name: str) -> TextDecoder:
    tokenizer = TOKENIZERS[name]()
    return TextDecoder(tokenizer, vocabulary_of(tokenizer))


def pieces(stream: TextStream, tokens: Sequence[int]) -> list[str]:
    return [*(stream.push(token) for token in tokens), stream.finish()]


@pytest.mark.parametrize("name", TOKENIZERS)
def test_pieces_add_up_to_the_text(name: str) -> None:
    decoder = decoder_of(name)
    tokens = decoder.tokenizer.encode(TEXT)
    assert "".join(pieces(TextStream(decoder), tokens)) == decoder.text(tokens)


@pytest.mark.parametrize("name", ["bytes", "bpe"])
def test_pieces_of_random_tokens_add_up_to_their_text(name: str) -> None:
    """Most are no letters at all."""
    decoder = decoder_of(name)
    draws = np.random.default_rng(1)
    for _ in range(50):
        tokens = draws.integers(decoder.tokenizer.n_text, size=23).tolist()
        assert "".join(pieces(TextStream(decoder), tokens)) == decoder.text(tokens)


def test_a_letter_comes_whole() -> None:
    decoder = decoder_of("bytes")
    tokens = list("🙂é".encode())
    assert pieces(TextStream(decoder), tokens) == ["", "", "", "🙂", "", "é", ""]
    assert pieces(TextStream(decoder), tokens[:2]) == ["", "", "�"]


def test_special_tokens_say_nothing() -> None:
    decoder = decoder_of("bytes")
    eos = decoder.vocabulary.eos
    assert pieces(TextStream(decoder), [97, eos, 98]) == ["a", "", "b", ""]
    assert decoder.text([97, eos, 98]) == "ab"


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize(
    "stop", [("other words",), ("words", "the oth"), ("ö", "er"), ("Nothing",), ("🙃",), ("\n\n",)]
)
def test_text_ends_before_the_first_stop_string(name: str, stop: tuple[str, ...]) -> None:
    decoder = decoder_of(name)
    tokens = decoder.tokenizer.encode(TEXT)
    whole = decoder.text(tokens)
    stream = TextStream(decoder, stop)
    text = "".join(pieces(stream, tokens))
    found = first_stop(whole, stop)
    if found is None:
        assert (text, stream.stop_string) == (whole, None)
    else:
        assert (text, stream.stop_string) == (whole[: found[0]], found[1])


def test_nothing_that_may_be_a_stop_string_is_told_before_it_is_known() -> None:
    stream = TextStream(decoder_of("bytes"), ("abcd", "bx"))
    assert [stream.push(token) for token in b"xabab"] == ["x", "", "", "ab", ""]
    assert [stream.push(token) for token in b"c"] == [""]
    assert stream.push(ord("e")) == "abce"
    assert stream.push(ord("b")) == ""
    assert stream.push(ord("x")) == ""
    assert (stream.stop_string, stream.push(97), stream.finish()) == ("bx", "", "")


def test_the_stop_string_that_is_complete_first_ends_the_text() -> None:
    assert first_stop("xabcde", ("abcde", "bcd")) == (2, "bcd")
    assert first_stop("xabcde", ("bcd", "abcd")) == (1, "abcd")
    assert first_stop("xabcde", ("q",)) is None


def test_what_was_held_back_comes_at_the_end() -> None:
    assert pieces(TextStream(decoder_of("bytes"), ("abc",)), b"xab") == ["x", "", "", "ab"]


def test_no_piece_ever_holds_a_stop_string_in_random_text() -> None:
    decoder, draws = decoder_of("bytes"), np.random.default_rng(2)
    for _ in range(200):
        text = "".join(draws.choice(list("ab"), 30))
        stop = tuple("".join(draws.choice(list("ab"), size)) for size in (3, 5))
        stream = TextStream(decoder, stop)
        found = first_stop(text, stop)
        told = pieces(stream, text.encode())
        assert "".join(told) == (text if found is None else text[: found[0]])

"""Text into ids and back, with the tokenizers library."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, trainers

from paribus.errors import RecordError, SpecError, UnsupportedError
from paribus.files import MAX_TOKENIZER_BYTES, expand_home, looked_for, read_text
from paribus.record.file_names import (
    ADDED_TOKENS_FILE,
    CHAT_TEMPLATE_FILE,
    SPECIAL_TOKENS_FILE,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
)
from paribus.spec.corpus import BPETokenizer, TokenizerFile
from paribus.spec.run import n_ids

# of an imported tokenizer, all that transformers may have written
TOKENIZER_FILES = (
    TOKENIZER_FILE,
    TOKENIZER_CONFIG_FILE,
    SPECIAL_TOKENS_FILE,
    ADDED_TOKENS_FILE,
    CHAT_TEMPLATE_FILE,
)
N_BYTES = 256
MAX_WORDS, MAX_LETTERS = 2**18, 64  # how many words are remembered, and how long ones
LONG_TEXT = 4096  # letters from which a text is encoded without the interpreter's lock
# What one token is taken to stand for at most where that is not known: an unknown word is one
# token, and a normaliser may leave bytes out.
LOOSE_TOKEN_BYTES = 512
STDERR = 2
_PANIC = "PanicException"  # of pyo3, which nobody can import
_STDERR_LOCK = Lock()
_TRIAL_TEXT = "A trial: 1 × é, ﬁ, 中 and  two\nlines\t"


def _byte_letters() -> tuple[str, ...]:
    """The letter that stands for each byte in byte-level vocabularies: itself where it can be
    seen (GPT-2's table).
    """
    visible = {
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    }
    letters, n_hidden = [], 0
    for byte in range(N_BYTES):
        if byte in visible:
            letters.append(chr(byte))
        else:
            letters.append(chr(N_BYTES + n_hidden))
            n_hidden += 1
    return tuple(letters)


BYTE_LETTERS = _byte_letters()
_BYTE_OF_LETTER = dict(zip(BYTE_LETTERS, range(N_BYTES), strict=True))
_EVERY_BYTE = {byte: bytes([byte]) for byte in range(N_BYTES)}


@dataclass(frozen=True, eq=False)
class Encoding:
    """A text's ids; where a token's bytes do not tell where it lies, also the character after
    each.
    """

    ids: NDArray[np.int64]
    ends: NDArray[np.int64] | None = None
    n_lost: int = 0  # letters that no token stands for


class Tokenizer:
    """A tokenizer.json at work: it adds no special tokens of its own, and reads none out of plain
    text.
    """

    def __init__(self, library: Library):
        library.no_truncation()
        library.no_padding()
        library.encode_special_tokens = True
        self.library = library
        self.json = library.to_str(pretty=False)
        self.n_text = max(library.get_vocab(with_added_tokens=True).values()) + 1
        description = json.loads(self.json)
        self.unknown_id = _unknown_id(library, description["model"])
        self.is_byte_level = "ByteLevel" in _component_types(description["decoder"])
        if not self.is_byte_level:
            self._bytes = {}
        else:
            self._bytes = self._byte_strings(description)
        words = set(self._bytes.values())
        self.writes_every_byte = Counter(map(len, words))[1] == N_BYTES
        self.bytes_of_ids = self._byte_counts(description)
        self.longest_token_bytes = int(self.bytes_of_ids.max())
        if not self.writes_every_byte or description["normalizer"] is not None:
            self.longest_token_bytes = max(self.longest_token_bytes, LOOSE_TOKEN_BYTES)
        if self.writes_every_byte and _splits_at_spaces(description):
            self._words = _WordCache(self)
        else:
            self._words = None
        # id n is byte n, in every text
        self.is_bytes = self._words is not None and self._bytes == _EVERY_BYTE

    def encode(self, text: str) -> list[int]:
        with _explain_encoding_errors():
            if len(text) < LONG_TEXT:
                return self.library.encode(text, add_special_tokens=False).ids
            # a batch lets other threads run, which a single text does not
            return self.library.encode_batch_fast([text], add_special_tokens=False)[0].ids

    def least_tokens(self, text: str) -> int:
        """Fewer tokens than this cannot stand for a text: what can be told before it is encoded."""
        n_bytes = len(text.encode("utf-8", "surrogatepass"))
        return -(-n_bytes // self.longest_token_bytes)

    def decode(self, ids: Sequence[int]) -> str:
        """What ids of text stand for; special tokens say nothing."""
        ids = [number for number in ids if number < self.n_text]
        if self.is_byte_level:
            return b"".join(self._bytes.get(number, b"") for number in ids).decode(errors="replace")
        return self.library.decode(ids, skip_special_tokens=False)

    def token_bytes(self, number: int) -> bytes:
        """The bytes of text that an id of a byte-level tokenizer stands for; none for a special
        token.
        """
        assert self.is_byte_level
        return self._bytes.get(number, b"")

    def encode_batch(self, texts: Sequence[str]) -> Iterator[Encoding]:
        """Each text in ids."""
        if self._words is not None:
            for text in texts:
                yield Encoding(self._words.encode(text))
        elif self.writes_every_byte:
            with _explain_encoding_errors():
                encodings = self.library.encode_batch_fast(list(texts), add_special_tokens=False)
            for one in encodings:
                yield Encoding(np.array(one.ids, np.int64))
        else:
            with _explain_encoding_errors():
                encodings = self.library.encode_batch(list(texts), add_special_tokens=False)
            for text, one in zip(texts, encodings, strict=True):
                spans = np.array(one.offsets, np.int64).reshape(-1, 2)
                yield Encoding(np.array(one.ids, np.int64), spans[:, 1], _n_lost(text, spans))

    def encode_short(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """The ids of each text, as numbers of Python: of many short texts, an array for each would
        take longer than the words.
        """
        if self._words is not None:
            return [self._words.encode_short(text) for text in texts]
        return [tuple(encoding.ids.tolist()) for encoding in self.encode_batch(texts)]

    def _byte_strings(self, description: dict[str, Any]) -> dict[int, bytes]:
        added_tokens = {
            token["id"]: token["content"].encode() for token in description["added_tokens"]
        }
        vocabulary = self.library.get_vocab(with_added_tokens=False)
        strings = {}
        for word, i in vocabulary.items():
            if _is_byte_level(word):
                strings[i] = bytes([_BYTE_OF_LETTER[letter] for letter in word])
        return strings | added_tokens

    def _byte_counts(self, description: dict[str, Any]) -> NDArray[np.int64]:
        """How many bytes of text each id stands for: exact for byte-level, else of its written
        form; 0 for special tokens.
        """
        counts = np.zeros(self.n_text, np.int64)
        for word, number in self.library.get_vocab(with_added_tokens=True).items():
            if number in self._bytes:
                counts[number] = len(self._bytes[number])
            else:
                counts[number] = _n_written_bytes(word)
        for token in description["added_tokens"]:
            if token["special"]:
                counts[token["id"]] = 0
            else:
                counts[token["id"]] = counts[token["id"]]
        return counts


class _WordCache(dict[str, list[int]]):
    """Remembers the ids of words, eight times as fast as the library and equal to it.

    Byte-level vocabularies never join a sign to a space after it, so text may be parted before
    every single space.
    """

    _BEFORE_SPACES = re.compile(r"(?<=[!-~])(?= [!-~])")

    def __init__(self, tokenizer: Tokenizer):
        super().__init__()
        self.tokenizer = tokenizer

    def encode(self, text: str) -> NDArray[np.int64]:
        if len(self) > MAX_WORDS:
            self.clear()
        words = self._BEFORE_SPACES.split(text)
        return np.fromiter(chain.from_iterable(map(self.__getitem__, words)), np.int64)

    def encode_short(self, text: str) -> tuple[int, ...]:
        """The ids of a text; where each space is a single one, no pattern is needed to part it."""
        if len(self) > MAX_WORDS:
            self.clear()
        plain = text.isascii() and text.isprintable() and "  " not in text
        if not plain or text[-1:] == " ":
            words = self._BEFORE_SPACES.split(text)
        else:
            words = text.replace(" ", "\n ").split("\n")
        return tuple(chain.from_iterable(map(self.__getitem__, words)))

    def __missing__(self, word: str) -> list[int]:
        ids = self.tokenizer.encode(word)
        if len(word) <= MAX_LETTERS:
            self[word] = ids
        return ids


@contextmanager
def _explain_encoding_errors() -> Iterator[None]:
    """Vocabularies without a word for what they do not know cannot go on there."""
    try:
        yield
    except TypeError as fault:
        raise UnsupportedError(
            "the text holds half a letter (a lone surrogate), which no tokenizer can write; give it"
            " in UTF-8"
        ) from fault
    except BaseException as fault:  # the library raises a bare Exception
        if not isinstance(fault, Exception) and type(fault).__name__ != _PANIC:
            raise
        raise UnsupportedError(
            f"the tokenizer cannot write this text: {fault}; give it a word for what it does not"
            " know, or use byte-level BPE"
        ) from None


def _n_lost(text: str, spans: NDArray[np.int64]) -> int:
    """Letters outside every token; spaces between words are left out of many vocabularies, and
    are not counted.

    After a lost letter the library takes the rest of its word to lie one place earlier: where words
    are not parted at spaces, a space may be counted instead of a letter.
    """
    n_begun = np.bincount(spans[:, 0], minlength=len(text)).cumsum()[: len(text)]
    n_ended = np.bincount(spans[:, 1], minlength=len(text)).cumsum()[: len(text)]
    outside = np.flatnonzero(n_begun == n_ended)
    return sum(not text[place].isspace() for place in outside.tolist())


def _unknown_id(library: Library, model: dict[str, Any]) -> int | None:
    """The id that stands for whatever a vocabulary has no word for; None where there is none."""
    if model.get("unk_token") is None:
        return model.get("unk_id")
    return library.token_to_id(model["unk_token"])


def _splits_at_spaces(description: dict[str, Any]) -> bool:
    """Whether a tokenizer is plain byte-level BPE, which parts text as GPT-2 does."""
    plain = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    parting = description["pre_tokenizer"] or {}
    return (
        description["normalizer"] is None
        and not description["added_tokens"]
        and description["model"]["type"] == "BPE"
        and not description["model"]["dropout"]
        and {name: parting.get(name) for name in plain} == plain
    )


def byte_tokenizer() -> Tokenizer:
    """Id n is byte n."""
    return Tokenizer(_byte_level(dict(_BYTE_OF_LETTER)))


def train_tokenizer(spec: BPETokenizer, texts: Iterable[str]) -> Tokenizer:
    """Byte-level BPE over texts: the same texts always give the same tokenizer."""
    library = _byte_level({})
    trainer = trainers.BpeTrainer(
        vocab_size=spec.n_vocab,
        initial_alphabet=list(BYTE_LETTERS),
        special_tokens=[],
        show_progress=False,
    )
    library.train_from_iterator(texts, trainer)
    n_ids = library.get_vocab_size()
    if n_ids < spec.n_vocab:
        raise SpecError(
            f"tokenizer.n_vocab is {spec.n_vocab}, but the training text gives only {n_ids} ids;"
            f" use at most {n_ids}"
        )
    return Tokenizer(library)


@contextmanager
def explain_panics() -> Iterator[None]:
    """The library is Rust: what it does not expect is no Exception, and is told on stderr besides.

    Here it is a ValueError, and stderr keeps only what others wrote meanwhile.
    """
    with _STDERR_LOCK, TemporaryFile() as aside:
        stderr = os.dup(STDERR)
        os.dup2(aside.fileno(), STDERR)
        is_panic = False
        try:
            yield
        except BaseException as fault:
            is_panic = type(fault).__name__ == _PANIC
            if not is_panic:
                raise
            raise ValueError(f"the tokenizers library cannot use it: {fault}") from None
        finally:
            os.dup2(stderr, STDERR)
            os.close(stderr)
            if not is_panic:
                aside.seek(0)
                os.write(STDERR, aside.read())


def _tokenizer_of(path: Path) -> Tokenizer:
    """A tokenizer.json at work. It is tried once: some of what is wrong shows only then."""
    text = read_text(path, MAX_TOKENIZER_BYTES)
    n_ids(text)  # ids with gaps of millions would keep the library busy for minutes
    with explain_panics():
        tokenizer = Tokenizer(Library.from_str(text))
        with suppress(Exception):  # a text that it has no word for
            tokenizer.library.encode(_TRIAL_TEXT)
        return tokenizer


def read_tokenizer_file(spec: TokenizerFile) -> Tokenizer:
    path = expand_home("tokenizer.path", spec.path)
    try:
        return _tokenizer_of(path)
    except OSError as fault:
        raise SpecError(
            f"tokenizer.path {spec.path!r} cannot be read: {fault.strerror}; give a"
            f" tokenizer.json{looked_for(path)}"
        ) from None
    except Exception as fault:  # the library raises a bare Exception
        raise SpecError(
            f"tokenizer.path {spec.path!r} is not a tokenizer: {fault}; give a tokenizer.json"
        ) from None


def open_tokenizer(path: Path) -> Tokenizer:
    """A tokenizer that was written beside a corpus or a checkpoint."""
    try:
        return _tokenizer_of(path)
    except OSError as fault:
        raise RecordError(f"{path} cannot be read: {fault.strerror}; write it again") from fault
    except Exception as fault:  # the library raises a bare Exception
        raise RecordError(
            f"{path} cannot be read as a tokenizer: {fault}; write it again"
        ) from fault


def _byte_level(vocabulary: dict[str, int]) -> Library:
    library = Library(models.BPE(vocab=vocabulary, merges=[]))
    library.pre_tokenizer = (  # pyright: ignore[reportAttributeAccessIssue]
        pre_tokenizers.ByteLevel(add_prefix_space=False)
    )
    library.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    return library


def _component_types(component: Any) -> set[str]:
    """The types of a part of a tokenizer.json and of what it is made of."""
    if not isinstance(component, dict):
        return set()
    inside = [*component.get("decoders", ()), *component.get("pretokenizers", ())]
    return {component["type"]}.union(*map(_component_types, inside))


def _is_byte_level(word: str) -> bool:
    return _BYTE_OF_LETTER.keys() >= set(word)


def _n_written_bytes(word: str) -> int:
    """Bytes of a token as words are written: `▁` is a space, `##` joins, `<0x0A>` is a byte."""
    if len(word) == 6 and word.startswith("<0x") and word.endswith(">"):
        return 1
    return len(word.removeprefix("##").replace("▁", " ").encode())

"""Tokens into text as they come: no half letter, and nothing from a stop string on."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from paribus.corpus import Tokenizer
from paribus.vocabulary import Vocabulary

UNDECODED = "�"  # what stands for bytes that are no letter, or not yet one


@dataclass(frozen=True, eq=False)
class TextDecoder:
    """A tokenizer that writes what a model says; special tokens say nothing."""

    tokenizer: Tokenizer
    vocabulary: Vocabulary

    @cached_property
    def special_tokens(self) -> frozenset[int]:
        """Ids among those of text that are an imported tokenizer's own special tokens."""
        return frozenset((self.vocabulary.own_special_tokens or {}).values())

    def is_text(self, token: int) -> bool:
        """Does a token say anything?"""
        return token < self.vocabulary.n_text and token not in self.special_tokens

    def text(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""
        return self.tokenizer.decode([token for token in tokens if self.is_text(token)])

    def token_text(self, token: int) -> str:
        """A token as people read it: its text, or the name of a special token."""
        if self.is_text(token):
            return self.text([token])
        for name, number in self.vocabulary.named_special_tokens.items():
            if number == token:
                return f"‹{name}›"
        return ""


class TextStream:
    """The text of one answer as its tokens come, up to the stop string that is complete first.

    What `push` and `finish` return adds up to the text of all tokens. Only where a vocabulary has
    bytes beside words (byte fallback), bytes that are no letters may be written otherwise. Text
    that may be the beginning of a stop string is held back until that is known.
    """

    def __init__(self, decoder: TextDecoder, stop: Sequence[str] = ()):
        self.stop_string: str | None = None  # the one that was met
        self._stop = tuple(stop)
        self._pending = ""
        if decoder.tokenizer.is_byte_level:
            self._pieces: _ByteStream | _WindowStream = _ByteStream(decoder)
        else:
            self._pieces = _WindowStream(decoder)

    def push(self, token: int) -> str:
        """The text that is known once a token is said."""
        if self.stop_string is not None:
            return ""
        return self._release(self._pieces.push(token), is_last=False)

    def finish(self) -> str:
        """The rest of the text, when nothing more is said."""
        if self.stop_string is not None:
            return ""
        return self._release(self._pieces.finish(), is_last=True)

    def _release(self, piece: str, is_last: bool) -> str:
        self._pending += piece
        found = first_stop(self._pending, self._stop)
        if found is not None:
            place, self.stop_string = found
            text, self._pending = self._pending[:place], ""
            return text
        n_held = 0
        if not is_last:
            n_held = _n_begun(self._pending, self._stop)
        n_known = len(self._pending) - n_held
        text, self._pending = self._pending[:n_known], self._pending[n_known:]
        return text


def first_stop(text: str, stop: Sequence[str]) -> tuple[int, str] | None:
    """Where the stop string begins that is complete first in a text, and which it is; the longest
    of those that are complete at the same letter. None where there is none.
    """
    found: tuple[int, int] | None = None  # end and beginning
    for one in stop:
        place = text.find(one)
        if place >= 0 and (found is None or (place + len(one), place) < found):
            found = place + len(one), place
    if found is None:
        return None
    end, place = found
    return place, text[place:end]


def _n_begun(text: str, stop: Sequence[str]) -> int:
    """How many letters at the end of a text may be the beginning of a stop string."""
    longest = 0
    for one in stop:
        for n_letters in range(min(len(one) - 1, len(text)), longest, -1):
            if text.endswith(one[:n_letters]):
                longest = n_letters
                break
    return longest


class _ByteStream:
    """Tokens that stand for bytes: a letter is known with its last byte."""

    def __init__(self, decoder: TextDecoder):
        self.decoder = decoder
        self.letters = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        if not self.decoder.is_text(token):
            return ""
        return self.letters.decode(self.decoder.tokenizer.token_bytes(token))

    def finish(self) -> str:
        return self.letters.decode(b"", final=True)


class _WindowStream:
    """Tokens whose text depends on those before them: each is written after the last few, and
    what it adds is its text.
    """

    def __init__(self, decoder: TextDecoder):
        self.decoder = decoder
        self.tokens: list[int] = []
        self.n_known = 0  # tokens of the window whose text was given

    def push(self, token: int) -> str:
        if not self.decoder.is_text(token):
            return ""
        self.tokens.append(token)
        return self._added_text(is_last=False)

    def finish(self) -> str:
        return self._added_text(is_last=True)

    def _added_text(self, is_last: bool) -> str:
        before = self.decoder.text(self.tokens[: self.n_known])
        text = self.decoder.text(self.tokens)
        if text.endswith(UNDECODED) and not is_last:  # bytes of which more may come
            return ""
        self.tokens = self.tokens[self.n_known :]
        self.n_known = len(self.tokens)
        return text[len(before) :]

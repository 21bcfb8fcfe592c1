"""Words and their tokens: which token ends each word of a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paribus.corpus.tokenizer import Tokenizer

WORD_SEPARATOR = " "  # between the words of a text that is given word by word


@dataclass(frozen=True, eq=False)
class EncodedWords:
    """The tokens of a text that is given word by word; `last_tokens` has the place of each word's
    last token, -1 for a word without one.
    """

    ids: NDArray[np.int64]
    last_tokens: NDArray[np.int64]


def encode_words(tokenizer: Tokenizer, words: Sequence[str]) -> EncodedWords:
    """Words as one text with a space between them, so that a word reads as it does in running
    text.
    """
    text = WORD_SEPARATOR.join(words)
    (encoding,) = tokenizer.encode_batch([text])
    token_ends = encoding.ends
    if token_ends is None:  # every byte is in a token
        token_ends = tokenizer.bytes_of_ids[encoding.ids].cumsum()
        lengths = [len(word.encode()) for word in words]
    else:
        lengths = [len(word) for word in words]
    word_ends = np.cumsum(lengths) + np.arange(len(words))  # with the spaces before each
    word_starts = word_ends - np.array(lengths)
    places = np.searchsorted(token_ends, word_ends, "left")
    # A token that ends no later than the word begins is not of the word, nor one after the text.
    before = np.searchsorted(token_ends, word_starts, "right")
    has_token = (places < len(token_ends)) & _ends_within(token_ends, before, word_ends)
    return EncodedWords(encoding.ids, np.where(has_token, places, -1))


def _ends_within(
    token_ends: NDArray[np.int64], first: NDArray[np.int64], word_ends: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether the first token that ends after a word's beginning ends no later than the word."""
    padded = np.append(token_ends, np.iinfo(np.int64).max)
    return padded[first] <= word_ends

"""Which items share 13 words in a row with the training text: they may have been learnt by heart.

Words are runs of letters and digits, without case. An item of fewer words shares none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from paribus.corpus import TokenisedCorpus

N_WORDS = 13
CHUNK_TOKENS = 2**20
_WORD = re.compile(r"\w+")
_BASE = np.uint64(0x9E3779B97F4A7C15)


def overlapping_items(
    datasets: Sequence[TokenisedCorpus], texts: Sequence[Sequence[str]]
) -> list[bool]:
    """Of each item, given by its texts, whether one of them shares 13 words in a row with the
    training text of a corpus.
    """
    numbers: dict[str, int] = {}
    hashes: list[NDArray[np.uint64]] = []
    items: list[NDArray[np.int64]] = []
    for item, own in enumerate(texts):
        for text in own:
            words = [numbers.setdefault(word, len(numbers) + 1) for word in _words(text)]
            own_hashes = _gram_hashes(words)
            hashes.append(own_hashes)
            items.append(np.full(len(own_hashes), item))
    wanted, inverse = np.unique(np.concatenate(hashes), return_inverse=True)
    is_seen = np.zeros(len(wanted), bool)
    for dataset in datasets:
        for text in _training_texts(dataset):
            words = [numbers.get(word, 0) for word in _words(text)]
            found = np.intersect1d(_gram_hashes(words), wanted)
            is_seen[np.searchsorted(wanted, found)] = True
    overlaps = np.zeros(len(texts), bool)
    np.logical_or.at(overlaps, np.concatenate(items), is_seen[inverse])
    return overlaps.tolist()


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _gram_hashes(words: Sequence[int]) -> NDArray[np.uint64]:
    """A hash of each 13 words in a row; none with a word that no item has."""
    ids = np.array(words, np.uint64)
    n_grams = len(ids) - N_WORDS + 1
    if n_grams < 1:
        return np.zeros(0, np.uint64)
    total = np.zeros(n_grams, np.uint64)
    is_known = np.ones(n_grams, bool)
    with np.errstate(over="ignore"):
        for place in range(N_WORDS):
            own = ids[place : place + n_grams]
            total = (total + own) * _BASE
            total ^= total >> np.uint64(29)
            is_known &= own > 0
    return total[is_known]


def _training_texts(dataset: TokenisedCorpus) -> Iterator[str]:
    """The training text in pieces of whole documents, each about as long as CHUNK_TOKENS.

    A gram over the end of a document is found too; that is rare, and errs on the safe side.
    """
    for reader in dataset.readers["train"]:
        for first, last in reader.shard.chunks(CHUNK_TOKENS):
            yield dataset.decode(reader.shard.document_tokens(first, last).tolist())

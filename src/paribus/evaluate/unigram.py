"""What is known of a text by how often each token comes: a run that does worse has learnt
nothing, or unlearnt it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from paribus.corpus import TokenisedCorpus
from paribus.corpus.shards import Shard
from paribus.evaluate.items import Item

CHUNK_TOKENS = 2**20  # tokens counted at once
MAX_CHUNKS = 64  # of a source, evenly spaced where it has more


def unigram_nats(dataset: TokenisedCorpus, items: Sequence[Item]) -> tuple[float, ...]:
    """Nats of each target, its tokens drawn one by one by their counts in the training text,
    one added to each.

    Sources count by their size, not by their weight.
    """
    counts = np.ones(dataset.tokenizer.n_text)
    for reader in dataset.readers["train"]:
        for tokens in _token_chunks(reader.shard):
            # what comes after the ids of text are special tokens of turns
            text_tokens = tokens[tokens < len(counts)]
            counts += np.bincount(text_tokens, minlength=len(counts))
    nats_V = -np.log(counts / counts.sum())
    return tuple(float(nats_V[dataset.encode(item.target)].sum()) for item in items)


def _token_chunks(shard: Shard) -> Iterator[NDArray[np.unsignedinteger]]:
    firsts = np.arange(0, shard.n_tokens, CHUNK_TOKENS)
    if len(firsts) > MAX_CHUNKS:
        firsts = np.linspace(0, shard.n_tokens - CHUNK_TOKENS, MAX_CHUNKS).astype(np.int64)
    for first in firsts.tolist():
        yield shard.tokens[first : first + CHUNK_TOKENS]

"""What is known of a text by how often each token comes: a run that does worse has learnt
nothing, or unlearnt it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from paribus.corpus import TokenisedCorpus
from paribus.corpus.shards import Shard
from paribus.corpus.tokenizer import Tokenizer
from paribus.evaluate.items import Item
from paribus.evaluate.likelihood import target_ids

CHUNK_TOKENS = 2**20  # tokens counted at once
# likewise, where they are decoded first and tokenised otherwise, which takes longer
RECODED_CHUNK_TOKENS = 2**16
MAX_CHUNKS = 64  # of a source, evenly spaced where it has more


def unigram_nats(
    dataset: TokenisedCorpus, items: Sequence[Item], tokenizer: Tokenizer
) -> tuple[float, ...]:
    """Nats of each target, its tokens drawn one by one by their counts in the training text,
    one added to each.

    Tokens are those of `tokenizer`, which the model that is asked has: a unigram model over bytes
    says nothing of a model over words. Sources count by their size, not by their weight.
    """
    counts = np.ones(tokenizer.n_text)
    for reader in dataset.readers["train"]:
        for tokens in _counted_tokens(dataset, reader.shard, tokenizer):
            # what comes after the ids of text are special tokens of turns
            text_tokens = tokens[tokens < len(counts)]
            counts += np.bincount(text_tokens, minlength=len(counts))
    nats_V = -np.log(counts / counts.sum())
    return tuple(float(nats_V[target_ids(tokenizer, item)].sum()) for item in items)


def _counted_tokens(
    dataset: TokenisedCorpus, shard: Shard, tokenizer: Tokenizer
) -> Iterator[NDArray[np.integer]]:
    """The tokens of a source, chunk by chunk; by another tokenizer than that of the text, those of
    each piece of a document.
    """
    if tokenizer.json == dataset.tokenizer.json:
        for first, end in _chunks(shard.n_tokens, CHUNK_TOKENS):
            yield shard.tokens[first:end]
        return
    for first, end in _chunks(shard.n_tokens, RECODED_CHUNK_TOKENS):
        inner = shard.offsets[(shard.offsets > first) & (shard.offsets < end)].astype(np.int64)
        pieces = np.split(shard.tokens[first:end], inner - first)
        for encoding in tokenizer.encode_batch([dataset.decode(own.tolist()) for own in pieces]):
            yield encoding.ids


def _chunks(n_tokens: int, size: int) -> Iterator[tuple[int, int]]:
    """Where each chunk begins and ends."""
    firsts = np.arange(0, n_tokens, size)
    if len(firsts) > MAX_CHUNKS:
        firsts = np.linspace(0, n_tokens - size, MAX_CHUNKS).astype(np.int64)
    for first in firsts.tolist():
        yield first, min(first + size, n_tokens)

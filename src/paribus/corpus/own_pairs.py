"""Pairs of a model's own responses, ranked by how right they are: kept in a run's folder, and read
like the preferences of a corpus.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from paribus.corpus.dataset import TokenisedCorpus
from paribus.corpus.pair_rows import PairRows
from paribus.corpus.shards import PIECES_PER_DOCUMENT, Shard, n_stored_ids, token_dtype
from paribus.corpus.splits import Split
from paribus.errors import RecordError

PAIR_SPLITS: tuple[Split, ...] = ("train", "valid")


@dataclass(frozen=True)
class OwnPair:
    """Two responses to the prompt of a document: their tokens and rewards, the better one first;
    and all of it as text for people.
    """

    split: Split
    document: int
    chosen: tuple[int, ...]
    rejected: tuple[int, ...]
    rewards: tuple[float, float]
    prompt: str
    chosen_text: str
    rejected_text: str


@dataclass(frozen=True)
class OwnPairs:
    """Pairs that were drawn, and how many prompts of training gave none."""

    pairs: tuple[OwnPair, ...]
    n_ties: int  # prompts whose responses have equal rewards, or fewer than two of which ended


def reward_of(response: str, answer: str) -> float:
    """The share of letters that stand in their places; 1 for the answer itself and nothing else."""
    n_right = sum(one == other for one, other in zip(response, answer, strict=False))
    return n_right / max(len(response), len(answer), 1)


def own_pairs_bytes(own: OwnPairs) -> bytes:
    """Pairs as lines of JSON, after one that counts them."""
    lines = [json.dumps({"n_pairs": len(own.pairs), "n_ties": own.n_ties})]
    for pair in own.pairs:
        lines.append(json.dumps(asdict(pair), ensure_ascii=False))
    return "".join(f"{line}\n" for line in lines).encode()


def parse_own_pairs(content: str, where: str) -> OwnPairs:
    """What `own_pairs_bytes` wrote; RecordError where it is something else."""
    pairs = []
    try:
        head, *lines = map(json.loads, content.splitlines())
        for line in lines:
            for name in ("chosen", "rejected", "rewards"):
                line[name] = tuple(line[name])
            pairs.append(OwnPair(**line))
        if head["n_pairs"] != len(pairs):
            raise ValueError(f"{len(pairs)} pairs, where {head['n_pairs']} were written")
        return OwnPairs(tuple(pairs), head["n_ties"])
    except (ValueError, KeyError, TypeError) as fault:
        raise RecordError(
            f"{where} does not hold pairs as they were written: {fault}; restore it, or remove the"
            " folder and train it again"
        ) from fault


def with_own_pairs(dataset: TokenisedCorpus, own: OwnPairs) -> TokenisedCorpus:
    """A corpus of prompts that is read as preferences between own responses."""
    readers = dict(dataset.readers)
    for split in PAIR_SPLITS:
        (reader,) = dataset.readers[split]
        assert isinstance(reader, PairRows)
        pairs = [pair for pair in own.pairs if pair.split == split]
        readers[split] = (replace(reader, shard=_shard(dataset, reader.shard, pairs)),)
    return replace(dataset, readers=readers)


def prompt_bounds(shard: Shard, document: int) -> tuple[int, int]:
    """Where the source of a document begins and ends in a shard."""
    numbers = np.array([document])
    return int(shard.document_starts(numbers)[0]), int(shard.target_starts(numbers)[0])


def _shard(dataset: TokenisedCorpus, prompts: Shard, pairs: Sequence[OwnPair]) -> Shard:
    pieces = []
    for pair in pairs:
        first, last = prompt_bounds(prompts, pair.document)
        pieces += [prompts.tokens[first:last], np.array(pair.chosen), np.array(pair.rejected)]
    lengths = np.array([0, *map(len, pieces)], np.uint64)
    kind = token_dtype(n_stored_ids(dataset.tokenizer.n_text, "preferences"))
    tokens = np.concatenate(pieces).astype(kind)
    return Shard(
        tokens,
        np.zeros(len(tokens) // 8 + 1, np.uint8),
        lengths.cumsum(dtype=np.uint64),
        PIECES_PER_DOCUMENT["preferences"],
    )

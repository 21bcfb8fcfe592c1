"""Names of blocks: a digest of all that the keys of a block's tokens depend on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from paribus.masks import PREFIX_RULES, leaves
from paribus.model import Transformer

BLOCK = 16  # tokens


def weights_digest(model: Transformer) -> bytes:
    """A digest of a model's weights."""
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().flatten()
        digest.update(flat.view(torch.uint8).numpy())
    return digest.digest()


class BlockChain:
    """The names of a text's blocks, one after another.

    In a text that grows, a token reaches those before it, all of a two-way prefix and all of a
    source, whatever the rule. So a name holds every token up to the end of its block, and with it
    their places; the prefix with its end, where a rule asks for it; the sources that are seen from
    there, the weights and the salt.
    """

    def __init__(self, root: bytes, sources: Mapping[int, bytes] | None = None):
        """`sources` are the names of sources that are seen from some place on, by that place."""
        self.names: list[bytes] = []
        self._last, self._sources = root, sources or {}

    def extend(self, tokens: Sequence[int]) -> None:
        """Name the blocks that a text has filled. `tokens` is all of it."""
        for start in range(BLOCK * len(self.names), len(tokens) - BLOCK + 1, BLOCK):
            fields = [token_bytes(tokens[start : start + BLOCK])]
            for place, name in self._sources.items():
                if start <= place < start + BLOCK:
                    fields += [token_bytes([place]), name]
            self._last = digest_of(self._last, *fields)
            self.names.append(self._last)


def source_name(weights: bytes, salt: bytes, source: Sequence[int]) -> bytes:
    """The name of a source's keys: it enters whole."""
    return digest_of(b"source", weights, salt, token_bytes(source))


def chain_root(weights: bytes, salt: bytes, prefix_tokens: Sequence[int], source: bytes) -> bytes:
    """What the names of all blocks of a text begin with. `prefix_tokens` are none where no rule
    asks for a prefix.
    """
    return digest_of(b"text", weights, salt, token_bytes(prefix_tokens), source)


def has_prefix_rules(model: Transformer) -> bool:
    """Does it matter to a model where the prefix of its text ends?"""
    return any(PREFIX_RULES & leaves(rule) for rule in model.spec.stack.masks)


def token_bytes(tokens: Sequence[int]) -> bytes:
    return np.array(tokens, np.int64).tobytes()


def digest_of(*fields: bytes) -> bytes:
    """One digest of several fields, of which none runs into the next."""
    digest = hashlib.sha256()
    for field in fields:
        digest.update(len(field).to_bytes(8, "little"))
        digest.update(field)
    return digest.digest()

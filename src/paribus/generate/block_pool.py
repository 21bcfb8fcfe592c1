"""Blocks of keys that outlive their request, within a budget: the least recently used go first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from paribus.model.cache import Keys

KeysByLayer = Mapping[int, Keys]  # each tensor is [heads, tokens, width]


class BlockPool:
    """Keys by name: those of blocks, and of whole sources."""

    def __init__(self, budget_bytes: int):
        self.budget_bytes = budget_bytes
        self.n_bytes = 0
        self._blocks: OrderedDict[bytes, KeysByLayer] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def __contains__(self, name: bytes) -> bool:
        return name in self._blocks

    def find(self, name: bytes) -> KeysByLayer | None:
        """The keys of a name, which count as used now; None if they are not there."""
        if name not in self._blocks:
            return None
        self._blocks.move_to_end(name)
        return self._blocks[name]

    def touch(self, names: Iterable[bytes]) -> None:
        """Count some keys as used now, the last of them as the most recent."""
        for name in names:
            if name in self._blocks:
                self._blocks.move_to_end(name)

    def put(self, name: bytes, keys: KeysByLayer) -> None:
        """Keep keys under a name, if the budget has room for them at all."""
        n_bytes = _n_bytes(keys)
        if name in self._blocks or n_bytes > self.budget_bytes:
            self.touch([name])
            return
        while self.n_bytes + n_bytes > self.budget_bytes:
            _, gone = self._blocks.popitem(last=False)
            self.n_bytes -= _n_bytes(gone)
        self._blocks[name] = keys
        self.n_bytes += n_bytes


def _n_bytes(keys: KeysByLayer) -> int:
    total = 0
    for layer in keys.values():
        total += sum(tensor.nbytes for tensor in layer)
    return total

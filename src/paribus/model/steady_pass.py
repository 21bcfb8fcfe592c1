"""Passes of one token a text over buffers that stay where they are.

Nothing of such a pass depends on what the host knows: places are counted in a tensor, and slot s
holds the key of place s. So a pass can be recorded once and replayed for every token.
"""

from __future__ import annotations

import torch
from torch import Tensor

from paribus.batch import BatchLayout
from paribus.masks import PREFIX_RULES, Rule, leaves
from paribus.model.cache import Keys, StackCache
from paribus.model.slots import NO_PLACE, SlotTable


class SteadyPass:
    """The keys of some texts, and the place at which each of them goes on."""

    def __init__(self, place_B1: Tensor, layers: list[Keys], prefix: int | Tensor, longest: int):
        """Tensors of `layers` are [B, heads, slots, width]. They and the places are changed in
        place. `longest` is how long a text may become.
        """
        self.place_B1, self.layers, self.longest = place_B1, layers, longest
        n_texts, n_slots = place_B1.shape[0], layers[0][0].shape[2]
        self.has_own_keys = True
        self._slots_B111 = place_B1[:, None, :, None]
        self.queries = BatchLayout(n_sequences=n_texts, length=1, prefix=prefix, places_BT=place_B1)
        self._keys = BatchLayout(n_sequences=n_texts, length=n_slots, prefix=prefix)

    @staticmethod
    def of(cache: StackCache, n_slots: int, longest: int) -> SteadyPass:
        """What a cache holds, in buffers of so many slots."""
        assert cache.texts.documents_BT is None  # they would have to be counted on, too
        assert cache.texts.positions_BT is None
        device, prefix = cache.layers[0][0].device, 0
        if any(PREFIX_RULES & leaves(rule) for rule in cache.rules):
            prefix = torch.tensor(cache.texts.prefixes, device=device)
        return SteadyPass(
            place_B1=torch.tensor(cache.texts.lengths, device=device)[:, None].clamp(
                max=longest - 1
            ),
            layers=[_keys_by_place(cache, layer, n_slots) for layer in range(len(cache.layers))],
            prefix=prefix,
            longest=longest,
        )

    @property
    def n_slots(self) -> int:
        return self._keys.length

    def with_slots(self, n_slots: int) -> SteadyPass:
        """These texts in longer buffers."""
        layers = []
        for keys in self.layers:
            layers.append(tuple(_with_slots(tensor, n_slots) for tensor in keys))
        return SteadyPass(self.place_B1, layers, self.queries.prefix, self.longest)

    def first_slots(self, n_slots: int) -> SteadyPass:
        """These texts, none of which is longer, in the same buffers up to a slot."""
        layers = []
        for keys in self.layers:
            layers.append(tuple(tensor[:, :, :n_slots] for tensor in keys))
        return SteadyPass(self.place_B1, layers, self.queries.prefix, self.longest)

    def head_groups(self, rule: Rule) -> tuple[Rule, ...]:
        """All heads of a layer have the same keys."""
        return (rule,)

    def key_layout(self, rule: Rule) -> BatchLayout:
        """How the keys lie: place by place, for any rule. What is not written yet lies ahead of
        every query, where an appendable rule does not look.
        """
        return self._keys

    def join(self, layer: int, new_keys: Keys) -> Keys:
        """The keys of a layer, with those of this pass at their places."""
        for buffer, new in zip(self.layers[layer], new_keys, strict=True):
            buffer.scatter_(2, self._slots_B111.expand_as(new), new)
        return self.layers[layer]

    def advance(self) -> None:
        """Go on to the next place. A text that is as long as may be stays at its last."""
        self.place_B1.add_(1).clamp_(max=self.longest - 1)


def _keys_by_place(cache: StackCache, layer: int, n_slots: int) -> Keys:
    """The keys of a layer, each in the slot of its place, all heads together."""
    groups = []
    for rule, keys in cache.keys_by_group(layer):
        table = cache.tables[rule]
        groups.append([_by_place(tensor, table, n_slots) for tensor in keys])
    return tuple(torch.cat(parts, 1) for parts in zip(*groups, strict=True))


def _by_place(tensor: Tensor, table: SlotTable, n_slots: int) -> Tensor:
    if table.places_BS is None:
        return _with_slots(tensor[:, :, : table.n_used], n_slots)
    n_texts, n_heads, _, width = tensor.shape
    buffer = tensor.new_zeros((n_texts, n_heads, n_slots, width))
    places = torch.from_numpy(table.places_BS).to(tensor.device)
    rows, slots = (places != NO_PLACE).nonzero(as_tuple=True)
    buffer[rows, :, places[rows, slots]] = tensor[rows, :, slots]
    return buffer


def _with_slots(tensor: Tensor, n_slots: int) -> Tensor:
    """Keys with empty slots behind them."""
    n_texts, n_heads, n_used, width = tensor.shape
    buffer = tensor.new_zeros((n_texts, n_heads, n_slots, width))
    buffer[:, :, :n_used] = tensor
    return buffer

"""A rule over a batch's layout, as tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from paribus.batch import BatchLayout
from paribus.masks import (
    DOCUMENT_RULES,
    Causal,
    Full,
    Nothing,
    Padding,
    Rule,
    SameSide,
    head_rules,
    leaves,
    simplify_rule,
)
from paribus.model.memoised_property import memoised_property


@dataclass(frozen=True, eq=False)
class AttentionMask:
    """Which keys each query sees: one rule and never padding, simplified for layouts that lack
    what it asks about.
    """

    rule: Rule
    queries: BatchLayout
    keys: BatchLayout
    n_heads: int
    device: torch.device
    has_own_keys: bool = False  # is every query known to be among the keys, and no padding?
    is_passing: bool = False  # is a text read that grows, so that these lengths hardly come again?
    is_trained: bool = False  # is it a tail of longer keys that gradients go through?
    source: AttentionMask | None = None  # of keys of another sequence, which stand before these

    @staticmethod
    def of(
        rule: Rule,
        queries: BatchLayout,
        keys: BatchLayout,
        n_heads: int,
        device: torch.device,
        has_own_keys: bool = False,
        is_passing: bool = False,
    ) -> AttentionMask:
        assert SameSide() not in leaves(rule) or _same_prefix(queries, keys)
        has_documents = queries.documents_BT is not None and keys.documents_BT is not None
        has_prefix = isinstance(keys.prefix, Tensor) or keys.prefix > 0
        plain = simplify_rule(rule & Padding(), has_documents, keys.real_BT is not None, has_prefix)
        return AttentionMask(
            rule=plain,
            queries=queries,
            keys=keys,
            n_heads=n_heads,
            device=device,
            has_own_keys=has_own_keys,
            is_passing=is_passing,
        )

    def behind(self, source: AttentionMask) -> AttentionMask:
        """The mask of one softmax over the keys of a source, as `source` shows them, and these keys
        behind them. Where that is one causal sequence, it is a mask of that.
        """
        is_causal = self.rule in (Causal(), Causal() & Padding()) and self.keys.start == 0
        is_whole = source.rule in (Full(), Padding())
        if not is_causal or not is_whole or self._has_places or source._has_places:
            return replace(self, source=source)
        n_source, real_BS = source.keys.length, None
        if source.rule == Padding() or self.rule != Causal():
            sides = (source.keys, self.keys)
            real_BS = torch.cat([_real_tokens(side, self.device) for side in sides], 1)
        plain = {"prefix": 0, "documents_BT": None, "positions_BT": None}
        keys = replace(self.keys, length=n_source + self.keys.length, real_BT=real_BS, **plain)
        return replace(
            self,
            rule=Causal() if real_BS is None else Causal() & Padding(),
            queries=replace(self.queries, start=n_source + self.queries.start, **plain),
            keys=keys,
            is_trained=torch.is_grad_enabled(),
        )

    @property
    def head_rules(self) -> tuple[Rule, ...]:
        """The rules of equal groups of heads."""
        return head_rules(self.rule)

    @property
    def is_static(self) -> bool:
        """Does the rule depend on positions alone, not on the batch?"""
        tensors = isinstance(self.keys.prefix, Tensor) or bool(
            leaves(self.rule) & {Padding(), *DOCUMENT_RULES}
        )
        return not tensors and not self._has_places

    @property
    def _has_places(self) -> bool:
        """Does a tensor say where queries or keys stand?"""
        return self.queries.places_BT is not None or self.keys.places_BT is not None

    @property
    def is_aligned(self) -> bool:
        """Are queries and keys the same positions?"""
        if self._has_places:
            return False
        return self.queries.start == self.keys.start and self.queries.length == self.keys.length

    @property
    def is_tail(self) -> bool:
        """Are the queries the last of the keys?"""
        if self._has_places:
            return False
        return (
            self.queries.start >= self.keys.start
            and self.queries.start + self.queries.length == self.keys.start + self.keys.length
        )

    @property
    def may_have_empty_rows(self) -> bool:
        """Could a query see nothing? Every rule but padding lets a token see itself, if it is
        among the keys.
        """
        if self.has_own_keys:
            return False
        if Nothing() in leaves(self.rule):
            return True
        inside = self.keys.start <= self.queries.start and (
            self.queries.start + self.queries.length <= self.keys.start + self.keys.length
        )
        if not inside or self._has_places:
            return leaves(self.rule) != {Full()}
        crosses = self.queries.documents_BT is not self.keys.documents_BT
        asks_for_documents = bool(leaves(self.rule) & DOCUMENT_RULES)
        return Padding() in leaves(self.rule) or (crosses and asks_for_documents)

    @memoised_property
    def dense_mask(self) -> Tensor:
        """True where visible: [B or 1, H or 1, T, S]."""
        query, key = (
            PositionTensors(self.queries, self.device, -2),
            PositionTensors(self.keys, self.device, -1),
        )
        parts = [rule.sees(query, key) for rule in self.head_rules]
        parts = [part if part.dim() == 4 else part[None, None] for part in parts]
        if len(parts) == 1:
            own = parts[0]
        else:
            n_sequences = max(part.shape[0] for part in parts)
            each = self.n_heads // len(parts)
            own = torch.cat([part.expand(n_sequences, each, -1, -1) for part in parts], 1)
        if self.source is None:
            return own
        sides = (self.source.dense_mask, own)
        n_sequences, n_heads = (max(side.shape[place] for side in sides) for place in (0, 1))
        return torch.cat([side.expand(n_sequences, n_heads, -1, -1) for side in sides], -1)

    @memoised_property
    def has_visible_key(self) -> Tensor | None:
        """Which queries see a key, [B or 1, H or 1, T, 1]; None where all do."""
        if not self.may_have_empty_rows:
            return None
        return self.dense_mask.any(-1, keepdim=True)

    @memoised_property
    def filled_mask(self) -> Tensor:
        """The dense mask, in which a query that sees nothing sees all."""
        if self.has_visible_key is None:
            return self.dense_mask
        return self.dense_mask | ~self.has_visible_key

    @memoised_property
    def added_mask(self) -> Tensor:
        """What is added to scores in float32: 0 where the filled mask is True, else -inf."""
        hidden = torch.full((), float("-inf"), device=self.device)
        return torch.where(self.filled_mask, torch.zeros_like(hidden), hidden)


def _real_tokens(layout: BatchLayout, device: torch.device) -> Tensor:
    """Where there is a token, [B, S]."""
    if layout.real_BT is not None:
        return layout.real_BT
    return torch.ones(layout.n_sequences, layout.length, dtype=torch.bool, device=device)


def _same_prefix(queries: BatchLayout, keys: BatchLayout) -> bool:
    """Is it the same prefix on both sides? Of two tensors only one and the same is known to be,
    without waiting.
    """
    if isinstance(queries.prefix, Tensor) or isinstance(keys.prefix, Tensor):
        return queries.prefix is keys.prefix
    return queries.prefix == keys.prefix


@dataclass(frozen=True, eq=False)
class PositionTensors:
    """One side of a dense mask: queries lie along dimension -2, keys along -1."""

    layout: BatchLayout
    device: torch.device
    dimension: int

    @property
    def index(self) -> Tensor:
        places = self.layout.places(self.device)
        if places.dim() == 2:
            places = places[:, None]
        return self._broadcast(places)

    @property
    def document(self) -> Tensor:
        assert self.layout.documents_BT is not None
        return self._broadcast(self.layout.documents_BT[:, None])

    @property
    def in_prefix(self) -> Tensor:
        prefix = self.layout.prefix
        return self.index < (prefix[:, None, None, None] if isinstance(prefix, Tensor) else prefix)

    @property
    def real(self) -> Tensor:
        assert self.layout.real_BT is not None
        return self._broadcast(self.layout.real_BT[:, None])

    def _broadcast(self, values: Tensor) -> Tensor:
        if self.dimension == -2:
            return values.unsqueeze(-1)
        return values.unsqueeze(-2)

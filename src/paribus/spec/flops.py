"""FLOPs of an architecture, by arithmetic.

They are those of matrix products, two per multiply-add, and come two ways. *Dense*: every query
meets every key, and the backward pass costs twice the forward. *Visible*: only the pairs the mask
lets through.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from paribus.masks import (
    Nothing,
    SequenceLayout,
    appendable,
    count_visible_keys,
    count_visible_pairs,
    unchanged_states,
)
from paribus.masks.dense import BoolArray
from paribus.spec.architecture import Dense, Experts, Latent, MultiHead
from paribus.spec.resolved import Block, ResolvedArchitecture


@dataclass(frozen=True)
class Flops:
    """FLOPs counted in two ways."""

    dense: float
    visible: float

    def __add__(self, other: Flops) -> Flops:
        return Flops(self.dense + other.dense, self.visible + other.visible)

    def __mul__(self, factor: float) -> Flops:
        return Flops(self.dense * factor, self.visible * factor)


def training_flops(
    spec: ResolvedArchitecture, layout: SequenceLayout, source_length: int, n_scored: int
) -> Flops:
    """One sequence forward and backward, and the logits of the positions that are
    scored.
    """
    return (forward_flops(spec, layout, source_length) + head_flops(spec, n_scored)) * 3


def preference_flops(
    spec: ResolvedArchitecture, layout: SequenceLayout, source_length: int, n_scored: int
) -> Flops:
    """One response forward and backward, and forward once more through the model that it is
    compared with.
    """
    forward = forward_flops(spec, layout, source_length) + head_flops(spec, n_scored)
    return training_flops(spec, layout, source_length, n_scored) + forward


def labelling_flops(spec: ResolvedArchitecture, length: int, n_labels: int, n_scored: int) -> Flops:
    """One text forward and backward through the layers that read it, and the logits of labels at
    so many places.
    """
    text = SequenceLayout(length, prefix=length)
    total = Flops(0, 0)
    for block in (spec.encoder or spec.stack).layers:
        pairs = count_visible_pairs(block.mask, text)
        total += _flops(_self_work(block, spec.d_model), length, length, length**2, pairs)
    head = 2 * spec.d_model * n_labels * n_scored
    return (total + Flops(head, head)) * 3


@dataclass(frozen=True, eq=False)
class LayerGrowth:
    """What a layer reads of a text that has grown, and how many keys it has of the rest."""

    text: SequenceLayout
    is_read: BoolArray  # [position]
    n_cached: float  # the mean over heads


@dataclass(frozen=True)
class CrossPairs:
    """Queries, keys that are new, and pairs of both between a text and its source."""

    n_queries: int
    n_new_keys: int
    dense: float
    visible: float


@dataclass(frozen=True)
class _MultiplyAdds:
    """Multiply-adds of one block: per query position, per key position, per query-key pair of
    all heads.
    """

    query: int
    key: int
    pair: int


def _self_work(block: Block, d_model: int) -> _MultiplyAdds:
    attention = _attention_work(block.attention, d_model)
    return _MultiplyAdds(
        attention.query + _feed_forward_work(block, d_model), attention.key, attention.pair
    )


def _attention_work(attention: MultiHead | Latent, d_model: int) -> _MultiplyAdds:
    n_heads = attention.n_heads
    if isinstance(attention, MultiHead):
        assert attention.d_head
        assert attention.n_kv_heads
        d_query, d_key = n_heads * attention.d_head, attention.n_kv_heads * attention.d_head
        return _MultiplyAdds(query=2 * d_model * d_query, key=2 * d_model * d_key, pair=2 * d_query)
    d_query = n_heads * (attention.d_content + attention.d_rotary)
    d_value = n_heads * attention.d_value
    latent = attention.d_query_latent
    if latent is None:
        into = d_model * d_query
    else:
        into = latent * (d_model + d_query)
    return _MultiplyAdds(
        query=into + d_value * d_model,
        key=d_model * (attention.d_latent + attention.d_rotary) + _latent_expansion(attention),
        pair=d_query + d_value,
    )


def _cross_work(block: Block, d_model: int) -> _MultiplyAdds:
    """Of a source beside a text. Merged with self-attention, the text has its queries already."""
    work = _attention_work(block.attention, d_model)
    match block.cross_form:
        case "separate":
            return work
        case "merged":
            return replace(work, query=0)


def _absorbed_work(attention: Latent, d_model: int) -> _MultiplyAdds:
    """One query against cached latents, which are never expanded: queries and values are moved
    into the latent.
    """
    plain = _attention_work(attention, d_model)
    return _MultiplyAdds(
        query=plain.query + _latent_expansion(attention),
        key=d_model * (attention.d_latent + attention.d_rotary),
        pair=attention.n_heads * (2 * attention.d_latent + attention.d_rotary),
    )


def _latent_expansion(attention: Latent) -> int:
    return attention.d_latent * attention.n_heads * (attention.d_content + attention.d_value)


def _feed_forward_work(block: Block, d_model: int) -> int:
    feed_forward = block.feed_forward
    matrices = 3 if feed_forward.gated else 2
    match feed_forward:
        case Dense(d_ff=int(d_ff)):
            return matrices * d_model * d_ff
        case Experts(d_expert=int(d_expert)):
            return d_model * feed_forward.n_experts + matrices * d_model * d_expert * (
                feed_forward.n_active + feed_forward.n_shared
            )
        case _:
            raise AssertionError("a resolved block knows its width")


def _flops(
    work: _MultiplyAdds, queries: float, keys: float, dense_pairs: float, visible_pairs: float
) -> Flops:
    linear = work.query * queries + work.key * keys
    return Flops(2 * (linear + work.pair * dense_pairs), 2 * (linear + work.pair * visible_pairs))


def forward_flops(spec: ResolvedArchitecture, layout: SequenceLayout, source_length: int) -> Flops:
    """All layers of both stacks over whole sequences, without the output head."""
    total = Flops(0, 0)
    length, source = layout.length, SequenceLayout(source_length, prefix=source_length)
    for block in spec.stack.layers:
        pairs = count_visible_pairs(block.mask, layout)
        total += _flops(_self_work(block, spec.d_model), length, length, length**2, pairs)
        if block.cross is not None:
            pairs = length * source_length
            seen = 0 if block.cross == Nothing() else pairs
            work = _cross_work(block, spec.d_model)
            total += _flops(work, length, source_length, pairs, seen)
    for block in spec.encoder.layers if spec.encoder else ():
        pairs = count_visible_pairs(block.mask, source)
        total += _flops(
            _self_work(block, spec.d_model), source_length, source_length, source_length**2, pairs
        )
    return total


def decode_flops(spec: ResolvedArchitecture, layout: SequenceLayout, source_length: int) -> Flops:
    """One token more: its own row in each layer, and every older row whose input or view it
    changed.
    """
    old = SequenceLayout(layout.length - 1, min(layout.prefix, layout.length - 1))
    new = SequenceLayout(layout.length, old.prefix)
    masks = spec.stack.masks
    # rows to compute: what changed, and the new one
    stale = np.ones((len(masks) + 1, new.length), bool)
    if appendable(masks):
        stale[:, :-1] = False
    else:
        stale[:, :-1] = ~unchanged_states(masks, old, new)
    stale[-1, :-1] = False  # of the last layer only the newest output is asked for
    total = Flops(0, 0)
    for number, block in enumerate(spec.stack.layers):
        rows = stale[number + 1]
        n_queries, n_keys = int(rows.sum()), int(stale[number].sum())
        work = _self_work(block, spec.d_model)
        if isinstance(block.attention, Latent) and n_queries == n_keys == 1:
            absorbed = _absorbed_work(block.attention, spec.d_model)
            work = _MultiplyAdds(
                absorbed.query + _feed_forward_work(block, spec.d_model),
                absorbed.key,
                absorbed.pair,
            )
        elif isinstance(
            block.attention, Latent
        ):  # what was cached is latents: all of them unfold again
            total += _flops(
                _MultiplyAdds(0, _latent_expansion(block.attention), 0),
                0,
                new.length - n_keys,
                0,
                0,
            )
        visible_pairs = count_visible_keys(block.mask, new, rows)
        total += _flops(work, n_queries, n_keys, n_queries * new.length, visible_pairs)
        if block.cross is not None:
            pairs = n_queries * source_length
            seen = 0 if block.cross == Nothing() else pairs
            total += _flops(_cross_work(block, spec.d_model), n_queries, 0, pairs, seen)
    return total


def growth_flops(block: Block, d_model: int, growth: LayerGrowth) -> Flops:
    """One layer over the tokens that are read when a text grows; keys of others are cached.

    One token alone meets latents as they are. Several unfold all latents that are there.
    """
    n_read = int(np.count_nonzero(growth.is_read))
    visible = count_visible_keys(block.mask, growth.text, growth.is_read)
    if n_read == 1:
        return one_by_one_flops(block, d_model, 1, growth.n_cached + 1, visible)
    total = _flops(
        _self_work(block, d_model), n_read, n_read, n_read * (growth.n_cached + n_read), visible
    )
    if isinstance(block.attention, Latent):
        expansion = _MultiplyAdds(0, _latent_expansion(block.attention), 0)
        total += _flops(expansion, 0, growth.n_cached, 0, 0)
    return total


def one_by_one_flops(
    block: Block, d_model: int, n_tokens: int, dense_pairs: float, visible_pairs: float
) -> Flops:
    """One layer over tokens that are read one after another, with so many query-key pairs in
    all; latents stay folded.
    """
    work = _self_work(block, d_model)
    if isinstance(block.attention, Latent):
        absorbed = _absorbed_work(block.attention, d_model)
        feed_forward = _feed_forward_work(block, d_model)
        work = _MultiplyAdds(absorbed.query + feed_forward, absorbed.key, absorbed.pair)
    return _flops(work, n_tokens, n_tokens, dense_pairs, visible_pairs)


def cross_flops(block: Block, d_model: int, pairs: CrossPairs) -> Flops:
    """The cross-attention of one layer to a source, and the keys of the source that are new."""
    work = _cross_work(block, d_model)
    return _flops(work, pairs.n_queries, pairs.n_new_keys, pairs.dense, pairs.visible)


def head_flops(spec: ResolvedArchitecture, length: int) -> Flops:
    """The output head over `length` positions."""
    per_token = spec.d_model * (spec.n_vocab + (spec.d_model if spec.head.transform else 0))
    return Flops(2 * per_token * length, 2 * per_token * length)

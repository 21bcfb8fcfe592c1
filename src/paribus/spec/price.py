"""What an architecture costs, by arithmetic, before anything is built.

FLOPs are those of matrix products, two per multiply-add, and come two ways. *Dense*: every query
meets every key, and the backward pass costs twice the forward. *Visible*: only the pairs the mask
lets through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from paribus.errors import SpecError
from paribus.masks import (
    Rule,
    SequenceLayout,
    appendable,
    count_visible_keys,
    count_visible_pairs,
    unchanged_states,
)
from paribus.spec.architecture import Dense, Experts, Latent, MultiHead
from paribus.spec.parameters import parameters
from paribus.spec.resolved import Block, ResolvedArchitecture, Stack


@dataclass(frozen=True)
class Flops:
    """FLOPs counted in two ways."""

    dense: float
    visible: float

    def __add__(self, other: Flops) -> Flops:
        return Flops(self.dense + other.dense, self.visible + other.visible)

    def __mul__(self, factor: float) -> Flops:
        return Flops(self.dense * factor, self.visible * factor)


@dataclass(frozen=True)
class Price:
    """Parameters, cache and FLOPs at the given lengths; FLOPs are of one sequence, decode of
    one token.
    """

    length: int
    source_length: int  # 0 without an encoder
    prefix: int
    bytes_per_value: int
    parameters: int
    non_embedding_parameters: int  # without word, position and output tables
    active_parameters: int  # what one token uses
    kv_bytes_per_token: int
    kv_bytes_per_source_token: int
    visible_share: float  # of the main stack's query-key pairs
    appendable: bool  # does the cache stay valid while the text grows
    training: Flops
    prefill: Flops  # the prompt and the logits after its last token
    decode: (
        Flops  # one more token after length - 1; positions whose cache is lost are computed again
    )


def price(
    spec: ResolvedArchitecture,
    length: int | None = None,
    source_length: int | None = None,
    prefix: int | None = None,
    bytes_per_value: int = 2,
    n_scored: int | None = None,
) -> Price:
    """The price at these lengths; by default max_length of each, half of it a prefix, two bytes
    a cached value.

    All of a source is its own prefix. Training computes the logits of `n_scored` positions, or of
    all.
    """
    problems = list(_problems(spec, length, source_length, prefix, bytes_per_value, n_scored))
    if problems:
        raise SpecError(problems)
    length = length or spec.max_length
    if spec.encoder is None:
        source_length = 0
    else:
        source_length = source_length or spec.max_length
    layout = SequenceLayout(length, prefix=length // 2 if prefix is None else prefix)
    counts = count_parameters(spec)
    own, cross = _kv_values(spec.stack)
    return Price(
        length=length,
        source_length=source_length,
        prefix=layout.prefix,
        bytes_per_value=bytes_per_value,
        parameters=counts.total,
        non_embedding_parameters=counts.non_embedding,
        active_parameters=counts.active,
        kv_bytes_per_token=own * bytes_per_value,
        kv_bytes_per_source_token=cross * bytes_per_value,
        visible_share=visible_share(spec.stack.masks, layout),
        appendable=appendable(spec.stack.masks),
        training=training_flops(spec, layout, source_length, n_scored or length),
        prefill=_forward_flops(spec, layout, source_length) + _head_flops(spec, 1),
        decode=_decode_flops(spec, layout, source_length) + _head_flops(spec, 1),
    )


@dataclass(frozen=True)
class ParameterCounts:
    """Parameters counted three ways."""

    total: int
    non_embedding: int
    active: int


def count_parameters(spec: ResolvedArchitecture) -> ParameterCounts:
    """How many parameters there are, how many outside the tables, and how many a token uses."""
    table = parameters(spec).values()
    total = sum(p.count for p in table)
    tables = sum(p.count for p in table if p.role in ("word", "position", "relative", "head"))
    return ParameterCounts(total, total - tables, round(sum(p.count * p.share for p in table)))


def training_flops(
    spec: ResolvedArchitecture, layout: SequenceLayout, source_length: int, n_scored: int
) -> Flops:
    """One sequence forward and backward, and the logits of the positions that are
    scored.
    """
    return (_forward_flops(spec, layout, source_length) + _head_flops(spec, n_scored)) * 3


def _problems(
    spec: ResolvedArchitecture,
    length: int | None,
    source_length: int | None,
    prefix: int | None,
    bytes_per_value: int,
    n_scored: int | None,
) -> Iterator[str]:
    for name, value in (("length", length), ("source_length", source_length)):
        if value is not None and not 1 <= value <= spec.max_length:
            limit = spec.max_length
            yield (
                f"{name} is {value}, but max_length is {limit}; use 1 to {limit}, or set max_length"
            )
    if source_length is not None and spec.encoder is None:
        yield (
            f"source_length is {source_length}, but there is no encoder to read a source; leave"
            " it out"
        )
    longest = length or spec.max_length
    if prefix is not None and not 0 <= prefix <= longest:
        yield f"prefix is {prefix} of length {longest}; use 0 to {longest}"
    if bytes_per_value < 1:
        yield f"bytes_per_value is {bytes_per_value}; use 1 or more"
    if n_scored is not None and not 1 <= n_scored <= longest:
        yield f"n_scored is {n_scored} of length {longest}; use 1 to {longest}"


def visible_share(masks: Sequence[Rule], layout: SequenceLayout) -> float:
    """The visible part of all query-key pairs, over layers and heads."""
    return sum(count_visible_pairs(rule, layout) for rule in masks) / (
        len(masks) * layout.length**2
    )


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


def _forward_flops(spec: ResolvedArchitecture, layout: SequenceLayout, source_length: int) -> Flops:
    """All layers of both stacks over whole sequences, without the output head."""
    total = Flops(0, 0)
    length, source = layout.length, SequenceLayout(source_length, prefix=source_length)
    for block in spec.stack.layers:
        pairs = count_visible_pairs(block.mask, layout)
        total += _flops(_self_work(block, spec.d_model), length, length, length**2, pairs)
        if block.cross is not None:
            work, pairs = _attention_work(block.attention, spec.d_model), length * source_length
            total += _flops(work, length, source_length, pairs, pairs)
    for block in spec.encoder.layers if spec.encoder else ():
        pairs = count_visible_pairs(block.mask, source)
        total += _flops(
            _self_work(block, spec.d_model), source_length, source_length, source_length**2, pairs
        )
    return total


def _decode_flops(spec: ResolvedArchitecture, layout: SequenceLayout, source_length: int) -> Flops:
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
            total += _flops(
                _attention_work(block.attention, spec.d_model), n_queries, 0, pairs, pairs
            )
    return total


def _head_flops(spec: ResolvedArchitecture, length: int) -> Flops:
    """The output head over `length` positions."""
    per_token = spec.d_model * (spec.n_vocab + (spec.d_model if spec.head.transform else 0))
    return Flops(2 * per_token * length, 2 * per_token * length)


def _kv_values(stack: Stack) -> tuple[int, int]:
    """Cached values for each token read, and for each source token."""
    own = cross = 0
    for block in stack.layers:
        match block.attention:
            case Latent(d_latent=d_latent, d_rotary=d_rotary):
                own += d_latent + d_rotary
            case MultiHead(n_kv_heads=int(n_kv_heads), d_head=int(d_head)):
                own += 2 * n_kv_heads * d_head
                cross += 2 * n_kv_heads * d_head if block.cross is not None else 0
            case _:
                raise AssertionError("a resolved block knows its heads")
    return own, cross

"""What every turn of a conversation costs, by arithmetic: tokens that are read, FLOPs and bytes of
the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from paribus.errors import SpecError
from paribus.masks import (
    SequenceLayout,
    TextBesideSource,
    count_visible_keys,
    head_groups,
    plan_growth,
    plan_source_growth,
    same_source_views,
)
from paribus.masks.dense import BoolArray
from paribus.masks.growth import needed_by_layer
from paribus.masks.source_growth import SourcePlan, keeps_source
from paribus.spec.architecture import Latent, MultiHead
from paribus.spec.conversation import (
    Conversation,
    Custom,
    TurnTexts,
    require_custom,
    turn_texts,
)
from paribus.spec.flops import (
    CrossPairs,
    Flops,
    LayerGrowth,
    cross_flops,
    growth_flops,
    head_flops,
    one_by_one_flops,
)
from paribus.spec.resolved import Block, ResolvedArchitecture, Stack


@dataclass(frozen=True)
class TurnPrice:
    """One turn: what happens before the first token of its answer, and what is left after the
    last one.
    """

    turn: int
    n_prompt: int  # tokens of the conversation that stand before the answer
    n_read: int  # tokens that go through a stack before the first token is chosen
    n_read_again: int  # those of them that went through a stack in an earlier turn
    first_token_flops: Flops
    turn_flops: Flops  # with the rest of the answer
    cache_bytes: int  # keys and values that the next token of this answer would need
    reused_bytes: int  # those of them that the next turn needs


def price_turns(
    spec: ResolvedArchitecture,
    custom: Custom,
    conversation: Conversation | None = None,
    bytes_per_value: int = 2,
) -> tuple[TurnPrice, ...]:
    """The price of each turn of a conversation that is held by a custom; two bytes a cached value
    by default.
    """
    conversation = conversation or Conversation()
    require_custom(spec, custom)
    require_fit(spec, custom, conversation)
    if bytes_per_value < 1:
        raise SpecError(f"bytes_per_value is {bytes_per_value}; use 1 or more")
    prices = []
    now = turn_texts(conversation, custom, 1)
    read = _places_read(spec, now)
    for turn in range(1, conversation.n_turns + 1):
        later = turn_texts(conversation, custom, turn + 1)
        read_later = _places_read(spec, later)
        first_flops = _first_token_flops(spec, now, read)
        price = TurnPrice(
            turn=turn,
            n_prompt=conversation.prompt_length(turn),
            n_read=read.n_tokens,
            n_read_again=read.n_tokens - now.n_new,
            first_token_flops=first_flops,
            turn_flops=first_flops + _answer_flops(spec, now),
            cache_bytes=_cached_values(spec, now) * bytes_per_value,
            reused_bytes=_reused_values(spec, now, later, read_later) * bytes_per_value,
        )
        prices.append(price)
        now, read = later, read_later
    return tuple(prices)


def needed_length(custom: Custom, conversation: Conversation) -> int:
    """The max_length that a conversation needs."""
    last = turn_texts(conversation, custom, conversation.n_turns)
    return max(last.end.length, last.source.length)


def require_fit(spec: ResolvedArchitecture, custom: Custom, conversation: Conversation) -> None:
    """SpecError where a conversation is longer than an architecture reads."""
    needed = needed_length(custom, conversation)
    if needed > spec.max_length:
        raise SpecError(
            f"n_turns is {conversation.n_turns}, and turns of {conversation.n_user} +"
            f" {conversation.n_answer} tokens make a text of {needed}, but max_length is"
            f" {spec.max_length}; use fewer or shorter turns, or an architecture with a longer"
            " max_length"
        )


def stack_places_read(spec: ResolvedArchitecture, texts: TurnTexts) -> BoolArray:
    """Which tokens of its text the main stack reads before the first token of an answer."""
    views = None
    if spec.encoder is not None and texts.before.length:
        views = same_source_views(
            [block.cross for block in spec.stack.layers],
            TextBesideSource(texts.before, texts.source_before),
            TextBesideSource(texts.prompt, texts.source),
            _source_plan(spec, texts).is_unchanged,
        )
    return plan_growth(spec.stack.masks, texts.before, texts.prompt, views).is_read


def source_places_read(spec: ResolvedArchitecture, texts: TurnTexts) -> BoolArray:
    """Which tokens of its text the encoder reads; none without one."""
    if spec.encoder is None:
        return np.zeros(0, bool)
    return _source_plan(spec, texts).is_read


def _source_plan(spec: ResolvedArchitecture, texts: TurnTexts) -> SourcePlan:
    assert spec.encoder is not None
    return plan_source_growth(spec.encoder.masks, texts.source_before, texts.source)


@dataclass(frozen=True, eq=False)
class _PlacesRead:
    """Which tokens of a text and of its source are read before the first token of an answer."""

    stack: BoolArray
    source: BoolArray

    @property
    def n_tokens(self) -> int:
        return int(np.count_nonzero(self.stack) + np.count_nonzero(self.source))


def _places_read(spec: ResolvedArchitecture, texts: TurnTexts) -> _PlacesRead:
    return _PlacesRead(stack_places_read(spec, texts), source_places_read(spec, texts))


def _first_token_flops(spec: ResolvedArchitecture, texts: TurnTexts, read: _PlacesRead) -> Flops:
    """Of what is read of both texts, and of the logits of one token."""
    total = head_flops(spec, 1)
    for block, n_layers in _equal_layers(spec.stack):
        n_cached = _mean_cached(block, texts.before, read.stack)
        growth = LayerGrowth(texts.prompt, read.stack, n_cached)
        own = growth_flops(block, spec.d_model, growth)
        if block.cross is not None:
            own += _cross_flops(block, spec.d_model, texts, read)
        total += own * n_layers
    if spec.encoder is None:
        return total
    keeps_keys = keeps_source(spec.encoder.masks)
    for block, n_layers in _equal_layers(spec.encoder):
        n_cached = _mean_cached(block, texts.source_before, read.source) * keeps_keys
        growth = LayerGrowth(texts.source, read.source, n_cached)
        total += growth_flops(block, spec.d_model, growth) * n_layers
    return total


def _cross_flops(block: Block, d_model: int, texts: TurnTexts, read: _PlacesRead) -> Flops:
    """What is read of a text against its source, and the keys of what is read of the source."""
    assert block.cross is not None
    n_queries, n_new_keys = int(read.stack.sum()), int(read.source.sum())
    visible = count_visible_keys(block.cross, texts.prompt, read.stack, texts.source)
    dense = n_queries * texts.source.length
    return cross_flops(block, d_model, CrossPairs(n_queries, n_new_keys, dense, visible))


def _answer_flops(spec: ResolvedArchitecture, texts: TurnTexts) -> Flops:
    """Of the tokens after the first one, which are read and chosen one by one."""
    n_tokens = texts.end.length - texts.prompt.length
    total = head_flops(spec, 1) * n_tokens
    is_answer = np.arange(texts.end.length) >= texts.prompt.length
    for block, n_layers in _equal_layers(spec.stack):
        # in an answer nobody sees what comes later: token by token or at once, the same pairs
        visible = count_visible_keys(block.mask, texts.end, is_answer)
        n_cached = _sum_cached(block, texts)
        own = one_by_one_flops(block, spec.d_model, n_tokens, n_cached + n_tokens, visible)
        if block.cross is not None:
            seen = count_visible_keys(block.cross, texts.end, is_answer, texts.source)
            pairs = CrossPairs(n_tokens, 0, n_tokens * texts.source.length, seen)
            own += cross_flops(block, spec.d_model, pairs)
        total += own * n_layers
    return total


def _equal_layers(stack: Stack) -> Iterator[tuple[Block, int]]:
    """Blocks that stand one after another and are equal, with their number."""
    for block, layers in groupby(stack.layers):
        yield block, len(list(layers))


def _cached_keys(block: Block, text: SequenceLayout, is_read: BoolArray | None = None) -> list[int]:
    """How many keys each group of heads keeps of a text; none of tokens that are read."""
    n_kv_heads = 1
    if isinstance(block.attention, MultiHead):
        n_kv_heads = block.attention.n_kv_heads or block.attention.n_heads
    counts = []
    for rule in head_groups(block.mask, n_kv_heads):
        is_kept = needed_by_layer((rule,), text)[0]
        if is_read is not None:
            is_kept = is_kept & ~is_read[: text.length]
        counts.append(int(is_kept.sum()))
    return counts


def _mean_cached(block: Block, text: SequenceLayout, is_read: BoolArray | None = None) -> float:
    """How many keys a head keeps of a text, on average."""
    counts = _cached_keys(block, text, is_read)
    return sum(counts) / len(counts)


def _sum_cached(block: Block, texts: TurnTexts) -> float:
    """How many keys a head has beside each token of an answer but the first, summed."""
    first, last = texts.prompt, texts.end
    if _mean_cached(block, last) == last.length:
        return sum(range(first.length, last.length))
    total = 0.0
    for length in range(first.length, last.length):
        documents = None if last.documents is None else last.documents[:length]
        total += _mean_cached(block, SequenceLayout(length, last.prefix, documents))
    return total


def _cached_values(spec: ResolvedArchitecture, texts: TurnTexts) -> int:
    """Values of keys that the cache of an answer holds at its end, with those of the source."""
    total = 0
    for block, n_layers in _equal_layers(spec.stack):
        own = key_values(block) * _mean_cached(block, texts.end)
        total += (round(own) + source_key_values(block) * texts.source.length) * n_layers
    return total + _encoder_values(spec, texts)


def _reused_values(
    spec: ResolvedArchitecture, texts: TurnTexts, later: TurnTexts, read: _PlacesRead
) -> int:
    """Values of keys in the cache of a turn that the next one, in which so much is `read`, does
    not compute again.
    """
    total = 0
    n_source = int((~read.source[: texts.source.length]).sum())
    for block, n_layers in _equal_layers(spec.stack):
        own = key_values(block) * _mean_cached(block, later.before, read.stack)
        total += (round(own) + n_source * source_key_values(block)) * n_layers
    return total + _encoder_values(spec, texts)


def _encoder_values(spec: ResolvedArchitecture, texts: TurnTexts) -> int:
    """Values of the encoder's own keys, which are kept where they stay valid."""
    if spec.encoder is None or not keeps_source(spec.encoder.masks):
        return 0
    total = 0
    for block, n_layers in _equal_layers(spec.encoder):
        total += round(key_values(block) * _mean_cached(block, texts.source)) * n_layers
    return total


def key_values(block: Block) -> int:
    """Values that a layer caches of each token that is read."""
    match block.attention:
        case Latent(d_latent=d_latent, d_rotary=d_rotary):
            return d_latent + d_rotary
        case MultiHead(n_kv_heads=int(n_kv_heads), d_head=int(d_head)):
            return 2 * n_kv_heads * d_head
        case _:
            raise AssertionError("a resolved block knows its heads")


def source_key_values(block: Block) -> int:
    """Values that a layer caches of each token of a source."""
    if block.cross is None:
        return 0
    return key_values(block)

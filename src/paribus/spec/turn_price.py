"""What every turn of a conversation costs, by arithmetic: tokens that are read, FLOPs and bytes of
the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from paribus.errors import SpecError
from paribus.masks import Rule, SequenceLayout, appendable, needed_later, plan_growth
from paribus.masks.dense import BoolArray
from paribus.spec.architecture import Latent, MultiHead
from paribus.spec.conversation import (
    Conversation,
    Custom,
    TurnTexts,
    require_custom,
    turn_texts,
)
from paribus.spec.flops import Flops, LayerGrowth, cross_flops, growth_flops, head_flops
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
    for turn in range(1, conversation.n_turns + 1):
        now = turn_texts(conversation, custom, turn)
        later = turn_texts(conversation, custom, turn + 1)
        first_flops = _first_token_flops(spec, now)
        price = TurnPrice(
            turn=turn,
            n_prompt=conversation.prompt_length(turn),
            n_read=count_tokens_read(spec, now),
            n_read_again=count_tokens_read(spec, now) - now.n_new,
            first_token_flops=first_flops,
            turn_flops=first_flops + _answer_flops(spec, now),
            cache_bytes=_cached_values(spec, now) * bytes_per_value,
            reused_bytes=_reused_values(spec, now, later) * bytes_per_value,
        )
        prices.append(price)
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
            f"{conversation.n_turns} turns of {conversation.n_user} + {conversation.n_answer}"
            f" tokens need a text of {needed}, but max_length is {spec.max_length}; use fewer or"
            " shorter turns, or an architecture with a longer max_length"
        )


def stack_places_read(spec: ResolvedArchitecture, texts: TurnTexts) -> BoolArray:
    """Which tokens of its text the main stack reads before the first token of an answer."""
    return plan_growth(spec.stack.masks, texts.before, texts.prompt).is_read


def source_places_read(spec: ResolvedArchitecture, texts: TurnTexts) -> BoolArray:
    """Which tokens of its text the encoder reads; none without one."""
    if spec.encoder is None:
        return np.zeros(0, bool)
    return plan_growth(spec.encoder.masks, texts.source_before, texts.source).is_read


def count_tokens_read(spec: ResolvedArchitecture, texts: TurnTexts) -> int:
    """How many tokens go through a stack before the first token of an answer."""
    n_stack = np.count_nonzero(stack_places_read(spec, texts))
    return int(n_stack + np.count_nonzero(source_places_read(spec, texts)))


def _first_token_flops(spec: ResolvedArchitecture, texts: TurnTexts) -> Flops:
    """Of what is read of both texts, and of the logits of one token."""
    is_read = stack_places_read(spec, texts)
    total = _growth_flops(spec.stack, spec.d_model, texts.before, texts.prompt, is_read)
    total += head_flops(spec, 1)
    if spec.encoder is None:
        return total
    is_source_read = source_places_read(spec, texts)
    before, source = texts.source_before, texts.source
    total += _growth_flops(spec.encoder, spec.d_model, before, source, is_source_read)
    n_queries, n_new_keys = int(is_read.sum()), int(is_source_read.sum())
    # of two queries the first is the last token of the answer before, which sees no new source
    n_pairs = n_queries * texts.n_source_keys - (n_queries - 1) * source.length
    for block in spec.stack.layers:
        total += cross_flops(block, spec.d_model, n_queries, n_new_keys, n_pairs)
    return total


def _answer_flops(spec: ResolvedArchitecture, texts: TurnTexts) -> Flops:
    """Of the tokens after the first one, which are read and chosen one by one."""
    total = Flops(0, 0)
    for length in range(texts.prompt.length, texts.end.length):
        before = SequenceLayout(length, texts.prompt.prefix)
        after = SequenceLayout(length + 1, texts.prompt.prefix)
        is_read = np.arange(length + 1) == length
        total += _growth_flops(spec.stack, spec.d_model, before, after, is_read)
        total += head_flops(spec, 1)
    n_tokens = texts.end.length - texts.prompt.length
    for block in spec.stack.layers:
        n_pairs = n_tokens * texts.n_source_keys
        total += cross_flops(block, spec.d_model, n_tokens, 0, n_pairs)
    return total


def _growth_flops(
    stack: Stack, d_model: int, before: SequenceLayout, after: SequenceLayout, is_read: BoolArray
) -> Flops:
    """All layers of a stack over the tokens that are read when its text grows."""
    total = Flops(0, 0)
    for block, layers in groupby(stack.layers):
        is_cached = _is_needed(block.mask, before) & ~is_read[: before.length]
        growth = LayerGrowth(after, is_read, int(is_cached.sum()))
        total += growth_flops(block, d_model, growth) * len(list(layers))
    return total


def _is_needed(rule: Rule, text: SequenceLayout) -> BoolArray:
    """Which tokens of a text a later one sees in any head."""
    by_head = needed_later(rule, np.arange(text.length), text.length, text.prefix)
    return np.any(by_head, axis=0)


def _cached_values(spec: ResolvedArchitecture, texts: TurnTexts) -> int:
    """Values of keys that the cache of an answer holds at its end, with those of the source."""
    total = 0
    for block, layers in groupby(spec.stack.layers):
        n_keys = int(_is_needed(block.mask, texts.end).sum())
        own = key_values(block) * n_keys + source_key_values(block) * texts.n_source_keys
        total += own * len(list(layers))
    if spec.encoder is not None and keeps_encoder(spec, texts):
        total += _stack_values(spec.encoder.layers, texts.source)
    return total


def _reused_values(spec: ResolvedArchitecture, texts: TurnTexts, later: TurnTexts) -> int:
    """Values of keys in the cache that the next turn does not compute again."""
    total = 0
    if later.before.length:
        is_read = stack_places_read(spec, later)[: later.before.length]
        for block, layers in groupby(spec.stack.layers):
            is_reused = _is_needed(block.mask, later.before) & ~is_read
            total += int(is_reused.sum()) * key_values(block) * len(list(layers))
    if spec.encoder is None:
        return total
    n_source_keys = texts.n_source_keys
    if later.source_before.length:
        is_source_read = source_places_read(spec, later)[: later.source_before.length]
        n_source_keys = int((~is_source_read).sum())
    if n_source_keys and keeps_encoder(spec, texts):
        total += _stack_values(spec.encoder.layers, texts.source)
    return total + n_source_keys * sum(map(source_key_values, spec.stack.layers))


def keeps_encoder(spec: ResolvedArchitecture, texts: TurnTexts) -> bool:
    """Are keys of the encoder itself kept, because its source will grow and they stay valid?"""
    if spec.encoder is None or not texts.source_grows:
        return False
    return appendable(spec.encoder.masks, prefix_grows=True)


def _stack_values(blocks: Sequence[Block], text: SequenceLayout) -> int:
    """Values of keys that a stack keeps of a text."""
    return sum(_layer_values(blocks, text))


def _layer_values(blocks: Sequence[Block], text: SequenceLayout) -> Iterator[int]:
    for block, layers in groupby(blocks):
        yield int(_is_needed(block.mask, text).sum()) * key_values(block) * len(list(layers))


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

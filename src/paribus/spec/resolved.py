"""A spec with nothing implicit: one block per layer, every number written out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from paribus.errors import SpecError
from paribus.masks import (
    DOCUMENT_RULES,
    Alternate,
    And,
    ByHead,
    ByLayer,
    Full,
    Nothing,
    Or,
    Padding,
    Rule,
    SameDocument,
    divisors,
    head_rules,
    leaves,
    rule_at_head,
    rule_at_layer,
    simplify_rule,
)
from paribus.spec.architecture import (
    Alibi,
    Architecture,
    AttentionKind,
    CrossForm,
    CrossPositions,
    Dense,
    Embedding,
    Encoder,
    Experts,
    FeedForwardKind,
    Head,
    InitKind,
    Latent,
    Mask,
    MultiHead,
    NoPositions,
    NormKind,
    Placement,
    PositionsKind,
    RelativeBias,
    RotaryPositions,
    ScaleFactor,
)
from paribus.spec.base import Count, Share, Spec
from paribus.spec.mup import mup_logit_factor, mup_problems, mup_score_scale


class Block(Spec):
    """One layer: who sees whom, and what it computes."""

    mask: Mask
    cross: Mask | None  # which source positions it sees; None: no cross-attention
    # a branch of its own, or one softmax with self-attention
    cross_form: Annotated[CrossForm, Field(exclude_if=lambda kind: kind == "separate")] = "separate"
    attention: AttentionKind
    feed_forward: FeedForwardKind


class Stack(Spec):
    """Blocks from the bottom up, under one kind of positions."""

    layers: tuple[Block, ...]
    positions: PositionsKind
    # how places enter cross-attention
    cross_positions: Annotated[CrossPositions, Field(exclude_if=lambda kind: kind == "none")] = (
        "none"
    )

    @property
    def masks(self) -> tuple[Rule, ...]:
        return tuple(block.mask for block in self.layers)


class ResolvedArchitecture(Spec):
    """What is built: the stack that predicts, and the encoder it reads from, if any."""

    n_vocab: Count
    max_length: Count
    d_model: Count
    stack: Stack
    encoder: Stack | None
    shared: bool
    norm: NormKind
    placement: Placement
    embedding: Embedding
    head: Head
    init: InitKind
    dropout: Share

    @property
    def is_one_stack(self) -> bool:
        """Is the encoder the main stack itself, with no parameter of its own?"""
        return self.shared and all(block.cross_form == "merged" for block in self.stack.layers)

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The main stack, then the encoder if there is one."""
        if self.encoder is None:
            return (self.stack,)
        return (self.stack, self.encoder)

    @property
    def asks_for_documents(self) -> bool:
        """Does what a token sees, of its own text or of a source, depend on documents?"""
        rules: set[Rule] = set()
        for stack in self.stacks:
            for block in stack.layers:
                rules |= leaves(block.mask)
                rules |= leaves(block.cross) if block.cross is not None else set()
        return bool(rules & DOCUMENT_RULES)


def resolve(spec: Architecture) -> ResolvedArchitecture:
    """One block per layer with nothing implicit; SpecError lists every combination that cannot
    be.
    """
    problems = list(_problems(spec))
    if problems:
        raise SpecError(problems)
    encoder = spec.encoder
    cross = None if encoder is None else encoder.cross or _default_cross(spec.mask)
    return ResolvedArchitecture(
        n_vocab=spec.n_vocab,
        max_length=spec.max_length,
        d_model=spec.d_model,
        stack=_stack(spec, spec.mask, spec.n_layers, cross),
        encoder=None if encoder is None else _stack(spec, encoder.mask, encoder.n_layers, None),
        shared=encoder is not None and encoder.shared,
        norm=spec.norm,
        placement=spec.placement,
        embedding=spec.embedding.model_copy(
            update={"scale": _scale(spec.embedding.scale, spec.d_model)}
        ),
        head=spec.head.model_copy(update={"scale": _logit_scale(spec)}),
        init=spec.init,
        dropout=spec.dropout,
    )


def is_bidirectional(stack: Stack) -> bool:
    """Does any layer look ahead? T5's relative bias then keeps half its buckets for distances
    ahead.
    """
    return any(
        part.sees_new(prefix_grows=True) for rule in stack.masks for part in head_rules(rule)
    )


def _stack(spec: Architecture, mask: Rule, n_layers: int, cross: Rule | None) -> Stack:
    blocks: list[Block] = []
    encoder = spec.encoder
    for layer in range(n_layers):
        here = None if cross is None else rule_at_layer(cross, layer, n_layers)
        block = Block(
            mask=_without_padding_rule(rule_at_layer(mask, layer, n_layers)),
            cross=None if here is None else _without_padding_rule(here),
            cross_form="separate" if here is None or encoder is None else encoder.cross_form,
            attention=_attention(spec),
            feed_forward=_feed_forward(spec, layer),
        )
        blocks.append(block)
    return Stack(
        layers=tuple(blocks),
        positions=spec.positions,
        cross_positions="none" if cross is None or encoder is None else encoder.cross_positions,
    )


def _without_padding_rule(mask: Rule) -> Rule:
    """Nobody sees padding under any mask, so saying so makes no other model."""
    return simplify_rule(mask, has_documents=True, has_padding=False, has_prefix=True)


def _default_cross(mask: Rule) -> Rule:
    """The whole source, or that of the same document where the stack keeps documents apart."""
    if SameDocument() in leaves(mask):
        return SameDocument()
    return Full()


def _attention(spec: Architecture) -> MultiHead | Latent:
    attention = spec.attention
    if isinstance(attention, Latent):
        return attention
    d_head = attention.d_head or spec.d_model // attention.n_heads
    sizes = {
        "n_kv_heads": attention.n_kv_heads or attention.n_heads,
        "d_head": d_head,
        "score_scale": (attention.score_scale or mup_score_scale(spec, d_head) or d_head**-0.5),
    }
    return attention.model_copy(update=sizes)


def _feed_forward(spec: Architecture, layer: int) -> Dense | Experts:
    feed_forward, wide = spec.feed_forward, 4 * spec.d_model
    if isinstance(feed_forward, Dense):
        return feed_forward.model_copy(update={"d_ff": feed_forward.d_ff or wide})
    after = layer - feed_forward.n_dense_layers
    if after < 0 or (after + 1) % feed_forward.every:
        return Dense(
            d_ff=feed_forward.d_ff or wide,
            activation=feed_forward.activation,
            gated=feed_forward.gated,
        )
    sizes = {
        "d_expert": feed_forward.d_expert or wide,
        "d_ff": None,
        "n_dense_layers": 0,
        "every": 1,
    }
    return feed_forward.model_copy(update=sizes)


def _logit_scale(spec: Architecture) -> float:
    """The factor on what the head reads."""
    return _scale(spec.head.scale, spec.d_model) * mup_logit_factor(spec)


def _scale(scale: ScaleFactor, d_model: int) -> float:
    match scale:
        case "sqrt_d_model":
            return d_model**0.5
        case "rsqrt_d_model":
            return d_model**-0.5
        case _:
            return scale


def _problems(spec: Architecture) -> Iterator[str]:
    yield from _mask_problems("mask", spec.mask, spec.n_layers, spec.attention.n_heads)
    if isinstance(spec.attention, MultiHead):
        yield from _head_problems(spec, spec.attention)
    else:
        yield from _latent_problems(spec, spec.attention)
    if isinstance(spec.feed_forward, Experts):
        yield from _expert_problems(spec, spec.feed_forward)
    if spec.encoder is not None:
        yield from _mask_problems(
            "encoder.mask", spec.encoder.mask, spec.encoder.n_layers, spec.attention.n_heads
        )
        yield from _cross_problems(spec, spec.encoder.cross)
        yield from _cross_kind_problems(spec, spec.encoder)
        if spec.encoder.shared and spec.encoder.n_layers != spec.n_layers:
            yield (
                f"encoder.n_layers is {spec.encoder.n_layers} with shared blocks, but n_layers is"
                f" {spec.n_layers}; use {spec.n_layers}, or encoder.shared = false"
            )
    yield from mup_problems(spec)
    if isinstance(spec.positions, RelativeBias):
        exact = spec.positions.n_buckets // 2
        if spec.positions.max_distance <= exact:
            yield (
                f"positions.max_distance is {spec.positions.max_distance}, which leaves no room"
                f" past the {exact} exact buckets; use {exact + 1} or more"
            )


def _mask_problems(path: str, mask: Rule, n_layers: int, n_heads: int) -> Iterator[str]:
    if Nothing() in leaves(mask) and path != "encoder.cross":
        yield (
            f"{path} is '{mask}', and under 'nothing' a token would not see itself; use"
            " 'window(1)', or encoder.cross = 'nothing' to hide a source"
        )
    try:
        for layer in range(n_layers):
            rule_at_head(rule_at_layer(mask, layer, n_layers), 0, n_heads)
    except SpecError as fault:
        yield f"{path} {str(fault).removeprefix('mask ')}"


def _cross_problems(spec: Architecture, cross: Rule | None) -> Iterator[str]:
    if cross is None:
        return
    yield from _mask_problems("encoder.cross", cross, spec.n_layers, spec.attention.n_heads)
    others = leaves(cross) - DOCUMENT_RULES - {Full(), Nothing(), Padding()}
    if others:
        yield (
            f"encoder.cross is '{cross}', but {min(map(str, others))!r} compares places, and those"
            " of a text and of its source are not one sequence; use 'full', 'same_document',"
            " 'documents_so_far' or 'nothing'"
        )


def _cross_kind_problems(spec: Architecture, encoder: Encoder) -> Iterator[str]:
    """What positions and the form of cross-attention do not go with."""
    if encoder.cross_positions == "rotary" and not isinstance(spec.positions, RotaryPositions):
        yield (
            f"encoder.cross_positions is 'rotary' with positions {spec.positions.kind!r}, and both"
            " sides turn by the same rates; use positions = 'rotary', or encoder.cross_positions ="
            " 'none'"
        )
    if encoder.cross_form == "merged" and isinstance(spec.positions, RelativeBias | Alibi):
        yield (
            f"encoder.cross_form is 'merged' with positions {spec.positions.kind!r}, which change"
            " scores by a distance, and a source has none to a text; use positions = 'rotary',"
            " 'learned', 'sinusoidal' or 'none', or encoder.cross_form = 'separate'"
        )
    rule = encoder.cross or _default_cross(spec.mask)
    if not _divides_heads(rule):
        return
    for name, usual in (("cross_positions", "none"), ("cross_form", "separate")):
        kind = getattr(encoder, name)
        if kind != usual:
            yield (
                f"encoder.{name} is {kind!r} with encoder.cross '{rule}', which divides the heads;"
                f" use one rule for all heads, or encoder.{name} = {usual!r}"
            )


def _divides_heads(rule: Rule) -> bool:
    match rule:
        case And(left, right) | Or(left, right):
            return _divides_heads(left) or _divides_heads(right)
        case ByHead():
            return True
        case ByLayer(rules) | Alternate(rules):
            return any(map(_divides_heads, rules))
        case _:
            return False


def _head_problems(spec: Architecture, attention: MultiHead) -> Iterator[str]:
    n_heads, n_kv_heads = attention.n_heads, attention.n_kv_heads
    if n_kv_heads is not None and n_heads % n_kv_heads:
        yield (
            f"attention.n_kv_heads is {n_kv_heads}, which does not divide n_heads {n_heads}; use"
            f" {_divisors(n_heads)}"
        )
    if attention.d_head is None and spec.d_model % n_heads:
        yield (
            f"attention.n_heads is {n_heads}, which does not divide d_model {spec.d_model}; "
            f"use {_divisors(spec.d_model)}, or set attention.d_head"
        )
    elif (
        isinstance(spec.positions, RotaryPositions)
        and (attention.d_head or spec.d_model // n_heads) % 2
    ):
        d_head = attention.d_head or spec.d_model // n_heads
        yield (
            f"attention.d_head is {d_head} with rotary positions, which turn channels in pairs; use"
            " an even d_head"
        )


def _latent_problems(spec: Architecture, attention: Latent) -> Iterator[str]:
    match spec.positions:
        case RotaryPositions():
            if attention.d_rotary == 0 or attention.d_rotary % 2:
                yield (
                    f"attention.d_rotary is {attention.d_rotary} with rotary positions; use an even"
                    " number from 2 up"
                )
        case NoPositions():
            if attention.d_rotary:
                yield (
                    f"attention.d_rotary is {attention.d_rotary} but positions are none; use 0, or"
                    " positions = 'rotary'"
                )
        case _:
            yield (
                f"positions.kind is {spec.positions.kind!r} with latent attention; use 'rotary' or"
                " 'none'"
            )
    if spec.encoder is not None:
        yield (
            "attention.kind is 'latent' with an encoder, which has no cross-attention form; use"
            " 'multi_head'"
        )


def _expert_problems(spec: Architecture, experts: Experts) -> Iterator[str]:
    router = experts.router
    if experts.n_active > experts.n_experts:
        yield (
            f"feed_forward.n_active is {experts.n_active} of n_experts {experts.n_experts}; "
            f"use 1 to {experts.n_experts}"
        )
    if experts.n_experts % router.n_groups:
        yield (
            f"feed_forward.router.n_groups is {router.n_groups}, which does not divide n_experts "
            f"{experts.n_experts}; use {_divisors(experts.n_experts)}"
        )
    elif router.n_active_groups > router.n_groups:
        yield (
            f"feed_forward.router.n_active_groups is {router.n_active_groups} of n_groups"
            f" {router.n_groups}; use 1 to {router.n_groups}"
        )
    elif experts.n_active > router.n_active_groups * experts.n_experts // router.n_groups:
        per_group = experts.n_experts // router.n_groups
        yield (
            f"feed_forward.n_active is {experts.n_active}, more than the {router.n_active_groups}"
            f" active groups of {per_group} experts hold; use at most"
            f" {router.n_active_groups * per_group}"
        )
    deepest = max(spec.n_layers, spec.encoder.n_layers if spec.encoder else 0)
    if experts.d_ff is not None and all(
        isinstance(_feed_forward(spec, layer), Experts) for layer in range(deepest)
    ):
        yield (
            f"feed_forward.d_ff is {experts.d_ff}, the width of dense layers, but every layer has"
            " experts; leave it out, or set n_dense_layers or every"
        )
    if not any(isinstance(_feed_forward(spec, layer), Experts) for layer in range(spec.n_layers)):
        yield (
            f"feed_forward.n_dense_layers {experts.n_dense_layers} and every {experts.every} leave"
            f" none of n_layers {spec.n_layers} with experts; lower one of them"
        )


def _divisors(n: int) -> str:
    *most, last = map(str, divisors(n))
    if most:
        return f"{', '.join(most)} or {last}"
    return last

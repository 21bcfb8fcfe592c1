"""What an architecture costs, by arithmetic, before anything is built."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from paribus.errors import SpecError
from paribus.masks import (
    Rule,
    SequenceLayout,
    appendable,
    count_visible_pairs,
    keeps_earlier_documents,
    keeps_source,
)
from paribus.spec.architecture import Latent, MultiHead
from paribus.spec.flops import Flops, decode_flops, forward_flops, head_flops, training_flops
from paribus.spec.objectives import Objective, TextLabels, WordTags
from paribus.spec.parameters import label_head_parameters, parameters, text_parameters
from paribus.spec.resolved import ResolvedArchitecture, Stack


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
    appendable: (
        bool  # is the cache kept within an answer: does it stay valid while text is appended
    )
    across_turns: str  # is it kept when a conversation goes on: see `cache_across_turns`
    training: Flops
    prefill: Flops  # the prompt and the logits after its last token
    decode: (
        Flops  # one more token after length - 1; positions whose cache is lost are computed again
    )
    encoder_kv_bytes_per_source_token: int = 0  # of its own keys, where they are kept across turns


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
        across_turns=cache_across_turns(spec),
        training=training_flops(spec, layout, source_length, n_scored or length),
        prefill=forward_flops(spec, layout, source_length) + head_flops(spec, 1),
        decode=decode_flops(spec, layout, source_length) + head_flops(spec, 1),
        encoder_kv_bytes_per_source_token=encoder_kv_bytes(spec, bytes_per_value),
    )


def cache_across_turns(spec: ResolvedArchitecture) -> str:
    """Are cached keys and values kept from one turn of a conversation to the next? In words that
    are the same everywhere.

    A prefix ends with the newest prompt, or stays the first one. An encoder reads the conversation
    so far, and the decoder the answer alone; or each turn is a document of both.
    """
    if spec.encoder is not None:
        masks, cross = spec.encoder.masks, [block.cross for block in spec.stack.layers]
        if spec.asks_for_documents and keeps_earlier_documents(spec.stack.masks, masks, cross):
            return "if a turn is a document"
        return "encoder only" if keeps_source(masks) else "no"
    if appendable(spec.stack.masks, prefix_grows=True):
        return "yes"
    if appendable(spec.stack.masks):
        return "if the prefix stays"
    return "no"


@dataclass(frozen=True)
class ParameterCounts:
    """Parameters counted three ways."""

    total: int
    non_embedding: int
    active: int
    active_non_embedding: int


def count_parameters(spec: ResolvedArchitecture) -> ParameterCounts:
    """How many parameters there are, how many outside the tables, and how many of both a token
    uses.
    """
    table = parameters(spec).values()
    others = [p for p in table if p.role not in ("word", "position", "relative", "head")]
    return ParameterCounts(
        total=sum(p.count for p in table),
        non_embedding=sum(p.count for p in others),
        active=round(sum(p.count * p.share for p in table)),
        active_non_embedding=round(sum(p.count * p.share for p in others)),
    )


def stage_parameters(spec: ResolvedArchitecture, objective: Objective) -> ParameterCounts:
    """The parameters of a stage: those of the architecture, and of a head for labels."""
    counts = count_parameters(spec)
    if not isinstance(objective, TextLabels | WordTags):
        return counts
    head = label_head_parameters(spec, objective.n_labels).values()
    n_head = sum(parameter.count for parameter in head)
    return replace(counts, total=counts.total + n_head, active=counts.active + n_head)


def question_parameters(spec: ResolvedArchitecture, objective: Objective) -> int:
    """How many parameters an answer depends on: of a head for labels, those that read the text and
    its own; of any other objective, all.
    """
    counts = stage_parameters(spec, objective)
    if not isinstance(objective, TextLabels | WordTags):
        return counts.total
    n_head = counts.total - count_parameters(spec).total
    return n_head + sum(parameter.count for parameter in text_parameters(spec).values())


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


def encoder_kv_bytes(spec: ResolvedArchitecture, bytes_per_value: int = 2) -> int:
    """Bytes of the encoder's own keys and values for each source token, where they are kept across
    turns; 0 elsewhere.
    """
    if spec.encoder is None or not keeps_source(spec.encoder.masks):
        return 0
    own, _ = _kv_values(spec.encoder)
    return own * bytes_per_value


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

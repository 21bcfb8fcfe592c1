"""How large an architecture is, by whatever a comparison makes equal."""

from __future__ import annotations

from collections.abc import Callable
from math import isclose, prod

from paribus.errors import SpecError
from paribus.masks import SequenceLayout
from paribus.spec.architecture import Architecture
from paribus.spec.flops import training_flops
from paribus.spec.match import MatchBy
from paribus.spec.price import count_parameters, price
from paribus.spec.resolved import ResolvedArchitecture, resolve


def architecture_size(
    architecture: Architecture, by: MatchBy, n_input: int, n_target: int
) -> float:
    """Parameters, or FLOPs of one text of n_input input and n_target target tokens; by nothing,
    all are of size 1.

    A decoder reads input and target as one sequence whose prefix is the input, an encoder-decoder
    the input as its source: that split is part of the match. FLOPs are the dense ones, every query
    against every key: what the literature's 6ND stands for, and independent of which kernel can
    make use of a mask. Training FLOPs are per token of the text, with words at the targets alone;
    inference FLOPs are of the whole text, reading the input and making the target.
    """
    spec = resolve(architecture)
    match by:
        case "nothing":
            return 1
        case "parameters":
            return count_parameters(spec).total
        case "non_embedding_parameters":
            return count_parameters(spec).non_embedding
        case "active_parameters":
            return count_parameters(spec).active
        case "training_flops":
            return _training_flops_per_token(spec, n_input, n_target)
        case "inference_flops":
            return _inference_flops(spec, n_input, n_target)


def _training_flops_per_token(spec: ResolvedArchitecture, n_input: int, n_target: int) -> float:
    _require_lengths_fit(spec, n_input, n_target)
    text = n_input + n_target
    if spec.encoder is None:
        layout = SequenceLayout(text, n_input)
    else:
        layout = SequenceLayout(n_target)
    source_length = 0 if spec.encoder is None else n_input
    return training_flops(spec, layout, source_length, n_scored=n_target).dense / text


def _inference_flops(spec: ResolvedArchitecture, n_input: int, n_target: int) -> float:
    """Prefill gives the first target token, each token decoded after it one more."""
    _require_lengths_fit(spec, n_input, n_target)
    first = n_input if spec.encoder is None else 1  # positions read before there is a first word
    if spec.encoder is None:
        source_length, prefix = (None, n_input)
    else:
        source_length, prefix = (n_input, 0)

    def decode_flops(length: int) -> float:
        return price(spec, length, source_length, prefix).decode.dense

    prefill = price(spec, first, source_length, prefix).prefill.dense
    return prefill + _sum_over_lengths(decode_flops, range(first + 1, first + n_target))


def _sum_over_lengths(cost: Callable[[int], float], lengths: range) -> float:
    """The sum of a cost over all lengths, by the polynomial through three of them where a
    fourth lies on it too.

    A token costs one row that grows with the length, or rows that all do where the cache is lost:
    of degree two, but for masks with strides.
    """
    if len(lengths) <= 4:
        return sum(map(cost, lengths))
    three = (lengths[0], lengths[len(lengths) // 2], lengths[-1])
    costs = {length: cost(length) for length in three}
    fourth = lengths[len(lengths) // 3]
    if not isclose(_interpolate(costs, fourth), cost(fourth)):
        return sum(map(cost, lengths))
    return sum(_interpolate(costs, length) for length in lengths)


def _interpolate(points: dict[int, float], length: int) -> float:
    """The polynomial through the known points, in Lagrange's form."""
    total = 0.0
    for at, value in points.items():
        factors = [(length - other) / (at - other) for other in points if other != at]
        total += value * prod(factors)
    return total


def _require_lengths_fit(spec: ResolvedArchitecture, n_input: int, n_target: int) -> None:
    if spec.encoder is None:
        longest = n_input + n_target
    else:
        longest = max(n_input, n_target)
    how = "as one sequence" if spec.encoder is None else "one beside the other"
    if min(n_input, n_target) < 1:
        raise SpecError(
            f"match reads {n_input} input and {n_target} target tokens; use 1 or more of each"
        )
    if longest > spec.max_length:
        raise SpecError(
            f"match reads {n_input} input and {n_target} target tokens {how}, but max_length is"
            f" {spec.max_length}; use shorter ones, or set max_length to {longest} or more"
        )

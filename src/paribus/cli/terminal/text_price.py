"""The price of one text, whichever way an architecture reads it."""

from __future__ import annotations

from collections.abc import Sequence

from paribus.cli.terminal.arguments import NamedArchitecture
from paribus.errors import SpecError
from paribus.spec import Price, ResolvedArchitecture, price


def longest_text(specs: Sequence[ResolvedArchitecture], n_input: int | None = None) -> int:
    """How many tokens a text may have that all of them read, of which n_input or half are input."""
    return min(_longest_for(spec, n_input) for spec in specs)


def _longest_for(spec: ResolvedArchitecture, n_input: int | None) -> int:
    if spec.encoder is None:
        return spec.max_length
    if n_input is None:
        return 2 * spec.max_length
    return spec.max_length + n_input


def text_price(
    spec: ResolvedArchitecture, length: int, n_input: int | None = None, bytes_per_value: int = 2
) -> Price:
    """The price of a text of `length` tokens, of which n_input are input and the rest target;
    by default half.

    A decoder reads them as one sequence whose prefix is the input, an encoder-decoder the input as
    its source.
    """
    if spec.encoder is None:
        return price(spec, length, prefix=n_input, bytes_per_value=bytes_per_value)
    if length < 2:
        raise SpecError(
            f"length is {length}, but an encoder-decoder reads input and target apart; use 2 or"
            " more"
        )
    if n_input is None:
        n_input = length // 2
    n_target = length - n_input
    if n_target < 1:
        raise SpecError(
            f"length is {length}, and {n_input} tokens of it are input, which leaves an"
            f" encoder-decoder no target; use a length of {n_input + 1} or more"
        )
    if max(n_input, n_target) > spec.max_length:
        raise SpecError(
            f"length is {length}: {n_input} input and {n_target} target tokens, but max_length is"
            f" {spec.max_length} for each; use up to {2 * spec.max_length}, half of it input, or"
            " set max_length"
        )
    return price(spec, n_target, n_input, 0, bytes_per_value)


def input_tokens(source_length: int | None, prefix: int | None) -> int | None:
    """How many tokens of a text are input, by either of its names."""
    if None not in (source_length, prefix) and source_length != prefix:
        raise SpecError(
            f"source_length is {source_length} and prefix is {prefix}, but both are the input of"
            " one text; give one"
        )
    if source_length is None:
        return prefix
    return source_length


def describe_priced_text(
    architectures: Sequence[NamedArchitecture], prices: Sequence[Price]
) -> str:
    """Which text all were priced for, and how each reads it."""
    length, n_input = (
        prices[0].length + prices[0].source_length,
        prices[0].source_length or prices[0].prefix,
    )
    text = (
        f"Priced for one text of {length} tokens: {n_input} of input, {length - n_input} of target."
    )
    apart: list[str] = []
    whole: list[str] = []
    for one in architectures:
        if one.spec.encoder is None:
            whole.append(one.name)
        else:
            apart.append(one.name)
    if not apart or not whole:
        return text
    return (
        f"{text} {', '.join(whole)}: read as one sequence, trained to predict every token. "
        f"{', '.join(apart)}: the encoder reads the input, and training predicts the target alone."
    )

"""How many tokens are said and how each is chosen, and what cannot be asked."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, get_args

import numpy as np

from paribus.errors import SpecError

FillOrder = Literal["left", "confident"]
MAX_FLOAT = sys.float_info.max
MAX_STOP_STRINGS = 64
MAX_LENGTH_PENALTY = 10
MAX_STOP_LETTERS = 1000  # of one stop string


@dataclass(frozen=True)
class Sampling:
    """How many tokens are said, and how they are drawn: the likeliest at temperature 0.

    The repetition penalty changes the logits first. Then the temperature divides them, and top-k,
    top-p and min-p remove tokens, in this order. SpecError unless tokens can be drawn so.
    """

    n_tokens: int = 100
    temperature: float = 0.0
    seed: int = 0
    top_k: int = 0  # draw from so many of the likeliest; 0: from all
    top_p: float = 1.0  # draw from the fewest tokens whose probability adds up to this
    min_p: float = 0.0  # draw from those at least so likely, relative to the likeliest
    repetition_penalty: float = 1.0  # above 1, what was read or said before is less likely
    stop: tuple[str, ...] = ()  # text at which an answer ends; it is not part of the answer
    n_samples: int = 1  # answers to each context
    # Natural logarithms of the model's own probabilities, before the penalty, the temperature and
    # the filters. None: not asked for; 0: of each token that is said; k: also of the k likeliest.
    n_logprobs: int | None = None
    n_beams: int = 1  # above 1: beam search
    length_penalty: float = 1.0  # a beam's score is its log-probability over length to this power
    order: FillOrder = "left"  # in which masks are filled, by a model that fills masks

    def __post_init__(self) -> None:
        if isinstance(self.stop, list):
            object.__setattr__(self, "stop", tuple(self.stop))
        problems = [*_range_problems(self), *_stop_problems(self.stop)]
        if not problems:
            problems = [*_beam_problems(self)]
        if problems:
            raise SpecError(problems)


def _range_problems(sampling: Sampling) -> Iterator[str]:
    for name in ("n_tokens", "n_samples", "n_beams"):
        yield from _whole_number_problem(name, getattr(sampling, name), 1)
    for name in ("seed", "top_k"):
        yield from _whole_number_problem(name, getattr(sampling, name), 0)
    if sampling.n_logprobs is not None:
        yield from _whole_number_problem("n_logprobs", sampling.n_logprobs, 0)
    if not _is_between(sampling.temperature, 0, MAX_FLOAT):
        yield _describe("temperature", sampling.temperature, "0 or more, and below infinity")
    if not _is_between(sampling.top_p, 0, 1) or sampling.top_p == 0:
        yield _describe("top_p", sampling.top_p, "a number above 0 and at most 1")
    if not _is_between(sampling.min_p, 0, 1):
        yield _describe("min_p", sampling.min_p, "a number from 0 to 1")
    penalty = sampling.repetition_penalty
    if not _is_between(penalty, 0, MAX_FLOAT) or penalty == 0:
        yield _describe("repetition_penalty", penalty, "a number above 0, and below infinity")
    if not _is_between(sampling.length_penalty, -MAX_LENGTH_PENALTY, MAX_LENGTH_PENALTY):
        advice = f"a number from -{MAX_LENGTH_PENALTY} to {MAX_LENGTH_PENALTY}"
        yield _describe("length_penalty", sampling.length_penalty, advice)
    if sampling.order not in get_args(FillOrder):
        yield _describe("order", sampling.order, " or ".join(map(repr, get_args(FillOrder))))


def _whole_number_problem(name: str, value: Any, least: int) -> Iterator[str]:
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or value < least:
        yield _describe(name, value, f"a whole number from {least} up")


def _is_between(value: Any, least: float, largest: float) -> bool:
    """Is it a number in a range? NaN is in none."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return False
    return bool(least <= value <= largest)


def _describe(name: str, value: object, advice: str) -> str:
    return f"{name} is {value!r:.40}; use {advice}"


def _stop_problems(stop: object) -> Iterator[str]:
    if not isinstance(stop, tuple):
        yield _describe("stop", stop, "a tuple of strings")
        return
    if len(stop) > MAX_STOP_STRINGS:
        yield f"stop has {len(stop):,} strings; use at most {MAX_STOP_STRINGS}"
        return
    for place, one in enumerate(stop):
        if not isinstance(one, str):
            yield _describe(f"stop.{place}", one, "a string")
        elif not one:
            yield f"stop.{place} is empty, and would stop every answer at once; give it a letter"
        elif len(one) > MAX_STOP_LETTERS:
            yield f"stop.{place} has {len(one):,} letters; use at most {MAX_STOP_LETTERS:,}"


def _beam_problems(sampling: Sampling) -> Iterator[str]:
    """What beam search cannot obey: it takes the likeliest answers as a whole, and draws none."""
    if sampling.n_beams == 1:
        if sampling.length_penalty != 1:
            yield (
                f"length_penalty is {sampling.length_penalty!r}, which only beams obey; use n_beams"
                " above 1 with it"
            )
        return
    neutral = Sampling()
    for name in ("temperature", "top_k", "top_p", "min_p", "stop", "n_logprobs"):
        value = getattr(sampling, name)
        if value != getattr(neutral, name):
            yield (
                f"{name} is {value!r:.40} with n_beams {sampling.n_beams}, which draws no token by"
                " itself; use one or the other"
            )
    if sampling.n_samples > sampling.n_beams:
        yield (
            f"n_samples is {sampling.n_samples} with n_beams {sampling.n_beams}, which finds no"
            f" more answers than that; use at most {sampling.n_beams}"
        )

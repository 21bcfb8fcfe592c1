"""One comparison: gains by seed become an effect, an interval and a word."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, isfinite, sqrt

import numpy as np

from paribus.analyse.advice import REFUSED_MARGIN, WITHOUT_MARGIN, Advice, advice_on_verdict
from paribus.analyse.criterion import Criterion, Margin
from paribus.analyse.deciding_interval import (
    DecidingInterval,
    deciding_interval,
    describe_deciding_interval,
)
from paribus.analyse.interval import MIN_SEEDS, format_effect, moments, t_interval, t_test_p
from paribus.analyse.looks import FAMILY_ALPHA
from paribus.analyse.power import always_valid_t, log_likelihood_ratio
from paribus.analyse.side_checks import leave_one_out, sign_flip
from paribus.analyse.sign_test import SignTest, sign_test, symmetry_remarks
from paribus.analyse.verdict import IDENTICAL, Ends, MarginIntervals, Verdict, decide_verdict
from paribus.errors import SpecError
from paribus.spec.measure import with_unit

ANY_NUMBER = "the number of seeds was left open, and the interval holds at any"
NOT_TUNED = "not tuned"
NORMAL_NOISE = "rests on normal noise: turning signs alone does not show it"
_ROUNDING = 1e-12  # a spread below this part of the mean is rounding, not noise
_MAX_FLIP_P = 0.1


@dataclass(frozen=True)
class Comparison:
    """What n paired seeds say of one arm against another; a positive effect is better.

    `low` and `high` have level 1 − α*, α* = share / comparisons; the inner ones `inner_level`, 1 −
    2α*. Where each seed has a margin of its own, `margin` is their mean and `margin_intervals` hold
    what decides: intervals of gain − margin and of gain + margin. `sign_flip`, `leave_one_out` and
    `remarks` describe and decide nothing. `advice` is there where the verdict is inconclusive.
    """

    n: int
    effect: float
    sd: float
    low: float
    high: float
    inner_low: float
    inner_high: float
    p: float
    p_adjusted: float
    level: float
    n_comparisons: int
    margin: float | None
    verdict: Verdict
    sign_flip: float | None
    leave_one_out: tuple[float, float]
    remarks: tuple[str, ...] = ()
    advice: Advice | None = None
    unit: str = ""
    inner_level: float = 0.9
    margin_intervals: MarginIntervals | None = None
    margins: tuple[float, ...] = ()  # of the seeds, where each has its own
    sign_test: SignTest | None = None  # of an open number of seeds, from 8 on

    @property
    def open_ended(self) -> bool:
        """Was the number of seeds left open? Then the inner interval is the outer one."""
        return self.inner_level == self.level

    @property
    def deciding_interval(self) -> DecidingInterval | None:
        """The interval that decided on the margin; None where the outer one decides alone."""
        inner = self.inner_low, self.inner_high
        if self.margin_intervals is None:
            beside = None
        else:
            beside = self.margin_intervals.deciding_ends
        return deciding_interval(self.verdict, self.margin, self.inner_level, inner, beside)

    @property
    def description(self) -> str:
        """The verdict as a sentence that says on what it rests."""
        if self.margin is None:
            margin = "no margin"
        else:
            margin = f"margin {with_unit(f'{self.margin:.4g}', self.unit)}{self._average_note}"
        if self.n_comparisons == 1:
            family = "1 comparison"
        else:
            family = f"1 of {self.n_comparisons} comparisons"
        # A remark on rates that were not tuned says it with how they were written.
        if any(remark.endswith(NOT_TUNED) for remark in self.remarks):
            rates = ""
        else:
            rates = ", at these rates"
        sentence = (
            f"{self.verdict}: gain {describe_amount(self)},"
            f" {self._deciding_description}{describe_interval(self)}, {self.n} seeds, {family},"
            f" {margin}; on these items{rates}"
        )
        return "; ".join([sentence, *self.remarks]) + (f". {self.advice}." if self.advice else ".")

    @property
    def _average_note(self) -> str:
        if self.margins:
            return " on average"
        return ""

    @property
    def _deciding_description(self) -> str:
        """The interval that decided on the margin, before the outer one."""
        interval = self.deciding_interval
        if interval is None:
            return ""
        return f"{describe_deciding_interval(interval, _format_number, 4)}; "


def describe_amount(comparison: Comparison) -> str:
    """The effect with its unit."""
    effect = format_effect(comparison.effect, comparison.low, comparison.high)
    return with_unit(effect, comparison.unit)


def describe_interval(comparison: Comparison) -> str:
    """The outer interval with its level; of too few seeds of an open number, that there is none."""
    level = f"{100 * comparison.level:.4g} %"
    if not isfinite(comparison.high):
        return f"no interval at {level} yet"
    return f"{level} interval {comparison.low:.4g} to {comparison.high:.4g}"


def _format_number(value: float, digits: int) -> str:
    return f"{value:.{digits}g}"


def compare(
    gains: Sequence[float], criterion: Criterion | None = None, *, unit: str = ""
) -> Comparison:
    """The verdict on gains by seed, at α* = share / comparisons; without a criterion, at 5 %.

    mean ± t·s/√n with t of n − 1 df, or `always_valid_t` where the number of seeds is left open.
    There the inner interval is the outer one, which is cautious. Margins by seed m are set against
    gains d by two paired t tests, on d − m and on d + m.
    """
    criterion = (criterion or Criterion()).for_gains(len(gains))
    _require_gains(gains)
    margins = _require_margins(criterion.margin, gains)
    alpha, gain_moments = criterion.alpha, moments(gains)
    n, effect, sd = gain_moments.n, float(gain_moments.mean), float(gain_moments.sd)
    if effect and sd <= _ROUNDING * abs(effect):
        sd = _smallest_spread(n, effect, criterion)
    intervals = _open_n_intervals if criterion.open_ended else _fixed_n_intervals
    outer, inner, p = intervals(n, effect, sd, alpha)
    mean = _mean_margin(criterion.margin, margins)
    if margins:
        beside = _margin_intervals_by_seed(gains, margins, alpha, intervals)
    else:
        beside = None
    if sd:
        verdict = decide_verdict(outer, inner, mean, beside, criterion.test)
    else:
        verdict = IDENTICAL
    advice = advice_on_verdict(verdict, mean, sd, n, alpha, criterion.open_ended)
    if advice == WITHOUT_MARGIN and criterion.margin_is_refused:
        advice = REFUSED_MARGIN
    comparison = Comparison(
        n=n,
        effect=effect,
        sd=sd,
        low=outer[0],
        high=outer[1],
        inner_low=inner[0],
        inner_high=inner[1],
        p=p,
        p_adjusted=adjusted_p(p, criterion),
        level=1 - alpha,
        n_comparisons=criterion.family_size,
        margin=mean,
        verdict=verdict,
        sign_flip=sign_flip(gains),
        leave_one_out=leave_one_out(gains),
        advice=advice,
        unit=unit,
        inner_level=1 - 2 * alpha,
        margin_intervals=beside,
        margins=margins,
    )
    if criterion.open_ended:
        comparison = replace(comparison, inner_level=1 - alpha, sign_test=sign_test(gains, alpha))
    return replace(comparison, remarks=(*criterion.remarks, *_own_remarks(comparison)))


def adjusted_p(p: float, criterion: Criterion) -> float:
    """p over the family, as it would be at the whole share of false alarms."""
    return min(1.0, criterion.family_size * p * (FAMILY_ALPHA / criterion.family_alpha))


def _own_remarks(comparison: Comparison) -> list[str]:
    """What a comparison rests on."""
    doubts = normality_remarks(comparison.verdict, comparison.sign_flip)
    if not comparison.open_ended:
        return doubts
    return [ANY_NUMBER, *doubts, *symmetry_remarks(comparison.verdict, comparison.sign_test)]


IntervalFunction = Callable[[int, float, float, float], tuple[Ends, Ends, float]]


def _mean_margin(margin: Margin | None, margins: Sequence[float]) -> float | None:
    if margins:
        return float(moments(margins).mean)
    if isinstance(margin, int | float):
        return margin
    return None


def _margin_intervals_by_seed(
    gains: Sequence[float], margins: Sequence[float], alpha: float, intervals: IntervalFunction
) -> MarginIntervals:
    """What two paired t tests are read from where each seed has its margin."""
    each_gain, each_margin = (
        np.asarray(gains, dtype=np.float64),
        np.asarray(margins, dtype=np.float64),
    )
    less, plus = moments(each_gain - each_margin), moments(each_gain + each_margin)
    outer_less, inner_less, _ = intervals(less.n, float(less.mean), float(less.sd), alpha)
    outer_plus, inner_plus, _ = intervals(plus.n, float(plus.mean), float(plus.sd), alpha)
    return MarginIntervals(outer_less, outer_plus, inner_less, inner_plus)


def _fixed_n_intervals(n: int, effect: float, sd: float, alpha: float) -> tuple[Ends, Ends, float]:
    error = sd / sqrt(n)
    outer = t_interval(effect, error, n - 1, 1 - alpha)
    inner = t_interval(effect, error, n - 1, 1 - 2 * alpha)
    return _as_float_pair(outer), _as_float_pair(inner), float(t_test_p(effect, error, n - 1))


def _open_n_intervals(n: int, effect: float, sd: float, alpha: float) -> tuple[Ends, Ends, float]:
    error = sd / sqrt(n)
    half = always_valid_t(n, alpha) * error if error else 0.0
    if error:
        p = exp(min(0.0, -log_likelihood_ratio(effect / error, n)))
    else:
        p = 1.0
    return (effect - half, effect + half), (effect - half, effect + half), p


def _as_float_pair(ends: tuple[object, object]) -> Ends:
    return float(ends[0]), float(ends[1])  # pyright: ignore[reportArgumentType]


def normality_remarks(verdict: Verdict, sign_flip_p: float | None) -> list[str]:
    """What turning signs has to say against a difference."""
    doubtful = (
        verdict.word in ("better", "worse")
        and sign_flip_p is not None
        and sign_flip_p > _MAX_FLIP_P
    )
    return [NORMAL_NOISE] * doubtful


def _require_margins(margin: Margin | None, gains: Sequence[float]) -> tuple[float, ...]:
    """Margins by seed, none where there is one number or no margin; refuse those that do not
    fit the gains.
    """
    if margin is None or isinstance(margin, int | float | Mapping):
        return ()
    if len(margin) != len(gains):
        raise SpecError(
            f"margin has {len(margin)} numbers for {len(gains)} gains; give one for each seed"
        )
    for one in margin:
        if not isfinite(one):
            raise SpecError(
                f"margin has {one:g} for a seed; give a number for each seed, or no margin"
            )
    if sum(margin) <= 0:
        mean = sum(margin) / len(margin)
        raise SpecError(
            f"margin is {mean:g} on average over seeds; use one above 0, or none for no"
            " 'equivalent'"
        )
    return tuple(map(float, margin))


def _require_gains(gains: Sequence[float]) -> None:
    if len(gains) < MIN_SEEDS:
        raise SpecError(
            f"gains: {len(gains)} seeds, too few for a verdict; use {MIN_SEEDS} or more, 5 by"
            " default"
        )
    for place, one in enumerate(gains, 1):
        if not isfinite(one):
            raise SpecError(
                f"gains: {one:g} at place {place} of {len(gains)} is not a number; "
                "mark a run that failed as failed (None in judged), and never drop it"
            )


def _smallest_spread(n: int, effect: float, criterion: Criterion) -> float:
    """The spread of gains that are all the same. Of scores that count items it is what one item is
    worth: they come in steps, and no smaller one could be seen. Of others it is a fault.
    """
    if criterion.bounds is not None and criterion.bounds.resolution:
        return criterion.bounds.resolution
    raise SpecError(
        f"gains: {effect:g} in each of {n} seeds, so the seed does not reach the runs; "
        "train every run under a seed of its own"
    )

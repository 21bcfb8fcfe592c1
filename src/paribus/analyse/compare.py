"""One comparison: gains by seed become an effect, an interval and a word."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, isfinite, sqrt

import numpy as np

from paribus.analyse.advice import Advice, advised
from paribus.analyse.checks import leave_one_out, sign_flip
from paribus.analyse.interval import MIN_SEEDS, around, moments, p_of
from paribus.analyse.looks import SHARE
from paribus.analyse.power import always_valid_t, log_evidence
from paribus.analyse.sign_test import SignTest, sign_test, symmetry_remarks
from paribus.analyse.verdict import IDENTICAL, Pair, Verdict, decide
from paribus.errors import SpecError

ANY_NUMBER = "the number of seeds was left open, and the interval holds at any"
NOT_TUNED = "not tuned"
NORMAL_NOISE = "rests on normal noise: turning signs alone does not show it"
_SAME = 1e-12  # a spread below this part of the mean is rounding, not noise
_DOUBT = 0.1


@dataclass(frozen=True)
class Comparison:
    """What n paired seeds say of one arm against another; a positive effect is better.

    `low` and `high` have level 1 − α*, α* = share / comparisons; the inner ones 1 − 2α*. `sign_flip`, `leave_one_out`
    and `remarks` describe and decide nothing. `advice` is there where the verdict is inconclusive.
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
    sign_test: SignTest | None = None  # of an open number of seeds, from 8 on

    @property
    def words(self) -> str:
        """The verdict as a sentence that says on what it rests."""
        unit = f" {self.unit}" if self.unit else ""
        margin = "no margin" if self.margin is None else f"margin {self.margin:.4g}{unit}"
        family = "1 comparison" if self.n_comparisons == 1 else f"1 of {self.n_comparisons} comparisons"
        # A remark on rates that were not tuned says it with how they were written.
        rates = "" if any(remark.endswith(NOT_TUNED) for remark in self.remarks) else ", at these rates"
        said = (
            f"{self.verdict}: gain {self.effect:.4g}{unit}, {100 * self.level:.4g} % interval {self.low:.4g} to "
            f"{self.high:.4g}, {self.n} seeds, {family}, {margin}; on these items{rates}"
        )
        return "; ".join([said, *self.remarks]) + (f". {self.advice}." if self.advice else ".")


def compare(
    gains: Sequence[float],
    *,
    margin: float | None = None,
    n_comparisons: int = 1,
    share: float = SHARE,
    open_ended: bool = False,
    unit: str = "",
    remarks: Sequence[str] = (),
) -> Comparison:
    """The verdict on gains by seed, at α* = share / n_comparisons.

    mean ± t·s/√n with t of n − 1 df, or `always_valid_t` where the number of seeds is left open. There the inner
    interval is the outer one, which is cautious. `remarks` of the caller are carried along.
    """
    require_plan(margin, n_comparisons, share)
    _require_gains(gains)
    alpha, found = share / n_comparisons, moments(gains)
    n, effect, sd = found.n, float(found.mean), float(found.sd)
    _require_noise(n, effect, sd)
    outer, inner, p = (_open if open_ended else _fixed)(n, effect, sd, alpha)
    verdict = decide(outer, inner, margin) if sd else IDENTICAL
    flip = sign_flip(gains)
    signs = sign_test(gains, alpha) if open_ended else None
    rests_on = symmetry_remarks(verdict, signs) if open_ended else []
    said = (*remarks, *[ANY_NUMBER] * open_ended, *doubts(verdict, flip), *rests_on)
    adjusted = min(1.0, n_comparisons * p * (SHARE / share))
    return Comparison(
        n, effect, sd, *outer, *inner, p, adjusted, 1 - alpha, n_comparisons, margin,
        verdict, flip, leave_one_out(gains), said, advised(verdict, margin, sd, n, alpha, open_ended), unit,
        signs,
    )  # fmt: skip


def _fixed(n: int, effect: float, sd: float, alpha: float) -> tuple[Pair, Pair, float]:
    error = sd / sqrt(n)
    outer = around(effect, error, n - 1, 1 - alpha)
    inner = around(effect, error, n - 1, 1 - 2 * alpha)
    return _pair(outer), _pair(inner), float(p_of(effect, error, n - 1))


def _open(n: int, effect: float, sd: float, alpha: float) -> tuple[Pair, Pair, float]:
    error = sd / sqrt(n)
    half = always_valid_t(n, alpha) * error if error else 0.0
    p = exp(min(0.0, -log_evidence(effect / error, n))) if error else 1.0
    return (effect - half, effect + half), (effect - half, effect + half), p


def _pair(ends: tuple[object, object]) -> Pair:
    return float(ends[0]), float(ends[1])  # pyright: ignore[reportArgumentType]


def doubts(verdict: Verdict, flip: float | None) -> list[str]:
    """What turning signs has to say against a difference."""
    doubtful = verdict.word in ("better", "worse") and flip is not None and flip > _DOUBT
    return [NORMAL_NOISE] * doubtful


def require_plan(margin: float | None, n_comparisons: int, share: float) -> None:
    """Refuse a margin, a family or a share that no verdict can be read with."""
    problems = []
    if margin is not None and not (isfinite(margin) and margin > 0):
        problems.append(f"margin is {margin:g}; use a difference above 0, or none for no 'equivalent'")
    if n_comparisons < 1:
        problems.append(f"n_comparisons is {n_comparisons}; use the size of the family, 1 or more")
    if not 0 < share <= SHARE:
        problems.append(f"share is {share:g}; use above 0, up to {SHARE:g}")
    if problems:
        raise SpecError(problems)


def _require_gains(gains: Sequence[float]) -> None:
    if len(gains) < MIN_SEEDS:
        raise SpecError(f"gains: {len(gains)} seeds, too few for a verdict; use {MIN_SEEDS} or more, 5 by default")
    bad = [place for place, fine in enumerate(np.isfinite(gains), 1) if not fine]
    if bad:
        raise SpecError(
            f"gains: {gains[bad[0] - 1]:g} at place {bad[0]} of {len(gains)} is no number; "
            "name a run that failed as failed (None in judged), and never drop it"
        )


def _require_noise(n: int, effect: float, sd: float) -> None:
    if effect and sd <= _SAME * abs(effect):
        raise SpecError(
            f"gains: {effect:g} in each of {n} seeds, so the seed does not reach the runs; "
            "train every run under a seed of its own"
        )

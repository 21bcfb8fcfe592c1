"""A sign test for an open number of seeds: it asks about the median, and does not rest on
symmetric noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np
from scipy.special import betaln

from paribus.analyse.verdict import Verdict

MIN_SIGN_TEST_SEEDS = 8  # below, the test is not read
TOO_FEW_SEEDS = (
    f"rests on symmetric noise: a sign test, which does not, is read from {MIN_SIGN_TEST_SEEDS}"
    " seeds on"
)
NOT_CONFIRMED = "rests on symmetric noise: a sign test, which does not, is silent"
_MAX_LOG = 700.0  # whose exponential is still finite


@dataclass(frozen=True)
class SignTest:
    """What the signs of gains say of their median, at any number of seeds.

    `e_value` is the evidence now, `max_e_value` the most there was after any seed so far; under a
    median of zero the largest reaches 1/α with chance at most α. It `rejects` where it did, for a
    median on the side `favours_gain`.
    """

    n: int
    n_gains: int  # seeds whose gain is above zero
    e_value: float
    max_e_value: float
    threshold: float  # 1/α
    favours_gain: bool  # were there more gains than losses where the evidence was largest?

    @property
    def rejects(self) -> bool:
        return self.max_e_value >= self.threshold

    @property
    def description(self) -> str:
        """The evidence, and what it says."""
        side = "gain" if self.favours_gain else "loss"
        if self.rejects:
            conclusion = f"speaks for a {side} in the median"
        else:
            conclusion = "silent"
        counts = f"gains in {self.n_gains} of {self.n}"
        return (
            f"{conclusion}: e {self.max_e_value:.3g} at most so far, {self.threshold:.3g} needed;"
            f" {counts}"
        )


def sign_test(gains: Sequence[float], alpha: float) -> SignTest | None:
    """The sign test of gains in the order of their seeds; None below 8 of them.

    e = 2ⁿ · B(k + ½, n − k + ½) / B(½, ½), k gains among n seeds: how much likelier these signs are
    where the chance of a gain is drawn from Beta(½, ½) than where it is ½. A seed without any
    difference has no sign and is left out.
    """
    if len(gains) < MIN_SIGN_TEST_SEEDS:
        return None
    signs = np.sign(np.asarray(gains, dtype=np.float64))
    signs = signs[signs != 0]
    if not len(signs):
        return SignTest(
            n=len(gains),
            n_gains=0,
            e_value=1.0,
            max_e_value=1.0,
            threshold=1 / alpha,
            favours_gain=False,
        )
    n = np.arange(1, len(signs) + 1)
    k = np.cumsum(signs > 0)
    logs = log_e_value(k, n)
    most = int(np.argmax(logs))
    return SignTest(
        n=len(gains),
        n_gains=int(k[-1]),
        e_value=exp(min(_MAX_LOG, float(logs[-1]))),
        max_e_value=exp(min(_MAX_LOG, float(logs[most]))),
        threshold=1 / alpha,
        favours_gain=bool(2 * k[most] > n[most]),
    )


def log_e_value(n_gains: np.ndarray, n: np.ndarray) -> np.ndarray:
    """ln e of so many gains among n seeds."""
    return n * log(2) + betaln(n_gains + 0.5, n - n_gains + 0.5) - betaln(0.5, 0.5)


def symmetry_remarks(verdict: Verdict, sign_result: SignTest | None) -> list[str]:
    """That a difference rests on symmetric noise, where no sign test confirms it."""
    if verdict.word not in ("better", "worse"):
        return []
    if sign_result is None:
        return [TOO_FEW_SEEDS]
    agrees = sign_result.rejects and sign_result.favours_gain == (verdict.word == "better")
    if agrees:
        return []
    return [NOT_CONFIRMED]

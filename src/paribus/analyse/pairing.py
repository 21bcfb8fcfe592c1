"""Did pairing pay? A description; the paired analysis is used whatever it says."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import atanh, sqrt, tanh

import numpy as np
from scipy.special import ndtri

from paribus.errors import SpecError

MIN_PAIRED_SEEDS = 5


@dataclass(frozen=True)
class Pairing:
    """Var(d) / (Var a + Var b), below 1 where pairing took noise away, and ρ with its Fisher-z
    interval.
    """

    variance_ratio: float
    rho: float
    low: float
    high: float
    n: int


def pairing(baseline: Sequence[float], arm: Sequence[float], level: float = 0.95) -> Pairing | None:
    """How alike two arms move over seeds: tanh(atanh ρ ± z/√(n−3)); None below 5 seeds, or
    where an arm is constant.
    """
    if len(baseline) != len(arm):
        raise SpecError(
            f"pairing: {len(baseline)} seeds against {len(arm)}; give the same seeds, in the same"
            " order"
        )
    a, b = np.asarray(baseline, dtype=np.float64), np.asarray(arm, dtype=np.float64)
    n = len(a)
    if n < MIN_PAIRED_SEEDS or not (a.std() and b.std()):
        return None
    ratio = float((b - a).var(ddof=1) / (a.var(ddof=1) + b.var(ddof=1)))
    rho = float(np.clip(np.corrcoef(a, b)[0, 1], -1, 1))
    low, high = _fisher_z_interval(rho, n, level)
    return Pairing(variance_ratio=ratio, rho=rho, low=low, high=high, n=n)


def _fisher_z_interval(rho: float, n: int, level: float) -> tuple[float, float]:
    if abs(rho) == 1:
        return rho, rho
    half = float(ndtri((1 + level) / 2)) / sqrt(n - 3)
    return tanh(atanh(rho) - half), tanh(atanh(rho) + half)

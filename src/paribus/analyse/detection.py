"""What effect the seeds of a study can show: with 80 % power, four times in five."""

from __future__ import annotations

from math import sqrt

from paribus.analyse.compare import Comparison
from paribus.analyse.findings import Findings
from paribus.analyse.power import detectable, upper_sd


def detectable_spreads(found: Findings) -> float:
    """The effect that a study's seeds show with 80 % power, in spreads between seeds; inf where they show none."""
    n_arms = len(found.pooled.own_sds) if found.pooled is not None else 2
    return detectable(
        len(found.seeds), found.n_comparisons, alpha=found.share, open_ended=found.open_ended, n_arms=n_arms
    )


def detectable_effect(made: Comparison, found: Findings) -> float:
    """The effect that a comparison's seeds show with 80 % power, were the noise as large as they allow it to be."""
    pooled = found.pooled
    if pooled is None:
        return detectable_spreads(found) * upper_sd(made.sd, made.n)
    spread = sqrt(2) * pooled.residual_sd  # of a difference of two arms
    return detectable_spreads(found) * upper_sd(spread, pooled.df + 1)

"""What effect the seeds of a study can show: with 80 % power."""

from __future__ import annotations

from math import sqrt

from paribus.analyse.compare import Comparison
from paribus.analyse.findings import Findings
from paribus.analyse.power import detectable_effect, upper_sd


def detectable_in_sds(findings: Findings) -> float:
    """The effect that a study's seeds show with 80 % power, in spreads between seeds; inf where
    they show none.
    """
    if findings.pooled_noise is not None:
        n_arms = len(findings.pooled_noise.residual_sds)
    else:
        n_arms = 2
    return detectable_effect(
        len(findings.seeds),
        findings.n_comparisons,
        alpha=findings.family_alpha,
        open_ended=findings.open_ended,
        n_arms=n_arms,
    )


def detectable_gain(comparison: Comparison, findings: Findings) -> float:
    """The effect that a comparison's seeds show with 80 % power, were the noise as large as
    they allow it to be.
    """
    pooled_noise = findings.pooled_noise
    if pooled_noise is None:
        return detectable_in_sds(findings) * upper_sd(comparison.sd, comparison.n)
    difference_sd = sqrt(2) * pooled_noise.residual_sd  # of a difference of two arms
    return detectable_in_sds(findings) * upper_sd(difference_sd, pooled_noise.df + 1)

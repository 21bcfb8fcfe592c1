"""Components of variance: how much of the noise is the start, how much the order of the text,
how much neither.

    y_ij = μ + start_i + order_j + rest_ij    one run of the baseline for each start i and order j

The mean squares of a two-way table without replicates give the components by the method of moments,

    rest = MS_rest,    start = (MS_start − MS_rest) / J,    order = (MS_order − MS_rest) / I

of I starts and J orders; their F tests are exact under normal noise. An estimate below 0 says that
there is no more than the rest explains. The rest holds what start and order do together, and where
a seed does not fix a run what making it again changes; that alone is the variance of one run made
several times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from paribus.errors import SpecError


@dataclass(frozen=True)
class VarianceComponent:
    """One source of noise: its estimated variance, which may come out below 0, and the F test
    that it is none.
    """

    name: str
    variance: float
    df: int
    p: float | None = None

    @property
    def sd(self) -> float:
        return max(self.variance, 0.0) ** 0.5


@dataclass(frozen=True)
class NoiseSources:
    """What was found of an arm's noise; no components where the table has holes, and `why` then
    says it.
    """

    arm: str
    n_inits: int
    n_orders: int
    components: tuple[VarianceComponent, ...]
    rerun: VarianceComponent | None
    why: str = ""

    @property
    def is_reproducible(self) -> bool | None:
        """Did the same run, made again, end the same to the last bit? None where it was not
        made again.
        """
        if self.rerun is None:
            return None
        return self.rerun.variance == 0.0


def variance_components(scores: Sequence[Sequence[float]]) -> tuple[VarianceComponent, ...]:
    """Start, order and rest of a table of scores, one row a start and one column an order."""
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or min(table.shape) < 2:
        raise SpecError(
            f"components: the table is {table.shape}; give two or more starts and two or more"
            " orders"
        )
    n_starts, n_orders = table.shape
    starts, orders, mean = table.mean(1), table.mean(0), table.mean()
    residuals = table - starts[:, None] - orders[None, :] + mean
    df = (n_starts - 1) * (n_orders - 1)
    rest = float((residuals**2).sum() / df)
    from_start = n_orders * float(starts.var(ddof=1))
    from_order = n_starts * float(orders.var(ddof=1))
    return (
        _variance_component("start", from_start, rest, n_orders, n_starts - 1, df),
        _variance_component("order", from_order, rest, n_starts, n_orders - 1, df),
        VarianceComponent("rest", rest, df),
    )


def _variance_component(
    name: str,
    mean_square: float,
    residual_mean_square: float,
    n_each: int,
    df: int,
    residual_df: int,
) -> VarianceComponent:
    if residual_mean_square:
        p = float(scipy.stats.f.sf(mean_square / residual_mean_square, df, residual_df))
    else:
        p = None
    return VarianceComponent(name, (mean_square - residual_mean_square) / n_each, df, p)


def rerun_noise(scores: Sequence[float]) -> VarianceComponent | None:
    """The variance of one run made several times; None of one that was made once."""
    if len(scores) < 2:
        return None
    deviations = np.asarray(scores, dtype=np.float64) - scores[0]  # exactly 0 where all are equal
    return VarianceComponent("rerun", float(np.var(deviations, ddof=1)), len(scores) - 1)


def noise_sources(
    arm: str, scores: Mapping[tuple[int, int, int], float | None]
) -> NoiseSources | None:
    """From the scores of an arm by (start, order, rerun), None where a run failed; None where
    nothing was measured.
    """
    if not scores:
        return None
    starts, orders = sorted({key[0] for key in scores}), sorted({key[1] for key in scores})
    complete: dict[tuple[int, int, int], float] = {}
    for key, score in sorted(scores.items()):
        if score is None:
            why = "a run of them did not train"
            return NoiseSources(
                arm=arm,
                n_inits=len(starts),
                n_orders=len(orders),
                components=(),
                rerun=None,
                why=why,
            )
        complete[key] = score
    first = (starts[0], orders[0])
    rerun = rerun_noise([score for key, score in complete.items() if key[:2] == first])
    if min(len(starts), len(orders)) < 2:
        return NoiseSources(
            arm=arm, n_inits=len(starts), n_orders=len(orders), components=(), rerun=rerun
        )
    table = []
    for start in starts:
        table.append([complete[start, order, 0] for order in orders])
    return NoiseSources(
        arm=arm,
        n_inits=len(starts),
        n_orders=len(orders),
        components=variance_components(table),
        rerun=rerun,
    )

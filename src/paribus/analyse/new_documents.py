"""Would it hold on other documents? Every run answers the same items, so items are crossed with
seeds.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paribus.analyse.interval import MIN_SEEDS, format_effect, t_interval
from paribus.errors import SpecError
from paribus.spec.measure import with_unit

MIN_DOCUMENTS = 10
NO_STATEMENT = "no statement about other text"


@dataclass(frozen=True)
class CrossedInterval:
    """An effect on new seeds *and* new items, with the variance of seeds, of items, and of what
    is left.
    """

    effect: float
    low: float
    high: float
    level: float
    df: float
    n_seeds: int
    n_items: int
    seed_variance: float
    item_variance: float
    residual_variance: float


@dataclass(frozen=True)
class NewDocumentFinding:
    """What may be said of documents that were not read; `interval` is None where that is
    nothing.
    """

    interval: CrossedInterval | None
    description: str


def crossed_interval(z_SI: ArrayLike, level: float = 0.95) -> CrossedInterval:
    """mean ± t·√V, gains by seed (down) and item (across).

    V = (MS_seed + MS_item) / nm, with Satterthwaite's df = (MS_seed + MS_item)² / (MS_seed²/(n−1) +
    MS_item²/(m−1)). MS_rest is not taken off again, so V errs on the large side.
    """
    z = _require_table(z_SI)
    (n, m), mean = z.shape, float(z.mean())
    seeds, items = m * z.mean(axis=1).var(ddof=1), n * z.mean(axis=0).var(ddof=1)
    both = seeds + items
    if both:
        df = float(both**2 / (seeds**2 / (n - 1) + items**2 / (m - 1)))
    else:
        df = float(n - 1)
    low, high = t_interval(mean, np.sqrt(both / (n * m)), df, level)
    rest = _residual_mean_square(z)
    return CrossedInterval(
        effect=mean,
        low=float(low),
        high=float(high),
        level=level,
        df=df,
        n_seeds=n,
        n_items=m,
        seed_variance=max(0.0, float(seeds - rest) / m),
        item_variance=max(0.0, float(items - rest) / n),
        residual_variance=rest,
    )


def gains_per_count(gains_SI: ArrayLike, counts_I: ArrayLike) -> NDArray[np.float64]:
    """Summed gains, by seed and document, as linearised gains per count: bits per byte, or points
    per item.

    z_si = δ + (m / Σ count)(gain_si − δ·count_i), δ = Σ gain / (n Σ count): a ratio estimator. Its
    mean over documents is, for each seed, exactly the gain in the score over all documents.
    """
    gains, counts = _require_table(gains_SI), np.asarray(counts_I, dtype=np.float64)
    if counts.shape != gains.shape[1:] or not (counts > 0).all():
        raise SpecError(
            f"counts: {counts.shape} for {gains.shape[1]} documents; give each its count of bytes"
            " or items, above 0"
        )
    mean_gain = gains.sum() / (len(gains) * counts.sum())
    return mean_gain + len(counts) / counts.sum() * (gains - mean_gain * counts)


def new_document_finding(
    z_SI: ArrayLike, level: float = 0.95, unit: str = ""
) -> NewDocumentFinding:
    """The crossed interval with the document as item, from 10 documents; otherwise no statement."""
    n_items = _require_table(z_SI).shape[1]
    if n_items < MIN_DOCUMENTS:
        return NewDocumentFinding(
            None, f"{NO_STATEMENT}: {n_items} documents, {MIN_DOCUMENTS} are needed."
        )
    interval = crossed_interval(z_SI, level)
    gain = with_unit(format_effect(interval.effect, interval.low, interval.high), unit)
    return NewDocumentFinding(
        interval,
        f"On new documents: gain {gain}, {100 * level:.4g} %"
        f" interval {interval.low:.4g} to {interval.high:.4g} ({interval.n_seeds} seeds"
        f" × {interval.n_items} documents; variance between seeds {interval.seed_variance:.3g},"
        f" between documents {interval.item_variance:.3g}).",
    )


def _residual_mean_square(z: NDArray[np.float64]) -> float:
    """The mean square of what neither seed nor item explains."""
    residuals = z - z.mean(axis=1, keepdims=True) - z.mean(axis=0, keepdims=True) + z.mean()
    return float((residuals**2).sum() / ((z.shape[0] - 1) * (z.shape[1] - 1)))


def _require_table(values: ArrayLike) -> NDArray[np.float64]:
    z = np.asarray(values, dtype=np.float64)
    if z.ndim != 2 or z.shape[0] < MIN_SEEDS or z.shape[1] < 2:
        raise SpecError(
            f"items: a table of {z.shape}; give seeds × items, at least {MIN_SEEDS} × 2"
        )
    if not np.isfinite(z).all():
        raise SpecError(
            f"items: {int((~np.isfinite(z)).sum())} of {z.size} are not numbers; give seeds that"
            " trained"
        )
    return z

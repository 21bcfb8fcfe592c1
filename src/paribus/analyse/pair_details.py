"""What stands beside the verdict on a pair: pairing, the gain along training, at other rates
and on other text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paribus.analyse.curves import GainAtStep, paired_gain_curve, seed_curves
from paribus.analyse.document_sums import document_sums
from paribus.analyse.equal_totals import VALIDATION_MEASURE
from paribus.analyse.interval import MIN_SEEDS
from paribus.analyse.judgement import Scores
from paribus.analyse.new_documents import (
    NO_STATEMENT,
    NewDocumentFinding,
    gains_per_count,
    new_document_finding,
)
from paribus.analyse.pairing import Pairing, pairing
from paribus.analyse.rate_sweep import gains_by_rate
from paribus.analyse.run_scores import Answers
from paribus.analyse.run_table import Row
from paribus.errors import SpecError
from paribus.spec.measure import Measure

NOT_ADDITIVE = (
    f"{NO_STATEMENT}: {{measure}} is computed from all items at once, so no item has a gain of its"
    " own."
)


def pairing_of(baseline: Scores, arm: Scores, seeds: Sequence[int]) -> Pairing | None:
    before, after = [], []
    for seed in seeds:
        if baseline[seed] is not None and arm[seed] is not None:
            before.append(baseline[seed])
            after.append(arm[seed])
    return pairing(before, after)


def gain_curve(
    runs: Mapping[str, Mapping[int, list[Row]]], baseline: str, arm: str, seeds: Sequence[int]
) -> tuple[GainAtStep, ...]:
    if len(seeds) < MIN_SEEDS:
        return ()
    before = seed_curves({seed: runs[baseline][seed] for seed in seeds})
    after = seed_curves({seed: runs[arm][seed] for seed in seeds})
    try:
        return paired_gain_curve(before, after, VALIDATION_MEASURE)
    except SpecError:
        return ()


def pair_new_documents(
    baseline: Mapping[int, Answers],
    arm: Mapping[int, Answers],
    seeds: Sequence[int],
    level: float,
    measure: Measure,
) -> NewDocumentFinding | None:
    """What may be said of documents that were not read: gains by seed and document, by a ratio
    estimator where items add up. Of a measure that does not add up over items, nothing.
    """
    if len(seeds) < MIN_SEEDS or not set(seeds) <= baseline.keys() & arm.keys():
        return None
    if not measure.adds_up:
        return NewDocumentFinding(None, NOT_ADDITIVE.format(measure=measure.kind))
    first = baseline[seeds[0]]
    for one in (*baseline.values(), *arm.values()):
        if one.head.items != first.head.items:
            return None
    counts = {name: count for name, (_, count) in document_sums(first).items()}
    if len(counts) < 2:
        return None
    gains = []
    for seed in seeds:
        before, after = document_sums(baseline[seed]), document_sums(arm[seed])
        gains.append([measure.gain(before[name][0], after[name][0]) for name in counts])
    return new_document_finding(gains_per_count(gains, list(counts.values())), level, measure.unit)


def gains_at_rates(
    rates: Mapping[str, Any] | None, baseline: str, arm: str, measure: Measure
) -> dict[float, float | None]:
    """The gain at every common rate; none where a sweep was not scored by the yardstick, or stands
    in another study.
    """
    if rates is None or rates[baseline].get("own_loss") or rates[arm].get("own_loss"):
        return {}
    before, after = rates[baseline]["points"], rates[arm]["points"]
    if not before or not after:
        return {}
    # of an older study, every common rate
    return gains_by_rate(before, after, grid=rates[baseline].get("grid"), measure=measure)

"""What stands beside the verdict on a pair: pairing, the gain along training, at other rates
and on other text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import sub
from typing import Any

from paribus.analyse.curves import GainAtStep, paired_gain_curve, seed_curves
from paribus.analyse.equal_totals import VALIDATION_MEASURE
from paribus.analyse.interval import MIN_SEEDS
from paribus.analyse.judgement import Scores
from paribus.analyse.new_documents import NewDocumentFinding, gains_per_byte, new_document_finding
from paribus.analyse.pairing import Pairing, pairing
from paribus.analyse.rate_sweep import gains_by_rate
from paribus.analyse.run_table import Row
from paribus.errors import SpecError
from paribus.record import Evaluation
from paribus.spec.measure import Measure


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
    baseline: Mapping[int, Evaluation],
    arm: Mapping[int, Evaluation],
    seeds: Sequence[int],
    level: float,
    measure: Measure,
) -> NewDocumentFinding | None:
    if len(seeds) < MIN_SEEDS or not set(seeds) <= baseline.keys() & arm.keys():
        return None
    first = baseline[seeds[0]]
    for one in (*baseline.values(), *arm.values()):
        if one.head.items != first.head.items:
            return None
    documents = [answer.document or answer.item for answer in first.answers]
    order = list(dict.fromkeys(documents))
    if len(order) < 2:
        return None

    def bits(evaluation: Evaluation) -> list[float]:
        sums = dict.fromkeys(order, 0.0)
        for document, answer in zip(documents, evaluation.answers, strict=True):
            sums[document] += answer.nats / math.log(2)
        return list(sums.values())

    sizes = dict.fromkeys(order, 0)
    for document, answer in zip(documents, first.answers, strict=True):
        sizes[document] += answer.n_bytes
    gains = []
    for seed in seeds:
        gains.append(list(map(sub, bits(baseline[seed]), bits(arm[seed]))))
    return new_document_finding(gains_per_byte(gains, list(sizes.values())), level, measure.unit)


def gains_at_rates(
    rates: Mapping[str, Any] | None, baseline: str, arm: str, measure: Measure
) -> dict[float, float | None]:
    if rates is None:
        return {}
    before, after = rates[baseline]["points"], rates[arm]["points"]
    # of an older study, every common rate
    return gains_by_rate(before, after, grid=rates[baseline].get("grid"), measure=measure)

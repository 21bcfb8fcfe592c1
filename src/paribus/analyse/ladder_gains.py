"""What arms of a ladder gain on each other at every size and duration, over paired seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import fmean

from paribus.analyse.interval import MIN_SEEDS, interval
from paribus.analyse.plan_rules import plan_measure
from paribus.analyse.run_table import Row
from paribus.analyse.study_laws import judged_pairs, ladder_points
from paribus.record.plan import PlanRecord


@dataclass(frozen=True)
class LadderGain:
    """The mean gain of an arm at one size and duration; the 95 % interval is that of this gain
    alone, None of too few seeds.
    """

    arm: str
    against: str
    size: int
    tokens_per_parameter: float  # of the baseline's parameters outside of embeddings
    mean: float
    interval: tuple[float, float] | None


def ladder_gains(plan: PlanRecord, rows: Sequence[Row]) -> list[LadderGain]:
    """The gain of each pair that the design judges, by size and duration, and at the predicted
    size once it is run; those without a seed that both arms have are left out.
    """
    measure = plan_measure(plan)
    scores: dict[tuple[str, str], dict[int, float]] = {}
    for point in ladder_points(plan, rows, ("ladder", "predicted")):
        assert point.rung is not None
        scores.setdefault((point.arm, point.rung), {})[point.seed] = point.loss
    found: list[LadderGain] = []
    for arm, against in judged_pairs(plan):
        of_pair: list[LadderGain] = []
        for rung in plan.rungs:
            price = rung.arms[plan.baseline].price
            for number, n_tokens in enumerate(rung.tokens):
                place = f"{rung.size}:{number}"
                own, other = scores.get((arm, place), {}), scores.get((against, place), {})
                gains = [measure.gain(other[seed], own[seed]) for seed in own if seed in other]
                if not gains:
                    continue
                ends = None
                if len(gains) >= MIN_SEEDS:
                    low, high = interval(gains)
                    ends = float(low), float(high)
                of_pair.append(
                    LadderGain(
                        arm=arm,
                        against=against,
                        size=rung.size,
                        tokens_per_parameter=n_tokens / price.non_embedding_parameters,
                        mean=fmean(gains),
                        interval=ends,
                    )
                )
        found += sorted(of_pair, key=attrgetter("tokens_per_parameter"))
    return found

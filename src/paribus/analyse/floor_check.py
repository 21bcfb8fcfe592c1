"""Is an arm above the floor of a task in a sweep? Two seeds say little of the noise between runs,
so the items speak.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import fmean

from paribus.analyse.document_sums import document_sums
from paribus.analyse.interval import critical_t, moments
from paribus.analyse.looks import FAMILY_ALPHA
from paribus.analyse.run_scores import Answers, floor_of, measure_of, score_of
from paribus.analyse.score_bounds import Floor
from paribus.analyse.sweep_losses import Point

AT_FLOOR_REMARK = (
    "at every rate of the sweep it is at the floor of the task: the rate as written was taken"
)


def is_above_floor(answers_by_rate: Mapping[float, Sequence[Answers]]) -> bool:
    """Does any rate of a sweep lie above the highest floor? A one-sided t test over documents of
    the mean of its seeds, at 5 % over all rates.

    Of a measure that does not add up over items, the best mean decides alone.
    """
    n_rates = len(answers_by_rate)
    for answers in answers_by_rate.values():
        if answers and _is_rate_above(answers, FAMILY_ALPHA / n_rates):
            return True
    return False


def sweep_floor(answers_by_rate: Mapping[float, Sequence[Answers]]) -> Floor | None:
    """The highest floor of the items of a sweep; None of what has no floor."""
    highest: Floor | None = None
    for answers in answers_by_rate.values():
        for one in answers:
            floor = floor_of(one)
            if floor is None:
                continue
            if highest is None or measure_of(one).gain(highest.value, floor.value) > 0:
                highest = floor
    return highest


def best_point(points: Sequence[Point], lower_is_better: bool) -> tuple[float, float] | None:
    """The rate of a sweep with the best mean score, and that score; None where no run trained."""
    scores: dict[float, list[float]] = {}
    for rate, score in points:
        if score is not None:
            scores.setdefault(rate, []).append(score)
    if not scores:
        return None
    means = {rate: fmean(own) for rate, own in scores.items()}
    choose = min if lower_is_better else max
    rate = choose(means, key=lambda one: means[one])
    return rate, means[rate]


def _is_rate_above(answers: Sequence[Answers], alpha: float) -> bool:
    measure, floor = measure_of(answers[0]), sweep_floor({0.0: answers})
    scores = [score for score in map(score_of, answers) if score is not None]
    if floor is None or len(scores) < len(answers):
        return len(scores) == len(answers)
    gain = fmean(measure.gain(floor.value, score) for score in scores)
    if gain <= 0 or not measure.adds_up:
        return gain > 0
    sums = [document_sums(one) for one in answers]
    counts = {name: count for name, (_, count) in sums[0].items()}
    if len(counts) < 2:
        return True
    mean_count = fmean(counts.values())
    gains = []
    for name, count in counts.items():
        total = fmean(own[name][0] for own in sums)
        # what a document adds to the score, as a ratio estimator has it
        gains.append((measure.gain(floor.value * count, total) - gain * count) / mean_count)
    own = moments(gains)
    error = float(own.sd) / sqrt(own.n)
    return gain > float(critical_t(1 - 2 * alpha, own.n - 1)) * error

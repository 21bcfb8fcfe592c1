"""What is wrong with a design as a whole: seeds, looks, yardsticks, margins and lengths."""

from __future__ import annotations

import math
from collections.abc import Iterator

from paribus.spec.arm_faults import (
    MAX_ARMS,
    arm_faults,
    comparison_faults,
    contrast_faults,
    family_faults,
    unknown_arm_faults,
)
from paribus.spec.design import (
    FEW_SEEDS_REMEDY,
    LENGTHS_EXAMPLE,
    MIN_LENGTHS,
    MIN_SEEDS,
    OPEN_SEEDS,
    Design,
    Tune,
    arm_tables,
    compute_margin,
    control_length,
    control_margin,
    declared_contrasts,
    judged_pairs,
)
from paribus.spec.factor_faults import factor_faults, overruled_faults
from paribus.spec.ladder_faults import ladder_faults
from paribus.spec.measure import BITS_PER_BYTE, POINTS, WHOLE_RANGES
from paribus.spec.must import CHANCE, Must, hanging_contrasts, hanging_pairs
from paribus.spec.spelling import word_advice
from paribus.spec.tasks import CHOICE_ACCURACY, ChoicesTask
from paribus.spec.yardstick import OtherYardstick, ProbeYardstick, TaskYardstick, column_of

MAX_ALPHA = 0.05  # of false alarms, over all looks
USUAL_MARGINS = {POINTS: 2.0, BITS_PER_BYTE: 0.02}
# what a threshold of a check is at least: of points, of any other unit, and of another arm's gain
LEAST_POINTS, LEAST_GAIN, LEAST_SHARE = 1.0, 0.01, 0.1


def design_faults(design: Design) -> Iterator[str]:
    yield from _seed_faults(design)
    yield from _look_faults(design)
    yield from _variance_faults(design)
    yield from _kept_rate_faults(design)
    yield from _measure_faults(design)
    if bool(design.arms) == bool(design.factors):
        yield (
            "arms and factors: give one of them, either a table of arms or the factors of a"
            " factorial"
        )
    elif design.arms and not design.factor:
        yield (
            "factor is missing; name the paths in which the arms may differ, such as"
            " 'architecture.mask'"
        )
    elif len(design.arms) > MAX_ARMS:
        yield f"arms has {len(design.arms):,} arms; use at most {MAX_ARMS}, or several designs"
    elif (n_arms := _n_combinations(design)) > MAX_ARMS:
        yield (
            f"factors have {n_arms:,} combinations of levels; use at most {MAX_ARMS}, or list the"
            " arms"
        )
    else:
        yield from arm_faults(design)
        yield from comparison_faults(design)
        yield from contrast_faults(design)
        yield from family_faults(design)
        yield from _must_faults(design)
        yield from _noise_faults(design)
        yield from factor_faults(design)
        yield from overruled_faults(design)
        yield from ladder_faults(design)


def _n_combinations(design: Design) -> int:
    """How many arms a factorial has, none of them made; 1 of a design that lists its arms."""
    return math.prod(len(factor.levels) for factor in design.factors.values())


def _seed_faults(design: Design) -> Iterator[str]:
    if design.seeds == OPEN_SEEDS:
        return
    different = len(set(design.seeds))
    if different < MIN_SEEDS:
        yield f"seeds has {different}; {FEW_SEEDS_REMEDY}"
    if different < len(design.seeds):
        yield (
            f"seeds are {list(design.seeds)}, one of them twice; a seed is one replicate, name it"
            " once"
        )


def _look_faults(design: Design) -> Iterator[str]:
    if design.looks is None:
        return
    if design.seeds == OPEN_SEEDS:
        yield (
            "looks are given beside seeds = 'open', whose verdict may be read at any number of"
            " them; leave one out"
        )
        return
    at, shares, n = sorted(design.looks), list(design.looks.values()), len(design.seeds)
    if not shares or min(shares) <= 0 or sum(shares) > MAX_ALPHA + 1e-12:
        yield (
            f"looks has shares {shares}, {sum(shares):g} in all; let them be above 0 and add up to"
            f" {MAX_ALPHA:g}"
        )
    elif at[0] < MIN_SEEDS or at[-1] != n:
        yield (
            f"looks are at {at} of {n} seeds; look at {MIN_SEEDS} or more, the last time at all {n}"
        )


def _variance_faults(design: Design) -> Iterator[str]:
    """Starts and orders are those of the reported seeds, so that the runs of the diagonal are
    there anyhow.
    """
    if design.variance is None or design.seeds == OPEN_SEEDS:
        return
    n_seeds = len(set(design.seeds))
    for name in ("inits", "orders"):
        count = getattr(design.variance, name)
        if count > n_seeds:
            yield (
                f"variance.{name} is {count}, and the design has {n_seeds} seeds; use {n_seeds} or"
                " fewer"
            )


def _kept_rate_faults(design: Design) -> Iterator[str]:
    """What cannot be beside rates that are read from finished sweeps."""
    if design.tune is None or not design.tune.rates:
        return
    usual = Tune()
    for name in ("n_rates", "n_seeds", "share", "last_share", "split"):
        if getattr(design.tune, name) != getattr(usual, name):
            yield (
                f"tune.{name} says how to sweep, and tune.rates that nothing is swept; leave one"
                " out"
            )
    if design.ladder is not None:
        yield "tune.rates is given beside a ladder, which sweeps by itself; leave one out"


def _measure_faults(design: Design) -> Iterator[str]:
    if design.tune is not None and design.tune.split == design.primary.measure.split:
        yield (
            f"tune.split is {design.tune.split!r}, on which the primary yardstick reports; rates"
            " must be chosen on text that no verdict is read from: use 'valid' for one and 'test'"
            " for the other"
        )
    names = [_yardstick_name(measure) for measure in (design.primary.measure, *design.others)]
    if len(set(names)) < len(names):
        yield (
            f"others: the yardsticks are {', '.join(names)}; use each kind once on a split, and"
            " each task, the primary's included"
        )
    yield from _margin_faults(design)
    yield from _length_faults(design)
    if design.primary.test == "not worse" and design.primary.margin is None:
        yield (
            "primary.test is 'not worse', and there is no margin to lose; give primary.margin, such"
            " as 0.02"
        )


def _margin_faults(design: Design) -> Iterator[str]:
    margin, measure = design.primary.margin, design.primary.measure.scores
    whole = WHOLE_RANGES.get(measure.unit)
    if isinstance(margin, float) and whole is not None and margin >= whole:
        yield (
            f"primary.margin is {margin:g}, and scores end at {whole:g} {measure.unit}; use a"
            f" difference that an arm could have, such as {USUAL_MARGINS[measure.unit]:g}"
        )
    if not isinstance(margin, str):
        return
    if compute_margin(margin) is None and control_margin(margin) is None:
        yield (
            f"primary.margin is {margin!r}; use a number, or such as '5 % compute', up to 300 %, or"
            " '25 % of control', up to 100 %"
        )
    elif control_margin(margin) is not None and design.control is None:
        yield (
            f"primary.margin is {margin!r}, and the design has no control; name an arm that must"
            " come out worse, such as control = 'input hidden', or write control = { length ="
            " 0.5 }"
        )


def _length_faults(design: Design) -> Iterator[str]:
    """A margin in compute is priced from annealed lengths: three or more; a control by length
    needs its own.
    """
    margin, lengths = design.primary.margin, design.lengths or ()
    length = control_length(design)
    if length is not None and length not in lengths:
        lengths_text = f"are {list(lengths)}" if lengths else "are missing"
        yield (
            f"control is at the length {length:g}, and lengths {lengths_text}; write it there, as"
            f" {LENGTHS_EXAMPLE}"
        )
    if not isinstance(margin, str) or compute_margin(margin) is None or len(lengths) >= MIN_LENGTHS:
        return
    lengths_text = f"is {list(lengths)}" if lengths else "is missing"
    yield (
        f"primary.margin is {margin!r}, which is priced from runs of {MIN_LENGTHS} lengths or more,"
        f" and lengths {lengths_text}; write {LENGTHS_EXAMPLE}, or a margin in"
        f" {design.primary.measure.scores.unit}"
    )


def _must_faults(design: Design) -> Iterator[str]:
    """Checks that name what is not there, or that ask for next to nothing."""
    arms, yardsticks, earlier = arm_tables(design), _yardsticks_by_column(design), set()
    for place, must in enumerate(design.must):
        where, claim = f"must.{place}", must.claim
        yield from unknown_arm_faults([(f"{where}.that", name) for name in claim.arms], arms)
        if claim.arm == claim.against:
            yield f"{where}.that sets {claim.arm!r} against itself; name another arm"
        if (claim, must.on) in earlier:
            yield f"{where}.that is {must.that!r}, which is there already; leave one out"
        earlier.add((claim, must.on))
        measure = yardsticks.get(must.on or next(iter(yardsticks)))
        if measure is None:
            yield (
                f"{where}.on is {must.on!r}, which is no yardstick of this design;"
                f" {word_advice(str(must.on), yardsticks)}yardsticks are {', '.join(yardsticks)}"
            )
        elif claim.is_threshold and measure.scores.is_inside:
            yield (
                f"{where}.that is {must.that!r}, and what a probe finds has no {CHANCE}; write one"
                " arm above another, as 'causal > prefix'"
            )
        else:
            yield from _threshold_faults(where, must, measure)
        yield from _scope_faults(design, where, must)


def _threshold_faults(where: str, must: Must, measure: OtherYardstick) -> Iterator[str]:
    """A threshold that whatever was trained at all has passed is no check."""
    points, share = must.claim.points, must.claim.share
    least = LEAST_POINTS if measure.scores.unit == POINTS else LEAST_GAIN
    if points is not None and points < least:
        yield (
            f"{where}.that is {must.that!r}, and whatever learnt anything is that far above"
            f" {CHANCE}; use {least:g} {measure.scores.unit} or more"
        )
    if share is not None and share < LEAST_SHARE:
        yield (
            f"{where}.that is {must.that!r}, and whatever learnt anything has that share; use"
            f" {100 * LEAST_SHARE:g} % or more"
        )


def _yardsticks_by_column(design: Design) -> dict[str, OtherYardstick]:
    """What a design measures, the primary yardstick first, by the column of its scores."""
    yardsticks: dict[str, OtherYardstick] = {}
    for measure in (design.primary.measure, *design.others):
        yardsticks[column_of(measure.model_dump(mode="json"))] = measure
    return yardsticks


def _scope_faults(design: Design, where: str, must: Must) -> Iterator[str]:
    """What hangs on a check must be judged."""
    pairs, contrasts = judged_pairs(design), declared_contrasts(design)
    judged = [f"{arm!r} against {against!r}" for arm, against in pairs]
    judged += [repr(name) for name in contrasts]
    for entry in must.scope or ():
        alone = [entry]
        if not hanging_pairs(alone, pairs) and not hanging_contrasts(alone, contrasts):
            name = repr(entry) if isinstance(entry, str) else f"{entry[0]!r} against {entry[1]!r}"
            yield (
                f"{where}.for has {name}, and nothing that is judged has that name; judged are"
                f" {', '.join(judged)}"
            )


def _yardstick_name(measure: OtherYardstick) -> str:
    if isinstance(measure, TaskYardstick):
        task = f"the task {measure.task.name} on {measure.split}"
        if isinstance(measure.task, ChoicesTask) and measure.task.measure != CHOICE_ACCURACY:
            task = f"{task} by {measure.task.measure}"
        if measure.minus_parent:
            return f"{task}, minus the parent's"
        return task
    if isinstance(measure, ProbeYardstick):
        where = [measure.scores.kind, measure.stack, measure.branch, measure.variant]
        return f"{', '.join(filter(None, where))} on {measure.split}"
    return f"{measure.kind} on {measure.split}"


def _noise_faults(design: Design) -> Iterator[str]:
    if design.equal_noise:
        yield (
            "equal_noise is true, and one noise for all arms is no longer offered: where the"
            " baseline is three times as noisy, 8 to 17 % of such studies say something false, and"
            " 5 seeds cannot show it; leave it out, and every pair is judged by its own noise"
        )

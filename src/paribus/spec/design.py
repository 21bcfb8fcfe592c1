"""What follows from a design as it is written: its arms, and what is judged."""

from __future__ import annotations

import itertools

from paribus.spec.contrasts import ArmPair as ArmPair
from paribus.spec.contrasts import (
    Contrasts,
    default_contrasts,
    family_size,
    judged_family,
    opposed_arms,
)
from paribus.spec.design_spec import MATCH_PATH as MATCH_PATH
from paribus.spec.design_spec import RUN_TABLES as RUN_TABLES
from paribus.spec.design_spec import SCALES as SCALES
from paribus.spec.design_spec import Budget as Budget
from paribus.spec.design_spec import Design as Design
from paribus.spec.design_spec import DesignScale as DesignScale
from paribus.spec.design_spec import Primary as Primary
from paribus.spec.design_spec import Tune as Tune
from paribus.spec.design_values import FEW_SEEDS_REMEDY as FEW_SEEDS_REMEDY
from paribus.spec.design_values import LENGTHS_EXAMPLE as LENGTHS_EXAMPLE
from paribus.spec.design_values import MIN_LENGTHS as MIN_LENGTHS
from paribus.spec.design_values import MIN_SEEDS as MIN_SEEDS
from paribus.spec.design_values import OPEN_SEEDS as OPEN_SEEDS
from paribus.spec.design_values import SWEEP_SEED as SWEEP_SEED
from paribus.spec.design_values import ControlLength as ControlLength
from paribus.spec.design_values import compute_margin as compute_margin
from paribus.spec.design_values import control_margin as control_margin
from paribus.spec.factor import Factor as Factor
from paribus.spec.factor import Table as Table
from paribus.spec.factor import leaves_of as leaves_of
from paribus.spec.factor import level_name as level_name
from paribus.spec.factor import level_paths as level_paths
from paribus.spec.factor import level_tables
from paribus.spec.match import Match as Match
from paribus.spec.merging import merge_tables
from paribus.spec.yardstick import DesignYardstick, TaskYardstick


def arm_tables(design: Design) -> dict[str, Table]:
    """What each arm lays over the base, by name; of a factorial, every combination of levels."""
    if design.arms:
        return dict(design.arms)
    factor_levels = [level_tables(factor) for factor in design.factors.values()]
    arms: dict[str, Table] = {}
    for levels in itertools.product(*(table.items() for table in factor_levels)):
        table: Table = {}
        for _, level in levels:
            table = merge_tables(table, level)
        arms["+".join(name for name, _ in levels)] = table
    return arms


def control_arm(design: Design) -> str | None:
    """The arm that must come out worse; None where there is no control, or where it is by
    length.
    """
    if isinstance(design.control, str):
        return design.control
    return None


def control_length(design: Design) -> float | None:
    """The share of its training at which the baseline must come out worse; None where there is
    no such control.
    """
    if isinstance(design.control, ControlLength):
        return design.control.length
    return None


def is_swept(design: Design) -> bool:
    """Does the study make sweeps of its own?"""
    return design.tune is not None and not design.tune.rates


def sweep_yardstick(design: Design) -> DesignYardstick | None:
    """What the sweep of the last stage is measured with: the primary yardstick, on the split of
    sweeps. None where nothing is swept, and where that is a task that must be unseen: a rate that
    is chosen by the scores of a task has seen it, so the held-out loss of the stage's own objective
    decides.
    """
    primary = design.primary.measure
    if (
        design.tune is None
        or design.tune.rates
        or (isinstance(primary, TaskYardstick) and primary.unseen)
    ):
        return None
    return primary.model_copy(update={"split": design.tune.split})


def judged_pairs(design: Design) -> tuple[ArmPair, ...]:
    """Every pair of the family; there may be none, where contrasts are judged."""
    return tuple(_judged_family(design)[0])


def _judged_family(design: Design) -> tuple[list[ArmPair], Contrasts]:
    levels, control = arm_levels(design), control_arm(design)
    return judged_family(design.comparisons, design.contrasts, levels, design.baseline, control)


def length_arms(design: Design) -> tuple[str, ...]:
    """The arms that are trained at each of the design's lengths: those that a gain is priced by.

    Every arm that a judged pair is against; and the baseline where a contrast is judged, or the
    control is a length.
    """
    if design.lengths is None:
        return ()
    names = {against for _, against in judged_pairs(design)}
    if declared_contrasts(design) or control_length(design) is not None:
        names.add(design.baseline)
    return tuple(name for name in arm_tables(design) if name in names)


def ladder_pairs(design: Design) -> tuple[ArmPair, ...]:
    """The pairs that laws are compared for: those that are named, or each arm against the baseline,
    in a 2 × 2 those that have one of the baseline's levels; none without a ladder.
    """
    if design.ladder is None:
        return ()
    if design.comparisons is not None:
        return tuple(design.comparisons)
    outside = (design.baseline, control_arm(design))
    levels, judged, pairs = arm_levels(design), judged_pairs(design), list[ArmPair]()
    for name, own in levels.items():
        pair = (name, design.baseline)
        has_one_other = len(own.items() - levels[design.baseline].items()) == 1
        if name not in outside and (pair in judged or has_one_other):
            pairs.append(pair)
    return tuple(pairs)


def compared_pairs(design: Design) -> tuple[ArmPair, ...]:
    """Every pair of arms whose difference enters something reported: pairs, those of a ladder, the
    control, contrasts, a 2 × 2.
    """
    levels, control = arm_levels(design), control_arm(design)
    pairs = [
        *judged_pairs(design),
        *ladder_pairs(design),
        *([] if control is None else [(control, design.baseline)]),
    ]
    for weights in {
        **default_contrasts(levels, design.baseline),
        **declared_contrasts(design),
    }.values():
        pairs += opposed_arms(weights)
    once: dict[frozenset[str], ArmPair] = {}
    for pair in pairs:
        once.setdefault(frozenset(pair), pair)
    return tuple(once.values())


def declared_contrasts(design: Design) -> Contrasts:
    """Every contrast of the family; there may be none, where pairs are judged."""
    return _judged_family(design)[1]


def n_judged(design: Design) -> int:
    """The size of the family: how many words share the 5 %."""
    return family_size(judged_pairs(design), declared_contrasts(design))


def arm_levels(design: Design) -> dict[str, dict[str, str]]:
    """Which level of each factor an arm has; of a list of arms, the arm itself."""
    if design.arms:
        return {name: {"arm": name} for name in design.arms}
    factor_levels = [level_tables(factor) for factor in design.factors.values()]
    arms: dict[str, dict[str, str]] = {}
    for levels in itertools.product(*factor_levels):
        arms["+".join(levels)] = dict(zip(design.factors, levels, strict=True))
    return arms


def declared_paths(design: Design) -> tuple[str, ...]:
    """The paths that may differ."""
    if design.arms:
        return design.factor
    paths: dict[str, None] = {}
    for factor in design.factors.values():
        paths |= dict.fromkeys(level_paths(factor))
    return tuple(paths)

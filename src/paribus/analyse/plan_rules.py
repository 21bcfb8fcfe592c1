"""How a verdict is read from a study, by its plan: at which seeds, with which share of the 5 %, by which test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paribus.analyse.interval import MIN_SEEDS
from paribus.analyse.looks import SHARE, Look, look_at, share_at
from paribus.analyse.rows import ENDED, Row
from paribus.analyse.verdict import Test
from paribus.spec.design import OPEN

UNIT = "bits per byte"


def is_open(plan: Mapping[str, Any]) -> bool:
    return plan["design"]["seeds"] == OPEN


def declares_one_noise(plan: Mapping[str, Any]) -> bool:
    return plan["design"].get("equal_noise", False)  # a plan of before it could be declared has none


def plan_test(plan: Mapping[str, Any]) -> Test:
    return plan["design"]["primary"].get("test", "two-sided")  # a plan of before it could be declared has none


def seeds_read(plan: Mapping[str, Any], reported: Sequence[Row]) -> list[int]:
    """The seeds a verdict is read from: all, or as many of the first ones as have all their runs.

    So many as the last declared look has; of an open number, any.
    """
    seeds, stops = plan["design"]["seeds"], sorted(map(int, plan["design"]["looks"] or ()))
    if is_open(plan):
        seeds = sorted({row["seed"] for row in reported}) or list(range(1, MIN_SEEDS + 1))
        stops = list(range(MIN_SEEDS, len(seeds) + 1))
    done = {(row["arm"], row["seed"]) for row in reported if row["outcome"] in ENDED}
    for n in reversed(stops):
        if all((arm, seed) in done for arm in plan["order"] for seed in seeds[:n]):
            return seeds[:n]
    return seeds


def declared_looks(plan: Mapping[str, Any]) -> dict[int, float] | None:
    looks = plan["design"]["looks"]
    return None if looks is None else {int(n): share for n, share in looks.items()}


def look_of(plan: Mapping[str, Any], seeds: Sequence[int]) -> Look | None:
    declared = declared_looks(plan)
    return None if declared is None else look_at(declared, len(seeds))


def next_look(plan: Mapping[str, Any], n_seeds: int) -> int | None:
    return min((n for n in declared_looks(plan) or () if n > n_seeds), default=None)


def share_of(plan: Mapping[str, Any], n_seeds: int) -> float:
    declared = declared_looks(plan)
    return SHARE if declared is None else share_at(declared, n_seeds)

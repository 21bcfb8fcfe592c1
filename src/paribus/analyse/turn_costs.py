"""What the turns of a conversation say: times with their spread, how costs grow, and where one arm
becomes cheaper than another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from paribus.record.turn_study import ArmTurns, TurnCosts

EQUAL_COST = 0.01  # counted costs that differ by no more than this part are called equal


@dataclass(frozen=True)
class CostRange:
    """A cost: of what was counted one number, of what was measured a median between quartiles."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True)
class CostOrder:
    """A stretch of turns in which an arm costs less than another (-1), as much (0) or more (1)."""

    sign: int
    first_turn: int
    last_turn: int


CostReading = Callable[[TurnCosts], CostRange | None]


def first_token_seconds(turn: TurnCosts) -> CostRange | None:
    """Time to the first token; None where it was not measured."""
    if turn.measured is None:
        return None
    return time_range(turn.measured.first_token_seconds)


def next_token_seconds(turn: TurnCosts) -> CostRange | None:
    """Time of a token after the first; None where it was not measured."""
    if turn.measured is None or not turn.measured.next_token_seconds:
        return None
    return time_range(turn.measured.next_token_seconds)


def first_token_flops(turn: TurnCosts) -> CostRange:
    """FLOPs of visible pairs before the first token."""
    return _exact(turn.first_token_flops_visible)


def cache_bytes(turn: TurnCosts) -> CostRange:
    """Bytes of the cache at the end of the turn."""
    return _exact(turn.cache_bytes)


def time_range(seconds: Sequence[float]) -> CostRange:
    """The median of repeats, between the quartiles."""
    low, middle, high = np.quantile(seconds, (0.25, 0.5, 0.75))
    return CostRange(float(middle), float(low), float(high))


def _exact(value: float) -> CostRange:
    return CostRange(value, value, value)


def growth_ratio(arm: ArmTurns, reading: CostReading) -> float | None:
    """The cost of the last turn over that of the first; None where it was not measured."""
    first, last = reading(arm.turns[0]), reading(arm.turns[-1])
    if first is None or last is None or not first.middle:
        return None
    return last.middle / first.middle


def total_cost(arm: ArmTurns, reading: CostReading) -> float | None:
    """The cost of all turns, the sum of medians; None where it was not measured."""
    total = 0.0
    for turn in arm.turns:
        cost = reading(turn)
        if cost is None:
            return None
        total += cost.middle
    return total


def cost_orders(arm: ArmTurns, other: ArmTurns, reading: CostReading) -> tuple[CostOrder, ...]:
    """Where an arm costs less than another, as much, or more, in stretches of turns; empty where
    one of them was not measured.
    """
    signs: list[tuple[int, int]] = []
    for one, two in zip(arm.turns, other.turns, strict=True):
        cost, other_cost = reading(one), reading(two)
        if cost is None or other_cost is None:
            return ()
        signs.append((one.turn, _sign(cost, other_cost)))
    orders = []
    for sign, stretch in groupby(signs, lambda pair: pair[1]):
        turns = [turn for turn, _ in stretch]
        orders.append(CostOrder(sign, turns[0], turns[-1]))
    return tuple(orders)


def _sign(cost: CostRange, other: CostRange) -> int:
    """Which costs more; neither where quartiles overlap, or counts are within a hundredth."""
    slack = EQUAL_COST * max(cost.middle, other.middle)
    if cost.low > other.high and cost.middle > other.middle + slack:
        return 1
    if cost.high < other.low and cost.middle < other.middle - slack:
        return -1
    return 0

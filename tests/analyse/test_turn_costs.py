"""Costs by turn: medians, growth, and in which turns one arm costs less than another."""

import pytest

from paribus.analyse.turn_costs import (
    CostOrder,
    cost_orders,
    first_token_flops,
    first_token_seconds,
    growth_ratio,
    next_token_seconds,
    time_range,
    total_cost,
)
from paribus.record.turn_study import ArmTurns, MeasuredTurn, TurnCosts


def turn(number: int, flops: float, seconds: tuple[float, ...] = ()) -> TurnCosts:
    measured = None
    if seconds:
        measured = MeasuredTurn(
            n_read=5,
            n_read_again=0,
            cache_bytes=70,
            first_token_seconds=seconds,
            next_token_seconds=(),
        )
    return TurnCosts(
        turn=number,
        n_prompt=5,
        n_read=5,
        n_read_again=0,
        first_token_flops_dense=flops,
        first_token_flops_visible=flops,
        turn_flops_dense=2 * flops,
        turn_flops_visible=2 * flops,
        cache_bytes=70,
        reused_bytes=70,
        measured=measured,
    )


def arm(*turns: TurnCosts) -> ArmTurns:
    return ArmTurns(
        name="a",
        custom="one sequence",
        n_parameters=11,
        architecture={},
        moved_fields={},
        turns=turns,
    )


def test_times_are_medians_between_quartiles() -> None:
    spread = time_range([5.0, 1.0, 2.0, 3.0, 4.0])
    assert (spread.low, spread.middle, spread.high) == (2.0, 3.0, 4.0)


def test_growth_and_sums_are_those_of_the_middles() -> None:
    growing = arm(turn(1, 100, (1.0, 2.0, 3.0)), turn(2, 300, (3.0, 5.0, 9.0)))
    assert growth_ratio(growing, first_token_flops) == 3
    assert growth_ratio(growing, first_token_seconds) == 2.5
    assert total_cost(growing, first_token_seconds) == 7
    assert growth_ratio(growing, next_token_seconds) is None
    assert total_cost(arm(turn(1, 100)), first_token_seconds) is None


def test_stretches_of_turns_in_which_an_arm_costs_less_or_more() -> None:
    ours = arm(turn(1, 50), turn(2, 100.5), turn(3, 200), turn(4, 300))
    theirs = arm(*[turn(number, 100) for number in range(1, 5)])
    assert cost_orders(ours, theirs, first_token_flops) == (
        CostOrder(-1, 1, 1),
        CostOrder(0, 2, 2),
        CostOrder(1, 3, 4),
    )
    assert cost_orders(ours, theirs, first_token_seconds) == ()


@pytest.mark.parametrize(
    ("seconds", "sign"), [((1.0, 1.1, 1.2), -1), ((1.5, 2.0, 2.4), 0), ((3.0, 3.1, 3.2), 1)]
)
def test_times_whose_quartiles_overlap_are_as_much(seconds: tuple[float, ...], sign: int) -> None:
    (order,) = cost_orders(
        arm(turn(1, 1, seconds)), arm(turn(1, 1, (1.9, 2.0, 2.1))), first_token_seconds
    )
    assert order.sign == sign

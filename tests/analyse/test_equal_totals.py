"""Arms made equal in something else: by hand on straight curves."""

import math

import pytest
from measures import LOWER

from paribus.analyse import (
    annealed_lengths,
    compare_annealed_at_equal_total,
    compare_at_equal_total,
    validation_rows,
)

SCORE = "halves.test"


def rows(speed: float, bits: float, seed: int) -> list[dict]:
    """Bits fall by one for every doubling of tokens."""
    told = []
    for step in (1, 2, 4, 8):
        tokens = 100 * step * speed
        value = bits - math.log2(tokens / 100) + 0.01 * math.sin(seed * (1 + speed))
        told.append(
            {
                "step": step,
                "tokens_read": tokens,
                "tokens_scored": tokens,
                "bytes_scored": tokens,
                "dense_flops": 6 * tokens,
                "seconds": step,
                "valid_nats": value * math.log(2),
            }
        )
    return told


def arm(speed: float, bits: float, n: int = 4) -> dict[int, list[dict]]:
    return {seed: rows(speed, bits, seed) for seed in range(1, n + 1)}


def lengths(speed: float, bits: float, n: int = 4) -> dict[int, dict[int, dict]]:
    """Annealed runs of 2, 4 and 8 steps, each with its last row."""
    found: dict[int, dict[int, dict]] = {}
    for seed, own in arm(speed, bits, n).items():
        for row in own[1:]:
            purpose = "reported" if row["step"] == 8 else "length"
            told = {
                "arm": "arm",
                "seed": seed,
                "n_steps": row["step"],
                "purpose": purpose,
                "outcome": "finished",
            }
            found.setdefault(row["step"], {})[seed] = {
                **row,
                **told,
                SCORE: row["valid_nats"] / math.log(2),
            }
    return found


def test_equal_totals_need_no_comparison():
    found = compare_at_equal_total(arm(1, 5), arm(1.004, 4), "tokens_read")
    assert (found.is_equal, found.comparison) == (True, None)


def test_unequal_totals_are_read_in_mid_schedule_and_get_no_word():
    found = compare_at_equal_total(arm(1, 5), arm(2, 5), "tokens_read")
    assert found.at == 800
    assert found.comparison is None
    assert found.mid_schedule is not None
    assert found.mid_schedule.effect == pytest.approx(
        0, abs=0.02
    )  # the same line, twice as far along it


@pytest.mark.parametrize(("bits", "gain"), [(4, 1.0), (6, -1.0)])
def test_fewer_bits_at_equal_totals_are_a_gain(bits, gain):
    read = compare_at_equal_total(arm(1, 5), arm(2, bits), "tokens_read").mid_schedule
    assert read is not None
    assert read.effect == pytest.approx(gain, abs=0.02)
    assert read.low < read.effect < read.high
    found = compare_annealed_at_equal_total(
        lengths(1, 5), lengths(2, bits), "tokens_read", SCORE, LOWER
    )
    assert found is not None
    assert found.comparison is not None
    assert found.comparison.effect == pytest.approx(gain, abs=0.02)
    assert found.comparison.verdict.word == ("better" if gain > 0 else "worse")


def test_at_equal_steps_the_faster_reader_is_ahead_and_at_equal_tokens_it_is_not():
    baseline, faster = arm(1, 5), arm(2, 5)
    assert compare_at_equal_total(baseline, faster, "seconds").is_equal
    gap = [baseline[seed][-1]["valid_nats"] - faster[seed][-1]["valid_nats"] for seed in baseline]
    assert min(gap) > 0.6


def test_few_seeds_are_told():
    found = compare_at_equal_total(arm(1, 5, 2), arm(2, 5, 2), "tokens_read")
    assert found.reason == "2 seeds trained in both; 3 are needed"


def test_a_curve_that_begins_later_is_told():
    late = {seed: own[-1:] for seed, own in arm(4, 5).items()}
    found = compare_at_equal_total(arm(1, 5), late, "tokens_read")
    assert "does not reach that far, or has no point before it" in found.reason


def test_annealed_runs_are_compared_at_the_longest_that_had_spent_as_much():
    found = compare_annealed_at_equal_total(
        lengths(1, 5), lengths(2, 5), "tokens_read", SCORE, LOWER
    )
    assert found is not None
    assert (found.at, found.mid_schedule) == (
        800,
        None,
    )  # the arm's half length, not the quarter that also agrees


@pytest.mark.parametrize(("speed", "agrees"), [(2.009, True), (2.011, False), (3, False)])
def test_annealed_runs_must_have_spent_as_much_within_half_a_percent(speed, agrees):
    found = compare_annealed_at_equal_total(
        lengths(1, 5), lengths(speed, 5), "tokens_read", SCORE, LOWER
    )
    assert (found is not None) is agrees


def test_a_length_that_one_seed_lacks_is_no_length():
    table = [row for by_seed in lengths(1, 5).values() for row in by_seed.values()]
    assert sorted(annealed_lengths(table, "arm", (1, 2, 3, 4))) == [2, 4, 8]
    failed = [
        {**row, "outcome": "diverged"} if (row["n_steps"], row["seed"]) == (4, 2) else row
        for row in table
    ]
    assert sorted(annealed_lengths(failed, "arm", (1, 2, 3, 4))) == [2, 8]
    swept = [{**row, "purpose": "sweep"} for row in table]
    assert annealed_lengths(swept, "arm", (1, 2, 3, 4)) == {}
    assert annealed_lengths(table, "another", (1, 2, 3, 4)) == {}


def test_gains_that_no_seed_moves_are_told():
    same, other = (
        {2: dict.fromkeys((1, 2, 3), own[2][1])} for own in (lengths(1, 5), lengths(1, 4))
    )
    found = compare_annealed_at_equal_total(same, other, "tokens_read", SCORE, LOWER)
    assert found is not None
    assert "the seed does not reach the runs" in found.reason


def test_rows_without_held_out_text_are_passed_over():
    assert [
        row["step"] for row in validation_rows([{"step": 0, "bytes_scored": 1}, rows(1, 5, 1)[0]])
    ] == [1]


def test_tokens_with_padding_are_not_compared_with_tokens_without() -> None:
    older = arm(1, 5)
    newer = {
        seed: [{**row, "positions_computed": 2 * row["tokens_read"]} for row in own]
        for seed, own in older.items()
    }
    found = compare_at_equal_total(older, newer, "tokens_read")
    assert (found.is_equal, found.reason) == (
        False,
        "some runs are older, and count padding among their tokens",
    )
    filled = {
        seed: [{**row, "positions_computed": row["tokens_read"]} for row in own]
        for seed, own in older.items()
    }
    assert compare_at_equal_total(older, filled, "tokens_read").is_equal
    padded = {
        steps: {
            seed: {**row, "positions_computed": 2 * row["tokens_read"]} for seed, row in own.items()
        }
        for steps, own in lengths(2, 5).items()
    }
    assert (
        compare_annealed_at_equal_total(lengths(1, 5), padded, "tokens_read", SCORE, LOWER) is None
    )

"""Arms made equal in something else: by hand on straight curves."""

import math

import pytest

from paribus.analyse import alike, held_out


def rows(speed: float, bits: float, seed: int) -> list[dict]:
    """Bits fall by one for every doubling of tokens."""
    told = []
    for step in (1, 2, 4, 8):
        tokens = 100 * step * speed
        value = bits - math.log2(tokens / 100) + 0.01 * math.sin(seed * (1 + speed))
        told.append(
            {
                "step": step, "tokens_read": tokens, "tokens_scored": tokens, "bytes_scored": tokens,
                "dense_flops": 6 * tokens, "seconds": step, "valid_nats": value * math.log(2),
            }
        )  # fmt: skip
    return told


def arm(speed: float, bits: float, n: int = 4) -> dict[int, list[dict]]:
    return {seed: rows(speed, bits, seed) for seed in range(1, n + 1)}


def test_equal_totals_need_no_comparison():
    found = alike(arm(1, 5), arm(1.004, 4), "tokens_read")
    assert (found.equal, found.comparison) == (True, None)


def test_unequal_totals_are_compared_at_the_largest_that_all_reached():
    found = alike(arm(1, 5), arm(2, 5), "tokens_read")
    assert found.at == 800
    assert found.comparison is not None
    assert found.comparison.effect == pytest.approx(0, abs=0.02)  # the same line, twice as far along it


def test_at_equal_steps_the_faster_reader_is_ahead_and_at_equal_tokens_it_is_not():
    baseline, faster = arm(1, 5), arm(2, 5)
    assert alike(baseline, faster, "seconds").equal
    gap = [baseline[seed][-1]["valid_nats"] - faster[seed][-1]["valid_nats"] for seed in baseline]
    assert min(gap) > 0.6


def test_few_seeds_are_told():
    found = alike(arm(1, 5, 2), arm(2, 5, 2), "tokens_read")
    assert found.reason == "2 seeds trained in both; 3 are needed"


def test_a_curve_that_begins_later_is_told():
    late = {seed: own[-1:] for seed, own in arm(4, 5).items()}
    found = alike(arm(1, 5), late, "tokens_read")
    assert "does not reach that far, or has no point before it" in found.reason


def test_gains_that_no_seed_moves_are_told():
    same = {seed: rows(1, 5, 1) for seed in (1, 2, 3)}
    other = {seed: rows(2, 4, 1) for seed in (1, 2, 3)}
    assert "the seed does not reach the runs" in alike(same, other, "tokens_read").reason


def test_rows_without_held_out_text_are_passed_over():
    assert [row["step"] for row in held_out([{"step": 0, "bytes_scored": 1}, rows(1, 5, 1)[0]])] == [1]


def test_tokens_with_padding_are_not_compared_with_tokens_without() -> None:
    older = arm(1, 5)
    newer = {
        seed: [{**row, "positions_computed": 2 * row["tokens_read"]} for row in own] for seed, own in older.items()
    }
    found = alike(older, newer, "tokens_read")
    assert (found.equal, found.reason) == (False, "some runs are older, and count padding among their tokens")
    filled = {seed: [{**row, "positions_computed": row["tokens_read"]} for row in own] for seed, own in older.items()}
    assert alike(older, filled, "tokens_read").equal

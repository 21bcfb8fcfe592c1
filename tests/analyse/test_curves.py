import numpy as np
import pytest
from measures import HIGHER, LOWER

from paribus.analyse import early_order, interval, paired_gain_curve
from paribus.errors import SpecError

STEPS = (10, 20, 30)


def _curves(
    effects: tuple[float, ...], seed: int, n: int = 6, sd: float = 0.1
) -> dict[int, dict[int, float]]:
    """Losses under which an arm is better by its effect at each step."""
    noise = sd * np.random.default_rng(seed).normal(size=(n, len(STEPS)))
    rows = (3 - np.array(effects) + noise).tolist()
    return {seed: dict(zip(STEPS, row, strict=True)) for seed, row in enumerate(rows)}


BASE = _curves((0, 0, 0), 1)


def test_the_difference_at_each_step_is_paired_with_a_band_of_its_own() -> None:
    arm = _curves((0, 0.5, 1), 2)
    found = paired_gain_curve(BASE, arm, measure=LOWER)
    assert [one.step for one in found] == list(STEPS)
    gains = [BASE[seed][30] - arm[seed][30] for seed in sorted(arm)]
    assert (found[2].low, found[2].high) == pytest.approx(interval(gains, 0.95))
    assert found[2].effect == pytest.approx(np.mean(gains))
    assert paired_gain_curve(BASE, arm, measure=HIGHER)[2].effect == pytest.approx(-found[2].effect)


def test_only_steps_of_every_curve_are_compared() -> None:
    arm = _curves((0, 0, 0), 2)
    del arm[3][20]
    assert [one.step for one in paired_gain_curve(BASE, arm, measure=LOWER)] == [10, 30]


def test_curves_have_the_same_seeds_and_steps() -> None:
    with pytest.raises(
        SpecError,
        match=r"curves: seeds \[0, 1, 2, 3, 4, 5\] against \[0, 1, 2, 3, 4\]; give the same 3",
    ):
        paired_gain_curve(BASE, _curves((0, 0, 0), 2, n=5), measure=LOWER)
    late = {
        seed: {step + 1: score for step, score in curve.items()} for seed, curve in BASE.items()
    }
    with pytest.raises(
        SpecError, match="curves: no step is in every curve; measure all runs at the same steps"
    ):
        paired_gain_curve(BASE, late, measure=LOWER)


def test_the_early_order_is_of_split_seeds_and_of_decided_comparisons() -> None:
    arms = {
        "base": BASE,
        "up": _curves((-1, 1, 1), 2),
        "down": _curves((-1, -1, -1), 3),
        "same": _curves((0, 0, 0), 4),
    }
    found = early_order(arms, "base", measure=LOWER)
    assert found.decided_arms == ("up", "down")
    assert found.agreement == {10: 0.5, 20: 1, 30: 1}
    assert "not annealed" in found.description


def test_luck_that_a_run_keeps_to_its_end_is_right_half_the_time() -> None:
    rng, early = np.random.default_rng(5), []
    for _ in range(100):
        luck = {name: dict(enumerate(rng.normal(size=6).tolist())) for name in "abcd"}
        arms = {
            name: {s: {1: luck[name][s], 2: luck[name][s] + ord(name)} for s in range(6)}
            for name in luck
        }
        found = early_order(arms, "a", measure=HIGHER)
        early.extend([found.agreement[1]] if found.agreement else [])
    assert len(early) > 50
    assert 0.4 < np.mean(early) < 0.6


@pytest.mark.parametrize(
    ("n_arms", "n_seeds", "words"),
    [
        (3, 6, "no early order: 3 arms and 6 seeds; 4 and 6 are needed."),
        (4, 5, "no early order: 4 arms and 5 seeds; 4 and 6 are needed."),
        (4, 6, "no early order: no comparison ended better or worse."),
    ],
)
def test_no_early_order_is_read_off_too_little(n_arms: int, n_seeds: int, words: str) -> None:
    arms = {str(k): _curves((0, 0, 0), 20 + k, n_seeds) for k in range(n_arms)}
    found = early_order(arms, "0", measure=LOWER)
    assert (found.agreement, found.description) == ({}, words)

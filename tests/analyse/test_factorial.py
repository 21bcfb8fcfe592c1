import numpy as np
import pytest
from measures import HIGHER, LOWER, measure_in

from paribus.analyse import compare, contrast_by_seed, factorial_effects
from paribus.errors import SpecError

Cells = dict[tuple[int, int], dict[int, float]]


def _cells(means: tuple[float, float, float, float], sd: float = 0.1, n: int = 7) -> Cells:
    """Scores of the cells 00, 01, 10, 11, each seed with its own level."""
    rng = np.random.default_rng(71)
    noise = sd * rng.normal(size=(4, n)) + rng.normal(size=n)
    rows = (np.array(means)[:, None] + noise).tolist()
    return {
        cell: dict(enumerate(row))
        for cell, row in zip(((0, 0), (0, 1), (1, 0), (1, 1)), rows, strict=True)
    }


def test_main_effects_and_interaction_are_contrasts_of_each_seed() -> None:
    cells = _cells((0, 1, 2, 4))
    found = factorial_effects(cells, measure=measure_in("points", lower_is_better=False))
    by_hand = [
        ((cells[1, 0][s] - cells[0, 0][s]) + (cells[1, 1][s] - cells[0, 1][s])) / 2
        for s in range(7)
    ]
    assert found.contrasts["first"].effect == pytest.approx(compare(by_hand).effect)
    effects = [found.contrasts[name].effect for name in ("first", "second", "interaction")]
    assert effects == pytest.approx([2.5, 1.5, 1], abs=0.2)
    assert {one.n_comparisons for one in found.contrasts.values()} == {3}
    assert [one.verdict.word for one in found.contrasts.values()] == ["better"] * 3
    assert found.simple_effects == {}


def test_lower_scores_are_better_where_they_are() -> None:
    found = factorial_effects(
        _cells((0, 1, 2, 4)), measure=measure_in("nats", lower_is_better=True)
    )
    assert [one.verdict.word for one in found.contrasts.values()] == ["worse"] * 3
    assert found.description.endswith(
        "Effects add in nats; what holds there need not hold in ratios."
    )


def test_a_factor_that_turns_with_the_other_has_simple_effects_and_no_main_effect() -> None:
    found = factorial_effects(
        _cells((0, 1, 2, -1)), measure=measure_in("nats", lower_is_better=False)
    )
    assert set(found.contrasts) == {"interaction"}
    assert [one.verdict.word for one in found.simple_effects["first"]] == ["better", "worse"]
    assert [one.verdict.word for one in found.simple_effects["second"]] == ["better", "worse"]
    assert (
        "first factor, from 0 to 1: no main effect, for it turns with second factor. "
        in found.description
    )


def test_factors_and_levels_are_told_by_their_names() -> None:
    factors = {"mask": ("causal", "prefix"), "positions": ("learned", "rotary")}
    plain = factorial_effects(
        _cells((0, 1, 2, 4)), measure=measure_in("nats", lower_is_better=False), factors=factors
    ).description
    assert plain.startswith("mask, from causal to prefix: better: ")
    assert "positions, from learned to rotary: better: " in plain
    assert "interaction of mask and positions: better: " in plain
    turned = factorial_effects(
        _cells((0, 1, 2, -1)), measure=measure_in("nats", lower_is_better=False), factors=factors
    ).description
    assert (
        "mask, from causal to prefix: no main effect, for it turns with positions. At positions"
        " learned, " in turned
    )
    assert " At positions rotary, gain -" in turned
    assert "At mask causal, gain " in turned


def test_opposite_signs_without_an_interaction_leave_the_main_effect() -> None:
    found = factorial_effects(
        _cells((0, 1, 0, 1), sd=1), measure=measure_in("nats", lower_is_better=False)
    )
    assert set(found.contrasts) == {"first", "second", "interaction"}


def test_the_declared_contrast_alone_is_a_family_of_one() -> None:
    found = factorial_effects(
        _cells((0, 0, 1, 1)),
        measure=measure_in("nats", lower_is_better=False),
        contrasts=("first",),
    )
    assert [(name, one.n_comparisons) for name, one in found.contrasts.items()] == [("first", 1)]


def test_an_interaction_has_four_times_the_variance_of_a_main_effect() -> None:
    found = factorial_effects(
        _cells((0, 0, 0, 0), n=4001), measure=measure_in("nats", lower_is_better=False)
    )
    assert (found.contrasts["interaction"].sd / found.contrasts["first"].sd) ** 2 == pytest.approx(
        4, rel=0.1
    )


def test_more_levels_are_compared_by_declared_contrasts() -> None:
    cells = {"a": {1: 1.0, 2: 2.0}, "b": {1: 3.0, 2: 5.0}, "c": {2: 7.0, 1: 6.0}}
    assert contrast_by_seed(cells, {"a": -1, "b": 0.5, "c": 0.5}, measure=HIGHER) == [
        3.5,
        4.0,
    ]
    assert contrast_by_seed(cells, {"a": -1, "b": 1}, measure=LOWER) == [-2.0, -3.0]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"a": 1, "z": -1}, "contrast: z is not a cell; use a, b"),
        (
            {"a": 1, "b": 1},
            "contrast: weights add up to 2; use weights that add up to 0, not all 0",
        ),
        (
            {"a": 0, "b": 0},
            "contrast: weights add up to 0; use weights that add up to 0, not all 0",
        ),
        (
            {"a": 1, "b": -1},
            "contrast: cells b lack seeds that others have; run every seed in every cell",
        ),
    ],
)
def test_contrasts_must_contrast(weights: dict[str, float], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        contrast_by_seed({"a": {1: 1.0, 2: 2.0}, "b": {1: 3.0}}, weights, measure=LOWER)


def test_four_cells_and_known_contrasts_are_needed() -> None:
    cells = _cells((0, 0, 0, 0))
    with pytest.raises(SpecError, match=r"contrasts: .* given; use some of"):
        factorial_effects(
            cells, measure=measure_in("nats", lower_is_better=True), contrasts=("first", "first")
        )
    del cells[1, 1]
    with pytest.raises(
        SpecError, match=r"cells: .* given; give the four of .*, or declare a contrast"
    ):
        factorial_effects(cells, measure=measure_in("nats", lower_is_better=True))

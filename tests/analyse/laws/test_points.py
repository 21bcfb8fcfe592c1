"""Points of a law: cells, and what says too little for a law."""

from dataclasses import replace

import numpy as np
import pytest
from planted_laws import exact_points, planted_laws

from paribus.analyse.laws.points import LawPoint, cells_by_arm, path_cells, require_identified
from paribus.errors import SpecError


def grid(sizes, ratios):
    return [LawPoint(n, n * r, 3.0) for n in sizes for r in ratios]


def test_seeds_of_one_cell_are_averaged_in_logarithms():
    points = [
        *grid((1e6, 2e6, 4e6), (5, 20)),
        LawPoint(1e6, 5e6, 3.0 * np.exp(0.2), seed=1),
    ]
    cells = cells_by_arm(points)[""]
    assert cells.n_runs_C.tolist() == [2, 1, 1, 1, 1, 1]
    assert cells.log_loss_C[0] == pytest.approx(np.log(3.0) + 0.1)
    assert cells.pure_error == pytest.approx(2 * 0.1**2)
    assert cells.pure_df == 1
    assert cells.rungs[:3] == ("0:5e+06", "0:2e+07", "1:1e+07")


def test_a_rung_can_be_named():
    points = [LawPoint(n, n * r, 3.0, rung=f"{n:g}@{r}") for n in (1e6, 2e6, 4e6) for r in (5, 20)]
    assert cells_by_arm(points)[""].rungs[1] == "1e+06@20"


def test_the_ladder_says_enough():
    points = exact_points(planted_laws(np.random.default_rng(1), 1)[0])
    (cells,) = cells_by_arm(points).values()
    assert len(cells.rungs) == len({(point.parameters, point.tokens) for point in points})


@pytest.mark.parametrize(
    ("points", "words"),
    [
        (
            grid((1e6, 2e6, 4e6, 8e6), (20,)),
            r"tokens are proportional to parameters \(20 tokens per parameter\), so A and B cannot"
            r" be told apart; a law needs 3 sizes or more with 2 durations",
        ),
        (grid((1e6,), (5, 20, 80)), "points: 1 size, 1 with durations a factor of 4 or more"),
        (grid((1e6, 2e6, 4e6), (5, 15)), "points: 3 sizes, 0 with durations a factor of 4"),
        (
            [*grid((1e6, 2e6), (5, 20)), LawPoint(4e6, 2e7, 3.0)],
            "points: 3 sizes, 2 with durations a factor of 4 or more apart; a law needs 3 sizes",
        ),
        ([LawPoint(1e6, 1e7, -1.0)], "loss is -1; use numbers above 0"),
        ([LawPoint(1e6, float("nan"), 1.0)], "tokens is nan; use numbers above 0"),
        ([], "points: none are given; a law needs more than 5 cells"),
    ],
)
def test_points_that_cannot_say_what_the_law_is_are_refused(points, words):
    with pytest.raises(SpecError, match=words):
        cells_by_arm(points)


def test_the_arm_that_lacks_points_is_named():
    points = [LawPoint(1e6, 1e7, 3.0, arm="prefix")]
    with pytest.raises(SpecError, match="points of 'prefix': 1 size, 0 with durations"):
        cells_by_arm(points)


def test_sizes_read_off_a_figure_are_one_within_ten_per_cent():
    points = [LawPoint(n * (1 + 0.01 * r), n * r, 3.0) for n in (1e6, 2e6, 4e6) for r in (1, 4, 7)]
    (cells,) = cells_by_arm(points).values()
    assert len(cells.rungs) == 9  # each is a cell of its own


EIGHT_SIZES = [2.0**k * 1e6 for k in range(8)]


def test_a_broken_law_needs_eight_sizes():
    with pytest.raises(SpecError, match="7 sizes for a broken law; use 8 or more"):
        path_cells(grid(EIGHT_SIZES[:7], [20]))
    assert len(path_cells(grid(EIGHT_SIZES, [20])).log_loss_C) == 8


def test_a_broken_law_needs_one_duration_for_each_size():
    with pytest.raises(SpecError, match=r"the size 1e\+06 has 2 durations; a broken law is one"):
        path_cells(grid(EIGHT_SIZES, (5, 20)))


def test_tokens_that_stop_growing_are_no_path_of_a_broken_law():
    points = [replace(one, tokens=min(one.tokens, 4e8)) for one in grid(EIGHT_SIZES, [20])]
    with pytest.raises(SpecError, match="off a power of the parameters, and such a bend would"):
        path_cells(points)


def test_durations_of_whole_steps_may_be_a_little_nearer_than_a_factor_of_four():
    """26 and 103 steps are what 1 and 4 times 25.75 steps come to."""
    points = [
        LawPoint(size, 512.0 * n_steps * size / 1e4, 2.0)
        for size in (1e4, 1.5e4, 2e4)
        for n_steps in (26, 103)
    ]
    require_identified(points)
    nearer = [replace(point, tokens=point.tokens**0.9) for point in points]
    with pytest.raises(SpecError, match="3 sizes, 0 with durations a factor of 4 or more apart"):
        require_identified(nearer)

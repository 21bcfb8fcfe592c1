"""Cells: one run each, named by what is asked, shared where two ask the same."""

import re
from collections import Counter
from pathlib import Path

import pytest
from trained_study import N_STEPS, RATE, make_small_plan

from paribus.design.cells import bracket_cells, rate_grid, reported_cells, sweep_cells
from paribus.errors import SpecError
from paribus.train.schedule import learning_rate_at

RATES = {"full": 0.01, "reverse": 0.01, "causal": 0.02, "twin": 0.01}


def test_reported_cells_come_seed_by_seed_so_that_what_is_there_is_paired(
    study_cache: Path,
) -> None:
    cells = reported_cells(make_small_plan(study_cache), RATES)
    assert [(cell.arm, cell.seed) for cell in cells[:4]] == [
        ("full", 1),
        ("reverse", 1),
        ("causal", 1),
        ("full", 2),
    ]
    training = cells[5].run.stages[-1].training
    assert (training.seed, training.data_seed, training.optimizer.rate) == (2, 10_002, 0.02)
    assert str(cells[5]) == "causal, seed 2"
    assert len({cell.name for cell in cells}) == 9


def test_two_arms_that_differ_in_name_only_share_their_runs(study_cache: Path) -> None:
    cells = reported_cells(
        make_small_plan(study_cache, {"arms.twin": {"architecture": {"mask": "full"}}}), RATES
    )
    names = {(cell.arm, cell.seed): cell.name for cell in cells}
    assert names["twin", 2] == names["full", 2]
    assert len(set(names.values())) == 9


def test_sweep_cells_use_seeds_that_are_never_reported_and_the_tuning_split(
    study_cache: Path,
) -> None:
    plan = make_small_plan(study_cache, {"tune": {"share": 0.5, "n_rates": 7, "n_seeds": 3}})
    grid = rate_grid(plan.design, plan.arms)
    assert grid == tuple(RATE * 2.0**k for k in range(-3, 4))
    cells = sweep_cells(plan, grid)
    assert len(cells) == 7 * 3 * 3
    assert {cell.seed for cell in cells} == {1001, 1002, 1003}
    assert {cell.n_steps for cell in cells} == {N_STEPS // 2}
    assert {cell.measures[0].split for cell in cells} == {"valid"}
    assert str(cells[0]) == f"full, seed 1001, rate {RATE / 8:g}"
    assert not {cell.name for cell in cells} & {cell.name for cell in reported_cells(plan, RATES)}


@pytest.mark.parametrize("schedule", ["cosine", {"kind": "trapezoid", "down": 0.3}, "inverse_sqrt"])
def test_a_sweep_at_a_part_of_the_length_is_the_whole_recipe_scaled(
    study_cache: Path, schedule: object
) -> None:
    """T21: warm-up, decay and validation points are 0.3 of the run's."""
    recipe = {
        "n_steps": 1000,
        "warmup": 100,
        "valid_every": 50,
        "checkpoint_every": 500,
        "schedule": schedule,
    }
    changes = {f"base.training.{name}": value for name, value in recipe.items()}
    plan = make_small_plan(study_cache, {"tune": {"share": 0.3}} | changes)
    whole = reported_cells(plan, RATES)[0].run.stages[-1].training
    swept = sweep_cells(plan, [whole.optimizer.rate])[0].run.stages[-1].training
    assert (swept.n_steps, swept.warmup, swept.valid_every) == (300, 30, 15)
    assert swept.schedule == whole.schedule
    for tenth in range(10, 100):
        assert learning_rate_at(3 * tenth, swept) == pytest.approx(
            learning_rate_at(10 * tenth, whole)
        )
    assert learning_rate_at(14, swept) == pytest.approx(learning_rate_at(49, whole))
    assert learning_rate_at(29, swept) == learning_rate_at(99, whole) == whole.optimizer.rate


def test_a_schedule_that_cannot_be_scaled_is_refused(study_cache: Path) -> None:
    """Without a warm-up the inverse square root is counted from the first step, whatever the
    length.
    """
    bare = {"base.training.schedule": "inverse_sqrt"}
    make_small_plan(study_cache, bare | {"tune": True})
    make_small_plan(study_cache, bare | {"tune": {"share": 0.5}, "base.training.warmup": 2})
    with pytest.raises(
        SpecError,
        match=r"arms.full: training.schedule is inverse_sqrt and training.warmup is 0, "
        r"which leaves no warm-up in a run over 0.5 of the steps \(tune.share\): it "
        r"would be another recipe; use a longer warm-up, or",
    ):
        make_small_plan(study_cache, bare | {"tune": {"share": 0.5}})
    with pytest.raises(
        SpecError, match=r"which leaves no warm-up in a run over 0.25 of the steps \(lengths\)"
    ):
        make_small_plan(study_cache, bare | {"lengths": [0.25, 0.5, 1]})


def test_a_length_or_a_sweep_without_the_warm_up_of_the_run_is_refused(study_cache: Path) -> None:
    warm = {"base.training.warmup": 4, "base.training.n_steps": 40}
    said = (
        "arms.full: training.warmup is 4, which leaves no warm-up in a run over 0.1 of the steps"
        " (lengths): it would be another recipe; use a longer warm-up, or lengths of 0.14 or more"
    )
    with pytest.raises(SpecError, match=re.escape(said)):
        make_small_plan(study_cache, warm | {"lengths": [0.1, 0.5, 1]})
    make_small_plan(study_cache, warm | {"lengths": [0.25, 0.5, 1]})
    slow = {"base.training.warmup": 3, "base.training.n_steps": 200}
    with pytest.raises(SpecError, match=r"warmup is 3, which leaves .* 0\.1 of the steps \(tune"):
        make_small_plan(study_cache, slow | {"tune": {"share": 0.1}})


def test_rates_of_an_arm_alone_are_swept_in_that_arm_alone(study_cache: Path) -> None:
    cells = sweep_cells(
        make_small_plan(study_cache, {"tune": True}), [0.01, 0.02], {"causal": (0.013,)}
    )
    assert Counter((cell.arm, cell.rate) for cell in cells) == dict.fromkeys(
        [(arm, rate) for arm in ("full", "reverse", "causal") for rate in (0.01, 0.02)]
        + [("causal", 0.013)],
        2,
    )


def test_a_cell_says_of_which_design_it_is(study_cache: Path) -> None:
    plan = make_small_plan(study_cache)
    placed = reported_cells(plan, RATES)[0].record
    assert placed.plan == plan.design_fingerprint
    assert (placed.arm, placed.seed, placed.purpose, placed.n_steps) == (
        "full",
        1,
        "reported",
        N_STEPS,
    )


def test_names_fall_evenly_on_shards(study_cache: Path) -> None:
    plan = make_small_plan(study_cache, {"seeds": 100})
    names = [cell.name for cell in reported_cells(plan, RATES)]
    counts = Counter(int(name, 16) % 3 for name in names)
    assert sum(counts.values()) == 300
    assert all(70 <= counts[part] <= 130 for part in range(3))  # 4 standard deviations around 100


def test_bracket_cells_are_the_reported_seeds_half_an_octave_to_either_side(
    study_cache: Path,
) -> None:
    plan = make_small_plan(study_cache, {"tune": {"bracket": True}})
    cells = bracket_cells(plan, RATES)
    assert len(cells) == 2 * 3 * 3
    assert {cell.purpose for cell in cells} == {"bracket"}
    assert {cell.seed for cell in cells} == {1, 2, 3}
    assert {cell.rate for cell in cells if cell.arm == "causal"} == {0.01414, 0.02828}
    assert {len(cell.measures) for cell in cells} == {1}
    assert cells[0].measures[0] == plan.design.primary.measure
    assert {cell.n_steps for cell in cells} == {N_STEPS}
    assert str(cells[0]) == "full, seed 1, rate 0.007071"
    assert bracket_cells(make_small_plan(study_cache, {"tune": True}), RATES) == ()


def test_a_share_for_the_last_of_several_stages_is_refused_where_there_is_one(
    study_cache: Path,
) -> None:
    with pytest.raises(SpecError, match=r"tune\.last_share is given, but no arm has several"):
        make_small_plan(study_cache, {"tune": {"share": 0.25, "last_share": 0.5}})

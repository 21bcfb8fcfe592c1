"""Annealed lengths: made for the arms that others are judged against, counted, resumed and read
as the rest.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest
from trained_study import make_small_plan, train_study

from paribus.analyse import study_findings, study_rows
from paribus.design import described, estimate_cost
from paribus.design.cells import length_cells, reported_cells
from paribus.errors import SpecError
from paribus.spec.design import length_arms
from paribus.workspace import Workspace

LENGTHS: dict[str, Any] = {"lengths": [0.25, 0.5, 1]}
COMPUTE: dict[str, Any] = {"primary.margin": "10 % compute", **LENGTHS}
RATES = dict.fromkeys(("full", "reverse", "causal"), 0.03)


def test_lengths_are_the_whole_recipe_scaled_at_the_tuned_rate(study_cache: Path) -> None:
    plan = make_small_plan(
        study_cache,
        LENGTHS
        | {
            "base.training.warmup": 4,
            "others": [{"kind": "pseudo", "split": "valid", "n_items": 5, "max_bytes": 32}],
        },
    )
    cells = length_cells(plan, RATES)
    assert [(cell.arm, cell.seed, cell.n_steps) for cell in cells] == [
        ("full", seed, n_steps) for seed in (1, 2, 3) for n_steps in (4, 8)
    ]
    assert {(cell.purpose, cell.rate) for cell in cells} == {("length", 0.03)}
    assert all(cell.measures == (plan.design.primary.measure,) for cell in cells)
    training = [cell.run.stages[-1].training for cell in cells[:2]]
    assert [(one.warmup, one.valid_every, one.optimizer.rate) for one in training] == [
        (1, 1, 0.03),
        (2, 2, 0.03),
    ]
    (full,) = [cell for cell in reported_cells(plan, RATES) if (cell.arm, cell.seed) == ("full", 1)]
    assert (training[0].seed, training[0].data_seed) == (
        full.run.stages[-1].training.seed,
        full.run.stages[-1].training.data_seed,
    )
    assert str(cells[0]) == "full, seed 1, 4 steps"
    assert len({str(cell) for cell in cells}) == len(cells)


@pytest.mark.parametrize(
    ("changes", "arms"),
    [
        ({}, {"full"}),
        ({"comparisons": [["reverse", "causal"], ["causal", "full"]]}, {"causal", "full"}),
        ({"comparisons": [["reverse", "causal"]]}, {"causal"}),
        (
            {
                "comparisons": [["reverse", "causal"]],
                "contrasts": {"both": {"full": 1, "reverse": -1}},
            },
            {"causal", "full"},
        ),
    ],
)
def test_every_arm_that_something_is_judged_against_has_lengths(
    study_cache: Path, changes: dict[str, Any], arms: set[str]
) -> None:
    plan = make_small_plan(study_cache, COMPUTE | changes)
    assert set(length_arms(plan.design)) == arms
    assert {cell.arm for cell in length_cells(plan, RATES)} == arms


def test_a_design_without_lengths_makes_none_and_is_written_as_before(study_cache: Path) -> None:
    plan = make_small_plan(study_cache)
    assert length_cells(plan, RATES) == ()
    assert "lengths" not in described(plan)["design"]
    assert described(make_small_plan(study_cache, LENGTHS))["design"]["lengths"] == [0.25, 0.5, 1.0]


def test_lengths_are_counted_in_the_cost(study_cache: Path, tmp_path: Path) -> None:
    without = estimate_cost(make_small_plan(study_cache), Workspace(tmp_path, device="cpu"))
    cost = estimate_cost(make_small_plan(study_cache, LENGTHS), Workspace(tmp_path, device="cpu"))
    assert (without.n_runs, cost.n_runs, cost.n_length_runs) == (9, 15, 6)
    (full,) = [arm for arm in make_small_plan(study_cache).arms if arm.name == "full"]
    assert cost.flops - without.flops == pytest.approx(
        3 * 0.75 * full.step_cost.training_flops * full.n_steps
    )
    assert cost.n_bytes > without.n_bytes
    assert cost.flops_per_seed > without.flops_per_seed


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"base.training.n_steps": 8},
            "lengths: 0.25 of the 8 steps of full is 2, and 3 are needed; use more n_steps",
        ),
        (
            {"lengths": [0.5, 0.51, 1]},
            "lengths: 0.51 of the 16 steps of full is 8, as many as at a shorter length",
        ),
        (
            {"base.training.warmup": 16},
            "lengths: 0.25 of the 16 steps of full is 4, and its warm-up takes 4 of them",
        ),
    ],
)
def test_lengths_that_cannot_be_trained_are_refused(
    study_cache: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        make_small_plan(study_cache, LENGTHS | changes)


def test_the_steps_that_count_are_those_the_budget_gives(study_cache: Path) -> None:
    asked = {
        "factor": ["architecture.mask", "training.n_sequences"],
        "budget": "tokens_read",
        "match": "nothing",
        "arms.causal.training": {"n_sequences": 16},
        "comparisons": [["full", "causal"]],
        "compound": {"full": "both at once"},
    }
    with pytest.raises(
        SpecError, match=r"lengths: 0\.25 of the 8 steps of causal is 2, and 3 are needed"
    ):
        make_small_plan(study_cache, LENGTHS | asked)


def test_a_study_makes_reads_and_resumes_its_lengths(tmp_path: Path, study_cache: Path) -> None:
    study = train_study(tmp_path, study_cache, COMPUTE | {"arms.reverse": None}, "lengths")
    own = [row for row in study_rows(study) if row["purpose"] == "length"]
    assert [(row["arm"], row["seed"], row["n_steps"]) for row in own] == [
        ("full", seed, n_steps) for seed in (1, 2, 3) for n_steps in (4, 8)
    ]
    assert all(row["pseudo.test"] is not None for row in own)
    found = study_findings(study)
    assert found.lengths["full"].shares == (0.25, 0.5, 1.0)
    assert [len(curve) for curve in found.lengths["full"].by_seed.values()] == [3, 3, 3]
    assert found.lengths["causal"].reason == "was not trained at other lengths"
    times = {row["run"]: (study.root / row["run"] / "rows.jsonl").stat().st_mtime_ns for row in own}
    shutil.rmtree(study.root / own[0]["run"])
    with pytest.raises(
        SpecError,
        match=(
            "1 of 6 runs of other lengths is missing or not yet run: full, seed 1, 4 steps;"
            " `paribus run`"
        ),
    ):
        study_findings(study)
    train_study(tmp_path, study_cache, COMPUTE | {"arms.reverse": None}, "lengths")
    again = {run: (study.root / run / "rows.jsonl").stat().st_mtime_ns for run in times}
    assert [run for run in times if times[run] != again[run]] == [own[0]["run"]]
    assert [row["pseudo.test"] for row in study_rows(study) if row["purpose"] == "length"] == [
        row["pseudo.test"] for row in own
    ]

"""Runs that show where the noise comes from: which are made, which are there anyhow, and what
is told of them.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from trained_study import design_table, make_small_plan, train_study

from paribus.analyse import study_findings, study_rows
from paribus.design.cells import reported_cells
from paribus.design.plan import Plan
from paribus.design.study_cost import estimate_cost
from paribus.design.variance import noise_crossing, variance_cells
from paribus.errors import SpecError
from paribus.record import read_environments
from paribus.report.latex import latex_table
from paribus.report.markdown import markdown_report
from paribus.report.noise import describe_noise, noise_lines
from paribus.report.page import render_page
from paribus.report.report_data import gather_report_data
from paribus.spec.design_reading import load_design
from paribus.workspace import Workspace

ASKED = {"variance": {"inits": 2, "orders": 3, "reruns": 2}, "arms.reverse": None}
RATES = {"full": 0.05, "causal": 0.05}


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return make_small_plan(tmp_path_factory.mktemp("cache"), ASKED)


def draws(plan: Plan) -> list[tuple[int, int, int]]:
    """Start, order and rerun of every variance cell."""
    runs = [cell.run for cell in variance_cells(plan, RATES)]
    trainings = [run.stages[-1].training for run in runs]
    return [(one.seed, one.data_seed, run.rerun) for one, run in zip(trainings, runs, strict=True)]


def test_every_start_meets_every_order_and_the_first_is_made_again(plan: Plan) -> None:
    crossed = [(start, 10_000 + order, 0) for start in (1, 2) for order in (1, 2, 3)]
    assert draws(plan) == [*crossed, (1, 10_001, 1), (1, 10_001, 2)]
    cells = variance_cells(plan, RATES)
    assert {(cell.arm, cell.purpose, len(cell.measures)) for cell in cells} == {
        ("full", "variance", 1)
    }
    assert len({str(cell) for cell in cells}) == len({cell.name for cell in cells}) == 8


def test_runs_of_one_seed_are_the_reported_ones(plan: Plan) -> None:
    reported = {cell.name for cell in reported_cells(plan, RATES)}
    shared = [cell for cell in variance_cells(plan, RATES) if cell.name in reported]
    assert [str(cell) for cell in shared] == [
        "full, start 1, order 10001",
        "full, start 2, order 10002",
    ]


def test_a_rerun_has_an_address_of_its_own_and_no_other_run_changes_its(plan: Plan) -> None:
    first, *_ = reported_cells(plan, RATES)
    again = [cell for cell in variance_cells(plan, RATES) if cell.run.rerun]
    assert len({first.name, *(cell.name for cell in again)}) == 3
    assert again[0].run.model_copy(update={"rerun": 0}) == first.run
    assert "rerun" not in first.run.model_dump(mode="json")


def test_the_cost_counts_them(plan: Plan, tmp_path: Path) -> None:
    without = replace(plan, design=plan.design.model_copy(update={"variance": None}))
    more, less = (estimate_cost(one, Workspace(tmp_path, device="cpu")) for one in (plan, without))
    assert more.n_runs - less.n_runs == 2 * 3 - 2 + 2
    own = plan.arms[0]
    assert more.flops - less.flops == pytest.approx(6 * own.step_cost.training_flops * own.n_steps)


def without_determinism(plan: Plan, device: str, variance: Any = None) -> Plan:
    own = plan.arms[0]
    stage = own.run.stages[-1]
    training = stage.training.model_copy(update={"deterministic": False})
    run = own.run.model_copy(update={"stages": (stage.model_copy(update={"training": training}),)})
    arms = (replace(own, run=run), *plan.arms[1:])
    design = plan.design.model_copy(update={"variance": variance})
    return replace(
        plan, arms=arms, design=design, environment={**plan.environment, "device": device}
    )


def test_where_a_seed_does_not_fix_a_run_it_is_made_again_unasked(plan: Plan) -> None:
    assert draws(without_determinism(plan, "cuda NVIDIA H200")) == [
        (1, 10_001, number) for number in range(3)
    ]
    assert noise_crossing(without_determinism(plan, "cpu")) is None
    nothing = replace(plan, design=plan.design.model_copy(update={"variance": None}))
    assert (
        noise_crossing(
            replace(nothing, environment={**plan.environment, "device": "cuda NVIDIA H200"})
        )
        is None
    )
    asked = plan.design.variance
    assert asked is not None
    few = asked.model_copy(update={"reruns": 0})
    there = noise_crossing(without_determinism(plan, "cuda NVIDIA H200", few))
    assert there is not None
    assert (there.n_inits, there.n_orders, there.n_reruns) == (2, 3, 2)


def test_more_starts_than_seeds_are_refused() -> None:
    table = design_table(ASKED)
    with pytest.raises(
        SpecError, match=r"variance.inits is 4, and the design has 3 seeds; use 3 or fewer"
    ):
        load_design(table, changes={"variance.inits": 4})
    assert load_design(table, changes={"variance": True}).variance is not None
    assert load_design(table, changes={"variance": False}).variance is None


def test_a_study_tells_where_its_noise_comes_from(tmp_path: Path) -> None:
    study = train_study(tmp_path / "runs", tmp_path / "cache", ASKED)
    # the fourth edition finds heaps in three runs of a dozen steps, and gives no interval
    study.write_plan({**study.read_plan(), "edition": 3})
    found = study_findings(study)
    noise = found.noise
    assert noise is not None
    assert noise.is_reproducible is True  # a CPU repeats bit for bit
    assert [one.name for one in noise.components] == ["start", "order", "rest"]
    made = [row for row in study_rows(study) if row["purpose"] == "variance"]
    assert {(row["start"], row["order"], row["rerun"]) for row in made} >= {
        (1, 10_001, 2),
        (2, 10_003, 0),
    }
    assert len({row["run"] for row in made}) == 8
    assert all("cudnn" in read_environments(study.root / row["run"])[-1] for row in made)
    material = gather_report_data(study)
    lines = noise_lines(material)
    assert [line[0] for line in lines] == ["start", "order", "rest", "rerun"]
    assert lines[-1][1:] == ("0", "–", "2", "–")
    words = describe_noise(material)
    assert "2 starts under 3 orders of the text spread by" in words
    assert words.endswith("The same run, made 3 times, ended the same to the last bit.")
    assert "## Where the noise comes from" in markdown_report(material)
    assert "made 3 times" in latex_table(material)
    assert "<h3>Where the noise comes from</h3>" in render_page(material)
    apart = replace(noise, rerun=replace(noise.rerun, variance=0.0004)) if noise.rerun else noise
    noisy = replace(material, findings=replace(found, noise=apart))
    assert (
        "spreads by 0.02 bits per byte: a seed does not fix it; paired gains spread by"
        in describe_noise(noisy)
    )

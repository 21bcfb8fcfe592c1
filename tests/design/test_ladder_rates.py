"""Rates of a ladder that are swept at three sizes: planned, counted, fitted and used."""

from pathlib import Path
from typing import Any

import pytest
from trained_study import design_table, make_small_plan

from paribus.analyse import study_rows
from paribus.cli.run import run
from paribus.design import estimate_cost
from paribus.design.cells import ladder_cells, rate_grid, sweep_cells
from paribus.design.ladder_rates import (
    ladder_rates_record,
    read_rung_rates,
    size_plans,
)
from paribus.design.on.local import WorkerPool
from paribus.design.plan import Plan
from paribus.design.stage_tuning import SweepRunner, tune_ladder
from paribus.design.study_watcher import StudyWatcher
from paribus.errors import RecordError, SpecError
from paribus.record import Mark, Study
from paribus.record.file_names import LADDER_RATES_FILE
from paribus.record.study import existing_study
from paribus.report.ladder_rates import describe_rate_law, ladder_rate_heading, ladder_rate_lines
from paribus.report.markdown import markdown_report
from paribus.report.page import render_page
from paribus.report.report_data import gather_report_data
from paribus.workspace import Execution, Workspace

SIZES = [16, 32, 48]
CHANGES: dict[str, Any] = {
    "budget": "tokens_read",
    "tune": {"n_rates": 5, "share": 0.5},
    "ladder": {
        "sizes": SIZES,
        "tokens_per_parameter": [2, 8],
        "n_seeds": 2,
        "rate_power": -1,
        "rate_sizes": SIZES,
        "prediction": {"size": 64, "tokens": 50_000},
    },
}
ARMS: tuple[str, ...] = ("full", "reverse", "causal")
POWER = -0.4


@pytest.fixture(scope="module")
def plan(study_cache: Path) -> Plan:
    return make_small_plan(study_cache, CHANGES)


def planted_sweeps(plan: Plan) -> dict[int, dict[str, dict[str, Any]]]:
    """What sweeps would find if rates were an exact power of the size."""
    found: dict[int, dict[str, dict[str, Any]]] = {}
    for rung in plan.rungs:
        n_parameters = rung.arms[0].price.non_embedding_parameters
        if not rung.is_predicted:
            found[rung.size] = {arm: {"rate": n_parameters**POWER} for arm in ARMS}
    return found


def test_every_arm_is_swept_at_each_size_for_the_longest_common_duration(plan: Plan) -> None:
    sizes = size_plans(plan)
    assert [own.size for own in sizes] == SIZES
    for own, rung in zip(sizes, plan.rungs, strict=False):
        for arm in own.plan.arms:
            assert arm.n_steps == rung.n_steps(arm, rung.tokens[-1])
        cells = sweep_cells(own.plan, rate_grid(plan.design, own.plan.arms), size=own.size)
        assert len(cells) == 5 * 2 * 3  # rates, seeds, arms
        assert {(cell.purpose, cell.size) for cell in cells} == {("ladder_sweep", own.size)}
        assert {cell.n_steps for cell in cells} == {round(own.plan.arms[0].n_steps / 2)}
        assert {cell.arm for cell in cells} == set(ARMS)


def test_grids_are_centred_where_the_power_as_written_says(plan: Plan) -> None:
    written = plan.arms[0].run.last.training.optimizer.rate
    for own in size_plans(plan):
        grid = rate_grid(plan.design, own.plan.arms)
        assert grid[2] == pytest.approx(written * 16 / own.size)


def test_rates_of_all_sizes_follow_the_law_of_the_sweeps(plan: Plan, tmp_path: Path) -> None:
    study = Study(tmp_path, tmp_path)
    assert read_rung_rates(plan, study) is None
    study.write_ladder_rates(ladder_rates_record(plan, planted_sweeps(plan)))
    rates = read_rung_rates(plan, study)
    assert rates is not None
    assert list(rates) == [*SIZES, 64]
    for rung in plan.rungs:
        expected = rung.arms[0].price.non_embedding_parameters ** POWER
        assert rates[rung.size] == pytest.approx(dict.fromkeys(ARMS, expected), rel=0.005)
    base = dict.fromkeys(ARMS, 0.03)
    for is_predicted in (False, True):
        cells = ladder_cells(plan, base, rates, is_predicted=is_predicted)
        assert all(cell.rate == rates[cell.size or 0][cell.arm] for cell in cells)


def test_rates_of_other_arms_or_sizes_are_found_again(plan: Plan, tmp_path: Path) -> None:
    study, record = Study(tmp_path, tmp_path), ladder_rates_record(plan, planted_sweeps(plan))
    study.write_ladder_rates({**record, "rates": {"16": record["rates"]["16"]}})
    assert read_rung_rates(plan, study) is None
    study.write_ladder_rates({**record, "rates": ["none"]})
    with pytest.raises(RecordError, match=r"ladder-rates\.json holds no rates by size and arm"):
        read_rung_rates(plan, study)


def test_rates_of_a_plan_that_swept_other_sizes_are_removed(
    plan: Plan, study_cache: Path, tmp_path: Path
) -> None:
    ladder = {key: value for key, value in CHANGES["ladder"].items() if key != "rate_sizes"}
    without = make_small_plan(study_cache, {**CHANGES, "ladder": ladder})
    study = Study(tmp_path, tmp_path)
    study.write_ladder_rates(ladder_rates_record(plan, planted_sweeps(plan)))
    pool = WorkerPool(Execution(Workspace(tmp_path, cache=study_cache, device="cpu")))
    rates, result = tune_ladder(without, study, SweepRunner(pool, StudyWatcher(), 0.0))
    assert (rates, result.failures) == (None, {})
    assert study.read_ladder_rates() is None


def test_sweeps_are_counted(plan: Plan, study_cache: Path) -> None:
    ladder = {key: value for key, value in CHANGES["ladder"].items() if key != "rate_sizes"}
    without = make_small_plan(study_cache, {**CHANGES, "ladder": ladder})
    workspace = Workspace(device="cpu")
    cost, less = estimate_cost(plan, workspace), estimate_cost(without, workspace)
    n_swept = 3 * 3 * (5 + 3) * 2  # sizes, arms, rates, seeds
    assert cost.n_sweep_runs - less.n_sweep_runs == cost.n_runs - less.n_runs == n_swept
    assert cost.n_ladder_runs == less.n_ladder_runs
    flops = 0.0
    for own in size_plans(plan):
        flops += 16 * 0.5 * sum(arm.total("training_flops") for arm in own.plan.arms)
    assert cost.flops - less.flops == pytest.approx(flops)
    assert cost.n_bytes > less.n_bytes


def test_the_rule_of_rates_is_in_the_control_table(plan: Plan, study_cache: Path) -> None:
    lines = {line.path: line for line in plan.control_lines}
    own = lines["ladder.rate"]
    assert own.mark == Mark.TUNED
    assert set(own.values) == set(ARMS)
    assert own.values["full"] == "by sweeps"
    assert own.note.startswith("swept at d_model 16, 32, 48; a level for each arm")
    assert lines["ladder.sizes"].values["causal"] == "16, 32, 48"
    ladder = {key: value for key, value in CHANGES["ladder"].items() if key != "rate_sizes"}
    given = make_small_plan(study_cache, {**CHANGES, "ladder": ladder})
    (line,) = [line for line in given.control_lines if line.path == "ladder.rate"]
    assert (line.mark, line.values["full"]) == (Mark.EQUAL, "× (d_model / base)^-1")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ladder.rate_sizes": []}, "ladder.rate_sizes is an empty list; give at least one"),
        ({"ladder.rate_sizes": [16, 32]}, "use 3 or more of ladder.sizes"),
        ({"ladder.rate_sizes": [16, 32, 40]}, r"ladder.rate_sizes is \[16, 32, 40\]; use 3"),
        ({"ladder.rate_sizes": [48, 32, 16]}, "write them in ascending order, each once"),
        ({"tune": False}, "tune is false, so there is no sweep"),
        ({"base.architecture.init": "mup"}, "one rate serves all widths"),
    ],
)
def test_rates_that_cannot_be_swept_are_refused(
    changes: dict[str, Any], message: str, study_cache: Path
) -> None:
    with pytest.raises(SpecError, match=message):
        make_small_plan(study_cache, {**CHANGES, **changes})


@pytest.mark.slow
def test_a_ladder_is_swept_and_climbed(study_cache: Path, tmp_path: Path) -> None:
    changes = {
        **CHANGES,
        "arms.reverse": None,
        "base.training.n_steps": 60,
        "base.training.optimizer.rate": 0.02,
        "tune": {"n_rates": 5, "share": 1.0},
        "ladder": {**CHANGES["ladder"], "sizes": [16, 24, 32], "rate_sizes": [16, 24, 32]},
        "ladder.tokens_per_parameter": [2, 8],
        "ladder.rate_power": -0.5,
        "ladder.prediction": {"size": 40, "tokens": 20_000},
    }
    execution = Execution(Workspace(tmp_path, cache=study_cache, device="cpu"))
    run(design_table(changes), name="swept", execution=execution)
    study = existing_study(tmp_path, "swept")
    record = study.read_ladder_rates()
    assert record is not None
    assert list(record["sweeps"]) == ["16", "24", "32"]
    rows = study_rows(study)
    for row in rows:
        if row["purpose"] in ("ladder", "predicted"):
            assert row["rate"] == record["rates"][str(row["size"])][row["arm"]]
    swept = [row for row in rows if row["purpose"] == "ladder_sweep"]
    assert {row["size"] for row in swept} == {16, 24, 32}
    report = gather_report_data(study)
    assert ladder_rate_heading(report)[1:] == tuple(f"d_model {n}" for n in (16, 24, 32, 40))
    assert [line[0] for line in ladder_rate_lines(report)] == ["full", "causal"]
    assert "95 % interval" in describe_rate_law(report)
    for shown in (markdown_report(report), render_page(report)):
        assert "Rates on the ladder" in shown
        assert "Gains at every size" in shown
    before = (study.folder / LADDER_RATES_FILE).read_bytes()
    run(design_table(changes), name="swept", execution=execution)
    assert (study.folder / LADDER_RATES_FILE).read_bytes() == before

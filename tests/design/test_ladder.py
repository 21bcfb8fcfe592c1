"""A ladder: every arm at every size and duration, matched and measured as at its own size."""

from pathlib import Path
from typing import Any

import pytest
from trained_study import make_small_plan, train_study

from paribus.analyse import study_rows
from paribus.design import described, estimate_cost
from paribus.design.cells import ladder_cells, reported_cells
from paribus.design.plan import Plan
from paribus.design.plan_table import plan_record
from paribus.errors import SpecError
from paribus.spec import resolve
from paribus.workspace import Workspace

SIZES = [16, 32, 48]
LADDER: dict[str, Any] = {
    "budget": "tokens_read",
    "ladder": {"sizes": SIZES, "tokens_per_parameter": [2, 8], "n_seeds": 2},
}
RATES = dict.fromkeys(("full", "reverse", "causal"), 0.03)


@pytest.fixture(scope="module")
def plan(study_cache: Path) -> Plan:
    return make_small_plan(study_cache, LADDER)


def changed(**fields: Any) -> dict[str, Any]:
    """The ladder with other fields."""
    return {**LADDER, "ladder": {**LADDER["ladder"], **fields}}


def test_every_arm_has_every_size_with_more_heads_of_one_width(plan: Plan) -> None:
    assert [rung.size for rung in plan.rungs] == SIZES
    own = resolve(plan.arms[0].run.last_architecture)
    d_head = own.d_model // own.stack.layers[0].attention.n_heads
    for rung in plan.rungs:
        assert [arm.name for arm in rung.arms] == [arm.name for arm in plan.arms]
        for arm in rung.arms:
            architecture = resolve(arm.run.last_architecture)
            assert architecture.d_model == rung.size
            assert architecture.stack.layers[0].attention.n_heads == rung.size // d_head
            assert len(architecture.stack.layers) == len(own.stack.layers)


def test_durations_are_tokens_for_each_parameter_of_the_baseline(plan: Plan) -> None:
    for rung in plan.rungs:
        n_parameters = rung.arms[0].price.non_embedding_parameters
        assert rung.tokens == (2 * n_parameters, 8 * n_parameters)


def test_all_arms_of_a_rung_read_the_same_tokens(plan: Plan) -> None:
    for rung in plan.rungs:
        for n_tokens in rung.tokens:
            for arm in rung.arms:
                read = rung.n_steps(arm, n_tokens) * arm.step_cost.tokens_read
                assert read == pytest.approx(n_tokens, abs=arm.step_cost.tokens_read / 2)


def test_points_that_read_too_much_are_left_out(study_cache: Path, plan: Plan) -> None:
    most = plan.rungs[-1].tokens[-1]
    larger = make_small_plan(study_cache, changed(sizes=[*SIZES, 64], max_tokens=most))
    assert [len(rung.tokens) for rung in larger.rungs] == [2, 2, 2, 1]


def test_cells_are_whole_schedules_at_the_rate_of_their_size(study_cache: Path) -> None:
    plan = make_small_plan(study_cache, changed(rate_power=-1))
    cells = ladder_cells(plan, RATES)
    assert len(cells) == len(SIZES) * 2 * 2 * 3  # durations, seeds, arms
    base = resolve(plan.arms[0].run.last_architecture).d_model
    for cell in cells:
        assert cell.size is not None
        assert cell.rate == pytest.approx(0.03 * base / cell.size)
        assert cell.measures == (plan.design.primary.measure,)
    assert {cell.seed for cell in cells} == set(plan.seeds[:2])
    assert len({str(cell) for cell in cells}) == len(cells)
    by_name = {cell.name for cell in cells}
    assert len(by_name) == len(cells)
    assert not by_name & {cell.name for cell in reported_cells(plan, RATES)}


def test_depth_may_grow_with_width(study_cache: Path) -> None:
    plan = make_small_plan(study_cache, changed(depth="proportional"))
    own = resolve(plan.arms[0].run.last_architecture)
    depths = [len(resolve(rung.arms[0].run.last_architecture).stack.layers) for rung in plan.rungs]
    expected = [max(1, round(len(own.stack.layers) * size / own.d_model)) for size in SIZES]
    assert depths == expected


def test_the_run_that_is_predicted_is_no_point_of_the_law(study_cache: Path) -> None:
    plan = make_small_plan(study_cache, changed(prediction={"size": 64, "tokens": 50_000}))
    assert all(cell.size != 64 for cell in ladder_cells(plan, RATES))
    predicted = ladder_cells(plan, RATES, is_predicted=True)
    assert {(cell.size, cell.purpose) for cell in predicted} == {(64, "predicted")}
    assert len(predicted) == 2 * 3


def test_the_ladder_is_counted(plan: Plan, study_cache: Path) -> None:
    without = make_small_plan(study_cache, {"budget": "tokens_read"})
    workspace = Workspace(device="cpu")
    cost, less = estimate_cost(plan, workspace), estimate_cost(without, workspace)
    assert cost.n_ladder_runs == len(ladder_cells(plan, RATES))
    assert cost.n_runs - less.n_runs == cost.n_ladder_runs
    own = sum(cell.flops for cell in ladder_cells(plan, RATES))
    assert cost.flops - less.flops == pytest.approx(own)
    assert cost.n_bytes > less.n_bytes


def test_a_plan_without_a_ladder_is_written_as_before(study_cache: Path, plan: Plan) -> None:
    table = described(make_small_plan(study_cache, {}))
    assert "rungs" not in table
    assert "ladder" not in table["design"]
    record = plan_record(plan)
    assert [rung.size for rung in record.rungs] == SIZES
    assert (
        record.arm_at("causal", 32).price.parameters < record.arm_at("causal", 48).price.parameters
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (changed(sizes=[32]), "1 sizes and 4 times"),
        (changed(tokens_per_parameter=[20]), "a law needs 3 sizes with durations a factor 4 apart"),
        (changed(tokens_per_parameter=[5, 10]), "2 times as many tokens"),
        (changed(sizes=[32, 16, 48]), r"ladder.sizes is \[32, 16, 48\]; let them ascend"),
        (changed(sizes=[16, 32, 50]), "ladder at d_model 50: 50 is no multiple of"),
        (changed(n_seeds=9), "ladder.n_seeds is 9, and the design has 3"),
        (changed(max_tokens=100_000), "a law needs 3; raise it, or add smaller sizes"),
        (changed(tokens_per_parameter=[0.001, 8]), "use at least 20, with fewer sequences a step"),
        (changed(prediction={"size": 48, "tokens": 9000}), "not above the largest size 48"),
        (
            changed(depth="proportional") | {"base.architecture.init": "mup"},
            "ladder at d_model 32: n_layers grows from 1 to 2",
        ),
        (
            changed(rate_power=-1) | {"base.architecture.init": "mup"},
            "one rate serves all widths",
        ),
        (LADDER | {"budget": "training_flops"}, "budget is 'training_flops'"),
        (LADDER | {"arms.causal.architecture.d_model": 64}, "the ladder moves it in all arms"),
    ],
)
def test_a_ladder_that_no_law_can_be_fitted_to_is_refused(
    changes: dict[str, Any], message: str, study_cache: Path
) -> None:
    with pytest.raises(SpecError, match=message):
        make_small_plan(study_cache, changes)


@pytest.mark.slow
def test_a_ladder_is_run_and_its_rows_have_sizes(study_cache: Path, tmp_path: Path) -> None:
    changes = changed(sizes=[8, 16, 24], tokens_per_parameter=[6, 24])
    study = train_study(tmp_path, study_cache, changes)
    rows = [row for row in study_rows(study) if row["purpose"] == "ladder"]
    assert len(rows) == 3 * 2 * 2 * 3
    for row in rows:
        assert row["outcome"] in ("finished", "undertrained")
        assert row["tokens_read"] == pytest.approx(row["planned_tokens"], rel=0.05)
        assert row["parameters"] > row["non_embedding_parameters"] > 0

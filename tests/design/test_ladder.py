"""A ladder: every arm at every size and duration, matched and measured as at its own size."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from trained_study import make_small_plan

from paribus.analyse import study_rows
from paribus.cli.run import run
from paribus.design import described, estimate_cost, find_design, make_plan
from paribus.design.cells import ladder_cells, reported_cells
from paribus.design.plan import Plan
from paribus.design.plan_table import plan_record
from paribus.design.stage_tuning import rates_without_sweep
from paribus.errors import SpecError
from paribus.record import Mark
from paribus.record.study import existing_study
from paribus.report.laws import law_section
from paribus.report.markdown import markdown_report
from paribus.report.page import render_page, study_plots
from paribus.report.report_data import gather_report_data
from paribus.report.size_trends import TRENDS_TITLE
from paribus.spec import resolve
from paribus.spec.design_reading import load_design
from paribus.workspace import Execution, Workspace

SIZES = [16, 32, 48]
LADDER: dict[str, Any] = {
    "budget": "tokens_read",
    "ladder": {"sizes": SIZES, "tokens_per_parameter": [2, 8], "n_seeds": 2},
}
RATES: dict[str, float] = {"full": 0.03, "reverse": 0.03, "causal": 0.03}


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


def test_heads_may_have_a_width_of_their_own(study_cache: Path) -> None:
    plan = make_small_plan(study_cache, changed(d_head=4))
    for rung in plan.rungs:
        attention = resolve(rung.arms[0].run.last_architecture).stack.layers[0].attention
        assert (attention.n_heads, attention.d_head) == (rung.size // 4, 4)


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


def test_runs_of_the_verdict_on_the_ladder_are_counted_once(study_cache: Path) -> None:
    name, design = find_design("ladder", "smoke")
    execution = Execution(Workspace(cache=study_cache, device="cpu"))
    plan = make_plan(design, name, "smoke", execution, show_progress=False)
    rates = rates_without_sweep(plan)
    reported = {cell.name: cell for cell in reported_cells(plan, rates)}
    climbed = [*ladder_cells(plan, rates), *ladder_cells(plan, rates, is_predicted=True)]
    cells = reported | {cell.name: cell for cell in climbed}
    cost = estimate_cost(plan, Workspace("nowhere", device="cpu"))
    assert len(cells) < len(reported) + len(climbed)
    assert cost.n_runs == len(cells)
    assert cost.n_ladder_runs == len(climbed)
    assert cost.flops == pytest.approx(sum(cell.flops for cell in cells.values()))


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
        (changed(sizes=[32]), r"ladder.sizes is \[32\]; a law needs 3 sizes or more"),
        (
            changed(sizes="32,48,64"),
            r"ladder.sizes is '32,48,64'; use a list of whole numbers, such as \[64, 96, 128\]",
        ),
        (changed(sizes={"from": 32}), r"ladder.sizes is .*; use a list of whole numbers, such as"),
        (changed(rate_sizes="16"), "ladder.rate_sizes is '16'; use a list of whole numbers"),
        (
            changed(tokens_per_parameter="5, 20"),
            r"tokens_per_parameter is '5, 20'; use a list of numbers, such as \[5, 20, 80\]",
        ),
        (changed(tokens_per_parameter=[20]), r"is \[20\]; a law needs .* such as \[20, 80\]"),
        (changed(tokens_per_parameter=[5, 10]), r"is \[5, 10\]; .* such as \[5, 20\]"),
        (
            changed(sizes=[32, 16, 48]),
            r"ladder.sizes is \[32, 16, 48\]; write them in ascending order",
        ),
        (changed(sizes=[16, 32, 50]), "ladder at d_model 50: 50 is no multiple of"),
        (changed(n_seeds=9), "ladder.n_seeds is 9, and the design has 3; lower ladder.n_seeds"),
        (changed(max_tokens=100_000), "at 1 of 3 sizes, and a law needs 3; raise it, or add"),
        (changed(max_tokens=10), "apart are left at 0 of 3 sizes"),
        (
            changed(sizes=[*SIZES, 256], max_tokens=400_000),
            "ladder.max_tokens is 400000, which leaves no duration at d_model 256; raise it",
        ),
        (
            changed(tokens_per_parameter=[0.001, 8]),
            r"begins with 0.001, so that '\w+' at d_model 48 would have fewer than 20 steps \(here",
        ),
        (changed(tokens_per_parameter=[1e-9, 8]), "begins with 1e-09, so that"),
        (changed(tokens_per_parameter=[-5, 8]), "tokens_per_parameter.0 is -5"),
        (changed(prediction={"size": 48, "tokens": 9000}), "size 48; predict a larger one"),
        (
            changed(prediction={"size": 64, "tokens": 10}),
            "ladder.prediction.tokens is 10, so that .* at d_model 64 would have fewer than 20",
        ),
        (LADDER | {"base.begin": "gpt2-small"}, "begins from another run, .* leave out ladder"),
        (
            changed(depth="proportional") | {"base.architecture.init": "mup"},
            "ladder.depth is 'proportional' with init 'mup', which transfers rates over width",
        ),
        (
            changed(d_head=4) | {"base.architecture.init": "mup"},
            "^ladder.d_head is 4, and each arm has heads of 8 dimensions with init 'mup', .* use 8",
        ),
        (
            changed(d_head=4)
            | {
                "factor": ["architecture.mask", "architecture.init"],
                "compound": {"causal": "both at once"},
                "arms.causal.architecture": {"mask": "causal", "init": "mup"},
            },
            "^ladder.d_head is 4, and arms.causal has heads of 8 dimensions with init 'mup'",
        ),
        (
            changed(rate_power=-1) | {"base.architecture.init": "mup"},
            "one rate serves all widths",
        ),
        (
            changed(rate_power=-1)
            | {
                "factor": ["architecture.mask", "architecture.init"],
                "compound": {"causal": "both at once"},
                "arms.causal.architecture": {"mask": "causal", "init": "mup"},
            },
            "one rate serves all widths",
        ),
        (
            LADDER | {"primary": {"measure": {"kind": "task", "task": "recall-choices"}}},
            "the law of a ladder is one of a loss",
        ),
        (LADDER | {"budget": "training_flops"}, "budget is 'training_flops'"),
        (
            {"ladder": LADDER["ladder"]},
            "^budget is missing, but all arms .*; use budget = 'tokens_re",
        ),
        (LADDER | {"arms.causal.architecture.d_model": 64}, "the ladder moves it in all arms"),
    ],
)
def test_a_ladder_that_no_law_can_be_fitted_to_is_refused(
    changes: dict[str, Any], message: str, study_cache: Path
) -> None:
    with pytest.raises(SpecError, match=message):
        make_small_plan(study_cache, changes)


def test_a_match_that_fails_at_one_size_names_the_size_and_the_arm(study_cache: Path) -> None:
    # an output head of its own outweighs the feed-forward layers of a narrow model
    arm = {
        "architecture": {"mask": "causal", "head": {"tied": False}},
        "match": {"by": "parameters", "moves": ["d_ff"]},
    }
    design = {
        "factor": ["architecture.mask", "architecture.head"],
        "compound": {"causal": "both at once"},
        "base.architecture.d_model": 64,
        "base.architecture.attention.n_heads": 8,
        "arms.causal": arm,
    }
    assert len(make_small_plan(study_cache, changed(sizes=[48, 56, 64]) | design).rungs) == 3
    with pytest.raises(SpecError) as refused:
        make_small_plan(study_cache, changed(sizes=[16, 48, 64]) | design)
    (problem,) = refused.value.problems
    assert problem.startswith("ladder at d_model 16: arms.causal: match.moves is d_ff, but of the ")


def test_the_control_table_says_how_sizes_grow(study_cache: Path) -> None:
    small = make_small_plan(study_cache, LADDER)
    grown = make_small_plan(study_cache, changed(depth="proportional", d_head=4))
    assert control_values(small, "ladder.depth") == {"fixed"}
    assert control_values(small, "ladder.d_head") == {"as in the base"}
    assert control_values(grown, "ladder.depth") == {"proportional"}
    assert control_values(grown, "ladder.d_head") == {"4"}


def control_values(plan: Plan, path: str) -> set[str]:
    """What a line of the control table says of all arms, which it says are equal in it."""
    (line,) = [line for line in plan.control_lines if line.path == path]
    assert line.mark == Mark.EQUAL
    assert list(line.values) == [arm.name for arm in plan.arms]
    return set(line.values.values())


def documented_ladders() -> list[dict[str, Any]]:
    """The tables of docs/scaling.md that have a ladder: a whole design, then one for any."""
    text = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text("utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    return [tomllib.loads(block) for block in blocks if "[ladder]" in block]


def test_the_shortest_design_of_the_documentation_has_the_sizes_it_says(study_cache: Path) -> None:
    whole, _ = documented_ladders()
    assert load_design(whole).ladder is not None
    # the same sizes on a text that is invented in a moment
    whole["base"]["corpus"] = CLIMBING["base"]["corpus"]
    plan = make_plan(
        load_design(whole),
        "grow",
        None,
        Execution(Workspace(cache=study_cache, device="cpu")),
        show_progress=False,
    )
    cost = estimate_cost(plan, Workspace(device="cpu"))
    assert (cost.n_runs, cost.n_ladder_runs) == (48, 42)  # as the page says


def test_the_ladder_of_the_documentation_is_sound() -> None:
    _, table = documented_ladders()
    design = load_design({**CLIMBING, **table})
    assert design.ladder is not None
    assert design.ladder.prediction is not None
    assert design.ladder.sizes == (64, 96, 128, 192, 256)


QUESTIONS: dict[str, Any] = {
    "kind": "choices",
    "language": {"kind": "recall", "n_documents": 300, "min_length": 4, "max_length": 6},
    "n_items": 11,
}
CLIMBING: dict[str, Any] = {
    "question": "Do a causal model and a prefix-LM have the same law?",
    "factor": "architecture.mask",
    "baseline": "causal",
    "budget": "tokens_read",
    "seeds": 3,
    "tune": False,
    "primary": {"measure": {"kind": "halves", "n_items": 6, "max_bytes": 48}},
    "base": {
        "corpus": {"sources": [{"kind": "translation", "n_documents": 2000, "form": "text"}]},
        "architecture": {
            "preset": "gpt2",
            "positions": "rotary",
            "n_layers": 2,
            "d_model": 16,
            "attention": {"n_heads": 2},
            "init": "fan_in",
        },
        "objective": "prefix",
        "training": {
            "n_steps": 60,
            "n_sequences": 2,
            "length": 64,
            "warmup": 6,
            "optimizer": {"rate": 1e-2},
            "valid_every": 20,
            "valid_batches": 1,
        },
    },
    "ladder": {
        "sizes": [8, 16, 24],
        "tokens_per_parameter": [8, 32],
        "max_tokens": 500_000,
        "rate_power": -0.5,
        "n_seeds": 2,
        "prediction": {"size": 32, "tokens": 40_000},
        "others": True,
    },
    "others": [
        {"kind": "task", "task": QUESTIONS},
        {"kind": "task", "task": {**QUESTIONS, "measure": "log loss"}},
    ],
    "arms": {"causal": {}, "prefix": {"architecture": {"mask": "prefix"}}},
}


@pytest.mark.slow
def test_a_ladder_is_climbed_predicted_and_drawn(study_cache: Path, tmp_path: Path) -> None:
    execution = Execution(Workspace(tmp_path, cache=study_cache, device="cpu"), n_jobs=2)
    run(CLIMBING, name="climb", execution=execution)
    study = existing_study(tmp_path, "climb")
    rows = [row for row in study_rows(study) if row["purpose"] in ("ladder", "predicted")]
    assert len(rows) == 3 * 2 * 2 * 2 + 2 * 2
    for row in rows:
        assert row["outcome"] == "finished"
        assert row["tokens_read"] == pytest.approx(row["planned_tokens"], rel=0.05)
        assert row["parameters"] > row["non_embedding_parameters"] > 0
        assert 0 <= row["recall.test"] <= 100
        assert row["recall: log loss.test"] > 0
    report = gather_report_data(study)
    assert [one["arm"] for one in report.predictions] == ["causal", "prefix"]
    section = law_section(report)
    assert section is not None
    assert [line[0] for line in section["laws"]] == ["causal", "prefix"]
    assert all(line[-1] != "not run yet" for line in section["predictions"])
    plots = study_plots(report)
    assert {"law-compute", "law-parameters", "law-multiplier"} <= set(plots)
    assert len(plots["law-compute"].numbers) == len(rows)
    assert len(plots["trend-1-parameters"].numbers) == len(rows)
    text = markdown_report(report)
    assert "## Laws" in text
    assert f"### {TRENDS_TITLE}" in text
    assert "3 sizes are too few to say whether a yardstick changes smoothly" in text
    assert TRENDS_TITLE in render_page(report)

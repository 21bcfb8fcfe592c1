"""Studies of several stages: a replicate is a whole chain, arms share what they have in common,
and every stage is tuned and priced.
"""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from shared_studies import CHAIN_TABLE

from paribus.analyse import study_findings, study_rows
from paribus.cli.run import run
from paribus.design import Plan, estimate_cost, find_design, make_plan
from paribus.design.cells import reported_cells
from paribus.design.stage_tuning import known_tuning, rates_without_sweep
from paribus.errors import ConfoundError, SpecError
from paribus.record import Mark, Study, existing_study, read_stages, run_name
from paribus.report.hyperparameters import hyperparameters
from paribus.report.methods import methods
from paribus.report.report_data import gather_report_data
from paribus.workspace import Execution, Workspace

N_STEPS = 8
TABLE: dict[str, Any] = {
    **CHAIN_TABLE,
    "base": {
        **CHAIN_TABLE["base"],
        "training": {
            "n_steps": N_STEPS,
            "n_sequences": 8,
            "length": 32,
            "row_every": N_STEPS,
            "valid_every": N_STEPS,
            "valid_batches": 1,
            "checkpoint_every": N_STEPS,
            "optimizer": {"rate": 0.05},
        },
    },
}


def plan_of(
    cache: Path, changes: dict[str, Any] | None = None, table: dict[str, Any] = TABLE
) -> Plan:
    name, design = find_design(table, changes=changes)
    execution = Execution(Workspace(cache=cache, device="cpu"))
    return make_plan(design, name, None, execution, show_progress=False)


def run_quietly(
    home: Path,
    cache: Path,
    changes: dict[str, Any] | None = None,
    table: dict[str, Any] = TABLE,
) -> Study:
    workspace = Workspace(home, cache, "cpu")
    quiet = contextlib.redirect_stdout(io.StringIO())
    with quiet, contextlib.redirect_stderr(io.StringIO()):
        run(table, name="chain", changes=changes, execution=Execution(workspace))
    return existing_study(home, "chain")


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chains")


@pytest.fixture(scope="session")
def study(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Study:
    return run_quietly(tmp_path_factory.mktemp("study"), cache)


def run_folders(study: Study) -> list[Path]:
    return [path.parent for path in study.root.glob("*/spec.json")]


def test_arms_that_share_a_first_stage_run_it_once(study):
    n_stages = sorted(len(read_stages(folder)) for folder in run_folders(study))
    assert n_stages == [1] * 3 + [2] * 6  # a seed each, then two arms under each


def test_a_seed_is_set_in_every_stage(study):
    for row in study_rows(study):
        stages = read_stages(study.root / row["run"])
        assert {stage["training"]["seed"] for stage in stages} == {row["seed"]}
        assert len({stage["training"]["data_seed"] for stage in stages}) == 1


def test_a_study_of_chains_gets_a_verdict_and_is_whole(study):
    findings = study_findings(study)  # which refuses a study that is not what was written
    (finding,) = findings.arms
    assert finding.name == "full"
    assert finding.judgement.comparison is not None
    assert all(row["outcome"] == "finished" for row in study_rows(study))


def test_totals_and_prices_are_those_of_all_stages(cache):
    plan = plan_of(cache)
    one_stage = plan.arms[0].first_stages(1)
    assert plan.arms[0].total("tokens_read") == 2 * one_stage.total("tokens_read")
    assert sum(plan.arms[0].epochs) == pytest.approx(2 * sum(one_stage.epochs))
    flops = plan.arms[0].total("training_flops")
    lines = {line.path: line for line in plan.control_lines}
    assert lines["training_flops in all"].values["causal"] == flops
    cost = estimate_cost(plan, Workspace("nowhere", cache, "cpu"))
    # the first stage is shared: three times that, and two last stages under each seed
    assert cost.n_runs == 3 * (1 + 2)
    last = sum(arm.step_cost.training_flops * arm.n_steps for arm in plan.arms)
    assert cost.flops == pytest.approx(3 * (last + one_stage.total("training_flops")))


def test_the_epochs_of_every_stage_are_in_the_plan(cache):
    other = {"kind": "copy", "n_documents": 90, "form": "text"}
    plan = plan_of(cache, {"base.stages.0.corpus.sources": [other]})
    (first, second), arm = plan.arms[0].stage_epochs, plan.arms[0]
    assert arm.epochs == (*first, *second)
    line = next(line for line in plan.control_lines if line.path == "epochs")
    texts = [", ".join(f"{one:.3g}" for one in own) for own in (first, second)]
    assert line.values["causal"] == "; ".join(texts)
    one_text = next(line for line in plan_of(cache).control_lines if line.path == "epochs")
    assert len(one_text.values["causal"].split("; ")) == 2


def test_a_report_of_chains_names_the_stages_and_what_they_change(study):
    report = gather_report_data(study)
    assert "A run has 2 stages, pretrain and adapt." in methods(report)
    lines = {name: cells for name, *cells in hyperparameters(report)}
    assert lines["mask"] == ["causal", "full"]
    assert lines["stages.0: objective"] == ["causal", "causal"]
    assert lines["objective"][0].startswith("masked")
    total = report.plan.arms["full"].total("training_flops")
    last = report.plan.arms["full"].work.training_flops * N_STEPS
    assert total == pytest.approx(
        last + report.plan.arms["full"].earlier_work[0].training_flops * N_STEPS
    )


def test_a_budget_makes_the_totals_over_all_stages_equal(cache):
    longer = {
        "arms.full.stages.0.training.n_steps": 12,
        "allow": {"stages.0.training.n_steps": "to test it"},
    }
    plan = plan_of(cache, {**longer, "budget": "tokens_read"})
    totals = {arm.name: round(arm.total("tokens_read")) for arm in plan.arms}
    assert totals["full"] == totals["causal"]
    assert [stage.training.n_steps for stage in plan.arms[1].run.stages] == [12, 4]


def test_a_stage_more_is_a_confound(cache):
    with pytest.raises(ConfoundError, match=r"stages\.2 is"):
        plan_of(cache, {"arms.full.stages.2": {"kind": "adapt", "objective": "masked"}})


def test_seeds_cannot_be_written_in_any_stage():
    with pytest.raises(SpecError, match=r"base\.stages\.1\.training\.seed is set by seeds"):
        find_design(TABLE, changes={"base.stages.1.training.seed": 5})


def test_an_objective_that_a_later_mask_does_not_permit_is_refused(cache):
    with pytest.raises(SpecError, match="causal"):
        plan_of(cache, {"base.stages.1.objective": "causal"})


@pytest.fixture(scope="session")
def tuned(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Study:
    return run_quietly(tmp_path_factory.mktemp("tuned"), cache, {"tune": True})


def test_an_earlier_stage_is_tuned_on_its_own_held_out_loss(tuned):
    (stage_rates,) = json.loads((tuned.folder / "stage-rates.json").read_text())
    assert set(stage_rates) == {"causal", "full"}
    # one run for both arms, as their first stage is the same
    assert stage_rates["causal"]["rate"] == stage_rates["full"]["rate"]
    sweep = [row for row in study_rows(tuned) if row["purpose"] == "stage_sweep"]
    assert {len(read_stages(tuned.root / row["run"])) for row in sweep} == {1}
    last = json.loads((tuned.root / sweep[0]["run"] / "rows.jsonl").read_text().splitlines()[-1])
    points = [tuple(point) for point in stage_rates["causal"]["points"]]
    assert (sweep[0]["rate"], last["valid_nats"]) in points


def test_the_last_stage_is_swept_from_a_parent_of_full_length_at_its_best_rate(tuned):
    (stage_rates,) = json.loads((tuned.folder / "stage-rates.json").read_text())
    for row in study_rows(tuned):
        if row["purpose"] not in ("sweep", "reported"):
            continue
        first, last = read_stages(tuned.root / row["run"])
        assert first["training"]["optimizer"]["rate"] == stage_rates[row["arm"]]["rate"]
        assert first["training"]["n_steps"] == N_STEPS
        assert first["training"]["seed"] == last["training"]["seed"] == row["seed"]


def test_a_tuned_study_is_found_again_as_it_was(cache, tuned):
    plan = plan_of(cache, {"tune": True})
    tuning = known_tuning(plan, tuned)
    assert tuning is not None
    assert tuning.rates != rates_without_sweep(plan)
    cells = reported_cells(tuning.plan, tuning.rates)
    reported = {row["run"] for row in study_rows(tuned) if row["purpose"] == "reported"}
    assert {cell.name for cell in cells} == reported
    before = {path.name for path in run_folders(tuned)}
    run_quietly(tuned.root, cache, {"tune": True})
    assert {path.name for path in run_folders(tuned)} == before


# A factor may be a whole stage: masked prediction, or some more of it.
WHOLE_STAGE: dict[str, Any] = {
    **TABLE,
    "baseline": "before",
    "factor": "stages.1",
    "allow": {"tokens_read": "what the stage adds is asked"},
    "base": {**TABLE["base"], "stages": [{"objective": "masked"}]},
    "arms": {"before": {}, "after": {"stages": {"1": {"kind": "adapt", "objective": "masked"}}}},
}


def test_a_whole_stage_may_be_the_factor(cache):
    plan = plan_of(cache, table=WHOLE_STAGE)
    marks = {line.path: line.mark for line in plan.control_lines}
    assert marks["stages.0.training.n_steps"] == Mark.EQUAL
    assert {mark for path, mark in marks.items() if path.startswith("stages.1")} <= {
        Mark.FACTOR,
        Mark.FOLLOWS,
    }
    cost = estimate_cost(plan, Workspace("nowhere", cache, "cpu"))
    assert cost.n_runs == 3 * 2  # the first arm is the other's ancestor


def test_a_budget_is_one_of_all_stages_of_arms_that_are_judged_together(cache):
    with pytest.raises(SpecError, match="the stages of after before its last come to"):
        plan_of(cache, {"budget": "tokens_read"}, WHOLE_STAGE)
    plan = plan_of(cache, {"budget": "tokens_read", "baseline": "after"}, WHOLE_STAGE)
    assert {arm.name: arm.n_steps for arm in plan.arms} == {
        "after": N_STEPS,
        "before": 2 * N_STEPS,
    }


def test_an_arm_that_ends_earlier_is_tuned_in_the_way_of_the_others(cache, tmp_path):
    study = run_quietly(tmp_path, cache, {"tune": True}, WHOLE_STAGE)
    (stage_rates,) = json.loads((study.folder / "stage-rates.json").read_text())
    rates = json.loads((study.folder / "rates.json").read_text())
    assert stage_rates["before"]["rate"] == stage_rates["after"]["rate"] == rates["before"]["rate"]
    reported: dict[str, set[str]] = {}
    for row in study_rows(study):
        if row["purpose"] == "reported":
            reported.setdefault(row["arm"], set()).add(row["run"])
    parents = {run_name(read_stages(study.root / run)[:-1]) for run in reported["after"]}
    assert parents == reported["before"]
    (finding,) = study_findings(study).arms
    assert [pair.seed for pair in finding.judgement.seeds] == [1, 2, 3]

"""What rates are not chosen by: the scores of a task that must be unseen, and the harm of a control
that is taught wrong targets.
"""

from math import log2
from pathlib import Path
from typing import Any

import pytest
from labelled_texts import ARCHITECTURE, TRAINING

from paribus.design import make_plan
from paribus.design.cells import rate_grid, sweep_cells
from paribus.design.plan import Plan, tuning_description
from paribus.design.study_cost import N_EXTRA_RATES, estimate_cost
from paribus.design.tune import ArmSweep, rate_optima, rates_record, untuned_record
from paribus.design.wrong_targets import wrongly_taught_arms
from paribus.spec.design import sweep_yardstick
from paribus.spec.design_reading import load_design
from paribus.workspace import Execution, Workspace

Table = dict[str, Any]
COPYING: Table = {"kind": "copy", "n_documents": 200, "min_length": 3, "max_length": 5}
REVERSING: Table = {"kind": "reverse", "n_documents": 200, "min_length": 3, "max_length": 5}
N_SEEDS, N_RATES = 2, 5
GRID = (0.25, 0.5, 1.0, 2.0, 4.0)


def planned(folder: Path, unseen: bool = True, shuffled: bool = True) -> Plan:
    """Tuned on copies, asked about reversals; the control learns shuffled targets, or has a
    window.
    """
    task = {"name": "asked", "kind": "choices", "language": REVERSING, "n_items": 6}
    table: Table = {
        "question": "Does tuning help with what it does not teach?",
        "base": {
            "architecture": {**ARCHITECTURE, "n_layers": 2},
            "training": TRAINING,
            "corpus": {"sources": [{**COPYING, "form": "text"}]},
            "stages": {
                "0": {},
                "1": {"kind": "tune", "objective": "seq2seq", "corpus": {"sources": [COPYING]}},
            },
        },
        "baseline": "causal",
        "control": "control",
        "factor": ["stages.1.architecture.mask", "stages.1.corpus.shuffled_targets"],
        "arms": {
            "causal": {},
            "prefix": {"stages": {"1": {"architecture": {"mask": "prefix"}}}},
            "control": {"stages": {"1": {"corpus": {"shuffled_targets": shuffled}}}},
        },
        "budget": "bytes_read",
        "seeds": 3,
        "tune": {"n_seeds": N_SEEDS, "n_rates": N_RATES, "share": 0.5, "last_share": 0.75},
        "primary": {"measure": {"kind": "task", "task": task, "unseen": unseen}, "margin": 5.0},
    }
    if not shuffled:
        window = {"architecture": {"mask": "causal & window(5)"}}
        table["arms"]["control"] = {"stages": {"1": window}}
        table["factor"] = "stages.1.architecture.mask"
    execution = Execution(Workspace(folder / "runs", device="cpu", cache=folder / "cache"))
    return make_plan(load_design(table), "study", None, execution, show_progress=False)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return planned(tmp_path_factory.mktemp("unseen"))


def test_a_task_that_must_be_unseen_is_not_asked_in_any_sweep(plan: Plan) -> None:
    assert sweep_yardstick(plan.design) is None
    cells = sweep_cells(plan, rate_grid(plan.design, plan.arms))
    assert {cell.measures for cell in cells} == {()}
    assert {cell.purpose for cell in cells} == {"sweep"}
    assert list(plan.items) == ["asked.test"]
    assert "on the held-out loss of its own objective" in (tuning_description(plan.design) or "")


def test_the_sweep_of_the_last_stage_may_be_of_another_length(plan: Plan) -> None:
    n_steps = plan.arms[0].n_steps
    assert {cell.n_steps for cell in sweep_cells(plan, [0.1])} == {n_steps * 3 // 4}
    earlier = sweep_cells(plan, [0.1], is_last=False)
    assert {cell.n_steps for cell in earlier} == {n_steps // 2}
    assert "over 50% of the steps, 75% in the last stage" in (tuning_description(plan.design) or "")


def test_a_control_that_is_taught_wrongly_is_not_swept(plan: Plan) -> None:
    assert wrongly_taught_arms(plan.design, plan.arms) == ("control",)
    more = {"control": (0.5,), "prefix": (0.25,)}
    cells = sweep_cells(plan, rate_grid(plan.design, plan.arms), more)
    assert {cell.arm for cell in cells} == {"causal", "prefix"}
    assert len(cells) == N_SEEDS * (2 * N_RATES + 1)
    notes = [line.note for line in plan.control_lines if line.path.endswith("optimizer.rate")]
    assert all("control takes the rate of causal" in note for note in notes)


def test_the_price_of_a_plan_has_no_sweep_of_it(plan: Plan) -> None:
    workspace = Workspace(Path("none"), device="cpu")
    n_swept = N_SEEDS * (N_RATES + N_EXTRA_RATES)
    assert estimate_cost(plan, workspace).n_sweep_runs == n_swept * (2 + 1)  # and the pretraining


def test_a_task_that_may_be_seen_is_asked_and_every_other_arm_is_swept(tmp_path: Path) -> None:
    plan = planned(tmp_path, unseen=False, shuffled=False)
    cells = sweep_cells(plan, rate_grid(plan.design, plan.arms))
    assert {cell.arm for cell in cells} == {"causal", "prefix", "control"}
    assert {cell.measures[0].split for cell in cells} == {"valid"}
    assert set(plan.items) == {"asked.test", "asked.valid"}


def test_the_record_says_what_a_sweep_was_scored_by_and_what_was_not_swept() -> None:
    points = [(rate, (log2(rate) ** 2)) for rate in GRID]
    sweeps = {"causal": ArmSweep([*points], n_steps=9, is_own_loss=True)}
    optima = rate_optima(sweeps, GRID)
    kept = rates_record(sweeps, GRID, optima, {"causal": 1.0})
    assert kept["causal"]["own_loss"] is True
    record = untuned_record("causal", kept["causal"])
    assert record["rate"] == 1.0
    assert record["points"] == record["grid"] == []
    assert record["own_loss"] is True
    assert record["optimum"]["remark"] == "taught wrongly on purpose, so at the rate of causal"

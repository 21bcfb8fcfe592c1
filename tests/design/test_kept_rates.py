"""Rates that are read from finished sweeps: those of the same arm, by a line in size and text."""

import json
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trained_study import design_table, make_small_plan, train_study

from paribus.analyse import study_findings, study_rows
from paribus.design import find_design
from paribus.design.kept_rates import read_kept_rates
from paribus.design.plan_table import described
from paribus.design.study_cost import estimate_cost
from paribus.errors import SpecError
from paribus.record.integrity import require_study_integrity
from paribus.record.plan_file import read_plan
from paribus.report.report_data import gather_report_data
from paribus.report.trust_fairness import rate_check
from paribus.workspace import Workspace

ARMS = ("full", "reverse", "causal")
FACTORS = {"full": 1.0, "reverse": 1.5, "causal": 0.7}  # of each arm's rate


def of_size(d_model: int, n_steps: int) -> dict[str, Any]:
    return {
        "base.architecture.d_model": d_model,
        "base.architecture.attention.n_heads": d_model // 8,
        "base.training.n_steps": n_steps,
        "base.training.warmup": n_steps // 4,
    }


def planted(arm: str, n_parameters: float, n_tokens: float) -> float:
    return FACTORS[arm] * 0.4 * n_parameters**-0.5 * n_tokens**-0.1


def make_sweep(
    folder: Path,
    study_cache: Path,
    d_model: int,
    n_steps: int,
    changes: dict[str, Any] | None = None,
) -> str:
    """A finished sweep of all arms, with rates on a line in the logarithms of size and text."""
    plan = make_small_plan(
        study_cache, {**of_size(d_model, n_steps), "tune": True, **(changes or {})}
    )
    rates = {}
    for arm in plan.arms:
        rate = planted(arm.name, arm.price.non_embedding_parameters, arm.total("tokens_read"))
        optimum = {"inside": True, "coefficients": [0.02, 0.0, 1.0], "left_out": []}
        optimum |= {"interval": [rate / 1.2, rate * 1.2], "excess": 0.001}
        rates[arm.name] = {"rate": rate, "points": [[rate, 1.0]], "optimum": optimum}
    own = folder / f"width-{d_model}-{n_steps}"
    own.mkdir(parents=True)
    (own / "plan.json").write_text(json.dumps(described(plan)))
    (own / "rates.json").write_text(json.dumps(rates))
    return str(own)


@pytest.fixture(scope="module")
def sweeps(study_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Sweeps at two widths and two durations."""
    folder = tmp_path_factory.mktemp("sweeps")
    places = ((16, 20), (16, 80), (32, 20), (32, 80))
    return [make_sweep(folder, study_cache, *place) for place in places]


def changes_for(sweeps: list[str], d_model: int = 24, n_steps: int = 40) -> dict[str, Any]:
    return {**of_size(d_model, n_steps), "tune": {"rates": sweeps}}


def test_a_rate_is_read_off_the_line_through_the_sweeps_of_its_own_arm(
    study_cache: Path, sweeps: list[str]
) -> None:
    plan = make_small_plan(study_cache, changes_for(sweeps))
    assert set(plan.kept_rates) == set(ARMS)
    for arm in plan.arms:
        own = plan.kept_rates[arm.name]
        expected = planted(arm.name, arm.price.non_embedding_parameters, arm.total("tokens_read"))
        assert own["rate"] == pytest.approx(expected, rel=5e-3)
        assert [one["arm"] for one in own["read"]] == [arm.name] * 4
        assert own["optimum"]["remark"] == ""
    line = next(line for line in plan.control_lines if line.path == "training.optimizer.rate")
    assert line.mark == "⟳"
    assert "read from the sweeps width-16-20, width-16-80" in line.note


def test_the_error_of_a_rate_follows_from_those_of_the_sweeps(
    study_cache: Path, sweeps: list[str]
) -> None:
    arm = make_small_plan(study_cache, changes_for(sweeps))
    (own,) = [arm.kept_rates["full"]]
    read = own["read"]
    X = np.array([[1, log(one["parameters"]), log(one["tokens"])] for one in read])
    here = [
        1,
        log(arm.arms[0].price.non_embedding_parameters),
        log(arm.arms[0].total("tokens_read")),
    ]
    weights = np.array(here) @ np.linalg.inv(X.T @ X) @ X.T
    octaves = float(np.linalg.norm(weights)) * np.log2(1.2)  # each ± log₂ 1.2, at 95 %
    low, high = own["optimum"]["interval"]
    assert np.log2(high / low) / 2 == pytest.approx(octaves, rel=1e-9)
    assert own["optimum"]["excess"] == pytest.approx(0.02 * octaves**2, rel=1e-9)


def test_one_sweep_serves_an_arm_of_its_size_and_duration_alone(
    study_cache: Path, sweeps: list[str]
) -> None:
    plan = make_small_plan(study_cache, changes_for(sweeps[:1], 16, 20))
    assert plan.kept_rates["causal"]["rate"] == pytest.approx(
        planted("causal", plan.arms[0].price.non_embedding_parameters, 20 * 8 * 32), rel=5e-3
    )
    with pytest.raises(SpecError, match=r"has .* tokens, and its sweeps have .* factor of 1\.05"):
        make_small_plan(study_cache, changes_for(sweeps[:1], 16, 40))
    with pytest.raises(SpecError, match=r"parameters outside of embeddings.* factor of 1\.05"):
        make_small_plan(study_cache, changes_for(sweeps[:1], 24, 20))


def test_a_rate_far_from_what_was_swept_is_refused(study_cache: Path, sweeps: list[str]) -> None:
    plan = make_small_plan(study_cache, changes_for(sweeps, 40, 40))
    assert plan.kept_rates["full"]["optimum"]["remark"] == "read 1.6 times beyond what was swept"
    with pytest.raises(SpecError, match="up to a factor of 2 beyond what was swept"):
        make_small_plan(study_cache, changes_for(sweeps, 48, 40))


def test_an_arm_that_was_swept_nowhere_is_refused_by_the_fields_that_differ(
    study_cache: Path, sweeps: list[str]
) -> None:
    changes = {**changes_for(sweeps), "base.training.n_sequences": 4}
    with pytest.raises(SpecError, match="the nearest, full of width-16-20, differs in training"):
        make_small_plan(study_cache, changes)
    changes = {**changes_for(sweeps), "arms.reverse.architecture.mask": "causal & window(4)"}
    with pytest.raises(SpecError, match=r"no sweep is of reverse .* differs in architecture\.mask"):
        make_small_plan(study_cache, changes)


def test_a_control_that_was_not_swept_takes_the_rate_of_the_baseline(
    study_cache: Path, sweeps: list[str]
) -> None:
    changes = {**changes_for(sweeps), "control": "blind"}
    changes["arms.blind"] = {"architecture": {"mask": "full & window(3)"}}
    rates = make_small_plan(study_cache, changes).kept_rates
    assert rates["blind"]["rate"] == rates["full"]["rate"]
    assert rates["blind"]["optimum"]["remark"] == "at the rates of full, not swept"


def test_arms_swept_in_unlike_ways_are_not_tuned_alike(
    study_cache: Path, sweeps: list[str], tmp_path: Path
) -> None:
    finer = make_sweep(tmp_path / "finer", study_cache, 16, 20, {"tune": {"n_rates": 7}})
    with pytest.raises(SpecError, match="rates are tuned alike if they are found alike"):
        make_small_plan(study_cache, changes_for([*sweeps[1:], finer]))
    lone = make_sweep(tmp_path / "lone", study_cache, 16, 80, {"arms.causal": None})
    with pytest.raises(SpecError, match=r"full was swept at .*, and causal at"):
        make_small_plan(study_cache, changes_for([sweeps[0], lone, *sweeps[2:]]))


@pytest.mark.parametrize(
    ("tune", "message"),
    [
        ({"n_rates": 7}, "tune.n_rates says how to sweep, and tune.rates that nothing is swept"),
        ({"share": 0.5}, "tune.share says how to sweep"),
    ],
)
def test_how_to_sweep_cannot_be_said_beside_finished_sweeps(
    tune: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        find_design(design_table({"tune": {"rates": ["somewhere"], **tune}}))


def test_a_folder_without_a_sweep_is_refused(study_cache: Path, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="is no folder of a finished sweep"):
        make_small_plan(study_cache, changes_for([str(tmp_path)]))


def test_folders_are_relative_to_the_design(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(design_table({"tune": {"rates": "../kept"}})))
    _, design = find_design(path)
    assert design.tune is not None
    assert [Path(one) for one in design.tune.rates] == [tmp_path / "../kept"]


def test_where_sweeps_lie_is_no_part_of_a_plan_and_what_they_found_is(
    study_cache: Path, sweeps: list[str], tmp_path: Path
) -> None:
    plan = make_small_plan(study_cache, changes_for(sweeps))
    moved = replace(
        plan,
        design=plan.design.model_copy(
            update={"tune": plan.design.tune.model_copy(update={"rates": ("elsewhere",)})}
        ),  # type: ignore[union-attr]
    )
    assert moved.fingerprint == plan.fingerprint
    found = read_kept_rates(plan.design, plan.arms)
    found["full"]["rate"] *= 2
    assert replace(plan, kept_rates=found).fingerprint != plan.fingerprint


def test_a_study_trains_at_the_rates_that_were_read_and_sweeps_nothing(
    study_cache: Path, sweeps: list[str], tmp_path: Path
) -> None:
    changes = changes_for(sweeps, 16, 20)
    plan = make_small_plan(study_cache, changes)
    assert estimate_cost(plan, Workspace(cache=study_cache)).n_sweep_runs == 0
    study = train_study(tmp_path, study_cache, changes)
    rows = study_rows(study)
    assert {row["purpose"] for row in rows} == {"reported"}
    for row in rows:
        assert row["rate"] == plan.kept_rates[row["arm"]]["rate"]
    require_study_integrity(study, read_plan(study), [row["run"] for row in rows])
    findings = study_findings(study)
    assert findings.rates == json.loads(json.dumps(plan.kept_rates))
    assert all(arm.tuning_uncertainty is not None for arm in findings.arms)
    check = rate_check(gather_report_data(study))
    assert check.text.startswith("Tuned alike, in sweeps of other studies (width-16-20, ")


def test_a_design_of_contrasts_has_a_sweep_of_every_arm_that_they_weigh(
    study_cache: Path, sweeps: list[str]
) -> None:
    changes = {**changes_for(sweeps), "arms.reverse.architecture.mask": "causal & window(4)"}
    changes["contrasts"] = {"reach": {"reverse": 1, "causal": -1}}
    with pytest.raises(SpecError, match="no sweep is of reverse"):
        make_small_plan(study_cache, changes)
    changes["contrasts"] = {"sight": {"full": 1, "causal": -1}}
    rates = make_small_plan(study_cache, changes).kept_rates  # no verdict is about that arm
    assert rates["reverse"]["rate"] == rates["full"]["rate"]


def test_a_control_that_is_judged_needs_a_sweep_too(study_cache: Path, sweeps: list[str]) -> None:
    changes = {**changes_for(sweeps), "control": "blind", "comparisons": [["blind", "full"]]}
    changes["arms.blind"] = {"architecture": {"mask": "full & window(3)"}}
    with pytest.raises(SpecError, match="no sweep is of blind"):
        make_small_plan(study_cache, changes)


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ({"tune": {"split": "test"}, "primary.measure.split": "valid"}, "found alike"),
        ({"primary.measure.n_items": 5}, "found alike"),
    ],
)
def test_sweeps_that_were_measured_otherwise_are_not_tuned_alike(
    study_cache: Path, sweeps: list[str], tmp_path: Path, sweep: dict[str, Any], message: str
) -> None:
    other = make_sweep(tmp_path, study_cache, 16, 20, sweep)
    with pytest.raises(SpecError, match=message):
        make_small_plan(study_cache, changes_for([*sweeps[1:], other]))


def test_rates_chosen_on_the_text_that_is_reported_are_refused(
    study_cache: Path, tmp_path: Path
) -> None:
    own = {"tune": {"split": "test"}, "primary.measure.split": "valid"}
    seen = make_sweep(tmp_path, study_cache, 16, 20, own)
    with pytest.raises(SpecError, match="was swept on the split 'test', on which the primary"):
        make_small_plan(study_cache, changes_for([seen], 16, 20))


def test_a_sweep_counts_once_and_two_places_are_no_line(
    study_cache: Path, sweeps: list[str], tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match="names the sweep of full in width-16-20 twice"):
        make_small_plan(study_cache, changes_for([*sweeps, sweeps[0]]))
    with pytest.raises(SpecError, match="too few places for a line"):
        make_small_plan(study_cache, changes_for([sweeps[0], sweeps[3]]))


def test_a_sweep_that_found_no_optimum_is_refused_and_remarks_are_kept(
    study_cache: Path, tmp_path: Path
) -> None:
    folder = Path(make_sweep(tmp_path, study_cache, 16, 20))
    rates = json.loads((folder / "rates.json").read_text())
    rates["full"]["optimum"]["remark"] = "no rate above 0.1 trained"
    (folder / "rates.json").write_text(json.dumps(rates))
    plan = make_small_plan(study_cache, changes_for([str(folder)], 16, 20))
    kept = plan.kept_rates["full"]["optimum"]
    assert kept["remark"] == "width-16-20: no rate above 0.1 trained"
    rates["full"]["optimum"]["inside"] = False
    (folder / "rates.json").write_text(json.dumps(rates))
    with pytest.raises(SpecError, match="has its best rate at the edge"):
        make_small_plan(study_cache, changes_for([str(folder)], 16, 20))

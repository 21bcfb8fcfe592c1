"""Runs and designs of the kept studies have the names that they would have today, or both names
stand in a table. No kept file names a machine.
"""

import json
import lzma
import re
from typing import Any

import pytest
from kept_studies import FIRST_NAMES, PRESENT_NAMES, RESULTS, rows_of

from paribus.record.plan import ArmRecord, PlanRecord, parse_plan
from paribus.record.plan_formats import PLAN_FORMAT
from paribus.record.plan_lock import design_fingerprint
from paribus.record.planned_runs import planned_stages
from paribus.record.run import run_name

ON_THE_LADDER = ("ladder", "ladder_sweep", "predicted")
DATA_SEED = 10_000  # what a seed is raised by to fix the order of the text


@pytest.mark.parametrize("study", FIRST_NAMES)
def test_every_run_of_a_kept_study_has_its_present_name_beside_the_old_one(study: str) -> None:
    table = [row for row in rows_of(RESULTS / "fingerprints.csv") if row["study"] == study]
    plan = json.loads((RESULTS / study / "plan.json").read_text())
    assert [row["old"] for row in table if row["purpose"] == "design"] == [
        plan["design_fingerprint"]
    ]
    names = {row["old"]: row["new"] for row in table if row["purpose"] != "design"}
    assert set(names) == {row["run"] for row in rows_of(RESULTS / study / "rows.csv")}
    assert len(set(names.values())) == len(names)
    assert not set(names) & set(names.values())


@pytest.mark.parametrize("study", PRESENT_NAMES)
def test_a_study_of_the_present_names_has_them_still(study: str) -> None:
    """Its design has the fingerprint that it would have today, and so have its runs. Where rates
    were tuned and there are several stages, only the runs that tuned the first are looked at:
    later stages begin from runs that are not in its rows.
    """
    path = RESULTS / study / "plan.json"
    table = json.loads(path.read_text())
    assert table["format"] == PLAN_FORMAT
    runs = {}
    for name, arm in table["arms"].items():
        earlier = arm.get("earlier_texts")
        runs[name] = (arm["run"], [*earlier, arm["text"]] if earlier else arm["text"])
    items, rates = table.get("items"), table.get("rates")
    own = design_fingerprint(table["design"], runs, items=items, rates=rates)
    assert own == table["design_fingerprint"]
    plan, n_checked = parse_plan(table, path), 0
    for row in rows_of(RESULTS / study / "rows.csv"):
        stages = planned_stages(planned_arm(plan, row))
        if row["purpose"] == "stage_sweep":
            stages = stages[:1]
        elif table["design"]["tune"] and len(stages) > 1:
            continue
        *earlier_stages, last = stages
        chain = [{**one, "training": seeded(one["training"], row)} for one in earlier_stages]
        chain.append({**last, "training": swept_training(last["training"], row)})
        assert run_name(chain) == row["run"]
        n_checked += 1
    assert n_checked


def planned_arm(plan: PlanRecord, row: dict[str, str]) -> ArmRecord:
    """The arm of a row, at its size where it is one of a ladder."""
    for rung in plan.rungs:
        if row["purpose"] in ON_THE_LADDER and row["size"] == str(rung.size):
            return rung.arms[row["arm"]]
    return plan.arms[row["arm"]]


def swept_training(training: dict[str, Any], row: dict[str, str]) -> dict[str, Any]:
    """The training of a stage as a sweep has it: shorter, at a seed and a rate of its own."""
    share = int(row["n_steps"]) / training["n_steps"]
    return {
        **seeded(training, row),
        "n_steps": int(row["n_steps"]),
        "warmup": round(share * training["warmup"]),
        "valid_every": round(share * training["valid_every"]),
        "optimizer": {**training["optimizer"], "rate": float(row["rate"])},
    }


def seeded(training: dict[str, Any], row: dict[str, str]) -> dict[str, Any]:
    """The training of a stage under the seed of a row."""
    seed = int(row["seed"])
    return {**training, "seed": seed, "data_seed": DATA_SEED + seed}


def test_the_table_of_old_names_has_the_studies_that_need_it() -> None:
    tabled = {row["study"] for row in rows_of(RESULTS / "fingerprints.csv")}
    assert tabled == set(FIRST_NAMES)


def test_no_kept_file_names_a_machine_or_a_folder_of_one() -> None:
    for path in RESULTS.glob("*/*"):
        text = path.read_bytes()
        if path.suffix == ".xz":
            text = lzma.decompress(text)
        assert not re.search(rb'"/\w|/home/|/root/|/tmp/|"host"', text), path.name

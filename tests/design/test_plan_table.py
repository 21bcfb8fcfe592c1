"""A plan as it is written, and plans that an earlier version wrote: a study that was begun with
one goes on with it.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from factorial_design import FACTORS, factorial
from trained_study import design_table, make_small_plan, replace_plan, train_study

from paribus.analyse import study_findings, study_rows
from paribus.design import described, freeze, freeze_or_describe_departure, plan_record
from paribus.errors import RecordError
from paribus.record import Study, existing_study, open_study
from paribus.record.checksums import write_listed_file
from paribus.record.disk import json_bytes
from paribus.record.plan import EDITION
from paribus.record.plan_file import read_plan
from paribus.record.plan_formats import PLAN_FORMAT
from paribus.spec.design_reading import load_design

KEYS = {
    "arms",
    "control",
    "declared",
    "design",
    "design_fingerprint",
    "edition",
    "environment",
    "fingerprint",
    "format",
    "judged",
    "name",
    "order",
    "question",
    "reference",
    "rule",
    "scale",
}


@pytest.fixture
def kept(finished_home: Path, tmp_path: Path) -> Study:
    shutil.copytree(finished_home, tmp_path / "runs")
    return existing_study(tmp_path / "runs", "little")


def of_second_format(kept: Study) -> dict[str, Any]:
    """The plan as the version before wrote it, in the place of the present one."""
    table = {**kept.read_plan(), "format": 2}
    write_listed_file(kept.folder, "plan.json", json_bytes(table))
    return table


def test_a_plan_is_read_again_as_it_was_written(tmp_path: Path, study_cache: Path) -> None:
    plan = make_small_plan(study_cache)
    kept = open_study(tmp_path, "little")
    freeze(plan, kept)
    read = read_plan(kept)
    assert read == plan_record(plan)
    assert read.table == read.written == json.loads(json_bytes(described(plan))) == kept.read_plan()
    assert set(kept.read_plan()) == KEYS
    assert (read.format, read.edition, read.fingerprint) == (PLAN_FORMAT, EDITION, plan.fingerprint)
    assert tuple(read.control) == tuple(plan.control_lines)


def test_a_study_that_the_version_before_began_goes_on_as_planned(
    kept: Study, study_cache: Path
) -> None:
    of_second_format(kept)
    scores = [
        (row["run"], row["pseudo.test"]) for row in study_rows(kept) if row["purpose"] == "reported"
    ]
    assert freeze_or_describe_departure(make_small_plan(study_cache), kept) is None
    of_second_format(kept)
    lost = kept.read_cells()[-1]
    shutil.rmtree(kept.root / lost.run)
    train_study(kept.root, study_cache)
    assert [
        (row["run"], row["pseudo.test"]) for row in study_rows(kept) if row["purpose"] == "reported"
    ] == scores
    lock, found = kept.read_lock(), study_findings(kept)
    assert lock is not None
    assert lock.as_planned
    assert (found.agreement.faults, found.agreement.predates_checksums) == ((), False)
    assert kept.read_plan()["format"] == PLAN_FORMAT


def test_a_study_is_judged_by_the_rules_that_it_was_begun_with(
    kept: Study, study_cache: Path
) -> None:
    begun = {**kept.read_plan(), "edition": EDITION - 1}
    write_listed_file(kept.folder, "plan.json", json_bytes(begun))
    freeze(make_small_plan(study_cache), kept)
    assert kept.read_plan()["edition"] == EDITION - 1
    later = make_small_plan(study_cache)
    later = replace(later, environment={**later.environment, "code": "0" * 64})
    freeze(later, kept)
    assert kept.read_plan()["edition"] == EDITION - 1
    for run in kept.planned_cells():
        shutil.rmtree(kept.root / run.run, ignore_errors=True)
    freeze(make_small_plan(study_cache), kept)
    assert kept.read_plan()["edition"] == EDITION  # without a result there is nothing to judge


def test_a_converted_plan_is_held_to_the_fingerprints_of_what_was_written(kept: Study) -> None:
    table = of_second_format(kept)
    for name in ("comparisons", "equal_noise"):
        del table["design"][name]
    del table["design"]["primary"]["test"]
    del table["edition"]
    replace_plan(kept, table)
    assert study_findings(kept).agreement.faults == ()
    written = kept.read_plan()
    written["design"]["primary"]["margin"] = 9.0
    (kept.folder / "plan.json").write_bytes(json_bytes(written))
    said = "plan.json does not hold the design that its fingerprint names"
    assert study_findings(kept).agreement.faults[0] == said


def test_a_plan_of_a_newer_version_is_left_as_it_is(kept: Study, study_cache: Path) -> None:
    newer = {**kept.read_plan(), "format": PLAN_FORMAT + 1}
    write_listed_file(kept.folder, "plan.json", json_bytes(newer))
    lock = kept.read_lock()
    said = (
        rf"little/plan.json is of format {PLAN_FORMAT + 1}, and this version of paribus reads 1 to"
        rf" {PLAN_FORMAT}; use the"
        r" version that wrote it"
    )
    for act in (
        lambda: freeze(make_small_plan(study_cache), kept),
        lambda: study_findings(kept),
        kept.planned_cells,
    ):
        with pytest.raises(RecordError, match=said):
            act()
    assert (kept.read_plan(), kept.read_lock()) == (newer, lock)


@pytest.mark.parametrize(
    "changes",
    [{}, {"others": [], "prompts": []}, {"factors": FACTORS, "arms": None, "factor": None}],
)
def test_the_design_in_a_plan_can_be_read_and_run_again(changes: dict[str, Any]) -> None:
    """Also where its lists are empty: others, prompts, and the factor of a factorial."""
    table = factorial() if "factors" in changes else design_table(changes)
    written = json.loads(json_bytes(load_design(table).model_dump(mode="json")))
    assert written["others"] == written["prompts"] == []
    assert load_design(written) == load_design(table)

"""A plan as it is written, and plans that an earlier version wrote: a study that was begun with one goes on with it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from little_study import carried, plan_of, replanned
from paribus.analyse import findings, rows
from paribus.design import described, frozen, plan_record, proposed
from paribus.errors import RecordError
from paribus.record import Study, existing_study, study
from paribus.record.checksums import write_listed
from paribus.record.disk import as_json
from paribus.record.plan_file import read_plan
from paribus.record.plan_formats import PLAN_FORMAT

KEYS = {
    "arms", "control", "declared", "design", "design_fingerprint", "edition", "environment", "fingerprint", "format",
    "name", "order", "question", "reference", "rule", "scale",
}  # fmt: skip


@pytest.fixture
def kept(finished_home: Path, tmp_path: Path) -> Study:
    shutil.copytree(finished_home, tmp_path / "runs")
    return existing_study(tmp_path / "runs", "little")


def of_second_format(kept: Study) -> dict[str, Any]:
    """The plan as the version before wrote it, in the place of the present one."""
    table = {**kept.plan(), "format": 2}
    write_listed(kept.folder, "plan.json", as_json(table))
    return table


def test_a_plan_is_read_again_as_it_was_written(tmp_path: Path, study_cache: Path) -> None:
    plan = plan_of(study_cache)
    kept = study(tmp_path, "little")
    frozen(plan, kept)
    read = read_plan(kept)
    assert read == plan_record(plan)
    assert read.table == read.written == json.loads(as_json(described(plan))) == kept.plan()
    assert set(kept.plan()) == KEYS
    assert (read.format, read.edition, read.fingerprint) == (PLAN_FORMAT, 2, plan.fingerprint)
    assert tuple(read.control) == tuple(plan.lines)


def test_a_study_that_the_version_before_began_goes_on_as_planned(kept: Study, study_cache: Path) -> None:
    of_second_format(kept)
    scores = [(row["run"], row["pseudo.test"]) for row in rows(kept) if row["purpose"] == "reported"]
    assert proposed(plan_of(study_cache), kept) is None
    of_second_format(kept)
    lost = kept.cells()[-1]
    shutil.rmtree(kept.root / lost.run)
    carried(kept.root, study_cache)
    assert [(row["run"], row["pseudo.test"]) for row in rows(kept) if row["purpose"] == "reported"] == scores
    lock, found = kept.lock(), findings(kept)
    assert lock is not None
    assert lock.as_planned
    assert (found.agreement.changed, found.agreement.is_older) == ((), False)
    assert kept.plan()["format"] == PLAN_FORMAT


def test_a_converted_plan_is_held_to_the_fingerprints_of_what_was_written(kept: Study) -> None:
    table = of_second_format(kept)
    for name in ("comparisons", "equal_noise"):
        del table["design"][name]
    del table["design"]["primary"]["test"]
    del table["edition"]
    replanned(kept, table)
    assert findings(kept).agreement.changed == ()
    written = kept.plan()
    written["design"]["primary"]["margin"] = 9.0
    (kept.folder / "plan.json").write_bytes(as_json(written))
    said = "plan.json does not hold the design that its fingerprint names"
    assert findings(kept).agreement.changed[0] == said


def test_a_plan_of_a_newer_version_is_left_as_it_is(kept: Study, study_cache: Path) -> None:
    newer = {**kept.plan(), "format": PLAN_FORMAT + 1}
    write_listed(kept.folder, "plan.json", as_json(newer))
    lock = kept.lock()
    said = r"little/plan.json is of format 4, and this version of paribus reads 1 to 3; use the version that wrote it"
    for act in (lambda: frozen(plan_of(study_cache), kept), lambda: findings(kept), kept.planned_cells):
        with pytest.raises(RecordError, match=said):
            act()
    assert (kept.plan(), kept.lock()) == (newer, lock)

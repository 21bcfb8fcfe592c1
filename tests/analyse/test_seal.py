"""The seal of a study: what it is of, and what it is not of."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from paribus.analyse.seal import Seal, plan_seal, require_seal, study_seal
from paribus.errors import SpecError
from paribus.record import Study, existing_study
from paribus.record.checksums import write_listed_file
from paribus.record.file_names import ROWS_FILE
from paribus.record.pack import write_pack
from paribus.record.unpack import unpack_study


@pytest.fixture
def kept(finished_home: Path, tmp_path: Path) -> Study:
    shutil.copytree(finished_home, tmp_path / "runs")
    return existing_study(tmp_path / "runs", "little")


def rewrite_rows(study: Study, old: str, new: str) -> None:
    """The rows of one run with a text in the place of another, listed again."""
    folder = study.root / study.read_cells()[0].run
    content = (folder / ROWS_FILE).read_text()
    assert old in content
    write_listed_file(folder, ROWS_FILE, content.replace(old, new).encode())


def test_what_the_clock_said_is_no_part_of_it(kept: Study) -> None:
    before = study_seal(kept)
    rewrite_rows(kept, '"seconds": ', '"compile_seconds": 0.5, "seconds": 1')
    assert study_seal(kept) == before


def test_a_row_is_part_of_the_last_part_alone(kept: Study) -> None:
    before = study_seal(kept)
    rewrite_rows(kept, '"nats":', '"nats": 0.0, "former":')
    after = study_seal(kept)
    assert (after.plan, after.items) == (before.plan, before.items)
    assert after.rows != before.rows


def test_the_machine_that_planned_is_no_part_of_it(kept: Study) -> None:
    before = plan_seal(kept)
    plan = kept.read_plan()
    plan["environment"] = {**plan["environment"], "n_threads": 99}
    for line in plan["control"]:
        if line["path"] == "kernel":
            line["mark"] = "→"
    kept.write_plan(plan)
    assert plan_seal(kept) == before


def test_a_note_of_the_control_table_is_part_of_the_plan(kept: Study) -> None:
    before = plan_seal(kept)
    plan = kept.read_plan()
    plan["control"][0]["note"] = "another"
    kept.write_plan(plan)
    assert plan_seal(kept) != before


def test_a_cell_more_is_part_of_the_rows(kept: Study) -> None:
    before = study_seal(kept)
    kept.add_cells([replace(kept.read_cells()[0], seed=99)])
    assert study_seal(kept).rows != before.rows


def test_a_packed_study_has_the_same_seal(filed_home: Path, tmp_path: Path) -> None:
    (folder,) = (filed_home / "runs" / "studies").iterdir()
    study = existing_study(filed_home / "runs", folder.name)
    write_pack(study, tmp_path / "study.zip", with_weights=False)
    unpack_study(tmp_path / "study.zip", tmp_path / "elsewhere")
    assert study_seal(existing_study(tmp_path / "elsewhere", folder.name)) == study_seal(study)


@pytest.mark.parametrize("digest", ["", "abc", "g" * 32, "0" * 64, f"{'0' * 32}-{'0' * 32}"])
def test_what_is_no_seal_is_refused(kept: Study, digest: str) -> None:
    with pytest.raises(SpecError, match=r"--seal is .*; give the three parts"):
        require_seal(kept, digest)


def test_the_first_part_is_enough_for_the_plan(kept: Study) -> None:
    seal = study_seal(kept)
    assert seal.plan == plan_seal(kept)
    require_seal(kept, f" {seal.plan.upper()} ")
    assert str(Seal("a", "b", "c")) == "a-b-c"

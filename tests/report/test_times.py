"""The block of times: speeds leave out what was compiled, which is told beside them."""

import json
import re
from pathlib import Path

import pytest
from handmade_study import make_study

from paribus.analyse.run_table import study_rows
from paribus.record import Study
from paribus.report.csv_tables import clock_rows, curve_rows, run_rows, to_csv
from paribus.report.page import render_page
from paribus.report.report_data import ReportData, gather_report_data
from paribus.report.times import time_block

COMPILING, WAITING = 40.0, 7.0
HEADING = ("arm", "time per run", "time per step", "tokens per second")


@pytest.fixture
def plain(tmp_path: Path) -> ReportData:
    return gather_report_data(make_study(tmp_path / "plain"))


@pytest.fixture
def compiled(tmp_path: Path) -> Study:
    """A study in which one arm was compiled, and the rows of the others are as they once were."""
    study = make_study(tmp_path / "compiled")
    for cell in study.read_cells():
        path = study.root / cell.run / "rows.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        if cell.arm == "prefix":
            for row in rows:
                row["seconds"] += COMPILING + WAITING
                row |= {"compile_seconds": COMPILING, "compile_wait_seconds": WAITING}
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return study


def test_speeds_leave_out_what_was_compiled(plain: ReportData, compiled: Study) -> None:
    before, after = time_block(plain), time_block(gather_report_data(compiled))
    assert before.heading == HEADING
    assert after.heading == (*HEADING, "compiling per run", "waiting to compile per run")
    for old, new in zip(before.lines, after.lines, strict=True):
        assert len(old) == len(HEADING)
        assert (new[0], *new[2:4]) == (old[0], *old[2:])
        is_compiled = new[0] == "prefix"
        assert new[4:] == (("40 s", "7.0 s") if is_compiled else ("0 s", "0 s"))
        assert (new[1] == old[1]) == (not is_compiled)
    assert after.at_equal_seconds == before.at_equal_seconds == [("all", "the totals are equal")]


def test_what_was_compiled_is_in_the_block_of_times_alone(
    plain: ReportData, compiled: Study
) -> None:
    report = gather_report_data(compiled)
    block = re.compile(r'<section aria-labelledby="times-title".*?</section>', re.DOTALL)
    assert block.sub("", render_page(report)) == block.sub("", render_page(plain))
    for table in (run_rows(report), curve_rows(report)):
        assert "seconds" not in to_csv(table).splitlines()[0]
    lines = to_csv(clock_rows(report)).splitlines()
    assert lines[0] == "run,arm,seed,purpose,seconds,compile_seconds,compile_wait_seconds"
    assert {line.split(",")[1] for line in lines[1:] if line.endswith(",40.0,7.0")} == {"prefix"}
    assert to_csv(clock_rows(plain)).splitlines()[0] == "run,arm,seed,purpose,seconds"


def test_the_rows_of_a_study_have_it_where_a_run_has_it(compiled: Study) -> None:
    table = study_rows(compiled)
    assert "compile_seconds" in table.columns
    for row in table:
        assert row.get("compile_seconds") == (COMPILING if row["arm"] == "prefix" else None)
        assert row.get("compile_wait_seconds") == (WAITING if row["arm"] == "prefix" else None)

"""A report at an early look speaks of the seeds that were looked at, and says that it is a look."""

import shutil
from pathlib import Path

import pytest
from handmade_study import SEEDS, make_study, make_study_at_look

from paribus.analyse import detectable_effect
from paribus.report.csv_tables import clock_rows, run_rows
from paribus.report.latex import latex_table
from paribus.report.markdown import markdown_report
from paribus.report.page import render_page
from paribus.report.report_data import ReportData, gather_report_data
from paribus.report.tables import score_summary, seed_lines
from paribus.report.times import time_block
from paribus.report.trust import trust_checks

LOOK = (
    "Look 1 of 2: the verdict is read at 3 of 4 seeds, and spends 1 % of false alarms out of 5 %"
    " for all looks"
)


@pytest.fixture(params=[False, True], ids=["not begun", "begun"])
def early(request: pytest.FixtureRequest, tmp_path: Path) -> ReportData:
    return gather_report_data(make_study_at_look(tmp_path, begun=request.param))


def test_the_page_says_at_its_top_that_it_is_a_look(early: ReportData) -> None:
    head, _, rest = render_page(early).partition('<div class="verdict')
    assert f"{LOOK}. More seeds are to come" in head
    assert "3 paired seeds" in rest
    assert markdown_report(early).splitlines()[2] == f"{LOOK}."
    assert f"% {LOOK}" in latex_table(early)


def test_seeds_that_were_not_run_did_not_fail(early: ReportData) -> None:
    assert "Failed runs" not in [one.name for one in trust_checks(early)]
    assert [line.seed for line in seed_lines(early)] == list(SEEDS[:3])
    assert {row["seed"] for row in (*run_rows(early), *clock_rows(early))} == set(SEEDS[:3])


def test_seeds_beyond_the_look_enter_no_mean(tmp_path: Path) -> None:
    study = make_study_at_look(tmp_path / "a")
    alone = gather_report_data(study)
    study = make_study(tmp_path / "b")
    plan = study.read_plan()
    plan["design"]["looks"] = {"3": 0.01, "4": 0.04}
    study.write_plan(plan)
    last = next(
        cell for cell in study.read_cells() if (cell.arm, cell.seed) == ("prefix", SEEDS[-1])
    )
    shutil.rmtree(
        tmp_path / "b" / last.run
    )  # its fellows under the same seed are all there, and slow
    for cell in study.read_cells():
        path = tmp_path / "b" / cell.run / "rows.jsonl"
        if cell.seed == SEEDS[-1] and path.exists():
            path.write_text(path.read_text().replace('"seconds": ', '"seconds": 9'))
    some = gather_report_data(study)
    assert score_summary(alone, "halves.test") == score_summary(some, "halves.test")
    assert time_block(alone).lines == time_block(some).lines


def test_what_seeds_can_see_is_read_at_the_share_of_the_look(early: ReportData) -> None:
    seeds = next(one for one in trust_checks(early) if one.name == "Seeds")
    assert seeds.mark == "mind"
    seen = f"{detectable_effect(3, 2, alpha=0.01):.2g}"
    assert (
        f"3 seeds in a family of 2 comparisons have 80 % power for an effect of {seen} sd"
        in seeds.text
    )
    assert seeds.text.endswith(f"{LOOK}.")
    assert "a look at 3 of 4 seeds" not in next(
        one.text for one in trust_checks(early) if one.name == "Learning rates"
    )


def test_a_study_without_looks_says_nothing_of_them(tmp_path: Path) -> None:
    assert "Look " not in markdown_report(gather_report_data(make_study(tmp_path)))

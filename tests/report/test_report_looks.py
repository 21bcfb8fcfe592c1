"""A report at an early look speaks of the seeds that were looked at, and says that it is a look."""

import shutil
from pathlib import Path

import pytest

from paribus.analyse import detectable
from paribus.report.material import Material, gathered
from paribus.report.page import page
from paribus.report.prose import latex, markdown
from paribus.report.rows import clock_rows, run_rows
from paribus.report.tables import seed_lines, summary
from paribus.report.times import times
from paribus.report.trust import grounds
from small_study import SEEDS, at_a_look, made

LOOK = "Look 1 of 2: the verdict is read at 3 of 4 seeds, and spends 1 % of false alarms out of 5 % for all looks"


@pytest.fixture(params=[False, True], ids=["not begun", "begun"])
def early(request: pytest.FixtureRequest, tmp_path: Path) -> Material:
    return gathered(at_a_look(tmp_path, begun=request.param))


def test_the_page_says_at_its_top_that_it_is_a_look(early: Material) -> None:
    head, _, rest = page(early).partition('<div class="verdict')
    assert f"{LOOK}. More seeds are to come" in head
    assert "3 paired seeds" in rest
    assert markdown(early).splitlines()[2] == f"{LOOK}."
    assert f"% {LOOK}" in latex(early)


def test_seeds_that_were_not_run_did_not_fail(early: Material) -> None:
    assert "Failed runs" not in [one.name for one in grounds(early)]
    assert [line.seed for line in seed_lines(early)] == list(SEEDS[:3])
    assert {row["seed"] for row in (*run_rows(early), *clock_rows(early))} == set(SEEDS[:3])


def test_seeds_beyond_the_look_enter_no_mean(tmp_path: Path) -> None:
    study = at_a_look(tmp_path / "a")
    alone = gathered(study)
    study = made(tmp_path / "b")
    plan = study.plan()
    plan["design"]["looks"] = {"3": 0.01, "4": 0.04}
    study.write_plan(plan)
    last = next(cell for cell in study.cells() if (cell.arm, cell.seed) == ("prefix", SEEDS[-1]))
    shutil.rmtree(tmp_path / "b" / last.run)  # its fellows under the same seed are all there, and slow
    for cell in study.cells():
        path = tmp_path / "b" / cell.run / "rows.jsonl"
        if cell.seed == SEEDS[-1] and path.exists():
            path.write_text(path.read_text().replace('"seconds": ', '"seconds": 9'))
    some = gathered(study)
    assert summary(alone, "halves.test") == summary(some, "halves.test")
    assert times(alone).lines == times(some).lines


def test_what_seeds_can_see_is_read_at_the_share_of_the_look(early: Material) -> None:
    seeds = next(one for one in grounds(early) if one.name == "Seeds")
    assert seeds.mark == "mind"
    seen = f"{detectable(3, 2, alpha=0.01):.2g}"
    assert f"3 seeds in a family of 2 comparisons see, four times in five, an effect of {seen} times" in seeds.text
    assert seeds.text.endswith(f"{LOOK}.")
    assert "a look at 3 of 4 seeds" not in next(one.text for one in grounds(early) if one.name == "Learning rates")


def test_a_study_without_looks_says_nothing_of_them(tmp_path: Path) -> None:
    assert "Look " not in markdown(gathered(made(tmp_path)))

"""A study's folder: cells that are never lost, a lock that forgets nothing, and names that lead
nowhere else.
"""

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from handmade_study import plan_table

from paribus.errors import RecordError
from paribus.record import (
    CellRecord,
    PlanLock,
    RowWriter,
    Study,
    existing_study,
    open_study,
    plan_differences,
)
from paribus.record.plan import PlanRecord, parse_plan

CELL = CellRecord("a", 1, 0.5, "reported", "run1", 10, "p")


def finished(home: Path, run: str, state: str = "finished\n") -> None:
    (home / run).mkdir(parents=True, exist_ok=True)
    (home / run / "state").write_text(state)


@pytest.fixture
def kept(tmp_path: Path) -> Study:
    return open_study(tmp_path, "one")


@pytest.mark.parametrize(
    "name", ["..", "../out", "a/b", "/tmp/x", "", ".x", "a b", "x" * 101, "a\n"]
)
def test_a_study_cannot_leave_the_runs_folder(tmp_path: Path, name: str) -> None:
    for opened in (open_study, existing_study):
        with pytest.raises(
            RecordError, match=r"the study name .* cannot be the name of a folder; use up to 100"
        ):
            opened(tmp_path, name)
    assert not (tmp_path / "studies").exists() or not list((tmp_path / "studies").iterdir())


def test_a_link_is_no_study(tmp_path: Path) -> None:
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "one").symlink_to(tmp_path)
    with pytest.raises(RecordError, match="is a link, which may lead out of"):
        open_study(tmp_path, "one")


def test_a_study_that_is_not_there_is_met_with_those_that_are(tmp_path: Path, kept: Study) -> None:
    with pytest.raises(RecordError, match="one holds no study; `paribus run DESIGN` makes one"):
        existing_study(tmp_path, "one")
    kept.write_plan({"order": []})
    assert existing_study(tmp_path, "one").read_plan() == {"order": []}
    with pytest.raises(RecordError, match="two holds no study; studies there are one"):
        existing_study(tmp_path, "two")


def test_cells_are_added_and_none_is_taken_away(kept: Study) -> None:
    assert kept.read_cells() == ()
    kept.add_cells([CELL, replace(CELL, seed=2)])
    kept.add_cells([replace(CELL, purpose="sweep")])
    kept.add_cells([CELL])
    assert [(cell.purpose, cell.seed) for cell in kept.read_cells()] == [
        ("reported", 1),
        ("reported", 2),
        ("sweep", 1),
    ]


def test_writers_at_the_same_time_lose_no_cell(kept: Study) -> None:
    def add(first: int) -> None:
        for seed in range(first, first + 5):
            kept.add_cells([replace(CELL, seed=seed)])

    writers = [threading.Thread(target=add, args=(10 * number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(kept.read_cells()) == 15


def test_cells_of_a_former_plan_are_kept_and_are_none_of_this_one(kept: Study) -> None:
    kept.add_cells([CELL, replace(CELL, plan="q")])
    kept.write_plan({**plan_table("one"), "design_fingerprint": "q"})
    assert [cell.plan for cell in kept.planned_cells()] == ["q"]
    assert len(kept.read_cells()) == 2


def test_a_torn_list_of_cells_is_refused(kept: Study) -> None:
    (kept.folder / "cells.json").write_text('[{"arm": "a"}]')
    with pytest.raises(
        RecordError, match=r"cells.json lists no cells: .*; remove it, and `paribus run` writes it"
    ):
        kept.read_cells()


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        (None, "open"),
        ("running\n", "open"),
        ("finished\n", "finished"),
        ("failed: DivergedError: the gradient of step 3 is not finite\n", "diverged"),
        ("failed: RecordError: no space left\n", "failed"),
    ],
)
def test_how_a_run_stands_is_read_from_its_state(
    kept: Study, state: str | None, outcome: str
) -> None:
    if state is not None:
        finished(kept.root, "run1", state)
    assert kept.run_outcome("run1")[0] == outcome


def test_rates_are_written_read_and_forgotten(kept: Study) -> None:
    assert kept.read_rates() is None
    kept.remove_rates()
    kept.write_rates({"a": {"rate": 0.5}})
    assert kept.read_rates() == {"a": {"rate": 0.5}}
    kept.remove_rates()
    assert kept.read_rates() is None


def test_before_any_result_a_plan_is_locked_anew_freely(kept: Study) -> None:
    assert kept.read_lock() is None
    assert kept.freeze("f1", "d1", "r", "c").as_planned
    kept.add_cells([CELL])
    finished(kept.root, "run1", "running\n")
    lock = kept.freeze("f2", "d2", "r", "c")
    assert lock.as_planned
    assert (lock.fingerprint, lock.latest_fingerprint) == ("f2", "f2")


@pytest.mark.parametrize("state", ["finished\n", "failed: DivergedError: not finite\n"])
def test_after_the_first_result_every_change_is_written_down(kept: Study, state: str) -> None:
    kept.freeze("f1", "d1", "r", "c")
    kept.add_cells([CELL])
    finished(kept.root, "run1", state)
    assert kept.freeze("f1", "d1", "r", "c").as_planned
    changed = kept.freeze("f2", "d2", "r", "c2")
    assert not changed.as_planned
    assert changed.changes[0].items() >= {"from": "f1", "to": "f2", "what": "design, code"}.items()
    assert kept.freeze("f2", "d2", "r", "c2") == changed
    back = kept.freeze("f1", "d1", "r", "c2")
    assert [change["what"] for change in back.changes] == ["design, code", "design"]
    assert (back.fingerprint, back.latest_fingerprint, back.frozen_at) == (
        "f1",
        "f1",
        changed.frozen_at,
    )
    assert kept.freeze("f3", "d1", "r2", "c2").changes[-1]["what"] == "rule"
    assert kept.read_lock() == kept.freeze("f3", "d1", "r2", "c2")


def test_a_sweep_is_no_result(kept: Study) -> None:
    kept.freeze("f1", "d1", "r", "c")
    kept.add_cells([replace(CELL, purpose="sweep")])
    finished(kept.root, "run1")
    assert not kept.has_result()
    assert kept.freeze("f2", "d2", "r", "c").as_planned


def test_a_torn_lock_is_refused(kept: Study) -> None:
    (kept.folder / "plan.lock").write_text(json.dumps({"changes": []}))
    with pytest.raises(
        RecordError, match=r"plan.lock is no lock of a plan: .*; restore it, or begin under"
    ):
        kept.read_lock()
    (kept.folder / "plan.lock").write_text("{")
    with pytest.raises(RecordError, match=r"plan.lock is not JSON"):
        kept.read_lock()


def test_a_lock_says_what_changed_from_what_to_what(kept: Study) -> None:
    first = kept.freeze("f1", "d1", "r", "c")
    assert first.description == ""
    kept.add_cells([CELL])
    finished(kept.root, "run1")
    there = kept.freeze("f2", "d2", "r", "c", ["primary.margin 0.5 → 0.25"])
    assert there.description == "design changed after the first result: primary.margin 0.5 → 0.25"
    assert kept.read_lock() == there
    back = kept.freeze("f1", "d1", "r", "c", ["primary.margin 0.25 → 0.5"])
    assert (
        back.description
        == "design changed twice after the first result, and the plan is again what it was at"
        " first: "
        "primary.margin 0.5 → 0.25; primary.margin 0.25 → 0.5"
    )
    assert not back.as_planned
    third = kept.freeze("f3", "d1", "r", "c2")
    assert third.description.startswith(
        "design and code changed 3 times after the first result: primary.margin 0.5"
    )


def test_a_lock_of_before_fields_were_kept_is_read(kept: Study) -> None:
    older = {"fingerprint": "f1", "design": "d2", "rule": "r", "code": "c", "made": "then"}
    change = {"from": "f1", "to": "f2", "what": "design, code", "when": "later"}
    (kept.folder / "plan.lock").write_text(json.dumps({**older, "changes": [change]}))
    lock = kept.read_lock()
    assert isinstance(lock, PlanLock)
    assert lock.description == "design and code changed after the first result"


def test_fields_that_part_are_named_in_short_and_a_few() -> None:
    def plan(margin: object, question: str = "", text: str = "t1", **more: object) -> PlanRecord:
        table = plan_table("one")
        table["design"] |= {
            "primary": {**table["design"]["primary"], "margin": margin},
            "question": question,
            **more,
        }
        table["arms"]["causal"]["text"] = text
        return parse_plan(table, Path("plan.json"))

    assert plan_differences(plan("10 % compute"), plan(0.5, "Why?")) == (
        "primary.margin '10 % compute' → 0.5",
    )
    assert plan_differences(plan(1), plan(1, seeds=[1, 2])) == ("seeds [1, 2, 3, 4] → [1, 2]",)
    many = plan_differences(plan(1), plan(1, **{f"field{number}": number for number in range(7)}))
    assert (len(many), many[-1]) == (6, "and 2 more")
    long = plan_differences(plan("a"), plan("b" * 99))
    assert long == (f"primary.margin 'a' → '{'b' * 38}…",)
    assert plan_differences(plan(1), plan(1, text="t2")) == ("arms.causal.text 't1' → 't2'",)
    assert plan_differences(plan(1), plan(1)) == ()


def test_a_plan_of_an_older_format_parts_in_nothing_that_came_later() -> None:
    older = plan_table("one")
    del older["design"]["equal_noise"], older["design"]["primary"]["test"]
    plans = [parse_plan(table, Path("plan.json")) for table in (older, plan_table("one"))]
    assert plan_differences(*plans) == ()


def rows_until(home: Path, run: str, n_steps: int) -> None:
    (home / run / "rows.jsonl").unlink(missing_ok=True)
    with RowWriter(home / run / "rows.jsonl") as rows:
        for step in range(n_steps):
            rows.write({"step": step})


def test_a_finished_run_without_its_last_row_is_damaged_and_no_other_is(kept: Study) -> None:
    kept.require_complete_rows("run1", 10)  # of which nothing is there
    for state in (
        "running\n",
        "failed: DivergedError: not finite\n",
        "failed: RecordError: no space left\n",
    ):
        finished(kept.root, "run1", state)
        rows_until(kept.root, "run1", 4)
        kept.require_complete_rows("run1", 10)
    finished(kept.root, "run1")
    said = (
        r"run1 finished, but its rows end at step 4 of 10; remove that folder and run the study"
        r" again"
    )
    with pytest.raises(RecordError, match=said):
        kept.require_complete_rows("run1", 10)
    (kept.root / "run1" / "rows.jsonl").unlink()
    with pytest.raises(RecordError, match="its rows end at step 0 of 10"):
        kept.require_complete_rows("run1", 10)
    rows_until(kept.root, "run1", 10)
    kept.require_complete_rows("run1", 10)


def test_a_plan_that_is_lost_or_torn_is_written_again_by_the_same_command(kept: Study) -> None:
    kept.write_plan({"order": []})
    kept.freeze("f1", "d1", "r", "c")
    (kept.folder / "plan.json").write_text("{")
    with pytest.raises(
        RecordError, match=r"plan.json is not JSON: .*; `paribus run DESIGN`, the command the study"
    ):
        existing_study(kept.root, "one").read_plan()
    (kept.folder / "plan.json").unlink()
    with pytest.raises(
        RecordError, match=r"one has lost its plan.json; `paribus run DESIGN`, .* writes it again"
    ):
        existing_study(kept.root, "one")

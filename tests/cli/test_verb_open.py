"""A study whose number of seeds is open: carried further by the same verb, as planned, and
nothing done twice.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from trained_study import design_table

import paribus as pb
from paribus.analyse import detectable_effect
from paribus.record import existing_study
from paribus.workspace import Execution, Workspace

SHORT = {
    "seeds": "open",
    "base.training.n_steps": 2,
    "base.training.checkpoint_every": 2,
    "arms.reverse": None,
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def words(verb: str, changes: dict[str, Any], cache: Path, *more: str) -> list[str]:
    Path("little.json").write_text(json.dumps(design_table(changes)))
    return [verb, "little.json", "--cache", str(cache), "--device", "cpu", *more]


def test_seeds_are_added_to_the_same_locked_plan(ask, here: Path, study_cache: Path) -> None:
    told = ask(*words("run", SHORT, study_cache, "--seeds", "3"))
    assert told.status == 0, told.err
    assert "runs   6/6  " in told.out
    kept = existing_study(Path("runs"), "little")
    lock = kept.read_lock()
    seconds = {
        cell.run: (kept.root / cell.run / "rows.jsonl").stat().st_mtime_ns
        for cell in kept.read_cells()
    }
    assert ask(*words("run", SHORT, study_cache, "--seeds", "5", "--shard", "1/2")).status in (
        0,
        75,
    )
    told = ask(*words("run", SHORT, study_cache, "--seeds", "5", "--shard", "2/2"))
    assert told.status == 0, told.err
    again = ask(*words("run", SHORT, study_cache))
    assert again.status == 0, again.err
    assert "5 seeds, because the design leaves their number open; --seeds N adds more" in again.out
    assert "runs: 10 of 10 runs are there already" in again.out
    table = pb.run(
        design_table(SHORT),
        seeds=6,
        name="little",
        execution=Execution(Workspace(cache=study_cache, device="cpu")),
    )
    assert sorted({row["seed"] for row in table}) == [1, 2, 3, 4, 5, 6]
    assert kept.read_lock() == lock
    assert lock is not None
    assert lock.as_planned
    assert seconds == {run: (kept.root / run / "rows.jsonl").stat().st_mtime_ns for run in seconds}
    assert "6 seeds, because the design leaves" in ask(*words("run", SHORT, study_cache)).out
    assert pb.watch("little").caption == "12 finished"
    told = ask("report", "little", "--format", "md")
    assert told.status == 0, told.err
    assert told.out.startswith(
        "The number of seeds is open: the verdict is read at 6, and may be at any number.\n"
    )
    assert (
        "locked before the first result, and has not changed since"
        in Path("runs/studies/little/report.md").read_text()
    )


def test_a_plan_prices_a_seed_and_says_what_an_open_number_can_see(
    ask, here: Path, study_cache: Path
) -> None:
    told = ask(*words("plan", SHORT, study_cache, "--seeds", "3"))
    assert told.status == 0, told.err
    assert "runs       6; " in told.out
    assert "per seed   2 runs; " in told.out
    assert "3 seeds are counted above, and --seeds N adds more" in told.out
    seen = ", ".join(f"{detectable_effect(n, open_ended=True):.2g}" for n in (5, 10, 20))
    assert (
        "power      with 3, 5, 10, 20 seeds (the number is open) and 1 comparison: an effect"
        f" of none, {seen} sd" in (told.out)
    )


def test_one_noise_for_all_arms_is_refused_with_its_reason(
    ask, here: Path, study_cache: Path
) -> None:
    told = ask(*words("plan", {"equal_noise": True}, study_cache))
    assert told.status == 2
    assert "8 to 17 % of such studies say something false" in told.err


def test_seeds_of_a_design_that_has_its_own_are_refused(ask, here: Path, study_cache: Path) -> None:
    told = ask(*words("run", {}, study_cache, "--seeds", "8"))
    assert told.status == 2
    assert (
        "--seeds is 8, but the design lists 3 seeds of its own; leave it out, or write seeds"
        " = 'open'" in told.err
    )

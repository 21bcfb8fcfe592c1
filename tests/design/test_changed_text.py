"""A study reads the text its plan was made with, whatever becomes of the files meanwhile; or it
stops and says so.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from trained_study import design_table, make_small_plan

from paribus.cli import main
from paribus.design import Plan, freeze, run_study
from paribus.design.cell_run import is_complete
from paribus.design.study_watcher import StudyWatcher
from paribus.errors import RecordError
from paribus.record import Study, open_study, read_stages
from paribus.record.lock import hold_lock
from paribus.workspace import Execution, Workspace

SHORT = {"base.training.n_steps": 2, "base.training.checkpoint_every": 2, "arms.reverse": None}


class Meddler(StudyWatcher):
    """Told of every cell; meddles when the first one has ended."""

    def __init__(self, meddle: Any = lambda: None) -> None:
        self.meddle, self.n_ended = meddle, 0

    def begin_round(self, name: str, cells: Any, later_flops: float = 0.0) -> Meddler:
        self.cells = cells
        return self

    def end(self, cell: Any, fault: str | None) -> None:
        self.n_ended += 1
        if self.n_ended == 1:
            self.meddle()


def written(path: Path, letter: str) -> Path:
    rows = [
        {"text": f"{number:03} {letter * (9 + number % 5)} {number % 7}{letter}"}
        for number in range(300)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def of_files(path: Path) -> dict[str, Any]:
    return {
        **SHORT,
        "base.corpus": {
            "sources": [{"kind": "files", "paths": str(path)}],
            "valid": 0.2,
            "test": 0.2,
        },
    }


def plan_and_study(tmp_path: Path) -> tuple[Plan, Study, Path]:
    source = written(tmp_path / "given.jsonl", "a")
    return (
        make_small_plan(tmp_path / "cache", of_files(source)),
        open_study(tmp_path / "runs", "one"),
        source,
    )


@pytest.mark.parametrize("jobs", [1, 2])
def test_files_that_change_while_a_study_goes_on_change_no_run_of_it(
    tmp_path: Path, jobs: int
) -> None:
    plan, kept, source = plan_and_study(tmp_path)
    written(source, "b")
    watch = Meddler()
    done = run_study(
        plan, kept, Execution(Workspace(cache=tmp_path / "cache", device="cpu"), jobs), watch
    )
    assert (done.failures, done.n_waiting) == ({}, 0)
    assert all(is_complete(cell, kept) for cell in watch.cells)
    runs = [path.parent for path in kept.root.glob("*/spec.json")]
    assert len(runs) == 6
    assert {read_stages(folder)[-1]["text"] for folder in runs} == {
        plan.arms[0].dataset.fingerprint
    }


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_text_changed_in_the_cache_stops_the_study(tmp_path: Path, jobs: int) -> None:
    plan, kept, _ = plan_and_study(tmp_path)
    path = plan.arms[0].dataset.folder / "0.train.tokens"

    def flip() -> None:
        stat, content = path.stat(), bytearray(path.read_bytes())
        content[100] ^= 1
        path.write_bytes(content)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    watch = Meddler(flip)
    with pytest.raises(
        RecordError, match=r"0.train.tokens is not what was written \(sha256 differs\); remove that"
    ):
        run_study(
            plan,
            kept,
            Execution(Workspace(cache=tmp_path / "cache", device="cpu"), jobs),
            watch,
        )
    assert watch.n_ended < 6


def test_a_run_that_is_gone_when_its_study_ends_is_told(tmp_path: Path) -> None:
    """Whoever carried it out said that it is done; what counts is what lies there."""
    plan, kept, _ = plan_and_study(tmp_path)

    def remove() -> None:
        (state,) = kept.root.glob("*/state")
        shutil.rmtree(state.parent)

    done = run_study(
        plan,
        kept,
        Execution(Workspace(cache=tmp_path / "cache", device="cpu")),
        Meddler(remove),
    )
    (said,) = done.failures.values()
    assert said.startswith(f"{kept.root}/")
    assert said.endswith(" is not done although it was run; run the study again")


def test_a_text_changed_at_the_same_size_and_time_is_found_before_anything_is_frozen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan, _, source = plan_and_study(tmp_path)
    path = plan.arms[0].dataset.folder / "0.valid.cuts"
    stat, content = path.stat(), bytearray(path.read_bytes())
    content[8] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    Path("design.json").write_text(json.dumps(design_table(of_files(source))))
    words = [
        "run",
        "design.json",
        "--name",
        "two",
        "--cache",
        str(tmp_path / "cache"),
        "--device",
        "cpu",
    ]
    assert main(words) == 1
    assert (
        "0.valid.cuts is not what was written (sha256 differs); remove that folder"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "runs/studies/two/plan.lock").exists()


def test_another_plan_is_not_begun_while_one_is_being_carried_out(tmp_path: Path) -> None:
    plan, kept, source = plan_and_study(tmp_path)
    means = Execution(Workspace(cache=tmp_path / "cache", device="cpu"), shard=(1, 2))
    run_study(plan, kept, means, Meddler())
    written(source, "b")
    other = make_small_plan(tmp_path / "cache", of_files(source))
    busy = kept.root / kept.read_cells()[0].run
    busy.mkdir(exist_ok=True)
    with (
        hold_lock(busy / "lock"),
        pytest.raises(
            RecordError,
            match=r"is being run with the plan .*: arms.*text .* → .*; wait until that",
        ),
    ):
        run_study(
            other,
            kept,
            Execution(Workspace(cache=tmp_path / "cache", device="cpu"), shard=(2, 2)),
            Meddler(),
        )
    before = kept.read_lock()
    assert before is not None
    assert before.latest_fingerprint == plan.fingerprint


def test_a_plan_that_another_process_changed_meanwhile_is_told(tmp_path: Path) -> None:
    plan, kept, source = plan_and_study(tmp_path)
    written(source, "b")
    other = make_small_plan(tmp_path / "cache", of_files(source))
    watch = Meddler(lambda: freeze(other, kept))
    with pytest.raises(
        RecordError,
        match=r"was begun with the plan .*, and its plan.lock now holds .*; run one plan",
    ):
        run_study(plan, kept, Execution(Workspace(cache=tmp_path / "cache", device="cpu")), watch)

"""A study however often it is interrupted: nothing is made twice, and its rows are those of an
undisturbed one.
"""

import contextlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from trained_study import design_table, make_small_plan, train_study

from paribus.analyse import study_findings, study_rows
from paribus.analyse.bracket import bracket_rate
from paribus.cli.run import run
from paribus.design import freeze, freeze_or_describe_departure, run_study
from paribus.design.study_watcher import StudyWatcher
from paribus.errors import RecordError, SpecError
from paribus.record import Study, existing_study, open_study
from paribus.record.checksums import write_listed_file
from paribus.record.plan import EDITION
from paribus.record.rows import CLOCK_FIELDS
from paribus.workspace import Execution, Workspace

RUNNER = Path(__file__).parents[1] / "support" / "study_runner.py"
SHORT = {"base.training.n_steps": 2, "base.training.checkpoint_every": 2}
SWEPT = {"tune": True, "arms.reverse": None}
# Half as long again, so that three rates and more are below the unigram model under every sweep
# seed.
LEARNT = {
    f"base.training.{name}": 24
    for name in ("n_steps", "row_every", "valid_every", "checkpoint_every")
}


class Quiet(StudyWatcher):
    """Told of every cell, and remembers those that ended."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    def end(self, cell: Any, fault: str | None) -> None:
        self.ended.append(str(cell))


def told(kept: Study) -> list[dict[str, Any]]:
    """The rows of a study, but for its name and the time they took."""
    return [
        {name: value for name, value in row.items() if name not in (*CLOCK_FIELDS, "study")}
        for row in study_rows(kept)
    ]


def result_files(home: Path) -> dict[Path, int]:
    """When each file of a finished run was last written; measuring it adds answers and their
    checksums.
    """
    done = [
        folder.parent
        for folder in home.glob("*/state")
        if folder.read_text().startswith("finished")
    ]
    growing = ("lock", "checksums.jsonl")
    files = [
        path
        for folder in done
        for path in folder.rglob("*")
        if path.is_file() and path.name not in growing
    ]
    return {path: path.stat().st_mtime_ns for path in files if "evaluations" not in path.parts}


@contextmanager
def runner(design: Path, cache: Path) -> Iterator[Any]:
    command = [sys.executable, str(RUNNER), str(design), str(cache)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"

        def started(home: Path) -> int:
            print(home, file=process.stdin, flush=True)
            return int(process.stdout.readline())  # type: ignore[union-attr]

        yield started, lambda: int(process.stdout.readline())  # type: ignore[union-attr]
        process.stdin.close()


def n_finished(home: Path) -> int:
    return sum(path.read_text().startswith("finished") for path in home.glob("*/state"))


def wait(process: int, home: Path, n: int) -> None:
    """Until so many runs have ended."""
    while n_finished(home) < n:
        os.kill(process, 0)  # fails if it has ended
        time.sleep(0.002)


def test_three_kills_repeat_no_finished_run_and_change_no_row(
    tmp_path: Path, study_cache: Path
) -> None:
    design, torn, draw = tmp_path / "killed.json", tmp_path / "torn", random.Random(1)
    design.write_text(json.dumps(design_table()))
    with runner(design, study_cache) as (started, ended):
        began = time.monotonic()
        started(tmp_path / "whole")
        assert ended() == 0
        longest = (time.monotonic() - began) / 20  # about half a run
        finished: dict[Path, int] = {}
        for n in (0, 2, 4):
            process = started(torn)
            wait(process, torn, n)
            time.sleep(draw.uniform(0, longest))
            os.kill(process, signal.SIGKILL)
            assert ended() == -signal.SIGKILL
            now = result_files(torn)
            assert now.items() >= finished.items()
            finished = now
        assert finished
        process = started(torn)
        wait(process, torn, 6)
        os.kill(process, signal.SIGTERM)
        assert ended() == 75
        started(torn)
        assert ended() == 0
    assert result_files(torn).items() >= finished.items()
    assert told(existing_study(torn, "killed")) == told(
        existing_study(tmp_path / "whole", "killed")
    )


def test_a_finished_study_is_found_and_nothing_is_done(
    finished_home: Path, study_cache: Path, tmp_path: Path
) -> None:
    home = shutil.copytree(finished_home, tmp_path / "runs")
    before = result_files(home)
    page = io.StringIO()
    with contextlib.redirect_stdout(page):
        table = run(
            design_table(),
            name="little",
            execution=Execution(Workspace(home, cache=study_cache, device="cpu")),
        )
    assert "runs: 9 of 9 runs are there already" in page.getvalue()
    assert result_files(home) == before
    assert len(table) == 9


def test_two_arms_that_differ_in_name_only_are_one_run_and_identical(
    tmp_path: Path, study_cache: Path
) -> None:
    table = design_table({"arms": None, "baseline": "one", "factor": "architecture.mask"})
    table["arms"] = {
        "one": {"architecture": {"mask": "full"}},
        "two": {"architecture": {"mask": "full"}},
    }
    with contextlib.redirect_stdout(io.StringIO()):
        run(
            table,
            name="twins",
            execution=Execution(Workspace(tmp_path, cache=study_cache, device="cpu")),
        )
    kept = existing_study(tmp_path, "twins")
    assert len({cell.run for cell in kept.read_cells()}) == 3
    assert len(list(tmp_path.glob("*/state"))) == 3
    assert study_findings(kept).arm("two").judgement.verdict.word == "identical"


def test_a_study_swept_in_shards_makes_every_run_once_and_reports_at_the_rates_found(
    tmp_path: Path, study_cache: Path
) -> None:
    plan = make_small_plan(study_cache, SWEPT | LEARNT | {"tune": {"bracket": True}})
    kept, ended, waited = open_study(tmp_path, "swept"), [], []
    for attempt in range(12):
        watch = Quiet()
        done = run_study(
            plan,
            kept,
            Execution(Workspace(cache=study_cache, device="cpu"), shard=(attempt % 2 + 1, 2)),
            watch,
        )
        ended += watch.ended
        waited.append(done.n_waiting)
        if done.rates is not None and not done.n_waiting:
            break
    assert waited[0] > 0
    assert waited[-1] == 0
    assert len(ended) == len(set(ended)) == len({cell.run for cell in kept.read_cells()})
    rates = kept.read_rates()
    assert rates is not None
    assert done.rates == {arm: found["rate"] for arm, found in rates.items()}
    assert all(len(found["points"]) > 2 * len(found["grid"]) for found in rates.values())
    assert all(
        found["unigram"] > min(score for _, score in found["points"] if score)
        for found in rates.values()
    )
    reported = [row for row in study_rows(kept) if row["purpose"] == "reported"]
    assert {row["rate"] for row in reported if row["arm"] == "full"} == {done.rates["full"]}
    assert all("pseudo.valid" in row for row in study_rows(kept) if row["purpose"] == "sweep")
    beside = {
        row["rate"]
        for row in study_rows(kept)
        if row["purpose"] == "bracket" and row["arm"] == "full"
    }
    assert beside == {bracket_rate(done.rates["full"], side) for side in ("below", "above")}
    told = study_findings(kept)
    assert set(told.arm("causal").brackets) == {"below", "above"}
    assert list(told.arm("causal").gains_by_rate) == rates["full"]["grid"]
    assert told.remarks == ()
    plain = make_small_plan(study_cache, {"arms.reverse": None})
    run_study(plain, kept, Execution(Workspace(cache=study_cache, device="cpu")), Quiet())
    assert kept.read_rates() is None
    assert study_findings(kept).remarks == ("at one rate for all arms, not tuned",)


def test_a_sweep_in_which_no_rate_trains_is_refused(tmp_path: Path, study_cache: Path) -> None:
    """At such rates nothing is learnt, so that the grid is extended twice in vain."""
    twin = {"arms.causal": None, "arms.twin": {"architecture": {"mask": "full"}}}
    plan = make_small_plan(
        study_cache, SHORT | SWEPT | twin | {"base.training.optimizer.rate": 1e-9}
    )
    kept = open_study(tmp_path, "edge")
    with pytest.raises(
        SpecError,
        match=r"rates: after 2 extensions, to .*, no run of an arm leaves .*: too short to tune",
    ):
        run_study(plan, kept, Execution(Workspace(cache=study_cache, device="cpu")), Quiet())
    assert {cell.purpose for cell in kept.read_cells()} == {"sweep"}


@pytest.mark.parametrize(
    ("rate", "outcome", "reason", "word"),
    [
        (1e30, "diverged", "is not finite", "unstable"),
        (
            1e-5,
            "undertrained",
            "not trained long enough, still worse than the unigram model",
            "no verdict",
        ),
    ],
)
def test_an_arm_that_did_not_train_is_an_outcome_that_no_seed_hides(
    tmp_path: Path, study_cache: Path, rate: float, outcome: str, reason: str, word: str
) -> None:
    """A run that diverged is another outcome than one that has learnt too little, whose answers
    are all finite.
    """
    table = design_table({"factor": "training.optimizer.rate", "baseline": "fit", "arms": None})
    table["arms"] = {"fit": {}, "unfit": {"training": {"optimizer": {"rate": rate}}}}
    table["base"]["architecture"]["mask"] = "full"
    with contextlib.redirect_stdout(io.StringIO()):
        found = run(
            table,
            name="unfit",
            execution=Execution(Workspace(tmp_path, cache=study_cache, device="cpu")),
        )
    assert [row["outcome"] for row in found] == ["finished"] * 3 + [outcome] * 3
    assert reason in found[5]["reason"]
    judgement = study_findings(existing_study(tmp_path, "unfit")).arm("unfit").judgement
    assert judgement.verdict.word == word
    assert str(judgement.arm_trained) == "0 of 3"
    assert len(judgement.seeds) == 3


def test_a_design_changed_after_the_first_result_is_recorded_and_keeps_results_apart(
    finished_home: Path, tmp_path: Path, study_cache: Path
) -> None:
    shutil.copytree(finished_home, tmp_path / "runs")
    kept = existing_study(tmp_path / "runs", "little")
    lock = kept.read_lock()
    assert lock is not None
    assert lock.as_planned
    before = kept.read_plan()
    changed = make_small_plan(study_cache, {"seeds": 4})
    said = freeze_or_describe_departure(changed, kept)
    assert said is not None
    assert "has results of the plan" in said
    assert said.endswith(
        "; running this one is recorded as a change: design; seeds [1, 2, 3] → [1, 2, 3, 4]"
    )
    assert kept.read_plan() == before
    assert freeze_or_describe_departure(make_small_plan(study_cache), kept) is None
    freeze(changed, kept)
    lock = kept.read_lock()
    assert lock is not None
    assert [change["what"] for change in lock.changes] == ["design"]
    assert (
        lock.description == "design changed after the first result: seeds [1, 2, 3] → [1, 2, 3, 4]"
    )
    assert len(study_rows(kept)) == 0
    assert len(kept.read_cells()) == 9
    with pytest.raises(
        SpecError,
        match=r"12 of 12 runs are missing or not yet run: full, seed 1; .*; full, seed 3; 9 more",
    ):
        study_findings(kept)


def test_runs_made_under_another_environment_are_not_pooled_silently(
    finished_home: Path, tmp_path: Path, study_cache: Path
) -> None:
    shutil.copytree(finished_home, tmp_path / "runs")
    kept = existing_study(tmp_path / "runs", "little")
    cells = sorted(kept.read_cells(), key=lambda cell: cell.seed)
    for cell in cells:
        path = kept.root / cell.run / "environment.json"
        elsewhere = path.read_text().replace('"n_threads": ', '"n_threads": 10')
        write_listed_file(path.parent, path.name, elsewhere.encode())
    train_study(kept.root, study_cache)  # all is there, so nothing is mixed
    shutil.rmtree(kept.root / cells[-1].run)
    said = (
        r"some of its runs were made under another environment: n_threads was 10\d, is \d; continue"
        r" under"
        r" the former"
    )
    jobs = "; --jobs 2 or more gives each run one thread, --jobs 1 gives it all"
    with pytest.raises(
        RecordError,
        match=(
            rf"{said} one, use another folder with --runs, or give --accept-environment.*{jobs}"
        ),
    ):
        train_study(kept.root, study_cache)
    with contextlib.redirect_stdout(io.StringIO()):
        run(
            design_table(),
            name="little",
            execution=Execution(
                Workspace(kept.root, cache=study_cache, device="cpu", accept_environment=True)
            ),
        )
    assert study_findings(kept).remarks[-1] == "runs were made under different n_threads"


def test_runs_made_under_another_environment_are_refused_and_the_plan_stays_as_it_was(
    finished_home: Path, tmp_path: Path, study_cache: Path
) -> None:
    """A sweep made elsewhere counts too: rates found on one machine do not silently serve runs
    on another.
    """
    plan = make_small_plan(study_cache, SHORT | SWEPT)
    kept = open_study(tmp_path, "swept")
    run_study(
        plan,
        kept,
        Execution(Workspace(cache=study_cache, device="cpu"), shard=(1, 2)),
        Quiet(),
    )
    before = kept.read_lock()
    elsewhere = replace(plan, environment={**plan.environment, "torch": "0.0", "code": "0" * 64})
    with pytest.raises(
        RecordError, match=r"made under another environment: code was .*; torch was "
    ) as caught:
        run_study(elsewhere, kept, Execution(Workspace(cache=study_cache, device="cpu")), Quiet())
    assert "--jobs" not in str(caught.value)
    assert kept.read_lock() == before


def test_runs_that_another_study_had_made_before_are_told(
    finished_home: Path, tmp_path: Path, study_cache: Path
) -> None:
    shutil.copytree(finished_home, tmp_path / "runs")
    kept = open_study(tmp_path / "runs", "again")
    for _ in range(2):
        run_study(
            make_small_plan(study_cache, {"seeds": 4}),
            kept,
            Execution(Workspace(cache=study_cache, device="cpu")),
            Quiet(),
        )
        lock = kept.read_lock()
        assert lock is not None
        assert lock.n_older == 9
    first = existing_study(tmp_path / "runs", "little").read_lock()
    assert first is not None
    assert first.n_older == 0


def test_a_finished_run_that_has_lost_rows_stops_the_study_until_it_is_removed(
    finished_home: Path, tmp_path: Path, study_cache: Path
) -> None:
    shutil.copytree(finished_home, tmp_path / "runs")
    kept = existing_study(tmp_path / "runs", "little")
    folder = kept.root / kept.read_cells()[0].run
    whole = (folder / "rows.jsonl").read_bytes()
    (folder / "rows.jsonl").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(
        RecordError,
        match=r"finished, but its rows end at step \d+ of 16; remove that folder and run",
    ):
        train_study(kept.root, study_cache)
    shutil.rmtree(folder)
    train_study(kept.root, study_cache)
    assert [row["outcome"] for row in study_rows(kept)] == ["finished"] * 9


def test_a_plan_that_is_torn_or_gone_is_written_again(
    finished_home: Path, tmp_path: Path, study_cache: Path
) -> None:
    shutil.copytree(finished_home, tmp_path / "runs")
    kept = existing_study(tmp_path / "runs", "little")
    before, path = kept.read_plan(), kept.folder / "plan.json"
    for spoil in (lambda: path.write_text("{"), path.unlink):
        spoil()
        train_study(kept.root, study_cache)
        assert kept.read_plan() == {**before, "edition": EDITION}
    path.write_text("[")
    freeze(make_small_plan(study_cache, {"seeds": 4}), kept)  # what it was before cannot be told
    lock = kept.read_lock()
    assert lock is not None
    assert lock.description == "design changed after the first result"


def test_a_worker_whose_sender_is_gone_ends_quietly() -> None:
    command = [sys.executable, "-m", "paribus.design.worker"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        assert worker.stderr is not None
        worker.stdout.close()  # nobody reads its answers any more
        print('{"run": {}}', file=worker.stdin, flush=True)
        assert worker.stderr.read() == ""
        assert worker.wait() == 0

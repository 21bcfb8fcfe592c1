"""A study: the plan of a design, frozen, and which run is which of its cells.

runs/studies/bidirectional-input/
  plan.json     what was planned: arms, control table, seeds, yardsticks, machine
  plan.lock     its fingerprint, and every change made after the first result
  cells.json    arm, seed, rate and purpose of every run, and the run's name
  rates.json    what each arm's sweep found
  checksums.jsonl  the sha256 of each of these files
  lock          who is writing these
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from paribus.errors import RecordError
from paribus.record.checksums import (
    is_listed,
    remove_listed_file,
    require_unchanged_file,
    write_listed_file,
)
from paribus.record.disk import explained, json_bytes, read_json
from paribus.record.evaluations import evaluation_paths, require_unchanged_evaluation
from paribus.record.file_names import (
    CELLS_FILE,
    LADDER_RATES_FILE,
    LOCK_FILE,
    PLAN_FILE,
    PLAN_LOCK_FILE,
    PREDICTIONS_FILE,
    RATES_FILE,
    ROWS_FILE,
    SPEC_FILE,
    STAGE_RATES_FILE,
    STATE_FILE,
    STUDIES,
)
from paribus.record.folder import named_folder
from paribus.record.lock import hold_lock, is_locked
from paribus.record.plan_formats import REPAIR, plan_format, require_no_newer_format
from paribus.record.plan_lock import PlanLock, add_change, parse_plan_lock
from paribus.record.rows import last_row, require_last_step
from paribus.record.state import read_state
from paribus.record.task_answers import (
    require_unchanged_task_evaluation,
    task_evaluation_paths,
)

_TRIES, _PAUSE_SECONDS = 500, 0.02
DIVERGED_PREFIX = "DivergedError"
_RESTORE_ADVICE = "restore it, or begin under another name"
_REMOVE_ADVICE = "remove it, and `paribus run` writes it"
# `length` is a whole recipe scaled to a declared share of the steps, `bracket` a reported seed at a
# rate beside the tuned one, `variance` a start, an order or a rerun made to take the noise apart,
# `ladder` another size or duration, `ladder_sweep` a sweep at such a size, `predicted` a run that a
# law was asked about beforehand.
Purpose = Literal[
    "stage_sweep",
    "sweep",
    "reported",
    "length",
    "bracket",
    "variance",
    "ladder_sweep",
    "ladder",
    "predicted",
]
_PURPOSES = get_args(Purpose)
RunOutcome = Literal["finished", "diverged", "failed", "open"]


@dataclass(frozen=True)
class CellRecord:
    """One cell of a study, and the run that fills it."""

    arm: str
    seed: int
    rate: float
    purpose: Purpose
    run: str
    n_steps: int
    plan: str = ""  # the fingerprint of the design it was a cell of
    size: int | None = None  # d_model of the base, on a rung of a ladder


@dataclass(frozen=True)
class Study:
    """The folder of a study beside its runs."""

    root: Path
    folder: Path

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        write_listed_file(self.folder, PLAN_FILE, json_bytes(dict(plan)))

    def read_plan(self) -> dict[str, Any]:
        """The plan as it is written, whatever it holds."""
        return _read_table(self.folder / PLAN_FILE, REPAIR)

    def require_no_newer_plan(self) -> None:
        """RecordError where a newer version of paribus wrote the plan; a damaged one may be
        written again.
        """
        try:
            table = self.read_plan()
        except RecordError:
            return
        require_no_newer_format(table.get("format"), self.folder / PLAN_FILE)

    def add_cells(self, cells: Iterable[CellRecord]) -> None:
        """Cells beside those there are; a process that knows of fewer takes none away."""
        with self._write_lock():
            if (self.folder / CELLS_FILE).exists():
                require_unchanged_file(self.folder, CELLS_FILE, _RESTORE_ADVICE)
            cells_by_key = {_cell_key(cell): cell for cell in (*self.read_cells(), *cells)}
            write_listed_file(
                self.folder,
                CELLS_FILE,
                json_bytes([_cell_table(cells_by_key[key]) for key in sorted(cells_by_key)]),
            )

    def read_cells(self) -> tuple[CellRecord, ...]:
        """Every cell there ever was, of whatever plan."""
        path = self.folder / CELLS_FILE
        if not path.exists():
            return ()
        match read_json(path):
            case [*cells]:
                return tuple(_parse_cell(cell, path) for cell in cells)
            case other:
                raise RecordError(
                    f"{path} lists no cells: it is a {type(other).__name__}; {_REMOVE_ADVICE}"
                )

    def require_cells(self) -> None:
        """RecordError where cells were listed and the list is gone: nobody knows them then."""
        path = self.folder / CELLS_FILE
        if not path.exists() and is_listed(self.folder, CELLS_FILE):
            raise RecordError(f"{path} is missing; {_RESTORE_ADVICE}")

    def planned_cells(self) -> tuple[CellRecord, ...]:
        """The cells of the plan as it stands; what a former plan left is no result of this one."""
        plan = self.read_plan()
        plan_format(plan, self.folder / PLAN_FILE)
        own = plan.get("design_fingerprint")  # every format has it at the same place
        return tuple(cell for cell in self.read_cells() if own in (None, cell.plan))

    def write_rates(self, rates: Mapping[str, Any]) -> None:
        write_listed_file(self.folder, RATES_FILE, json_bytes(dict(rates)))

    def write_stage_rates(self, rates: Sequence[Mapping[str, Any]]) -> None:
        """What the sweeps of the stages before the last have found, in order; no file where there
        are no such stages.
        """
        if not rates:
            remove_listed_file(self.folder, STAGE_RATES_FILE)
            return
        write_listed_file(self.folder, STAGE_RATES_FILE, json_bytes(list(map(dict, rates))))

    def write_ladder_rates(self, rates: Mapping[str, Any]) -> None:
        """What sweeps at sizes of the ladder have found, and the rates that follow."""
        write_listed_file(self.folder, LADDER_RATES_FILE, json_bytes(dict(rates)))

    def read_ladder_rates(self) -> dict[str, Any] | None:
        """What sweeps at sizes of the ladder have found; None where there were none."""
        path = self.folder / LADDER_RATES_FILE
        if path.exists():
            return _read_table(path, REPAIR)
        return None

    def lock_predictions(self, predictions: Sequence[Mapping[str, Any]]) -> None:
        """Write down what laws say of runs that are still to be made; what is there stays."""
        with self._write_lock():
            if not (self.folder / PREDICTIONS_FILE).exists():
                write_listed_file(
                    self.folder, PREDICTIONS_FILE, json_bytes(list(map(dict, predictions)))
                )

    def read_predictions(self) -> list[Any]:
        """What was predicted; nothing where there is no such file."""
        path = self.folder / PREDICTIONS_FILE
        if not path.exists():
            return []
        require_unchanged_file(self.folder, PREDICTIONS_FILE, _RESTORE_ADVICE)
        match read_json(path):
            case [*predictions]:
                return predictions
            case other:
                raise RecordError(
                    f"{path} lists no predictions: it is a {type(other).__name__};"
                    f" {_RESTORE_ADVICE}"
                )

    def remove_rates(self) -> None:
        """No sweep speaks of the plan as it stands."""
        remove_listed_file(self.folder, RATES_FILE)
        remove_listed_file(self.folder, STAGE_RATES_FILE)
        self.remove_ladder_rates()

    def remove_ladder_rates(self) -> None:
        """No sweep speaks of the sizes of the ladder."""
        remove_listed_file(self.folder, LADDER_RATES_FILE)

    def read_stage_rates(self) -> list[Any]:
        """What the sweeps of the stages before the last have found; nothing where there are no
        such stages.
        """
        path = self.folder / STAGE_RATES_FILE
        if not path.exists():
            return []
        match read_json(path):
            case [*rates]:
                return rates
        raise RecordError(f"{path} lists no rates; {REPAIR}")

    def read_rates(self) -> dict[str, Any] | None:
        path = self.folder / RATES_FILE
        if path.exists():
            return _read_table(path, REPAIR)
        return None

    def run_outcome(self, run: str) -> tuple[RunOutcome, str]:
        """How a run stands: diverged is a result, failed is a fault of the machine."""
        state = read_state(self.root / run / STATE_FILE)
        match state:
            case None:
                return "open", ""
            case (word, reason) if word == "failed" and reason.startswith(DIVERGED_PREFIX):
                return "diverged", reason
            case (word, reason):
                return ("open" if word == "running" else word), reason

    def require_complete_rows(self, run: str, n_steps: int) -> None:
        """RecordError where a finished run has not the row of its last step, which every run
        writes before it ends.
        """
        if self.run_outcome(run)[0] != "finished":
            return
        path = self.root / run / ROWS_FILE
        require_last_step(
            path, last_row(path), n_steps, "remove that folder and run the study again"
        )

    def require_unchanged_run(self, run: str) -> None:
        """RecordError where a run that has come to an end does not hold what was written."""
        folder = self.root / run
        if self.run_outcome(run)[0] not in ("finished", "diverged"):
            return
        for path in evaluation_paths(folder):
            require_unchanged_evaluation(path)
        for path in task_evaluation_paths(folder):
            require_unchanged_task_evaluation(path)
        for name in (SPEC_FILE, ROWS_FILE, STATE_FILE):
            require_unchanged_file(
                folder, name, "restore it, or remove that folder and run the study again"
            )

    def read_lock(self) -> PlanLock | None:
        path = self.folder / PLAN_LOCK_FILE
        if not path.exists():
            return None
        return parse_plan_lock(
            read_json(path, _RESTORE_ADVICE), f"{path} is no lock of a plan", _RESTORE_ADVICE
        )

    def freeze(
        self, fingerprint: str, design: str, rule: str, code: str, fields: Sequence[str] = ()
    ) -> PlanLock:
        """Lock a plan; once a run of it has a result, what changes is written down and never
        forgotten.

        `fields` says from what to what, in words.
        """
        with self._write_lock():
            if self.has_result():
                require_unchanged_file(self.folder, PLAN_LOCK_FILE, _RESTORE_ADVICE)
            before, now = self.read_lock(), datetime.now(UTC).isoformat(timespec="seconds")
            lock = PlanLock(
                fingerprint=fingerprint, design=design, rule=rule, code=code, frozen_at=now
            )
            if before is not None and before.latest_fingerprint == fingerprint:
                return before
            if before is not None and self.has_result():
                lock = add_change(before, lock, fields)
            write_listed_file(
                self.folder,
                PLAN_LOCK_FILE,
                json_bytes({**asdict(lock), "changes": list(lock.changes)}),
            )
            return lock

    def note_older_runs(self, n_runs: int) -> None:
        """So many reported runs were there before this study named them."""
        with self._write_lock():
            lock = self.read_lock()
            assert lock is not None
            lock = replace(lock, n_older=lock.n_older + n_runs)
            write_listed_file(
                self.folder,
                PLAN_LOCK_FILE,
                json_bytes({**asdict(lock), "changes": list(lock.changes)}),
            )

    def has_result(self) -> bool:
        """Has a reported run, of whatever plan, come to an end? Where the cells are lost, one
        may have.
        """
        if not (self.folder / CELLS_FILE).exists():
            return is_listed(self.folder, CELLS_FILE)
        for cell in self.read_cells():
            if cell.purpose == "reported":
                outcome, _ = self.run_outcome(cell.run)
                if outcome in ("finished", "diverged"):
                    return True
        return False

    def is_running(self) -> bool:
        """Does a living process hold a run of this study?"""
        return any(is_locked(self.root / cell.run / LOCK_FILE) for cell in self.read_cells())

    @contextmanager
    def _write_lock(self) -> Iterator[None]:
        """One process at a time, such as the shards of one study; each writes for a moment only."""
        path = self.folder / LOCK_FILE
        for _ in range(_TRIES):
            if not is_locked(path):
                break
            time.sleep(_PAUSE_SECONDS)
        with hold_lock(path):
            yield


def _read_table(path: Path, remedy: str) -> dict[str, Any]:
    """The table that a JSON file holds."""
    table = read_json(path, remedy)
    if not isinstance(table, dict):
        raise RecordError(f"{path} holds a {type(table).__name__}, not a table; {remedy}")
    return table


def _parse_cell(cell: Any, path: Path) -> CellRecord:
    """One cell as it is listed, every value of its kind."""
    match cell:
        case {
            "arm": str(),
            "seed": int(),
            "rate": int() | float(),
            "purpose": str(purpose),
            "run": str(),
            "n_steps": int(n_steps),
            **rest,
        } if purpose in _PURPOSES and n_steps > 0 and _is_known(rest):
            return CellRecord(**cell)
    raise RecordError(f"{path} lists no cells: {str(cell)[:80]} is not a cell; {_REMOVE_ADVICE}")


def _is_known(rest: Mapping[str, Any]) -> bool:
    """Is there nothing beside what every cell has but its plan, and the size of its rung?"""
    if not set(rest) <= {"plan", "size"}:
        return False
    return isinstance(rest.get("plan", ""), str) and isinstance(rest.get("size"), int | None)


def _cell_table(cell: CellRecord) -> dict[str, Any]:
    """A cell as it is listed; a size only where it is on a rung."""
    table = asdict(cell)
    if cell.size is None:
        del table["size"]
    return table


def _cell_key(cell: CellRecord) -> tuple[str, str, int, float, str, str]:
    return cell.purpose, cell.arm, cell.seed, cell.rate, cell.run, cell.plan


def open_study(root: Path, name: str) -> Study:
    """The study called `name`, its folder made if need be."""
    folder = named_folder(Path(root) / STUDIES, name, "study")
    with explained(folder, "made", "choose another folder for runs"):
        folder.mkdir(parents=True, exist_ok=True)
    return Study(Path(root), folder)


def existing_study(root: Path, name: str) -> Study:
    """A study that there is, to be read."""
    folder = named_folder(Path(root) / STUDIES, name, "study")
    if not (folder / PLAN_FILE).is_file():
        if any((folder / name).is_file() for name in (CELLS_FILE, PLAN_LOCK_FILE)):
            raise RecordError(f"{folder} has lost its {PLAN_FILE}; {REPAIR}")
        names = sorted(path.parent.name for path in (Path(root) / STUDIES).glob(f"*/{PLAN_FILE}"))
        if names:
            advice = f"studies there are {', '.join(names)}"
        else:
            advice = "`paribus run DESIGN` makes one"
        raise RecordError(f"{folder} holds no study; {advice}")
    return Study(Path(root), folder)

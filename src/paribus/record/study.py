"""A study: the plan of a design, frozen, and which run is which of its cells.

runs/studies/bidirectional-input/
  plan.json     what was planned: arms, control table, seeds, yardsticks, machine
  plan.lock     its fingerprint, and every change made after the first result
  cells.json    arm, seed, rate and purpose of every run, and the run's name
  rates.json    what each arm's sweep found
  lock          who is writing these
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from paribus.errors import RecordError
from paribus.record.disk import read_json, told, write_json
from paribus.record.folder import LOCK_FILE, STATE_FILE, place
from paribus.record.lock import is_held, lock
from paribus.record.state import read_state

STUDIES = "studies"
_TRIES, _PAUSE_SECONDS = 500, 0.02
PLAN_FILE, LOCK_NAME, CELLS_FILE, RATES_FILE = "plan.json", "plan.lock", "cells.json", "rates.json"
DIVERGED = "DivergedError"
Purpose = Literal["sweep", "reported"]
Outcome = Literal["finished", "diverged", "failed", "open"]


@dataclass(frozen=True)
class Placed:
    """One cell of a study, and the run that fills it."""

    arm: str
    seed: int
    rate: float
    purpose: Purpose
    run: str
    n_steps: int
    plan: str = ""  # the fingerprint of the design it was a cell of


@dataclass(frozen=True)
class Lock:
    """What a plan was when it was frozen; `changes` lists what it became after the first result."""

    fingerprint: str
    design: str
    rule: str
    code: str
    made: str
    changes: tuple[dict[str, str], ...] = ()
    n_older: int = 0  # reported runs that were done, for another study, before this one named them

    @property
    def as_planned(self) -> bool:
        return not self.changes

    @property
    def latest(self) -> str:
        """The fingerprint of the plan as it stands."""
        return self.changes[-1]["to"] if self.changes else self.fingerprint


@dataclass(frozen=True)
class Study:
    """The folder of a study beside its runs."""

    root: Path
    folder: Path

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        write_json(self.folder / PLAN_FILE, dict(plan))

    def plan(self) -> dict[str, Any]:
        return read_json(self.folder / PLAN_FILE)

    def add_cells(self, cells: Iterable[Placed]) -> None:
        """Cells beside those there are; a process that knows of fewer takes none away."""
        with self._writing():
            known = {_key(cell): cell for cell in (*self.cells(), *cells)}
            write_json(self.folder / CELLS_FILE, [asdict(known[key]) for key in sorted(known)])

    def cells(self) -> tuple[Placed, ...]:
        """Every cell there ever was, of whatever plan."""
        path = self.folder / CELLS_FILE
        if not path.exists():
            return ()
        try:
            return tuple(Placed(**cell) for cell in read_json(path))
        except TypeError as fault:
            raise RecordError(f"{path} lists no cells: {fault}; remove it, and `paribus run` writes it") from fault

    def planned_cells(self) -> tuple[Placed, ...]:
        """The cells of the plan as it stands; what a former plan left is no result of this one."""
        own = self.plan().get("design_fingerprint")
        return tuple(cell for cell in self.cells() if own in (None, cell.plan))

    def write_rates(self, rates: Mapping[str, Any]) -> None:
        write_json(self.folder / RATES_FILE, dict(rates))

    def forget_rates(self) -> None:
        """No sweep speaks of the plan as it stands."""
        (self.folder / RATES_FILE).unlink(missing_ok=True)

    def rates(self) -> dict[str, Any] | None:
        path = self.folder / RATES_FILE
        return read_json(path) if path.exists() else None

    def outcome(self, run: str) -> tuple[Outcome, str]:
        """How a run stands: diverged is a result, failed is a fault of the machine."""
        state = read_state(self.root / run / STATE_FILE)
        match state:
            case None:
                return "open", ""
            case (word, reason) if word == "failed" and reason.startswith(DIVERGED):
                return "diverged", reason
            case (word, reason):
                return ("open" if word == "running" else word), reason

    def lock(self) -> Lock | None:
        path = self.folder / LOCK_NAME
        if not path.exists():
            return None
        table = read_json(path)
        try:
            return Lock(**{**table, "changes": tuple(table["changes"])})
        except (KeyError, TypeError) as fault:
            raise RecordError(
                f"{path} is no lock of a plan: {fault}; restore it, or begin under another name"
            ) from fault

    def freeze(self, fingerprint: str, design: str, rule: str, code: str) -> Lock:
        """Lock a plan; once a run of it has a result, what changes is written down and never forgotten."""
        with self._writing():
            before, now = self.lock(), datetime.now(UTC).isoformat(timespec="seconds")
            lock = Lock(fingerprint, design, rule, code, now)
            if before is not None and before.latest == fingerprint:
                return before
            if before is not None and self.has_result():
                lock = _changed(before, lock)
            write_json(self.folder / LOCK_NAME, {**asdict(lock), "changes": list(lock.changes)})
            return lock

    def note_older(self, n_runs: int) -> None:
        """So many reported runs were there before this study named them."""
        with self._writing():
            lock = self.lock()
            assert lock is not None
            lock = replace(lock, n_older=lock.n_older + n_runs)
            write_json(self.folder / LOCK_NAME, {**asdict(lock), "changes": list(lock.changes)})

    def has_result(self) -> bool:
        """Has a reported run, of whatever plan, come to an end?"""
        reported = (cell for cell in self.cells() if cell.purpose == "reported")
        return any(self.outcome(cell.run)[0] in ("finished", "diverged") for cell in reported)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One process at a time, such as the shards of one study; each writes for a moment only."""
        path = self.folder / LOCK_FILE
        for _ in range(_TRIES):
            if not is_held(path):
                break
            time.sleep(_PAUSE_SECONDS)
        with lock(path):
            yield


def _changed(before: Lock, after: Lock) -> Lock:
    """The first lock with one more change to its name."""
    old, new = asdict(before), asdict(after)
    what = ", ".join(name for name in ("design", "rule", "code") if old[name] != new[name])
    change = {"from": before.latest, "to": after.fingerprint, "what": what, "when": after.made}
    return replace(before, design=after.design, rule=after.rule, code=after.code, changes=(*before.changes, change))


def _key(cell: Placed) -> tuple[str, str, int, float, str, str]:
    return cell.purpose, cell.arm, cell.seed, cell.rate, cell.run, cell.plan


def study(root: Path, name: str) -> Study:
    """The study called `name`, its folder made if need be."""
    folder = place(Path(root) / STUDIES, name)
    with told(folder, "made", "choose another folder for runs"):
        folder.mkdir(parents=True, exist_ok=True)
    return Study(Path(root), folder)


def existing_study(root: Path, name: str) -> Study:
    """A study that there is, to be read."""
    folder = place(Path(root) / STUDIES, name)
    if not (folder / PLAN_FILE).is_file():
        there = sorted(path.parent.name for path in (Path(root) / STUDIES).glob(f"*/{PLAN_FILE}"))
        known = f"studies there are {', '.join(there)}" if there else "`paribus run DESIGN` makes one"
        raise RecordError(f"{folder} holds no study; {known}")
    return Study(Path(root), folder)

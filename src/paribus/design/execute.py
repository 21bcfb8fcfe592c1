"""Cells that are not done are given to a scheduler; what is done is never done again."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from paribus.corpus import TokenisedCorpus
from paribus.design.cell_run import is_complete
from paribus.design.cells import Cell
from paribus.design.on.scheduler import RESUME_STATUS, Scheduler
from paribus.design.study_watcher import StudyWatcher
from paribus.errors import RecordError
from paribus.record import Study
from paribus.runtime import signal_handler

SEEN_PAUSE_SECONDS = 0.5  # between looks at what another machine wrote


@dataclass(frozen=True)
class ExecutionResult:
    """What became of some cells."""

    failures: dict[str, str]  # cell → why: faults of the machine, not outcomes
    open_elsewhere: tuple[Cell, ...]  # not done yet, and another shard's


@contextmanager
def resumable_exit() -> Iterator[None]:
    """A signal to stop, wherever it comes, leaves by SystemExit(75); what is on disk is whole."""

    def stop(_: int) -> None:
        raise SystemExit(RESUME_STATUS)

    with signal_handler(stop):
        yield


def execute_cells(
    cells: Sequence[Cell], study: Study, scheduler: Scheduler, watcher: StudyWatcher
) -> ExecutionResult:
    """Carry out what is open of these cells, each run once; SystemExit(75) when interrupted."""
    distinct = list({cell.name: cell for cell in cells}.values())
    todo = [cell for cell in distinct if not is_complete(cell, study)]
    mine = cells_of_shard(todo, scheduler.execution.shard)
    failures = scheduler.run_cells(mine, study, watcher)
    require_unchanged_texts(mine, scheduler)
    until = time.monotonic() + scheduler.unseen_seconds
    for cell in mine:
        if str(cell) not in failures and not _is_seen_complete(cell, study, until):
            failures[str(cell)] = (
                f"{study.root / cell.name} is not done although it was run; run the study again"
            )
    own = {cell.name for cell in mine}
    open_elsewhere = []
    for cell in todo:
        if cell.name not in own and not is_complete(cell, study):
            open_elsewhere.append(cell)
    return ExecutionResult(failures, tuple(open_elsewhere))


def _is_seen_complete(cell: Cell, study: Study, until: float) -> bool:
    """Is there nothing left to do? Another machine may have written what is not seen here yet."""
    while time.monotonic() < until:
        with suppress(RecordError):  # some of its files are seen, and others are not
            if is_complete(cell, study):
                return True
        time.sleep(SEEN_PAUSE_SECONDS)
    return is_complete(cell, study)


def require_unchanged_texts(cells: Iterable[Cell], scheduler: Scheduler) -> None:
    """RecordError where a text in the cache is no longer the one that the plan was made with."""
    texts: dict[str, TokenisedCorpus] = {}
    for cell in cells:
        texts |= {text.fingerprint: text for text in cell.texts}
    for text in texts.values():
        scheduler.verified_text(text)


def cells_of_shard(cells: Iterable[Cell], shard: tuple[int, int]) -> list[Cell]:
    """Those of a shard: which they are follows from the run's name alone."""
    return [cell for cell in cells if int(cell.name, 16) % shard[1] == shard[0] - 1]

"""Runs one after another, or side by side in processes of their own; what is done is never done
again.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from paribus.corpus import TokenisedCorpus
from paribus.design.asked_tasks import asked_tasks
from paribus.design.cell_run import is_complete, train_and_measure
from paribus.design.cells import Cell
from paribus.design.study_watcher import StudyWatcher
from paribus.design.worker_pool import RESUME_STATUS, WorkerPool
from paribus.errors import ParibusError
from paribus.record import Study
from paribus.runtime import signal_handler


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
    cells: Sequence[Cell], study: Study, pool: WorkerPool, watcher: StudyWatcher
) -> ExecutionResult:
    """Carry out what is open of these cells, each run once; SystemExit(75) when interrupted."""
    means = pool.execution
    distinct = list({cell.name: cell for cell in cells}.values())
    todo = [cell for cell in distinct if not is_complete(cell, study)]
    mine = cells_of_shard(todo, means.shard)
    if means.n_jobs > 1:
        failures = pool.run_cells(mine, study, watcher)
    else:
        failures = _run_sequentially(mine, study, pool, watcher)
    require_unchanged_texts(mine, pool)
    for cell in mine:
        if str(cell) not in failures and not is_complete(cell, study):
            failures[str(cell)] = (
                f"{study.root / cell.name} is not done although it was run; run the study again"
            )
    own = {cell.name for cell in mine}
    open_elsewhere = []
    for cell in todo:
        if cell.name not in own and not is_complete(cell, study):
            open_elsewhere.append(cell)
    return ExecutionResult(failures, tuple(open_elsewhere))


def require_unchanged_texts(cells: Iterable[Cell], pool: WorkerPool) -> None:
    """RecordError where a text in the cache is no longer the one that the plan was made with."""
    texts: dict[str, TokenisedCorpus] = {}
    for cell in cells:
        texts |= {text.fingerprint: text for text in cell.texts}
    for text in texts.values():
        pool.verified_text(text)


def cells_of_shard(cells: Iterable[Cell], shard: tuple[int, int]) -> list[Cell]:
    """Those of a shard: which they are follows from the run's name alone."""
    return [cell for cell in cells if int(cell.name, 16) % shard[1] == shard[0] - 1]


def _run_sequentially(
    cells: Sequence[Cell], study: Study, pool: WorkerPool, watcher: StudyWatcher
) -> dict[str, str]:
    failures = dict[str, str]()
    workspace = replace(pool.execution.workspace, runs=study.root)
    for cell in cells:
        fault = None
        for text in cell.texts:
            pool.verified_text(text)
        run_watcher = watcher.begin(cell)
        try:
            train_and_measure(
                cell.run,
                cell.texts,
                cell.measures,
                workspace,
                run_watcher,
                asked_tasks=asked_tasks(cell.items, study.folder),
            )
        except ParibusError as caught:
            fault = failures[str(cell)] = str(caught)
        except (SystemExit, KeyboardInterrupt):
            raise SystemExit(RESUME_STATUS) from None
        except (
            Exception
        ):  # a machine's fault in one run, such as too little memory, is none in the next
            fault = failures[str(cell)] = traceback.format_exc(limit=4)
        watcher.end(cell, fault)
    return failures

"""Runs one after another, or side by side in processes of their own; what is done is never done again."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from paribus.design.cells import Cell
from paribus.design.crew import RESUME, Crew, Watcher
from paribus.design.perform import perform, settled
from paribus.errors import ParibusError
from paribus.record import Study


@dataclass(frozen=True)
class Done:
    """What became of some cells."""

    failed: dict[str, str]  # cell → why: faults of the machine, not outcomes
    elsewhere: tuple[Cell, ...]  # not done yet, and another shard's


@contextmanager
def resumable() -> Iterator[None]:
    """SIGTERM and Ctrl-C, wherever they come, leave by SystemExit(75); what is on disk is whole."""

    def stop(number: int, _: object) -> None:
        raise SystemExit(RESUME)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def execute(cells: Sequence[Cell], study: Study, crew: Crew, watcher: Watcher) -> Done:
    """Carry out what is open of these cells, each run once; SystemExit(75) when interrupted."""
    means = crew.means
    distinct = list({cell.name: cell for cell in cells}.values())
    todo = [cell for cell in distinct if not settled(cell, study)]
    mine = own_part(todo, means.shard)
    failed = crew.work(mine, study, watcher) if means.n_jobs > 1 else _in_turn(mine, study, crew, watcher)
    require_same_texts(mine, crew)
    for cell in mine:
        if str(cell) not in failed and not settled(cell, study):
            failed[str(cell)] = f"{study.root / cell.name} is not done though it was carried out; run the study again"
    own = {cell.name for cell in mine}
    return Done(failed, tuple(cell for cell in todo if cell.name not in own and not settled(cell, study)))


def require_same_texts(cells: Iterable[Cell], crew: Crew) -> None:
    """RecordError where a text in the cache is no longer the one that the plan was made with."""
    for text in {cell.built.fingerprint: cell.built for cell in cells}.values():
        crew.verified_text(text)


def own_part(cells: Iterable[Cell], shard: tuple[int, int]) -> list[Cell]:
    """Those of a shard: which they are follows from the run's name alone."""
    return [cell for cell in cells if int(cell.name, 16) % shard[1] == shard[0] - 1]


def _in_turn(cells: Sequence[Cell], study: Study, crew: Crew, watcher: Watcher) -> dict[str, str]:
    failed, means = dict[str, str](), crew.means
    for cell in cells:
        fault = None
        crew.verified_text(cell.built)
        watcher.begin(cell)
        try:
            perform(
                cell.run, cell.built, cell.measures, study.root, means.device,
                accept_environment=means.accept_environment,
                on_step=lambda step, cell=cell: watcher.step(cell, step + 1),
            )  # fmt: skip
        except ParibusError as caught:
            fault = failed[str(cell)] = str(caught)
        except (SystemExit, KeyboardInterrupt):
            raise SystemExit(RESUME) from None
        except Exception:  # a machine's fault in one run, such as too little memory, is none in the next
            fault = failed[str(cell)] = traceback.format_exc(limit=4)
        watcher.end(cell, fault)
    return failed

"""Cells one after another, in this process."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import replace

from paribus.design.asked_tasks import asked_tasks
from paribus.design.cell_run import train_and_measure
from paribus.design.cells import Cell
from paribus.design.on.scheduler import RESUME_STATUS, Scheduler
from paribus.design.study_watcher import StudyWatcher
from paribus.errors import ParibusError
from paribus.record import Study


def run_in_process(
    cells: Sequence[Cell], study: Study, scheduler: Scheduler, watcher: StudyWatcher
) -> dict[str, str]:
    """Run cells one after another; why some failed. SystemExit(75) when interrupted."""
    failures = dict[str, str]()
    workspace = replace(scheduler.execution.workspace, runs=study.root)
    for cell in cells:
        fault = None
        for text in cell.texts:
            scheduler.verified_text(text)
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

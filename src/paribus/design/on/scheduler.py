"""Who carries out the cells of a study: processes of this machine, a cluster or a queue.

A cell is a run that is addressed by its content, and what is done of it is in the folder of runs.
So a scheduler needs no memory of its own: a cell that was lost with its machine is sent again, and
goes on from its last checkpoint.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from paribus.corpus import TokenisedCorpus, VerifiedText, reverify_text, verify_text
from paribus.design.asked_tasks import asked_tasks
from paribus.design.cells import Cell
from paribus.design.compiled_cache import CompileSettings
from paribus.design.on.node_check import NodeCheck
from paribus.design.study_watcher import StudyWatcher
from paribus.record import Study
from paribus.runtime import select_device
from paribus.workspace import Execution

RESUME_STATUS = os.EX_TEMPFAIL  # 75, which says: interrupted, run me again
# what another machine has written may be seen only so much later: NFS keeps for up to a minute what
# it knows of a folder
UNSEEN_SECONDS = 75.0


class Scheduler(ABC):
    """Carries out cells; what it starts for a study ends with its context."""

    unseen_seconds = 0.0  # how long what its machines wrote may be unseen here

    def __init__(self, execution: Execution):
        self.execution = execution
        self.device = select_device(execution.workspace.device)
        self.verified_texts: dict[str, VerifiedText] = {}  # by their fingerprints

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(self, *_: object) -> None:
        """Stop what was started; what is on disk stays."""

    @abstractmethod
    def run_cells(
        self, cells: Sequence[Cell], study: Study, watcher: StudyWatcher
    ) -> dict[str, str]:
        """Carry out cells that are not done; why some failed, by their names.

        The watcher is told when each begins and when it ends. A fault of one cell does not keep
        others from being run. SIGTERM and Ctrl-C let every run be saved and leave by
        SystemExit(75).
        """

    def verified_text(self, text: TokenisedCorpus) -> VerifiedText:
        """A text whose every byte was read once; later only what may have changed. RecordError
        where it has.
        """
        earlier_text = self.verified_texts.get(text.fingerprint)
        if earlier_text is None:
            self.verified_texts[text.fingerprint] = verify_text(text)
        else:
            self.verified_texts[text.fingerprint] = reverify_text(earlier_text)
        return self.verified_texts[text.fingerprint]

    def cell_job(self, cell: Cell, study: Study) -> dict[str, Any]:
        """A cell as `paribus.design.worker` takes it, as JSON: its paths are absolute. RecordError
        where its text has changed.
        """
        texts = []
        for text in cell.texts:
            verified = self.verified_text(text)
            texts.append({**asdict(verified), "folder": str(Path(verified.folder).absolute())})
        return {
            "run": cell.run.model_dump(mode="json"),
            "measures": [measure.model_dump(mode="json") for measure in cell.measures],
            "asked_tasks": _asked_tasks_table(cell.items, study.folder.absolute()),
            "root": str(study.root.absolute()),
            "texts": texts,
            "device": self.device.type,
            "accept_environment": self.execution.workspace.accept_environment,
        }

    def node_job(
        self, cell: Cell, study: Study, check: NodeCheck, n_compile_threads: int
    ) -> dict[str, Any]:
        """A cell for a worker on another machine: with what its node must have, and how it shares
        what it compiles. RecordError where the text has changed.
        """
        cache = self.execution.workspace.cache_folder
        settings = CompileSettings.of(cache, n_compile_threads, os.environ)
        job = self.cell_job(cell, study)
        return {**job, "node_check": check.table, "compile": settings.table}


def next_cell_index(
    arms: Sequence[str], compiled_arms: Collection[str], begun_arms: Collection[str]
) -> int:
    """The place of an arm the worker has compiled, else of one that nobody has begun, else of
    the first.
    """
    return min(
        range(len(arms)),
        key=lambda place: (arms[place] not in compiled_arms, arms[place] in begun_arms),
    )


def _asked_tasks_table(items: Mapping[str, str], folder: Path) -> dict[str, list[str]]:
    table = {}
    for column, (path, fingerprint) in asked_tasks(items, folder).items():
        table[column] = [str(path), fingerprint]
    return table

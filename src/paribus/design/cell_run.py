"""One run of a study: trained, then measured."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import torch

from paribus.analyse import column_of, read_answers, score_of
from paribus.analyse.run_scores import Answers, reference_score
from paribus.design.asked_tasks import AskedTasks
from paribus.design.cells import Cell
from paribus.design.measurement import measure_run
from paribus.errors import DivergedError, InUseError
from paribus.generate import draw_own_pairs
from paribus.record import Study, last_row, require_run_integrity
from paribus.record.file_names import ROWS_FILE
from paribus.runtime import select_device
from paribus.spec.run import RunSpec
from paribus.spec.yardstick import OtherYardstick
from paribus.train.chain import train_chain
from paribus.train.loop import TrainOutcome
from paribus.train.parent import Texts
from paribus.watcher import Watcher
from paribus.workspace import Workspace

RETRY_SECONDS = 0.5  # seconds between tries to open a run that is in use


def train_and_measure(
    run: RunSpec,
    texts: Texts,
    measures: Sequence[OtherYardstick],
    workspace: Workspace,
    watcher: Watcher | None = None,
    *,
    asked_tasks: AskedTasks | None = None,
) -> None:
    """Train and measure; what is done already is not done again, and a run that diverges is a
    result.

    A run that another process is at, such as a worker of a study that was killed, is waited for.
    """
    device = select_device(workspace.device)

    def watch(_: int) -> nullcontext[Watcher]:
        return nullcontext(watcher or Watcher())

    try:
        result = _retry_while_in_use(
            lambda: train_chain(run, texts, workspace, watch=watch, draw_pairs=draw_own_pairs)
        )
        for measure in measures:
            measure_run(result.folder, run, texts, measure, device, asked_tasks or {})
    except DivergedError:
        pass
    finally:
        if (
            device.type == "cuda"
        ):  # what this run held is for the next one, here or in another process
            gc.collect()
            torch.cuda.empty_cache()


def _retry_while_in_use(act: Callable[[], TrainOutcome]) -> TrainOutcome:
    while True:
        try:
            return act()
        except InUseError:
            time.sleep(RETRY_SECONDS)


def is_complete(cell: Cell, study: Study) -> bool:
    """Is there nothing left to do? RecordError of a finished run that was changed, for it is
    not made again.
    """
    study.require_complete_rows(cell.name, cell.n_steps)
    outcome, _ = study.run_outcome(cell.name)
    if outcome not in ("finished", "diverged"):
        return False
    if outcome == "finished" and not _is_measured(cell, study):
        return False
    study.require_unchanged_run(cell.name)
    require_run_integrity(study, cell.name)
    return True


def _is_measured(cell: Cell, study: Study) -> bool:
    """Has a cell's run answered every yardstick?"""
    return all(find_answers(cell, study, measure) is not None for measure in cell.measures)


def find_answers(cell: Cell, study: Study, measure: OtherYardstick) -> Answers | None:
    """What a cell's run answered to a yardstick, if it was asked."""
    table, text = measure.model_dump(mode="json"), cell.dataset.fingerprint
    answers = read_answers(study.root / cell.name, [table], text, cell.n_steps, cell.items)
    return answers.get(column_of(table))


def cell_score(cell: Cell, study: Study, measure: OtherYardstick) -> float | None:
    """The score in the measure's unit; None where the run diverged, or its likelihood is worse
    than the unigram model's.
    """
    answers = find_answers(cell, study, measure)
    if answers is None:
        return None
    return score_of(answers)


def cell_held_out_loss(cell: Cell, study: Study) -> float | None:
    """Nats per target of the stage's own objective on held-out text, after the last step; None
    where the run diverged.
    """
    if study.run_outcome(cell.name)[0] != "finished":
        return None
    row = last_row(study.root / cell.name / ROWS_FILE) or {}
    return row.get("valid_nats")


def cell_reference_score(cell: Cell, study: Study, measure: OtherYardstick) -> float | None:
    """The score that needs no model on the items that a cell's run was asked: the unigram model's,
    or the highest floor of a task; None where that is not on record.
    """
    answers = find_answers(cell, study, measure)
    if answers is None:
        return None
    return reference_score(answers)

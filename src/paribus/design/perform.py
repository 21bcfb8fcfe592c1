"""One run of a study: trained, then measured."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from paribus.analyse import answers_to, unigram_bits, value_of
from paribus.corpus import Built
from paribus.design.cells import Cell
from paribus.errors import DivergedError, InUseError
from paribus.evaluate import evaluate
from paribus.record import Evaluation, Study, evaluations, require_agreement_of_run
from paribus.spec.run import RunSpec
from paribus.spec.yardstick import Yardstick
from paribus.train.loop import OnRow, OnStep, Outcome, train

WAIT = 0.5  # seconds between tries to open a run that is in use


def perform(
    run: RunSpec,
    built: Built,
    measures: Sequence[Yardstick],
    root: Path,
    device: torch.device,
    *,
    accept_environment: bool = False,
    on_row: OnRow | None = None,
    on_step: OnStep | None = None,
) -> None:
    """Train and measure; what is done already is not done again, and a run that diverges is a result.

    A run that another process is at, such as a worker of a study that was killed, is waited for.
    """
    try:
        done = _once_free(
            lambda: train(
                run, built, root,
                device=device, accept_environment=accept_environment, on_row=on_row, on_step=on_step,
            )
        )  # fmt: skip
        for measure in measures:
            evaluate(done.folder, measure, built, device=device, n_sequences=run.stages[-1].training.n_sequences)
    except DivergedError:
        pass
    finally:
        if device.type == "cuda":  # what this run held is for the next one, here or in another process
            gc.collect()
            torch.cuda.empty_cache()


def _once_free(act: Callable[[], Outcome]) -> Outcome:
    while True:
        try:
            return act()
        except InUseError:
            time.sleep(WAIT)


def settled(cell: Cell, study: Study) -> bool:
    """Is there nothing left to do? RecordError of a finished run that was changed, for it is not made again."""
    study.require_whole(cell.name, cell.n_steps)
    outcome, _ = study.outcome(cell.name)
    measured = outcome == "finished" and all(answer(cell, study, measure) is not None for measure in cell.measures)
    if outcome != "diverged" and not measured:
        return False
    study.require_unchanged(cell.name)
    require_agreement_of_run(study, cell.name)
    return True


def answer(cell: Cell, study: Study, measure: Yardstick) -> Evaluation | None:
    """What a cell's run answered to a yardstick, if it was asked."""
    told, text = measure.model_dump(mode="json"), cell.built.fingerprint
    there = evaluations(study.root / cell.name)
    return next((one for one in there if answers_to(one, told, text, cell.n_steps)), None)


def score(cell: Cell, study: Study, measure: Yardstick) -> float | None:
    """Bits a byte; None where the run diverged, or does worse than the unigram model."""
    found = answer(cell, study, measure)
    return None if found is None else value_of(found)


def unigram_score(cell: Cell, study: Study, measure: Yardstick) -> float | None:
    """Bits a byte of the unigram model on the items that a cell's run was asked; None where that is not on record."""
    found = answer(cell, study, measure)
    return None if found is None else unigram_bits(found)

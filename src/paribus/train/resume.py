"""Where a run begins: at its newest checkpoint or at the start, and what a person should know
of that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from paribus.record import CheckpointSearch, Run
from paribus.spec.training import Training
from paribus.train.schedule import describe_warmup


@dataclass(frozen=True)
class ResumePoint:
    """A checkpoint, or the start; nothing is left to do of a run that has finished."""

    folder: Path  # of the run
    finished: bool
    notes: tuple[str, ...]
    checkpoint: Path | None = None
    step: int = -1  # the last one done


def find_resume_point(run: Run, training: Training) -> ResumePoint:
    """Where to go on; RecordError of a finished run whose rows are damaged."""
    if run.previous_state is not None and run.previous_state.status == "finished":
        run.require_complete_rows(training.n_steps)
        return ResumePoint(
            folder=run.folder, finished=True, notes=("it was finished before; nothing was done",)
        )
    search = run.latest_checkpoint()
    warmup = describe_warmup(training)
    notes = (*_describe_resume(run, search, training.n_steps), *filter(None, [warmup]))
    if search.checkpoint is None:
        return ResumePoint(folder=run.folder, finished=False, notes=notes)
    return ResumePoint(
        folder=run.folder,
        finished=False,
        notes=notes,
        checkpoint=search.checkpoint.folder,
        step=search.checkpoint.step,
    )


def _describe_resume(run: Run, latest: CheckpointSearch, n_steps: int) -> Iterator[str]:
    for leftover in run.leftovers:
        yield f"{leftover} was left by a killed process and removed"
    for skipped in latest.skipped:
        yield f"{skipped.folder.name} is skipped: {skipped.reason}"
    if latest.checkpoint is not None:
        n_done = latest.checkpoint.step + 1
        last = n_done >= n_steps
        yield (
            f"its {n_steps} steps were done before"
            if last
            else f"it resumes at step {n_done + 1} of {n_steps}"
        )
    elif run.previous_state is not None:
        yield f"no checkpoint is left: it begins again at step 1 of {n_steps}"

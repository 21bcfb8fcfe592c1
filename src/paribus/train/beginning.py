"""Where a run begins: at its newest checkpoint or at the start, and what a person should know of that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from paribus.record import Found, Run
from paribus.spec.training import Training
from paribus.train.schedule import rate_at


@dataclass(frozen=True)
class Beginning:
    """A checkpoint, or the start; nothing is left to do of a run that has finished."""

    folder: Path  # of the run
    finished: bool
    notes: tuple[str, ...]
    checkpoint: Path | None = None
    step: int = -1  # the last one done


def beginning(run: Run, training: Training) -> Beginning:
    """Where to go on; RecordError of a finished run whose rows are damaged."""
    if run.before is not None and run.before.word == "finished":
        run.require_whole(training.n_steps)
        return Beginning(run.folder, True, ("it was finished before; nothing was done",))
    found = run.latest()
    notes = (*_found_so(run, found, training.n_steps), *_never_risen(training))
    if found.checkpoint is None:
        return Beginning(run.folder, False, notes)
    return Beginning(run.folder, False, notes, found.checkpoint.folder, found.checkpoint.step)


def _found_so(run: Run, found: Found, n_steps: int) -> Iterator[str]:
    for leftover in run.leftovers:
        yield f"{leftover} was left by a killed process and removed"
    for skipped in found.skipped:
        yield f"{skipped.folder.name} is skipped: {skipped.reason}"
    if found.checkpoint is not None:
        n_done = found.checkpoint.step + 1
        last = n_done >= n_steps
        yield f"its {n_steps} steps were done before" if last else f"it goes on at step {n_done + 1} of {n_steps}"
    elif run.before is not None:
        yield f"no checkpoint is left: it begins again at step 1 of {n_steps}"


def _never_risen(training: Training) -> Iterator[str]:
    if training.warmup > training.n_steps:
        highest = rate_at(training.n_steps - 1, training)
        yield (
            f"training.warmup is {training.warmup}, more than n_steps {training.n_steps}: "
            f"the rate comes to {highest:.3g} and never to {training.optimizer.rate:.3g}"
        )

"""Checkpoints: folders `step-000000123` that are whole or absent, of which the last few and the best are kept."""

import math
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from paribus.errors import RecordError
from paribus.record.disk import as_json, discard, folder_draft, read_json
from paribus.record.file_names import CHECKPOINT_FILE, MANIFEST_FILE, checkpoint_name, checkpoint_step
from paribus.record.manifest import seal, verify

_NAME = re.compile(r"step-(\d{9})", re.ASCII)
_MAX_STEP = 10**9 - 1


@dataclass(frozen=True)
class Checkpoint:
    """One saved state; `score` says how good it is, lower is better, None when not known."""

    folder: Path
    step: int
    score: float | None


class Skipped(NamedTuple):
    """A checkpoint that cannot be used, and why."""

    folder: Path
    reason: str


class Found(NamedTuple):
    """The checkpoint that was looked for, if one verifies, and those skipped to get to it."""

    checkpoint: Checkpoint | None
    skipped: tuple[Skipped, ...]


def save(
    folder: Path,
    step: int,
    fill: Callable[[Path], object],
    score: float | None = None,
    keep: int = 2,
    skipped: Collection[Path] = (),
    rows: str | None = None,
) -> Checkpoint:
    """Let `fill` write its files into a new checkpoint under `folder`, and keep the last `keep` and the best.

    Whatever goes wrong, the checkpoints there were remain. An intact checkpoint of the same step is the same state: it
    stays and is not written again. One that is not intact is replaced. Those that were `skipped` when the run resumed,
    and later ones, which a run that stands at `step` cannot have resumed from, are then removed. `rows` is the sha256
    of the rows that the checkpoint counts on.
    """
    if not 0 <= step <= _MAX_STEP:
        raise RecordError(f"{folder}: step is {step}; give 0 to {_MAX_STEP}")
    if keep < 1:
        raise RecordError(f"{folder}: {keep} checkpoints would be kept; keep 1 or more")
    place = folder / checkpoint_name(step)
    if not _intact(place):
        _write(place, step, fill, score, rows)
    _retain(folder, step, keep, {*skipped} - {place})
    return _opened(place)


def latest(folder: Path) -> Found:
    """The newest checkpoint that verifies, and those that were skipped to get to it."""
    return _first_intact(reversed(places(folder)))


def best(folder: Path) -> Found:
    """The checkpoint with the lowest score that verifies, the earliest of equals; one without a score is left out."""
    return _first_intact(_by_score(places(folder)))


def _first_intact(places: Iterable[Path]) -> Found:
    skipped: list[Skipped] = []
    for place in places:
        try:
            return Found(checked(place), tuple(skipped))
        except RecordError as fault:
            skipped.append(Skipped(place, str(fault)))
    return Found(None, tuple(skipped))


def rows_then(folder: Path, step: int) -> str | None:
    """The sha256 of the rows that the checkpoint of a step counts on; None without one, and in older checkpoints."""
    place = folder / checkpoint_name(step)
    match read_json(place / CHECKPOINT_FILE) if place.is_dir() else None:
        case {"rows": str(rows)}:
            return rows
    return None


def checked(place: Path) -> Checkpoint:
    """One checkpoint, every byte of it verified."""
    verify(place)
    return _opened(place)


def places(folder: Path) -> list[Path]:
    """Every checkpoint folder, the oldest first."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))


def _write(place: Path, step: int, fill: Callable[[Path], object], score: float | None, rows: str | None) -> None:
    try:
        with folder_draft(place) as new:
            fill(new)
            _describe(new, step, score, rows)
            seal(new)
            if place.exists():
                discard(place)
    except Exception as fault:  # safetensors and others have errors of their own
        raise RecordError(
            f"{place} cannot be written: {_reason(fault)}; free some space or mend that, and the same command resumes: "
            f"earlier checkpoints are untouched"
        ) from fault


def _describe(new: Path, step: int, score: float | None, rows: str | None) -> None:
    for name in (CHECKPOINT_FILE, MANIFEST_FILE):
        if (new / name).exists():
            raise RecordError(f"{name} was filled in by the caller; that name is taken, use another")
    known = float(score) if score is not None and math.isfinite(score) else None
    counted_on = {} if rows is None else {"rows": rows}
    (new / CHECKPOINT_FILE).write_bytes(as_json({"step": step, "score": known, **counted_on}))


def _reason(fault: Exception) -> str:
    text = fault.strerror if isinstance(fault, OSError) else None
    return " ".join((text or str(fault) or type(fault).__name__).split())


def _intact(place: Path) -> bool:
    try:
        checked(place)
    except RecordError:
        return False
    return True


def _retain(folder: Path, step: int, keep: int, useless: Collection[Path]) -> None:
    current = [place for place in places(folder) if _step(place) <= step and place not in useless]
    kept = {*current[-keep:], *_by_score(current)[:1]}
    for place in places(folder):
        if place not in kept:
            discard(place)


def _by_score(places: list[Path]) -> list[Path]:
    """Those whose score is known, the lowest first, the earliest of equals."""
    scored = [(one.score, one.step, one.folder) for one in map(_readable, places) if one and one.score is not None]
    return [folder for _, _, folder in sorted(scored)]


def _readable(place: Path) -> Checkpoint | None:
    try:
        return _opened(place)
    except RecordError:
        return None


def _opened(place: Path) -> Checkpoint:
    """What a checkpoint says of itself, its files not verified."""
    path = place / CHECKPOINT_FILE
    match read_json(path):
        case {"step": int(step), "score": None | int() | float() as score} if step == _step(place):
            return Checkpoint(place, step, score)
    raise RecordError(f"{path} does not tell of step {_step(place)}; use another checkpoint")


def _step(place: Path) -> int:
    return checkpoint_step(place.name)

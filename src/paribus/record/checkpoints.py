"""Checkpoints: folders `step-000000123` that are whole or absent, of which the last few and the
best are kept. One that was saved because the run was interrupted is kept until the next one: which
of the others are kept does not depend on it.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from paribus.errors import RecordError
from paribus.record.disk import folder_draft, json_bytes, read_json, remove_folder
from paribus.record.file_names import (
    CHECKPOINT_FILE,
    MANIFEST_FILE,
    checkpoint_name,
    checkpoint_step,
)
from paribus.record.manifest import verify_manifest, write_manifest

_NAME_PATTERN = re.compile(r"step-(\d{9})", re.ASCII)
_MAX_STEP = 10**9 - 1
_INTERRUPTION = "interruption"


@dataclass(frozen=True)
class Checkpoint:
    """One saved state; `score` says how good it is, lower is better, None when not known."""

    folder: Path
    step: int
    score: float | None


class SkippedCheckpoint(NamedTuple):
    """A checkpoint that cannot be used, and why."""

    folder: Path
    reason: str


class Retention(NamedTuple):
    """Which checkpoints are kept: the last few, and none that was skipped when the run resumed."""

    keep_last: int = 2
    skipped: Collection[Path] = ()
    is_interruption: bool = False  # of the new one: nobody had planned it


class CheckpointSearch(NamedTuple):
    """The checkpoint that was looked for, if one verifies, and those skipped to get to it."""

    checkpoint: Checkpoint | None
    skipped: tuple[SkippedCheckpoint, ...]


def commit_checkpoint(
    folder: Path,
    step: int,
    fill: Callable[[Path], object],
    score: float | None = None,
    retention: Retention | None = None,
    rows_sha256: str | None = None,
) -> Checkpoint:
    """Let `fill` write its files into a new checkpoint under `folder`, and keep the last few and
    the best, and the new one.

    Whatever goes wrong, the checkpoints there were remain. An intact checkpoint of the same step is
    the same state: it stays and is not written again. One that is not intact is replaced. Those
    that were skipped when the run resumed, and later ones, which a run that stands at `step` cannot
    have resumed from, are then removed. `rows_sha256` is that of the rows that the checkpoint
    counts on.
    """
    if not 0 <= step <= _MAX_STEP:
        raise RecordError(f"{folder}: step is {step}; give 0 to {_MAX_STEP}")
    retention = retention or Retention()
    if retention.keep_last < 1:
        raise RecordError(
            f"{folder}: {retention.keep_last} checkpoints would be kept; keep 1 or more"
        )
    place = folder / checkpoint_name(step)
    if not _is_intact(place):
        description = _describe(step, score, rows_sha256, retention.is_interruption)
        _write(place, fill, description)
    _retain(folder, step, retention.keep_last, {*retention.skipped} - {place})
    return _read_checkpoint(place)


def latest_checkpoint(folder: Path) -> CheckpointSearch:
    """The newest checkpoint that verifies, and those that were skipped to get to it."""
    return _first_intact(reversed(checkpoint_folders(folder)))


def best_checkpoint(folder: Path) -> CheckpointSearch:
    """The checkpoint with the lowest score that verifies, the earliest of equals; one without a
    score is left out.
    """
    return _first_intact(_by_score(checkpoint_folders(folder)))


def _first_intact(folders: Iterable[Path]) -> CheckpointSearch:
    skipped_checkpoints: list[SkippedCheckpoint] = []
    for place in folders:
        try:
            return CheckpointSearch(verify_checkpoint(place), tuple(skipped_checkpoints))
        except RecordError as fault:
            skipped_checkpoints.append(SkippedCheckpoint(place, str(fault)))
    return CheckpointSearch(None, tuple(skipped_checkpoints))


def rows_sha256_at(folder: Path, step: int) -> str | None:
    """The sha256 of the rows that the checkpoint of a step counts on; None without one, and in
    older checkpoints.
    """
    place = folder / checkpoint_name(step)
    match read_json(place / CHECKPOINT_FILE) if place.is_dir() else None:
        case {"rows": str(rows)}:
            return rows
    return None


def verify_checkpoint(place: Path) -> Checkpoint:
    """One checkpoint, every byte of it verified."""
    verify_manifest(place)
    return _read_checkpoint(place)


def checkpoint_folders(folder: Path) -> list[Path]:
    """Every checkpoint folder, the oldest first."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if _NAME_PATTERN.fullmatch(path.name))


def _write(place: Path, fill: Callable[[Path], object], description: dict[str, Any]) -> None:
    try:
        with folder_draft(place) as new:
            fill(new)
            _write_description(new, description)
            write_manifest(new)
            if place.exists():
                remove_folder(place)
    except Exception as fault:  # safetensors and others have errors of their own
        raise RecordError(
            f"{place} cannot be written: {_reason(fault)}; free some space, or correct that, and"
            " the"
            " same command resumes: earlier checkpoints are untouched"
        ) from fault


def _describe(
    step: int, score: float | None, rows_sha256: str | None, is_interruption: bool
) -> dict[str, Any]:
    """What a checkpoint says of itself; a score that is not finite is not known."""
    description: dict[str, Any] = {"step": step, "score": None}
    if score is not None and math.isfinite(score):
        description["score"] = float(score)
    if rows_sha256 is not None:
        description["rows"] = rows_sha256
    if is_interruption:
        description[_INTERRUPTION] = True
    return description


def _write_description(new: Path, description: dict[str, Any]) -> None:
    for name in (CHECKPOINT_FILE, MANIFEST_FILE):
        if (new / name).exists():
            raise RecordError(
                f"{name} was filled in by the caller; that name is taken, use another"
            )
    (new / CHECKPOINT_FILE).write_bytes(json_bytes(description))


def _reason(fault: Exception) -> str:
    text = fault.strerror if isinstance(fault, OSError) else None
    return " ".join((text or str(fault) or type(fault).__name__).split())


def _is_intact(place: Path) -> bool:
    try:
        verify_checkpoint(place)
    except RecordError:
        return False
    return True


def _retain(folder: Path, step: int, keep: int, useless: Collection[Path]) -> None:
    current = []
    for place in checkpoint_folders(folder):
        if _step(place) <= step and place not in useless and not _is_interruption(place):
            current.append(place)
    newest = folder / checkpoint_name(step)
    retained_folders = {*current[-keep:], *_by_score(current)[:1], newest}
    for place in checkpoint_folders(folder):
        if place not in retained_folders:
            remove_folder(place)


def _is_interruption(place: Path) -> bool:
    """Was a checkpoint saved because its run was interrupted? One that cannot be read was not."""
    try:
        table = read_json(place / CHECKPOINT_FILE)
    except RecordError:
        return False
    return isinstance(table, dict) and table.get(_INTERRUPTION) is True


def _by_score(folders: list[Path]) -> list[Path]:
    """Those whose score is known, the lowest first, the earliest of equals."""
    entries = []
    for checkpoint in map(_read_if_readable, folders):
        if checkpoint and checkpoint.score is not None:
            entries.append((checkpoint.score, checkpoint.step, checkpoint.folder))
    return [folder for _, _, folder in sorted(entries)]


def _read_if_readable(place: Path) -> Checkpoint | None:
    try:
        return _read_checkpoint(place)
    except RecordError:
        return None


def _read_checkpoint(place: Path) -> Checkpoint:
    """What a checkpoint says of itself, its files not verified."""
    path = place / CHECKPOINT_FILE
    match read_json(path):
        case {"step": int(step), "score": None | int() | float() as score} if step == _step(place):
            return Checkpoint(place, step, score)
    raise RecordError(f"{path} is not about step {_step(place)}; use another checkpoint")


def _step(place: Path) -> int:
    return checkpoint_step(place.name)

"""A study in one file: a zip that stores its files as they are, below a list of their sha256.

Nothing in it is compressed and no date is kept, so the same study gives the same bytes, and no file
can come to more than the pack itself.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from paribus.errors import InUseError, RecordError
from paribus.files import open_regular_file
from paribus.record.checksums import file_faults, listed_files
from paribus.record.disk import explained, json_bytes, sync, temporary_path
from paribus.record.file_names import CHECKPOINTS, PACK_LIST_FILE, ROWS_FILE, SPEC_FILE
from paribus.record.integrity import MAX_NAMED, check_integrity
from paribus.record.plan_file import read_plan
from paribus.record.portable_files import Content, content_hash, portable_files, study_runs
from paribus.record.study import Study

PACK_FORMAT = 1
_EARLIEST = (1980, 1, 1, 0, 0, 0)  # that a zip can have
_PLAIN_FILE = 0o100644 << 16
_UNIX = 3
_CHUNK_BYTES = 2**20


@dataclass(frozen=True)
class PackSummary:
    """What was packed, and what a person should know of it."""

    path: Path
    study: str
    n_files: int
    n_runs: int
    n_bytes: int
    n_open_runs: int  # that are not done
    n_without_weights: int  # runs that ended without a checkpoint in the pack


def write_pack(study: Study, path: Path, with_weights: bool) -> PackSummary:
    """Pack a study; RecordError where its files are not what was written, and InUseError while a
    process is at it.
    """
    if study.is_running():
        raise InUseError(f"{study.folder} is being run; wait until it is done, or stop it")
    if not study.read_cells():
        raise RecordError(f"{study.folder} is planned, and has no runs yet; run it first")
    runs = study_runs(study)
    _require_integrity(study, runs)
    files = portable_files(study, runs, with_weights)
    entries = {name: _entry(content) for name, content in sorted(files.items())}
    table = {
        "format": PACK_FORMAT,
        "study": study.folder.name,
        "weights": with_weights,
        "files": entries,
    }
    _require_replaceable(path)
    with explained(path, "written", "free some space, or choose another place with --out"):
        _write(path, {PACK_LIST_FILE: json_bytes(table), **dict(sorted(files.items()))})
    weighted_runs = {name.partition("/")[0] for name in files if f"/{CHECKPOINTS}/" in name}
    return PackSummary(
        path=path,
        study=study.folder.name,
        n_files=len(files),
        n_runs=len(runs),
        n_bytes=path.stat().st_size,
        n_open_runs=len(split_by_end(study)[1]),
        n_without_weights=len(set(runs) - weighted_runs) if with_weights else 0,
    )


def split_by_end(study: Study) -> tuple[list[str], list[str]]:
    """The runs of a study's plan that have come to an end, and those that have not."""
    ended_runs, open_runs = list[str](), list[str]()
    for run in dict.fromkeys(cell.run for cell in study.planned_cells()):
        if study.run_outcome(run)[0] in ("finished", "diverged"):
            ended_runs.append(run)
        else:
            open_runs.append(run)
    return ended_runs, open_runs


def study_faults(study: Study, runs: Iterable[str]) -> tuple[str, ...]:
    """What of a study, and of the runs that it needs, is not what was written."""
    ended_runs, open_runs = split_by_end(study)
    faults = list(check_integrity(study, read_plan(study), ended_runs, open_runs).faults)
    for run in runs:
        folder = study.root / run
        if run not in ended_runs and run not in open_runs and listed_files(folder) is not None:
            own = file_faults(folder, (SPEC_FILE,), growing_files=(ROWS_FILE,))
            faults += [f"run {run}: {fault}" for fault in own]
    return tuple(faults)


def _require_integrity(study: Study, runs: Iterable[str]) -> None:
    """RecordError where a file is not what was written: lists of checksums are written anew, and
    would hide it.
    """
    faults = study_faults(study, runs)
    if faults:
        raise RecordError(
            f"{study.folder} is not what was written: {'; '.join(faults[:MAX_NAMED])}; restore what"
            " was changed, and pack it then"
        )


def _entry(content: Content) -> dict[str, int | str]:
    return {"size": _size(content), "sha256": content_hash(content)}


def _require_replaceable(path: Path) -> None:
    """RecordError where something lies there that is no pack."""
    if path.is_dir():
        raise RecordError(f"{path} is a folder; name a file with --out")
    if path.exists() and not zipfile.is_zipfile(path):
        raise RecordError(f"{path} exists and is no pack; choose another place with --out")


def _write(path: Path, files: Mapping[str, Content]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = temporary_path(path)
    try:
        with zipfile.ZipFile(new, "w", zipfile.ZIP_STORED) as archive:
            for name, content in files.items():
                _write_file(archive, name, content)
        sync(new)
        new.rename(path)
    finally:
        new.unlink(missing_ok=True)


def _write_file(archive: zipfile.ZipFile, name: str, content: Content) -> None:
    info = zipfile.ZipInfo(name, _EARLIEST)
    info.create_system, info.external_attr = _UNIX, _PLAIN_FILE
    info.file_size = _size(content)
    n_written = 0
    with archive.open(info, "w") as file:
        for chunk in _chunks(content):
            file.write(chunk)
            n_written += len(chunk)
    if n_written != info.file_size:
        raise RecordError(f"{content} changed while it was packed; pack it again")


def _size(content: Content) -> int:
    if isinstance(content, bytes):
        return len(content)
    return content.stat().st_size


def _chunks(content: Content) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with open(open_regular_file(content), "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk

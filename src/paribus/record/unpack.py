"""A pack, laid among the runs that there are: what is there already stays, what differs is refused
before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from paribus.errors import RecordError
from paribus.files import MAX_ROWS_BYTES, read_bytes
from paribus.record.address import run_address
from paribus.record.checkpoints import verify_checkpoint
from paribus.record.checksums import listed_files, write_listed_file
from paribus.record.disk import (
    explained,
    file_sha256,
    read_json,
    replace,
    scratch_folder,
    sync,
)
from paribus.record.file_names import (
    CHECKPOINTS,
    CHECKSUMS_FILE,
    EVALUATIONS,
    LM_EVAL,
    LOCK_FILE,
    PLAN_FILE,
    SPEC_FILE,
    STATE_FILE,
    STUDIES,
    WEIGHTS_FILE,
)
from paribus.record.folder import named_folder, read_stages
from paribus.record.integrity import MAX_NAMED
from paribus.record.lock import hold_lock
from paribus.record.manifest import manifest_sha256
from paribus.record.pack import study_faults
from paribus.record.pack_reading import PackList, extract, open_pack
from paribus.record.portable_files import study_runs
from paribus.record.portable_paths import is_same_answer_file, portable_text
from paribus.record.state import read_state
from paribus.record.study import Study

_OWN_FOLDERS = (EVALUATIONS, LM_EVAL)  # whose files have a head that may name places


@dataclass(frozen=True)
class UnpackSummary:
    """What a pack brought."""

    study: Study
    n_files: int  # in the pack
    n_new_folders: int
    n_new_files: int  # that were added to folders which were there
    weights: bool


def unpack_study(path: Path, root: Path) -> UnpackSummary:
    """Verify a pack, and lay its study and its runs into the folder of runs.

    The same pack again changes nothing. RecordError where a run or the study is there and is not
    the same; then nothing is written.
    """
    with (
        open_pack(path) as (archive, pack_list),
        explained(root, "written", "free some space, or name another folder with --runs"),
        _folder_of_runs(root),
        scratch_folder(root / "unpack") as draft,
    ):
        extract(archive, pack_list, draft, path)
        _require_whole(draft, pack_list, path)
        folders = [*pack_list.runs, f"{STUDIES}/{pack_list.study}"]
        _require_no_difference(draft, root, folders, path)
        n_folders, n_files = 0, 0
        for name in folders:  # the study last: until then nobody takes it for whole
            is_new, n_added = _lay(draft / name, root / name)
            n_folders, n_files = n_folders + is_new, n_files + n_added
    return UnpackSummary(
        study=Study(root, root / STUDIES / pack_list.study),
        n_files=len(pack_list.files),
        n_new_folders=n_folders,
        n_new_files=n_files,
        weights=pack_list.weights,
    )


@contextmanager
def _folder_of_runs(root: Path) -> Iterator[None]:
    """A folder that is made if it is not there, and not left behind empty."""
    is_new = not root.exists()
    with explained(root, "made", "name another folder with --runs"):
        root.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        if is_new:
            with suppress(OSError):  # of a folder that holds something
                root.rmdir()


def _require_whole(draft: Path, pack_list: PackList, path: Path) -> None:
    """RecordError where what was unpacked is not a study with its runs, as paribus writes them."""
    study = Study(draft, draft / STUDIES / pack_list.study)
    if not (study.folder / PLAN_FILE).is_file():
        raise RecordError(f"{path} has no {PLAN_FILE}; get it again from whoever packed it")
    try:
        faults = list(_pack_faults(study, pack_list))
    except RecordError as fault:
        faults = [str(fault)]
    if faults:
        names = "; ".join(faults[:MAX_NAMED]).replace(f"{draft}/", "")
        raise RecordError(f"{path} holds no whole study: {names}; get it again")


def _pack_faults(study: Study, pack_list: PackList) -> Iterator[str]:
    for run in pack_list.runs:
        read_stages(study.root / run)
    runs = study_runs(study)
    for run in sorted({*pack_list.runs} - {*runs}):
        yield f"{run} is no run of the study"
    yield from study_faults(study, runs)
    for place in sorted({Path(name).parent for name in pack_list.files}):
        if place.parent.name == CHECKPOINTS:
            verify_checkpoint(study.root / place)


def _require_no_difference(draft: Path, root: Path, folders: list[str], path: Path) -> None:
    """RecordError names what is there and differs."""
    differences = list[str]()
    for name in folders:
        folder = root / name
        what = "study" if name.startswith(f"{STUDIES}/") else "run"
        named_folder(folder.parent, folder.name, what)
        if folder.exists():
            differences += _differences(draft / name, folder)
    if differences:
        more = len(differences) - MAX_NAMED
        rest = f" and {more} more" if more > 0 else ""
        raise RecordError(
            f"{path} holds other content than is there: {', '.join(differences[:MAX_NAMED])}{rest};"
            " unpack it into another folder with --runs"
        )


def _differences(new: Path, there: Path) -> Iterator[str]:
    """Files that are in both folders and do not say the same."""
    for path in _files(new):
        name = path.relative_to(new)
        old = there / name
        if old.is_symlink() or (old.exists() and not old.is_file()):
            yield str(old)
        elif name.parts[0] == CHECKPOINTS:
            if name.name == WEIGHTS_FILE and not _has_weights(there / name.parent, path):
                yield str(there / name.parent)
        elif old.exists() and not _is_same(path, old, name):
            yield str(old)


def _has_weights(checkpoint: Path, weights: Path) -> bool:
    """Is a checkpoint of these weights, or not there?"""
    if not checkpoint.exists():
        return True
    return manifest_sha256(checkpoint, WEIGHTS_FILE) == file_sha256(weights)


def _is_same(new: Path, old: Path, name: Path) -> bool:
    """Do two files say the same, wherever the files of their text lie?"""
    if name.name == CHECKSUMS_FILE:
        return True  # how a folder came to hold its files is its own
    if name.name == SPEC_FILE:
        return run_address(read_stages(new.parent)) == run_address(read_stages(old.parent))
    if name.name == PLAN_FILE:
        keys = ("fingerprint", "design_fingerprint")
        plans = [read_json(path) for path in (new, old)]
        return all(plans[0].get(key) == plans[1].get(key) for key in keys)
    if name.name == STATE_FILE:
        states = [read_state(path) for path in (new, old)]
        return _portable_state(states[0]) == _portable_state(states[1])
    if name.parts[0] in _OWN_FOLDERS:
        return is_same_answer_file(_read(new), _read(old))
    return file_sha256(new) == file_sha256(old)


def _portable_state(state: tuple[str, str] | None) -> tuple[str, str] | None:
    if state is None:
        return None
    status, reason = state
    return status, portable_text(reason)


def _lay(new: Path, there: Path) -> tuple[bool, int]:
    """Move a folder to its place, or add what the one there lacks: whether it is new, and how
    many files were added.
    """
    there.parent.mkdir(parents=True, exist_ok=True)
    if not there.exists():
        for path in _files(new):
            sync(path)
        new.rename(there)
        sync(there.parent)
        return True, 0
    missing_files = [path for path in _files(new) if _is_missing(path, new, there)]
    if not missing_files:
        return False, 0
    listed = listed_files(new) or set()
    with hold_lock(there / LOCK_FILE):
        for path in missing_files:
            name = path.relative_to(new).as_posix()
            if name.startswith(f"{CHECKPOINTS}/"):
                continue
            (there / name).parent.mkdir(exist_ok=True)
            if name in listed:
                write_listed_file(there, name, _read(path))
            else:
                replace(there / name, _read(path))
        for place in sorted({path.parent for path in missing_files}):
            if place.parent.name == CHECKPOINTS:
                (there / CHECKPOINTS).mkdir(exist_ok=True)
                place.rename(there / CHECKPOINTS / place.name)
    return False, len(missing_files)


def _is_missing(path: Path, new: Path, there: Path) -> bool:
    name = path.relative_to(new)
    if name.parts[0] == CHECKPOINTS:
        return not (there / name.parent).exists()
    return name.name != CHECKSUMS_FILE and not (there / name).exists()


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _read(path: Path) -> bytes:
    with explained(path, "read", "restore it"):
        return read_bytes(path, MAX_ROWS_BYTES)

"""A manifest: the size and sha256 of every file in a folder, so that a truncated or altered one
is known.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from paribus.errors import RecordError
from paribus.record.disk import explained, file_sha256, json_bytes, read_json, sync, write_json
from paribus.record.file_names import MANIFEST_FILE

_FILES = "files"
_REMOVED = "removed"  # files that were there, such as optimizer states that were freed


def write_manifest(folder: Path) -> None:
    """Bring every file and folder in `folder` to the disk, and its manifest with them."""
    path = folder / MANIFEST_FILE
    path.write_bytes(json_bytes({_FILES: dict(_file_entries(folder))}))
    sync(path)
    for inner in list(folder.rglob("*")):
        if inner.is_dir():
            sync(inner)
    sync(folder)


def verify_manifest(folder: Path) -> None:
    """RecordError unless every file of the manifest is there as it was written; sizes are
    compared first.
    """
    if folder.is_symlink():
        raise RecordError(f"{folder} is a link; use another checkpoint")
    files = _read_manifest(folder / MANIFEST_FILE)
    removed_files = _read_entries(folder / MANIFEST_FILE, _REMOVED)
    with explained(folder, "read", "use another checkpoint"):
        for name, entry in files.items():
            _verify_size(folder / name, entry["size"])
        _require_all_listed(folder, files, removed_files)
        for name, entry in files.items():
            if file_sha256(folder / name) != entry["sha256"]:
                raise RecordError(
                    f"{folder / name} is not what was written (sha256 differs); use another"
                    " checkpoint"
                )


def remove_file(folder: Path, name: str) -> None:
    """Remove a file of a folder, and say so in its manifest, which keeps the size and the sha256
    that the file had. A kill in between leaves a folder that verifies.
    """
    path = folder / MANIFEST_FILE
    table = shrunk_manifest(read_manifest_table(folder), name)
    write_json(path, table)
    with explained(folder / name, "removed", "make its folder writable"):
        (folder / name).unlink(missing_ok=True)


def read_manifest_table(folder: Path) -> dict[str, Any]:
    """A manifest as it is written, known to be one."""
    path = folder / MANIFEST_FILE
    table = {_FILES: _read_manifest(path)}
    removed_files = _read_entries(path, _REMOVED)
    if removed_files:
        table[_REMOVED] = removed_files
    return table


def shrunk_manifest(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A manifest of which one file is removed; as it is where it lists no such file."""
    files = dict(table[_FILES])
    if name not in files:
        return dict(table)
    entry = files.pop(name)
    return {_FILES: files, _REMOVED: {**table.get(_REMOVED, {}), name: entry}}


def _require_all_listed(
    folder: Path, files: Mapping[str, Any], removed_files: Mapping[str, Any]
) -> None:
    """RecordError where a manifest does not speak of a file beside it: one that lists less
    proves less.
    """
    names = set[str]()
    for path in folder.rglob("*"):
        is_file = path.is_symlink() or not path.is_dir()
        if is_file and not path.name.startswith("."):
            names.add(path.relative_to(folder).as_posix())
    unlisted_names = names - {*files, *removed_files, MANIFEST_FILE}
    if unlisted_names or not files:
        if unlisted_names:
            fault = f"does not list {min(unlisted_names)!r}, which lies beside it"
        else:
            fault = "lists no file"
        raise RecordError(f"{folder / MANIFEST_FILE} {fault}; use another checkpoint")


def manifest_sha256(folder: Path, name: str) -> str | None:
    """The sha256 that a folder's manifest gives a file, nothing compared; None where it gives
    none.
    """
    entry = _read_manifest(folder / MANIFEST_FILE).get(name)
    if entry is None:
        return None
    return entry["sha256"]


def _verify_size(path: Path, size_in_manifest: int) -> None:
    if path.is_symlink() or not path.is_file():
        raise RecordError(f"{path} is missing; use another checkpoint")
    size = path.stat().st_size
    if size != size_in_manifest:
        raise RecordError(
            f"{path} has {size} bytes, {size_in_manifest} were written; use another checkpoint"
        )


def _file_entries(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise RecordError(f"{path} is a link or a device; write plain files")
        if path.is_file():
            sync(path)
            yield (
                path.relative_to(folder).as_posix(),
                {"size": path.stat().st_size, "sha256": file_sha256(path)},
            )


def _read_manifest(path: Path) -> dict[str, dict[str, Any]]:
    return _read_entries(path, _FILES)


def _read_entries(path: Path, key: str) -> dict[str, dict[str, Any]]:
    """The files that a manifest lists under a key; those that were removed are few, or none."""
    table = read_json(path)
    if not isinstance(table, dict):
        table = {}
    files = table.get(key, {} if key == _REMOVED else None)
    if isinstance(files, dict) and all(_is_entry(name, entry) for name, entry in files.items()):
        return files
    raise RecordError(f"{path} is not a manifest; use another checkpoint")


def _is_entry(name: str, entry: Any) -> bool:
    inside = PurePosixPath(name)
    plain = not inside.is_absolute() and ".." not in inside.parts
    match entry:
        case {"size": int(), "sha256": str()}:
            return plain
    return False

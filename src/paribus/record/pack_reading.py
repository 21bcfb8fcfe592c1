"""A pack that somebody sent: its list and its files, none of which may be where it should not.

Refused are names that lead elsewhere or that no study has, links, files that are compressed or
overlap, and whatever is not what the list says.
"""

from __future__ import annotations

import re
import shutil
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paribus.errors import RecordError
from paribus.files import MAX_RECORD_BYTES, open_regular_file
from paribus.record.disk import file_sha256
from paribus.record.file_names import (
    ASKED_PATTERN,
    CHECKPOINTS,
    CHECKSUMS_FILE,
    PACK_LIST_FILE,
    STUDIES,
)
from paribus.record.folder import is_folder_name
from paribus.record.pack import PACK_FORMAT
from paribus.record.portable_files import ANSWER_FOLDERS, RUN_FILES, STUDY_FILES
from paribus.record.portable_paths import parse_line

_REMEDY = "get it again from whoever packed it"
_CHUNK_BYTES = 2**20
_ENCRYPTED = 0x1
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_CHECKPOINT = re.compile(r"step-\d{9}", re.ASCII)
_ASKED = re.compile(re.escape(ASKED_PATTERN).replace(r"\*", "[0-9a-f]{16}"), re.ASCII)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,150}", re.ASCII)
_N_STUDY_PARTS, _N_RUN_PARTS, _N_ANSWER_PARTS, _N_CHECKPOINT_PARTS = 3, 2, 3, 4


@dataclass(frozen=True)
class PackList:
    """What a pack says that it holds."""

    study: str
    weights: bool
    files: dict[str, tuple[int, str]]  # name → bytes, sha256

    @property
    def n_bytes(self) -> int:
        """Bytes of all files."""
        return sum(size for size, _ in self.files.values())

    @property
    def runs(self) -> list[str]:
        """The names of its runs."""
        names = {name.partition("/")[0] for name in self.files}
        return sorted(names - {STUDIES})


@contextmanager
def open_pack(path: Path) -> Iterator[tuple[zipfile.ZipFile, PackList]]:
    """A pack and its list, whose names are known to be harmless; RecordError where it is none."""
    try:
        with open(open_regular_file(path), "rb") as file, zipfile.ZipFile(file) as archive:
            n_bytes = path.stat().st_size
            entries = _require_plain_entries(archive, path, n_bytes)
            pack_list = _read_list(archive, path)
            _require_same_names(entries, pack_list, path)
            yield archive, pack_list
    except (
        zipfile.BadZipFile,
        zipfile.LargeZipFile,
        NotImplementedError,
        EOFError,
        UnicodeError,
    ) as fault:
        raise RecordError(f"{path} is not a whole pack: {fault}; {_REMEDY}") from fault
    except OSError as fault:
        raise RecordError(
            f"{path} cannot be read: {fault.strerror or fault}; give a file that"
            " `paribus pack` wrote"
        ) from fault


def extract(archive: zipfile.ZipFile, pack_list: PackList, folder: Path, path: Path) -> None:
    """Write every file of a pack below `folder`, and compare each with the list."""
    free = shutil.disk_usage(folder).free
    if free < pack_list.n_bytes:
        raise RecordError(
            f"{path} comes to {pack_list.n_bytes:,} bytes, and {folder.parent} has {free:,} left;"
            " free some space, or name another folder with --runs"
        )
    for name, (size, sha256) in pack_list.files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        _extract_file(archive, name, target, size)
        if file_sha256(target) != sha256:
            raise RecordError(f"{path}: {name} is not what was packed (sha256 differs); {_REMEDY}")


def _extract_file(archive: zipfile.ZipFile, name: str, target: Path, size: int) -> None:
    n_left = size
    with archive.open(name) as source, open(target, "xb") as file:
        while chunk := source.read(min(_CHUNK_BYTES, n_left + 1)):
            n_left -= len(chunk)
            if n_left < 0:
                break  # the sha256 says the rest
            file.write(chunk)


def _require_plain_entries(archive: zipfile.ZipFile, path: Path, n_bytes: int) -> set[str]:
    """The names of all entries; RecordError where one is no plain stored file."""
    names, total = set[str](), 0
    for info in archive.infolist():
        kind = stat.S_IFMT(info.external_attr >> 16)
        total += info.file_size
        if kind not in (0, stat.S_IFREG) or info.is_dir():
            fault = "is a link, a folder or a device"
        elif info.flag_bits & _ENCRYPTED:
            fault = "is encrypted"
        elif info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            fault = "is compressed, which no pack is"
        elif info.filename.lower() in names:
            fault = "is there twice"
        elif total > n_bytes:
            fault = "brings the files to more bytes than the pack has"
        else:
            names.add(info.filename.lower())
            continue
        raise RecordError(f"{path}: {info.filename!r} {fault}; {_REMEDY}")
    return {info.filename for info in archive.infolist()}


def _read_list(archive: zipfile.ZipFile, path: Path) -> PackList:
    try:
        info = archive.getinfo(PACK_LIST_FILE)
    except KeyError:
        raise RecordError(
            f"{path} has no {PACK_LIST_FILE}: it is not a pack; give a file that `paribus pack`"
            " wrote"
        ) from None
    if info.file_size > MAX_RECORD_BYTES:
        raise RecordError(f"{path}: {PACK_LIST_FILE} has {info.file_size:,} bytes; {_REMEDY}")
    table = parse_line(archive.read(info))
    match table:
        case {"format": int(number)} if number > PACK_FORMAT:
            raise RecordError(
                f"{path} has the format {number}, and this version reads up to {PACK_FORMAT};"
                " update paribus"
            )
        case {"format": 1, "study": str(study), "weights": bool(weights), "files": dict(files)}:
            if is_folder_name(study):
                return PackList(study, weights, dict(_parse_files(files, study, path)))
    raise RecordError(f"{path}: {PACK_LIST_FILE} is no list of a pack; {_REMEDY}")


def _parse_files(
    files: dict[str, Any], study: str, path: Path
) -> Iterator[tuple[str, tuple[int, str]]]:
    for name, entry in files.items():
        match entry:
            case {"size": int(size), "sha256": str(sha256)} if size >= 0 and _SHA256.fullmatch(
                sha256
            ):
                if not is_pack_name(name, study):
                    raise RecordError(
                        f"{path}: {name!r} is not the name of a file of this study; {_REMEDY}"
                    )
                yield name, (size, sha256)
            case _:
                raise RecordError(f"{path}: {name!r} has no size and sha256; {_REMEDY}")


def is_pack_name(name: str, study: str) -> bool:
    """May a pack of a study have a file of this name? Then it leads nowhere else."""
    parts = name.split("/")
    if not all(_PLAIN_NAME.fullmatch(part) for part in parts):
        return False
    if parts[0] == STUDIES:
        is_own = len(parts) == _N_STUDY_PARTS and parts[1] == study
        return is_own and (
            parts[-1] in (*STUDY_FILES, CHECKSUMS_FILE) or bool(_ASKED.fullmatch(parts[-1]))
        )
    if parts[0].lower() == STUDIES or not is_folder_name(parts[0]):
        return False
    if len(parts) == _N_RUN_PARTS:
        return parts[1] in (*RUN_FILES, CHECKSUMS_FILE)
    if len(parts) == _N_ANSWER_PARTS and parts[1] in ANSWER_FOLDERS:
        return parts[2].endswith(".jsonl")
    if len(parts) == _N_CHECKPOINT_PARTS and parts[1] == CHECKPOINTS:
        return _CHECKPOINT.fullmatch(parts[2]) is not None
    return False


def _require_same_names(names: set[str], pack_list: PackList, path: Path) -> None:
    listed_names = {*pack_list.files, PACK_LIST_FILE}
    if names != listed_names:
        odd = min(names ^ listed_names)
        fault = "is not listed" if odd in names else "is missing"
        raise RecordError(f"{path}: {odd!r} {fault}; {_REMEDY}")

"""Files, folders, globs and tars, plain or compressed, as streams of bytes; nothing is unpacked to disk."""

from __future__ import annotations

import errno
import glob
import gzip
import io
import lzma
import os
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO, Any, cast

from paribus.corpus.documents import Notes
from paribus.corpus.frames import unpacked
from paribus.corpus.progress import Progress
from paribus.corpus.unpacking import Allowance, DamagedHeaderError, TarEntry, counted
from paribus.errors import RecordError, SpecError
from paribus.files import home_expanded, looked_for, open_regular

PACKED = (".gz", ".xz", ".zst")
SHORT = {".tgz": ".tar.gz", ".txz": ".tar.xz"}


@dataclass(frozen=True)
class Member:
    """An open file, or a file inside a tar, whose name is only a name."""

    where: str
    suffix: str
    stream: IO[bytes]


def suffix_of(name: str) -> str:
    """What a file holds, whatever it is packed with: `a.jsonl.gz` → `.jsonl`, and so is `A.JSONL.GZ`."""
    path = PurePath(name.lower())
    path = path.with_suffix(SHORT.get(path.suffix, path.suffix))
    return path.with_suffix("").suffix if path.suffix in PACKED else path.suffix


def found(paths: Sequence[str], suffixes: Sequence[str], notes: Notes) -> list[Path]:
    """Every file meant by the paths, each once, in the order of the paths and sorted within each."""
    files: dict[Path, Path] = {}
    for given in paths:
        inside = list(_inside(given, (*suffixes, ".tar"), notes))
        if not inside:
            kinds = ", ".join((*suffixes, ".tar"))
            raise SpecError(
                f"paths {given!r} holds no file that can be read here; give {kinds}, or packed: .gz .xz .zst"
                f"{looked_for(home_expanded('paths', given))}"
            )
        for path in inside:
            files.setdefault(path.resolve(), path)
    return list(files.values())


def _inside(given: str, suffixes: Sequence[str], notes: Notes) -> Iterator[Path]:
    path = home_expanded("paths", given)
    if path.is_dir():
        yield from _chosen(_walked(path), suffixes, notes)
    elif path.exists():
        if suffix_of(path.name) in suffixes and not _is_odd(path):
            yield path
    elif glob.has_magic(given):
        matches = sorted(map(Path, glob.glob(str(path), recursive=True)))
        there = (match for match in matches if match.is_file() or _is_odd(match))
        yield from _chosen(there, suffixes, notes)
    else:
        raise SpecError(f"paths {given!r} does not exist; give a file, a folder or a glob{looked_for(path)}")


def _walked(folder: Path) -> Iterator[Path]:
    for here, folders, files in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(here, name) for name in sorted(files))


def _refuse(fault: OSError) -> None:
    raise RecordError(f"{fault.filename} cannot be read: {_cured(fault)}") from fault


def _chosen(paths: Iterator[Path], suffixes: Sequence[str], notes: Notes) -> Iterator[Path]:
    for path in paths:
        if suffix_of(path.name) in suffixes and not path.name.startswith(".") and not _is_odd(path):
            yield path
        else:
            notes.n_passed_over += 1


def _is_odd(path: Path) -> bool:
    """Whether it is a pipe, a socket or a device, which one may wait for without end."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def members(
    path: Path, suffixes: Sequence[str], notes: Notes, progress: Progress, allowance: Allowance
) -> Iterator[Member]:
    """A file itself, or each file of a tar that can be read, in its order; one must be read before the next."""
    with torn(str(path)), _watched(path, progress, allowance) as raw:
        stream = _unpacked(raw, str(path), allowance)
        if suffix_of(path.name) != ".tar":
            yield Member(str(path), suffix_of(path.name), stream)
            return
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=TarEntry) as tar:
            for entry in _entries(tar):
                name = PurePath(entry.name).name
                if entry.isfile() and suffix_of(name) in suffixes and not name.startswith("."):
                    where = f"{path}:{entry.name}"
                    yield Member(where, suffix_of(name), _unpacked(_opened(tar, entry, where), where, allowance))
                elif entry.isfile():
                    notes.n_passed_over += 1


def _entries(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """One after another; the library would keep all of them."""
    while (entry := tar.next()) is not None:
        tar.members.clear()  # pyright: ignore[reportAttributeAccessIssue]
        yield entry


def _opened(tar: tarfile.TarFile, entry: tarfile.TarInfo, where: str) -> IO[bytes]:
    if entry.issparse():
        raise RecordError(f"{where} is stored with holes, which may be of any size; pack it anew without --sparse")
    inner = tar.extractfile(entry)
    assert inner is not None
    return inner


@contextmanager
def torn(where: str) -> Iterator[None]:
    """Around whatever reads a stream: says which file cannot be opened, was cut short or is not what its name says."""
    try:
        yield
    except (EOFError, OSError, MemoryError, zlib.error, lzma.LZMAError, tarfile.TarError) as fault:
        raise RecordError(f"{where} cannot be read: {_cured(fault)}") from fault


def _cured(fault: Exception) -> str:
    """What went wrong, and what would do."""
    match fault:
        case PermissionError():
            return f"{fault.strerror or fault}; make it readable, or leave it out of the paths"
        case FileNotFoundError():
            return f"{fault.strerror or fault}; restore it, or leave it out of the paths"
        case OSError(errno=errno.EINVAL, strerror=str(said)):
            return f"{said}; leave it out of the paths"
        case DamagedHeaderError():
            return f"{fault}; it is damaged: get it again, or pack it anew"
        case MemoryError():
            return "it needs more memory than there is; pack it anew, with a smaller window"
    return f"{fault}; it may be cut short: get it again"


@contextmanager
def _watched(path: Path, progress: Progress, allowance: Allowance) -> Iterator[IO[bytes]]:
    raw = _Watched(open_regular(path))
    raw.where, raw.progress, raw.allowance = str(path), progress, None if _is_packed(str(path)) else allowance
    with io.BufferedReader(raw, 2**17) as file:
        yield file


class _Watched(io.FileIO):
    """A file that tells how much of it was read; what is not packed is text already."""

    where: str
    progress: Progress
    allowance: Allowance | None

    def readinto(self, buffer: Any, /) -> int:
        size = super().readinto(buffer) or 0
        self.progress.advance(size)
        if self.allowance is not None:
            self.allowance.take(size, self.where)
        return size


def _unpacked(stream: IO[bytes], where: str, allowance: Allowance) -> IO[bytes]:
    """The stream behind a compression, by the name."""
    if not _is_packed(where):
        return stream
    if not cast(io.BufferedReader, stream).peek(1):
        raise EOFError("it is empty")  # which gzip would take for a whole file
    match _packing(where):
        case ".gz":
            plain = cast(IO[bytes], gzip.GzipFile(fileobj=stream))
        case ".xz":
            plain = cast(IO[bytes], lzma.LZMAFile(stream))  # noqa: SIM115 (closed with the file beneath)
        case _:
            plain = unpacked(stream, where)
    return counted(plain, allowance, where)


def _is_packed(where: str) -> bool:
    return _packing(where) in PACKED


def _packing(where: str) -> str:
    suffix = PurePath(where).suffix.lower()
    return "." + SHORT.get(suffix, suffix).rpartition(".")[2]

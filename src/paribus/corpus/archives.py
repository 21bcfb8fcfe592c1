"""Files, folders, globs and tars, plain or compressed, as streams of bytes; nothing is unpacked
to disk.
"""

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

from paribus.corpus.decompression_limit import (
    DamagedHeaderError,
    DecompressionLimit,
    TarEntry,
    limited_stream,
)
from paribus.corpus.documents import SourceNotes
from paribus.corpus.zstandard import open_zstandard
from paribus.errors import RecordError, SpecError
from paribus.files import expand_home, looked_for, open_regular_file
from paribus.watcher import Watcher

COMPRESSED_SUFFIXES = (".gz", ".xz", ".zst")
SHORT_SUFFIXES = {".tgz": ".tar.gz", ".txz": ".tar.xz"}


@dataclass(frozen=True)
class ArchiveMember:
    """An open file, or a file inside a tar, whose name is only a name."""

    where: str
    suffix: str
    stream: IO[bytes]


def suffix_of(name: str) -> str:
    """What a file holds, whatever it is packed with: `a.jsonl.gz` → `.jsonl`, and so is
    `A.JSONL.GZ`.
    """
    path = PurePath(name.lower())
    path = path.with_suffix(SHORT_SUFFIXES.get(path.suffix, path.suffix))
    if path.suffix in COMPRESSED_SUFFIXES:
        return path.with_suffix("").suffix
    return path.suffix


def bare_name(name: str) -> str:
    """The name of a file without what it holds and what it is packed with: `books.train.tar.xz`
    and `books.train.txz` → `books.train`.
    """
    path = PurePath(name)
    if path.suffix.lower() in COMPRESSED_SUFFIXES:
        path = path.with_suffix("")
    return path.stem


def find_files(paths: Sequence[str], suffixes: Sequence[str], notes: SourceNotes) -> list[Path]:
    """Every file meant by the paths, each once, in the order of the paths and sorted within
    each.
    """
    files: dict[Path, Path] = {}
    for pattern in paths:
        inside = list(_files_under(pattern, (*suffixes, ".tar"), notes))
        if not inside:
            kinds = ", ".join((*suffixes, ".tar"))
            raise SpecError(
                f"paths {pattern!r} holds no file that can be read here; give {kinds}, or packed:"
                f" .gz .xz .zst{looked_for(expand_home('paths', pattern))}"
            )
        for path in inside:
            files.setdefault(path.resolve(), path)
    return list(files.values())


def _files_under(path_or_glob: str, suffixes: Sequence[str], notes: SourceNotes) -> Iterator[Path]:
    path = expand_home("paths", path_or_glob)
    if path.is_dir():
        yield from _select_files(_walk_folder(path), suffixes, notes)
    elif path.exists():
        if suffix_of(path.name) in suffixes and not _is_special_file(path):
            yield path
    elif glob.has_magic(path_or_glob):
        matches = sorted(map(Path, glob.glob(str(path), recursive=True)))
        yield from _select_files(_without_folders(matches), suffixes, notes)
    else:
        raise SpecError(
            f"paths {path_or_glob!r} does not exist; give a file, a folder or a"
            f" glob{looked_for(path)}"
        )


def _without_folders(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_file() or _is_special_file(path):
            yield path


def _walk_folder(folder: Path) -> Iterator[Path]:
    for here, folders, files in os.walk(folder, onerror=_raise_unreadable):
        folders[:] = sorted([name for name in folders if not name.startswith(".")])
        for name in sorted(files):
            yield Path(here, name)


def _raise_unreadable(fault: OSError) -> None:
    raise RecordError(f"{fault.filename} cannot be read: {_describe_read_error(fault)}") from fault


def _select_files(
    paths: Iterator[Path], suffixes: Sequence[str], notes: SourceNotes
) -> Iterator[Path]:
    for path in paths:
        if (
            suffix_of(path.name) in suffixes
            and not path.name.startswith(".")
            and not _is_special_file(path)
        ):
            yield path
        else:
            notes.n_passed_over += 1


def _is_special_file(path: Path) -> bool:
    """Whether it is a pipe, a socket or a device, which one may wait for without end."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def open_members(
    path: Path,
    suffixes: Sequence[str],
    notes: SourceNotes,
    progress: Watcher,
    limit: DecompressionLimit,
) -> Iterator[ArchiveMember]:
    """A file itself, or each file of a tar that can be read, in its order; one must be read
    before the next.
    """
    with explain_read_errors(str(path)), _open_with_progress(path, progress, limit) as raw:
        stream = _decompress(raw, str(path), limit)
        if suffix_of(path.name) != ".tar":
            yield ArchiveMember(str(path), suffix_of(path.name), stream)
            return
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=TarEntry) as tar:
            for entry in _tar_entries(tar):
                name = PurePath(entry.name).name
                if entry.isfile() and suffix_of(name) in suffixes and not name.startswith("."):
                    where = f"{path}:{entry.name}"
                    yield ArchiveMember(
                        where,
                        suffix_of(name),
                        _decompress(_open_entry(tar, entry, where), where, limit),
                    )
                elif entry.isfile():
                    notes.n_passed_over += 1


def _tar_entries(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """One after another; the library would keep all of them."""
    while (entry := tar.next()) is not None:
        tar.members.clear()  # pyright: ignore[reportAttributeAccessIssue]
        yield entry


def _open_entry(tar: tarfile.TarFile, entry: tarfile.TarInfo, where: str) -> IO[bytes]:
    if entry.issparse():
        raise RecordError(
            f"{where} is stored with holes, which may be of any size; pack it anew without --sparse"
        )
    inner = tar.extractfile(entry)
    assert inner is not None
    return inner


@contextmanager
def explain_read_errors(where: str) -> Iterator[None]:
    """Around whatever reads a stream: says which file cannot be opened, was cut short or is not
    what its name says.
    """
    try:
        yield
    except (EOFError, OSError, MemoryError, zlib.error, lzma.LZMAError, tarfile.TarError) as fault:
        raise RecordError(f"{where} cannot be read: {_describe_read_error(fault)}") from fault


def _describe_read_error(fault: Exception) -> str:
    """What went wrong, and what would do."""
    match fault:
        case PermissionError():
            return f"{fault.strerror or fault}; make it readable, or leave it out of the paths"
        case FileNotFoundError():
            return f"{fault.strerror or fault}; restore it, or leave it out of the paths"
        case OSError(errno=errno.EINVAL, strerror=str(message)):
            return f"{message}; leave it out of the paths"
        case DamagedHeaderError():
            return f"{fault}; it is damaged: get it again, or pack it anew"
        case MemoryError():
            return "it needs more memory than there is; pack it anew, with a smaller window"
    return f"{fault}; it may be cut short: get it again"


@contextmanager
def _open_with_progress(
    path: Path, progress: Watcher, limit: DecompressionLimit
) -> Iterator[IO[bytes]]:
    raw = _ProgressFile(open_regular_file(path))
    raw.where, raw.progress, raw.limit = (
        str(path),
        progress,
        None if _is_compressed(str(path)) else limit,
    )
    with io.BufferedReader(raw, 2**17) as file:
        yield file


class _ProgressFile(io.FileIO):
    """A file that tells how much of it was read; what is not packed is text already."""

    where: str
    progress: Watcher
    limit: DecompressionLimit | None

    def readinto(self, buffer: Any, /) -> int:
        size = super().readinto(buffer) or 0
        self.progress.advance(size)
        if self.limit is not None:
            self.limit.count(size, self.where)
        return size


def _decompress(stream: IO[bytes], where: str, limit: DecompressionLimit) -> IO[bytes]:
    """The stream behind a compression, by the name."""
    if not _is_compressed(where):
        return stream
    if not cast(io.BufferedReader, stream).peek(1):
        raise EOFError("it is empty")  # which gzip would take for a whole file
    match _compression_suffix(where):
        case ".gz":
            plain = cast(IO[bytes], gzip.GzipFile(fileobj=stream))
        case ".xz":
            plain = cast(IO[bytes], lzma.LZMAFile(stream))  # noqa: SIM115
        case _:
            plain = open_zstandard(stream, where)
    return limited_stream(plain, limit, where)


def _is_compressed(where: str) -> bool:
    return _compression_suffix(where) in COMPRESSED_SUFFIXES


def _compression_suffix(where: str) -> str:
    suffix = PurePath(where).suffix.lower()
    return "." + SHORT_SUFFIXES.get(suffix, suffix).rpartition(".")[2]

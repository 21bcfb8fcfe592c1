"""Where built corpora are kept: under the fingerprint of their text, each whole or not there at
all.

cache/<fingerprint>/      index.json, tokenizer.json and the shards
cache/keys/<key>.json     from what is known before reading (the spec; sizes, times, versions) to
                          a fingerprint, with what was met while reading: the same text may lie
                          among other files elsewhere
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from paribus.canonical import canonical_hash
from paribus.corpus.documents import SourceNotes
from paribus.corpus.sources import source_identity
from paribus.corpus.splits import Split
from paribus.files import MAX_RECORD_BYTES, expand_home, read_text
from paribus.record.disk import explained, file_sha256, write_atomically
from paribus.spec.corpus import Corpus, TokenizerFile

CACHE_FORMAT = 1  # another number where what is written, or how text is cut, has changed
INDEX_FILE = "index.json"
PATH_FIELDS = {"paths", "path"}  # where text lies does not say which text it is
# A host's name may hold dashes and digits; the last two parts are the process and what makes the
# name its own.
_BUILD_FOLDER_NAME = re.compile(
    r"\.building-(?P<host>.*)-(?P<process>[1-9][0-9]*)-[0-9a-f]+", re.DOTALL
)
LIMIT_FIELDS = {"max_unpacked"}  # nor how much there might have been


@dataclass(frozen=True)
class TextCounts:
    n_documents: int
    n_tokens: int
    n_bytes: int


@dataclass(frozen=True)
class SourceIndex:
    kind: str
    digest: str  # of every text read, in order
    n_replaced: int
    n_empty: int
    n_passed_over: int
    n_unknown: int  # tokens
    n_lost: int  # letters
    splits: dict[Split, TextCounts]


@dataclass(frozen=True)
class WrittenFile:
    """A file as it was written."""

    n_bytes: int
    time_ns: int
    sha256: str

    def matches(self, path: Path) -> bool:
        """Whether a file holds this: by its size and time, which cost nothing, or else by its
        content.
        """
        stat = path.stat()
        if stat.st_size != self.n_bytes:
            return False
        if stat.st_mtime_ns == self.time_ns:
            return True
        same = file_sha256(path) == self.sha256
        if same:
            with suppress(OSError):  # somebody else's cache may be read all the same
                os.utime(path, ns=(self.time_ns, self.time_ns))
        return same


@dataclass(frozen=True)
class Index:
    """What lies in the folder beside it; by its `files` a torn or changed folder is known."""

    fingerprint: str
    spec: dict[str, Any]
    sources: tuple[SourceIndex, ...]
    files: dict[str, WrittenFile]
    format: int = CACHE_FORMAT


def record_file(path: Path) -> WrittenFile:
    """A file that is finished."""
    stat = path.stat()
    return WrittenFile(stat.st_size, stat.st_mtime_ns, file_sha256(path))


def spec_table(corpus: Corpus, exclude: set[str]) -> dict[str, Any]:
    """The spec as JSON, without some fields of its sources and tokenizer; which target stands
    beside which source does not change what is kept.
    """
    table = corpus.model_dump(mode="json", exclude={"shuffled_targets"})
    for part in (*table["sources"], table["tokenizer"]):
        for name in exclude | LIMIT_FIELDS:
            part.pop(name, None)
    return table


def text_fingerprint(corpus: Corpus, digests: list[str], tokenizer: str) -> str:
    """A name for the tokens: what was asked, every text read, and the tokenizer; weights and
    places do not matter.
    """
    return canonical_hash(
        [
            CACHE_FORMAT,
            spec_table(corpus, {"weight"} | PATH_FIELDS),
            digests,
            hashlib.sha256(tokenizer.encode()).hexdigest(),
        ]
    )


def corpus_fingerprint(corpus: Corpus, text_name: str) -> str:
    """A name for what is read: the tokens, in which shares, and whether targets are shuffled."""
    total = sum(source.weight for source in corpus.sources)
    parts: list[Any] = [text_name, [source.weight / total for source in corpus.sources]]
    if corpus.shuffled_targets:
        parts.append("shuffled targets")
    return canonical_hash(parts)


def source_key(corpus: Corpus) -> str:
    """What is known before anything is read."""
    if isinstance(corpus.tokenizer, TokenizerFile):
        tokenizer = _file_stamp(corpus.tokenizer)
    else:
        tokenizer = None
    return canonical_hash(
        [
            CACHE_FORMAT,
            spec_table(corpus, {"weight"}),
            [source_identity(source) for source in corpus.sources],
            tokenizer,
        ]
    )


def _file_stamp(tokenizer: TokenizerFile) -> list[int] | None:
    path = expand_home("corpus.tokenizer.path", tokenizer.path)
    if path.exists():
        return [path.stat().st_size, path.stat().st_mtime_ns]
    return None


def find_cached_index(cache: Path, key: str) -> Index | None:
    """The index of a folder that is there and whole, with what was met when this key's text was
    read.
    """
    try:
        table = json.loads(read_text(cache / "keys" / f"{key}.json", MAX_RECORD_BYTES))
        index, met = (
            read_whole_index(cache / table["fingerprint"]),
            [vars(SourceNotes(**one)) for one in table["met"]],
        )
        if index is None:
            return None
        sources = []
        for source, notes in zip(index.sources, met, strict=True):
            sources.append(replace(source, **notes))
        return replace(index, sources=tuple(sources))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def read_whole_index(folder: Path) -> Index | None:
    """The index of a folder, if every file it lists is there as it was written."""
    index = read_index(folder)
    try:
        if index is None or not _all_match(index.files, folder):
            return None
    except (OSError, ValueError):
        return None
    return index


def _all_match(files: dict[str, WrittenFile], folder: Path) -> bool:
    return all(file.matches(folder / name) for name, file in files.items())


def read_index(folder: Path) -> Index | None:
    """What a folder says that it holds, none of it compared; None where it says nothing that
    can be read.
    """
    try:
        table = json.loads(read_text(folder / INDEX_FILE, MAX_RECORD_BYTES))
        if table["format"] != CACHE_FORMAT:
            return None
        files = {name: WrittenFile(**one) for name, one in table["files"].items()}
        sources = tuple(map(_parse_source, table["sources"]))
        return Index(**table | {"sources": sources, "files": files})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _parse_source(table: dict[str, Any]) -> SourceIndex:
    splits: Any = {name: TextCounts(**counts) for name, counts in table["splits"].items()}
    return SourceIndex(**table | {"splits": splits})


@contextmanager
def build_folder(cache: Path) -> Iterator[Path]:
    """A folder to build in, gone afterwards unless it was kept; what killed builds left behind
    goes too.
    """
    folder = cache / f".building-{platform.node()}-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        with explained(cache, "written", _cache_remedy):
            cache.mkdir(parents=True, exist_ok=True)
            _remove_abandoned_builds(cache)
            folder.mkdir()
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _cache_remedy(fault: OSError) -> str:
    elsewhere = "choose another folder for texts"
    if fault.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"free some space, or {elsewhere}"
    if fault.errno in (errno.EACCES, errno.EPERM):
        return f"make it writable, or {elsewhere}"
    return elsewhere


def _remove_abandoned_builds(cache: Path) -> None:
    """Remove what killed builds of this host left; a folder of another host, or of an unknown
    name, stays.
    """
    for folder in cache.iterdir():
        name = _BUILD_FOLDER_NAME.fullmatch(folder.name)
        if (
            name is not None
            and name["host"] == platform.node()
            and not _is_running(int(name["process"]))
        ):
            shutil.rmtree(folder, ignore_errors=True)


def _is_running(process: int) -> bool:
    """Whether a process may be there; a number that none can have says nothing of whoever is at
    work.
    """
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):  # someone else's, or no process of this machine
        pass
    return True


def store_folder(folder: Path, cache: Path, index: Index, key: str) -> bool:
    """Move a finished folder to its name at once; one that is there already and whole stays.

    True where one that was not whole made way.
    """
    _write_json(folder / INDEX_FILE, asdict(index))
    place = cache / index.fingerprint
    was_damaged = False
    while folder.exists() and read_whole_index(place) is None:
        was_damaged = (
            _move_damaged_aside(place, cache / f"{folder.name}{secrets.token_hex(4)}")
            or was_damaged
        )
        try:
            folder.rename(place)
        except OSError as fault:  # somebody was quicker: look at what is there now
            if fault.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
    (cache / "keys").mkdir(exist_ok=True)
    met = [_notes_table(source) for source in index.sources]
    _write_json(cache / "keys" / f"{key}.json", {"fingerprint": index.fingerprint, "met": met})
    return was_damaged


def _notes_table(source: SourceIndex) -> dict[str, int]:
    """What was met while reading a source, of all that its index says."""
    return {name: getattr(source, name) for name in vars(SourceNotes())}


def _move_damaged_aside(folder: Path, aside: Path) -> bool:
    """Whether a folder that is not whole made way; one that somebody has just finished is put
    back.
    """
    try:
        folder.rename(aside)
    except FileNotFoundError:
        return False
    was_whole = read_whole_index(aside) is not None
    if was_whole:
        with suppress(OSError):
            aside.rename(folder)
    shutil.rmtree(aside, ignore_errors=True)
    return not was_whole


def _write_json(path: Path, value: Any) -> None:
    """JSON that is there whole or not at all."""
    write_atomically(path, json.dumps(value, indent=1).encode())

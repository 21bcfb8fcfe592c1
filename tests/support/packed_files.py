"""Files of text, packed and in tars, and what is read from them."""

import gzip
import io
import lzma
import tarfile
from pathlib import Path

import zstandard

from paribus.corpus.documents import Document, SourceNotes
from paribus.corpus.progress import Progress
from paribus.corpus.sources import source_documents
from paribus.spec import Files, PairFiles

PACK = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}


def read(source: Files | PairFiles, notes: SourceNotes | None = None) -> list[Document]:
    return list(source_documents(source, notes or SourceNotes(), Progress(), 1))


def files(*paths: Path | str, **fields) -> list[str]:
    return [
        document.text.decode() for document in read(Files(paths=tuple(map(str, paths)), **fields))
    ]


def pairs(path: Path, **fields) -> list[tuple[str, str]]:
    found = read(PairFiles(paths=(str(path),), **fields))
    return [(document.text.decode(), (document.target or b"").decode()) for document in found]


def tar(path: Path, mode: str, contents: dict[str, bytes]) -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, data in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path

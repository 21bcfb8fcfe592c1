"""What is packed may not come to more than it seems: bombs, holes and headers that claim
gigabytes.
"""

import gzip
import io
import lzma
import os
import tarfile
import tracemalloc
from pathlib import Path

import pytest
import zstandard
from packed_files import PACK, files, pairs, tar
from small_corpus import build_small_corpus

from paribus.corpus.cache import source_key, text_fingerprint
from paribus.corpus.decompression_limit import MAX_HEADER
from paribus.corpus.documents import SourceNotes
from paribus.corpus.progress import Progress
from paribus.corpus.sources import source_documents
from paribus.errors import RecordError, SpecError
from paribus.spec import Corpus, Files

TOO_MUCH = (
    r"brings its source to more than 100,000 bytes of unpacked text, from [\d,]+ on disk; look"
    r" whether it is what you "
    r"want, and set max_unpacked of the source to a larger number of bytes"
)


@pytest.fixture(autouse=True)
def _low_ceiling(monkeypatch):
    monkeypatch.setattr("paribus.corpus.decompression_limit.MIN_LIMIT", 100_000)
    monkeypatch.setattr("paribus.corpus.decompression_limit.MAX_RATIO", 2)


def stepped(path: Path) -> None:
    """Read one document after another, keeping none."""
    for _ in source_documents(Files(paths=(str(path),)), SourceNotes(), Progress(), 1):
        pass


@pytest.mark.parametrize("packing", PACK)
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_a_file_that_unpacks_to_too_much_is_refused_unless_asked_for(tmp_path, name, packing):
    text = b"words " * 50_000 if name == "a.txt" else b'{"text": "words"}\n' * 17_000
    path = tmp_path / f"{name}{packing}"
    path.write_bytes(PACK[packing](text))
    with pytest.raises(RecordError, match=rf"{name}{packing} {TOO_MUCH}"):
        files(path)
    assert len(files(path, max_unpacked=len(text))) > 1
    with pytest.raises(RecordError, match=f"more than {len(text) - 1:,} bytes"):
        files(path, max_unpacked=len(text) - 1)


def test_many_files_that_unpack_to_too_much_together_are_refused(tmp_path):
    for number in range(4):
        (tmp_path / f"{number}.txt.gz").write_bytes(gzip.compress(b"words " * 5_000))
    with pytest.raises(RecordError, match=rf"3\.txt\.gz {TOO_MUCH}"):
        files(tmp_path)


def test_what_is_packed_twice_is_counted_inside_too(tmp_path):
    inner = lzma.compress(b"words " * 50_000)
    path = tar(tmp_path / "a.tar.gz", "w:gz", {"b.txt.xz": inner})
    with pytest.raises(RecordError, match=rf"a\.tar\.gz:b\.txt\.xz {TOO_MUCH}"):
        files(path)
    assert "".join(files(path, max_unpacked=400_000)) == "words " * 50_000


def test_a_packed_tar_of_files_that_are_passed_over_is_counted_too(tmp_path):
    path = tar(tmp_path / "a.tar.gz", "w:gz", {"zeros.bin": bytes(300_000), "b.txt": b"text"})
    with pytest.raises(RecordError, match=rf"a\.tar\.gz {TOO_MUCH}"):
        files(path)


def test_a_file_with_holes_is_as_large_as_its_disk_says(tmp_path):
    path = tmp_path / "a.txt"
    path.touch()
    os.truncate(path, 10**11)
    with pytest.raises(RecordError, match=rf"a\.txt {TOO_MUCH}"):
        stepped(path)


def test_plain_text_is_text_of_its_own_size(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"words " * 50_000)
    assert len(files(tmp_path)) > 1
    with pytest.raises(RecordError, match="more than 299,999 bytes"):
        files(tmp_path, max_unpacked=299_999)
    (tmp_path / "a.tsv").write_text("source\ttarget\nx\ty\n")
    assert pairs(tmp_path / "a.tsv", max_unpacked=1000) == [("x", "y")]
    with pytest.raises(RecordError, match="more than 9 bytes"):
        pairs(tmp_path / "a.tsv", max_unpacked=9)


def header(kind: bytes, size: int) -> bytes:
    entry = tarfile.TarInfo("long")
    entry.type, entry.size = kind, size
    return entry.tobuf(tarfile.GNU_FORMAT)


HEADERS = [
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    b"X",
]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("kind", HEADERS)
def test_a_header_of_a_tar_that_claims_gigabytes_is_refused_before_it_is_read(
    tmp_path, monkeypatch, kind, first
):
    monkeypatch.setattr("paribus.corpus.decompression_limit.MIN_LIMIT", 2**32)
    before = b"" if first else tar(tmp_path / "b.tar", "w", {"a.txt": b"text"}).read_bytes()[:1024]
    path = tmp_path / "a.tar"
    path.write_bytes(before + header(kind, 3 * 2**30))
    os.truncate(path, 4 * 2**30)
    tracemalloc.start()
    try:
        said = (
            r"a\.tar cannot be read: it has a header of 3,221,225,472 bytes, where 1,048,576 are"
            r" enough; it is damaged"
        )
        with pytest.raises(RecordError, match=said):
            files(path)
        assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    finally:
        tracemalloc.stop()


def test_a_long_name_is_only_a_name(tmp_path):
    name = "folder/" * (MAX_HEADER // 14) + "a.txt"
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with tarfile.open(tmp_path / "a.tar", "w", format=form) as archive:
            entry = tarfile.TarInfo(name)
            entry.size = 4
            archive.addfile(entry, io.BytesIO(b"text"))
        assert files(tmp_path / "a.tar") == ["text"]


def test_headers_without_end_or_sense_are_no_traceback(tmp_path):
    path = tmp_path / "a.tar"
    path.write_bytes(
        (header(tarfile.GNUTYPE_LONGNAME, 1) + bytes(512)) * 3000
        + header(tarfile.REGTYPE, 0)
        + bytes(1024)
    )
    with pytest.raises(
        RecordError, match=r"a\.tar cannot be read: it has a header that makes no sense"
    ):
        files(path)


@pytest.mark.parametrize("left", [1536, 1300])
def test_a_tar_with_a_broken_header_is_not_taken_to_end_there(tmp_path, left):
    """Overwritten, or cut within: the library reads on as if no file followed."""
    path = tar(tmp_path / "a.tar", "w", {"a.txt": b"first", "b.txt": b"second"})
    whole = path.read_bytes()
    path.write_bytes(whole[:1024] + b"x" * 512 + whole[1536:] if left == 1536 else whole[:left])
    with pytest.raises(
        RecordError,
        match=r"a\.tar cannot be read: it has no header at byte 1,024 .* damaged: get it",
    ):
        files(path)


def sparse(path: Path, form: str) -> Path:
    """A tar whose one file has a hole of 100 GB."""
    size = 10**11
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        entry = tarfile.TarInfo("GNUSparseFile.0/b.txt")
        data = {"0.1": b"", "1.0": b"0\n", "1.0 without end": b"1000000000\n" + b"1000\n" * 300}[
            form
        ]
        entry.size = len(data)
        entry.pax_headers = {"GNU.sparse.name": "b.txt", "GNU.sparse.realsize": str(size)}
        if form != "0.1":
            entry.pax_headers |= {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
        else:
            entry.pax_headers |= {"GNU.sparse.size": str(size), "GNU.sparse.map": "0,0"}
        archive.addfile(entry, io.BytesIO(data))
    return path


@pytest.mark.parametrize("form", ["0.1", "1.0", "1.0 without end"])
def test_a_file_stored_with_holes_is_refused_by_name(tmp_path, form):
    said = (
        r"a\.tar:b\.txt is stored with holes, which may be of any size; pack it anew without"
        r" --sparse"
    )
    with pytest.raises(RecordError, match=said):
        stepped(sparse(tmp_path / "a.tar", form))


def test_a_window_that_no_memory_has_is_said(tmp_path, monkeypatch):
    def without_memory(*_, **__):
        raise MemoryError

    monkeypatch.setattr("paribus.corpus.archives.lzma.LZMAFile", without_memory)
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(b"text"))
    with pytest.raises(
        RecordError, match=r"a\.txt\.xz cannot be read: it needs more memory than there is; pack it"
    ):
        files(tmp_path / "a.txt.xz")


def test_a_file_that_became_a_pipe_is_not_waited_on(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "a.txt")
    monkeypatch.setattr("paribus.corpus.archives._is_special_file", lambda path: False)
    with pytest.raises(
        RecordError, match=r"a\.txt cannot be read: it is a pipe, not a regular file; leave it out"
    ):
        files(tmp_path / "a.txt")


def test_how_much_there_may_be_changes_no_name(tmp_path):
    (tmp_path / "a.txt").write_text("some text")
    source = {"kind": "files", "paths": [str(tmp_path / "a.txt")]}
    corpora = [
        Corpus.model_validate({"sources": one})
        for one in (source, {**source, "max_unpacked": 10**9})
    ]
    assert len({text_fingerprint(corpus, ["aa"], "{}") for corpus in corpora}) == 1
    assert len({source_key(corpus) for corpus in corpora}) == 1
    unset, given = (corpus.model_dump(mode="json")["sources"][0] for corpus in corpora)
    assert "max_unpacked" not in unset  # so that addresses and plans of before stay what they were
    assert given["max_unpacked"] == 10**9
    assert Corpus.model_validate_json(corpora[1].model_dump_json()) == corpora[1]


@pytest.mark.parametrize("given", [0, -1, 1.5, "1 GB", True])
def test_a_ceiling_that_is_none_is_refused(given):
    with pytest.raises(ValueError, match="max_unpacked"):
        Files(paths=("a.txt",), max_unpacked=given)


def test_a_document_may_be_as_long_as_a_line(tmp_path):
    with pytest.raises(ValueError, match="less than or equal to 268435456"):
        Files(paths=("a.txt",), max_document=10**18)
    (tmp_path / "a.txt").write_bytes(b"words and " * 350_000)
    for longest in (2**20 - 1, 2**20 + 1, 3_000_000, 2**28):
        read = [text.encode() for text in files(tmp_path / "a.txt", max_document=longest)]
        assert b"".join(read) == b"words and " * 350_000
        assert len(read) == -(-3_500_000 // longest)


def test_a_home_that_nobody_has_is_no_traceback(tmp_path):
    with pytest.raises(
        SpecError,
        match=r"paths '~nobody-here/x\.txt' begins with the home folder of an unknown user",
    ):
        build_small_corpus(tmp_path, {"kind": "files", "paths": "~nobody-here/x.txt"})
    with pytest.raises(
        SpecError, match=r"tokenizer\.path '~nobody-here/t\.json' begins with the home folder"
    ):
        build_small_corpus(
            tmp_path, {"kind": "copy"}, tokenizer={"kind": "file", "path": "~nobody-here/t.json"}
        )


def test_zstandard_of_many_zeros_takes_little_memory(tmp_path):
    (tmp_path / "a.txt.zst").write_bytes(zstandard.compress(bytes(2**28)))
    with pytest.raises(RecordError, match=TOO_MUCH):
        stepped(tmp_path / "a.txt.zst")

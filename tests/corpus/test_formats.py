"""Every format and packing, and every fault in them."""

import errno
import gc
import gzip
import json
import lzma
import os
import sys
from time import process_time

import pytest
import zstandard
from packed_files import (
    PACK,
    files,
    pairs,
    read,
    tar,
)
from small_corpus import build_small_corpus

from paribus.corpus import document_text
from paribus.corpus.archives import bare_name, explain_read_errors, open_members, suffix_of
from paribus.corpus.decompression_limit import DecompressionLimit
from paribus.corpus.documents import SourceNotes
from paribus.corpus.formats import cut_position
from paribus.corpus.lines import MAX_LINE_BYTES
from paribus.corpus.progress import Progress
from paribus.errors import RecordError, SpecError, UnsupportedError
from paribus.spec import Files

BAD_BYTES = "ok é".encode() + b"\xff\xfe then"


FORMATS = {
    "a.txt": b"one\ntwo",
    "a.md": b"one\ntwo",
    "a.jsonl": b'{"text": "one\\ntwo", "more": 1}\n\n',
    "a.csv": b'more,text\r\n1,"one\ntwo"\r\n',
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("packing", ["", *PACK])
def test_every_format_is_read_plain_and_packed(tmp_path, name, packing):
    pack = {"": bytes, **PACK}[packing]
    path = tmp_path / (name + packing)
    path.write_bytes(pack(FORMATS[name]))
    assert files(path) == ["one\ntwo"]


def test_tabs_part_columns_and_quotes_are_letters(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text('source\ttarget\n"a b\tc"\nd\te\n')
    assert pairs(path) == [('"a b', 'c"'), ("d", "e")]
    assert files(path, text="target") == ['c"', "e"]


@pytest.mark.parametrize(
    ("name", "mode"),
    [("a.tar", "w"), ("a.tar.gz", "w:gz"), ("a.tar.xz", "w:xz"), ("a.tgz", "w:gz")],
)
def test_tars_are_streamed_and_their_paths_are_only_names(tmp_path, name, mode):
    inside = {
        "../../escape.txt": b"first",
        "/abs/b.jsonl": b'{"text": "second"}',
        "c.txt.gz": gzip.compress(b"third"),
        "picture.png": b"\x00",
        "._d.txt": b"hidden",
    }
    notes = SourceNotes()
    path = tar(tmp_path / name, mode, inside)
    before = sorted(tmp_path.rglob("*"))
    assert [document.text for document in read(Files(paths=(str(path),)), notes)] == [
        b"first",
        b"second",
        b"third",
    ]
    assert notes.n_passed_over == 2
    assert sorted(tmp_path.rglob("*")) == before


def test_folders_are_read_in_the_order_of_names_and_others_passed_over(tmp_path):
    for name in ("b/2.txt", "a/9.md", "b/1.txt", ".git/x.txt", "c.py", "d.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    notes = SourceNotes()
    assert [document.text.decode() for document in read(Files(paths=(str(tmp_path),)), notes)] == [
        "d.txt",
        "a/9.md",
        "b/1.txt",
        "b/2.txt",
    ]
    assert notes.n_passed_over == 1
    assert files(tmp_path / "b/*.txt") == ["b/1.txt", "b/2.txt"]
    assert files(tmp_path / "**/*.txt", tmp_path) == ["b/1.txt", "b/2.txt", "d.txt", "a/9.md"]


def test_a_long_text_is_cut_at_empty_lines_and_nothing_is_lost(tmp_path):
    paragraphs = [f"{number} " + "word " * 10 + "\n\n" for number in range(50)]
    path = tmp_path / "a.txt"
    path.write_text("".join(paragraphs))
    found = files(path, max_document=200)
    assert "".join(found) == "".join(paragraphs)
    assert all(len(text) <= 200 and text.endswith("\n\n") for text in found)


@pytest.mark.parametrize("letters", ["word ", "line\n", "nospace", "é", "€", "😀"])
def test_a_line_without_end_is_cut_between_words_or_letters(tmp_path, letters):
    text = letters * (3 * 2**20 // len(letters.encode()))
    path = tmp_path / "a.txt"
    path.write_text(text)
    found = files(path, max_document=1000)
    assert "".join(found) == text
    assert max(len(part.encode()) for part in found) <= 1000


def test_a_cut_prefers_the_emptier_place_in_the_second_half():
    assert (
        cut_position(b"aa bb\n\ncc\ndd ee ff", 0, 14) == 10
    )  # the empty line lies in the first half
    assert cut_position(b"aaaa b\n\ncc dd eeee", 0, 12) == 8
    assert cut_position(b"aaaaaaaa", 0, 6) == 6
    assert cut_position("aaaéé".encode(), 0, 4) == 3


def test_a_byte_order_mark_is_no_text(tmp_path):
    for name, data in FORMATS.items():
        path = tmp_path / name
        path.write_bytes(b"\xef\xbb\xbf" + data.replace(b"more,text\r\n1,", b"text\r\n"))
        assert files(path) == ["one\ntwo"]


@pytest.mark.parametrize(
    ("name", "data", "place"),
    [
        ("a.txt", BAD_BYTES, 5),
        ("a.txt", b"\xef\xbb\xbf" + BAD_BYTES, 8),
        ("a.jsonl", b'{"text": "x"}\n{"text": "' + BAD_BYTES + b'"}\n', 14 + 10 + 5),
        ("a.csv", b"text\n" + BAD_BYTES, 5 + 5),
    ],
)
def test_bad_utf8_is_refused_with_its_place_or_replaced_and_counted(tmp_path, name, data, place):
    path = tmp_path / name
    path.write_bytes(data)
    complaint = f"{name} is not UTF-8 at byte {place}; save it as UTF-8, or set errors = 'replace'"
    with pytest.raises(RecordError, match=complaint):
        files(path)
    notes = SourceNotes()
    found = read(Files(paths=(str(path),), errors="replace"), notes)
    assert found[-1].text.decode() == "ok é\ufffd\ufffd then"
    assert notes.n_replaced == 2


def test_bad_utf8_far_into_a_packed_file_is_placed_in_the_text(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"a" * 3_000_017 + b"\x80"))
    with pytest.raises(RecordError, match=r"a\.txt\.gz is not UTF-8 at byte 3000017;"):
        files(path)


def test_half_a_surrogate_pair_is_no_character(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "ab\\ud800c"}')
    with pytest.raises(
        RecordError, match="line 1 holds half a surrogate pair at character 2; correct it, or set"
    ):
        files(path)
    notes = SourceNotes()
    assert read(Files(paths=(str(path),), errors="replace"), notes)[0].text == b"ab?c"
    assert notes.n_replaced == 1


FAULTS = [
    (
        "a.csv",
        "src,tgt\na,b\n",
        SpecError,
        r"a\.csv has no column 'source'; its columns are 'src', 'tgt'",
    ),
    (
        "a.csv",
        "source,tgt\na,b\n",
        SpecError,
        "has no column 'target'; its columns are 'source', 'tgt'",
    ),
    ("a.csv", "", SpecError, "has no column 'source'; its columns are none"),
    (
        "a.csv",
        "source,target\na,b\na\n",
        RecordError,
        "line 3 has 1 columns, the header 2; give every row as many columns as the header",
    ),
    (
        "a.csv",
        'source,target\n"a,b\n',
        RecordError,
        "line 2: unexpected end of data; correct it, or use .jsonl",
    ),
    (
        "a.csv",
        "source,target\na," + "b" * 131073,
        RecordError,
        r"line 2: field larger than field limit \(131072\)",
    ),
    (
        "a.jsonl",
        '{"source": "a", "x": 1}',
        SpecError,
        "line 1 has no key 'target'; its keys are 'source', 'x'",
    ),
    (
        "a.jsonl",
        '{"source": "a", "target": null}',
        RecordError,
        r"line 1 has 'target' = None \(NoneType\); give it as text",
    ),
    (
        "a.jsonl",
        '{"source": "a", "target": 3}',
        RecordError,
        r"line 1 has 'target' = 3 \(int\); give it as text",
    ),
    ("a.jsonl", "{\n", RecordError, "line 1 is not JSON: .*; write one object a line"),
    ("a.jsonl", "\n[1]\n", RecordError, "line 2 is a list, not an object; write one object a line"),
]


TWICE = [
    (
        "a.jsonl",
        '{"text": "a"}\n{"text": "b", "id": 1, "text": "c"}\n',
        "line 2 has the key 'text' twice; give each key",
    ),
    (
        "a.jsonl",
        '{"text": "a", "more": [{"id": 1, "id": 1}]}\n',
        "line 1 has the key 'id' twice; give each key once",
    ),
    (
        "a.jsonl",
        '{"text": "a", "te\\u0078t": "b"}\n',
        "line 1 has the key 'text' twice; give each key once",
    ),
    (
        "a.csv",
        "text,id,text\na,1,b\n",
        "line 1 has the column 'text' twice; give each column a name of its own",
    ),
    (
        "a.csv",
        "text,id,id\na,1,b\n",
        "line 1 has the column 'id' twice; give each column a name of its own",
    ),
    (
        "a.tsv",
        "text\ttext\na\tb\n",
        "line 1 has the column 'text' twice; give each column a name of its own",
    ),
]


@pytest.mark.parametrize(("name", "text", "complaint"), TWICE)
def test_a_key_or_column_that_is_there_twice_is_refused(tmp_path, name, text, complaint):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(RecordError, match=rf"{name} {complaint}"):
        files(path)


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("a.csv", "source,target,target\na,b,c\n", "line 1 has the column 'target' twice"),
        (
            "a.jsonl",
            '{"source": "a", "target": "b", "source": "c"}',
            "line 1 has the key 'source' twice",
        ),
    ],
)
def test_a_pair_has_one_source_and_one_target(tmp_path, name, text, complaint):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(RecordError, match=complaint):
        pairs(path)


@pytest.mark.parametrize(
    ("name", "before", "each", "joint", "after"),
    [
        ("a.jsonl", '{"text": "a", ', '"k{number}": 1', ", ", ', "late": 1, "late": 2}'),
        ("a.csv", "text,", "k{number}", ",", ",late,late"),
    ],
)
def test_a_key_or_column_that_is_there_twice_is_found_in_one_pass(
    tmp_path, name, before, each, joint, after
):
    """Eight times as many take about eight times as long; each looked for among all before it,
    sixty-four times.
    """
    path, seconds = tmp_path / name, []
    for n_keys in (4_000, 32_000):
        inside = joint.join(each.format(number=number) for number in range(n_keys))
        path.write_text(before + inside + after)
        seconds.append(min(_seconds_until_refused(path) for _ in range(3)))
    assert seconds[1] / seconds[0] < 28


def _seconds_until_refused(path) -> float:
    gc.collect()  # or one of the readings may hold a collection of the whole process
    begin = process_time()
    with pytest.raises(RecordError, match="'late' twice"):
        files(path)
    return process_time() - begin


def test_columns_without_a_name_that_nobody_reads_may_be_many(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,,\na,1,2\n")
    assert files(path) == ["a"]


@pytest.mark.parametrize(("name", "text", "kind", "complaint"), FAULTS)
def test_faults_in_pairs_are_named_with_their_place(tmp_path, name, text, kind, complaint):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(kind, match=complaint):
        pairs(path)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.txt.gz", gzip.compress(bytes(range(128)) * 999, mtime=0)[:-9]),
        ("a.txt.gz", b"no gzip at all"),
        ("a.txt.xz", lzma.compress(b"text")[:-9]),
        ("a.txt.xz", b"no xz at all"),
        ("a.txt.zst", b"no zstd at all"),
        ("a.tar.zst", zstandard.compress(b"no tar at all")),
        ("a.tar", b"no tar at all"),
        ("a.tar.gz", gzip.compress(b"", mtime=0)[:5]),
    ],
)
def test_a_torn_archive_is_said_to_be_torn(tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(
        RecordError, match=f"{name} cannot be read: .*; it may be cut short: get it again"
    ):
        files(path)


@pytest.mark.parametrize("packing", PACK)
@pytest.mark.parametrize("share", [0, 0.02, 0.5, 1])
def test_a_packed_file_cut_anywhere_is_no_shorter_text(tmp_path, packing, share):
    whole = PACK[packing]("".join(f"line {n}\n" for n in range(20_000)).encode())
    path = tmp_path / f"a.txt{packing}"
    path.write_bytes(whole[: min(int(len(whole) * share), len(whole) - 1)])
    with pytest.raises(
        RecordError,
        match=rf"a\.txt\{packing} cannot be read: .*; it may be cut short: get it again",
    ):
        files(path)


@pytest.mark.parametrize("packing", PACK)
def test_a_packed_tar_cut_short_is_said_to_be_torn(tmp_path, packing):
    plain = tar(
        tmp_path / "a.tar", "w", {"a.txt": bytes(range(32, 127)) * 999, "b.txt": b"short"}
    ).read_bytes()
    whole = PACK[packing](plain)
    path = tmp_path / f"a.tar{packing}"
    path.write_bytes(whole)
    assert len(files(path)) > 1
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(
        RecordError, match=rf"a\.tar\{packing}.* cannot be read: .*; it may be cut short"
    ):
        files(path)


def test_a_tar_cut_short_is_said_to_be_torn(tmp_path):
    path = tar(tmp_path / "a.tar", "w", {"a.txt": b"x" * 5000, "b.txt": b"y" * 5000})
    path.write_bytes(path.read_bytes()[:7000])
    with pytest.raises(RecordError, match=r"a\.tar:b\.txt cannot be read: .*; it may be cut short"):
        files(path)


def test_a_path_that_leads_nowhere_is_told_with_the_place_that_was_looked_at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        SpecError, match=rf"'none.txt' does not exist; .* \(looked for {tmp_path}/none.txt\)"
    ):
        files("none.txt")
    with pytest.raises(
        SpecError, match=rf"'\*.txt' holds no file .* \(looked for {tmp_path}/\*.txt\)"
    ):
        files("*.txt")


def test_paths_that_lead_nowhere_are_refused(tmp_path):
    with pytest.raises(
        SpecError, match=r"paths '.*none.txt' does not exist; give a file, a folder or a glob"
    ):
        files(tmp_path / "none.txt")
    kinds = (
        r"holds no file that can be read here; give \.txt, \.md, \.jsonl, \.csv, \.tsv, \.tar, or"
        r" packed"
    )
    (tmp_path / "a.pdf").write_text("x")
    for path in (tmp_path, tmp_path / "a.pdf", tmp_path / "*.pdf"):
        with pytest.raises(SpecError, match=kinds):
            files(path)
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(
        SpecError, match=r"holds no file that can be read here; give \.jsonl, \.csv, \.tsv"
    ):
        pairs(tmp_path / "a.txt")


def test_a_file_that_has_gone_is_named(tmp_path):
    stream = open_members(
        tmp_path / "gone.txt", (".txt",), SourceNotes(), Progress(), DecompressionLimit(None, 0)
    )
    said = (
        r"gone\.txt cannot be read: No such file or directory; restore it, or leave it out of the"
        r" paths"
    )
    with pytest.raises(RecordError, match=said):
        next(stream)


def test_a_line_that_no_memory_should_hold_is_refused(tmp_path, monkeypatch):
    assert MAX_LINE_BYTES == 2**28
    monkeypatch.setattr("paribus.corpus.lines.MAX_LINE_BYTES", 1000)
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "x"}\n' + json.dumps({"text": "y" * 1000}) + "\n")
    with pytest.raises(RecordError, match="line 2 is longer than 1000 bytes; cut it into several"):
        files(path)


def test_zstandard_is_asked_for_by_name(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    path = tmp_path / "a.txt.zst"
    path.write_bytes(b"x")
    with pytest.raises(
        UnsupportedError, match=r"a\.txt\.zst is packed with Zstandard .*; install paribus\[data\]"
    ):
        files(path)


def test_frames_of_zstandard_are_read_one_after_another(tmp_path):
    whole = b"".join(map(zstandard.compress, (b'{"text": "one"}\n{"te', b"", b'xt": "two"}\n')))
    (tmp_path / "a.jsonl.zst").write_bytes(whole)
    assert files(tmp_path / "a.jsonl.zst") == ["one", "two"]


def test_the_suffix_is_that_of_the_text_inside():
    names = [
        "a.txt",
        "b.jsonl.gz",
        "c.tar.xz",
        "d.tgz",
        "e.csv.zst",
        "f",
        "g.gz",
        "H.TXT",
        "I.Csv.GZ",
        "J.TGZ",
    ]
    suffixes = [".txt", ".jsonl", ".tar", ".tar", ".csv", "", "", ".txt", ".csv", ".tar"]
    assert [suffix_of(name) for name in names] == suffixes


def test_a_bare_name_has_neither_a_format_nor_a_packing():
    names = ["books.train.tar.xz", "books.train.TXZ", "a.jsonl.gz", "notes.txt", "folder"]
    bare = ["books.train", "books.train", "a", "notes", "folder"]
    assert [bare_name(name) for name in names] == bare


def test_suffixes_in_capitals_are_read_as_their_small_forms(tmp_path):
    (tmp_path / "A.TXT").write_bytes(FORMATS["a.txt"])
    (tmp_path / "B.JSONL").write_bytes(FORMATS["a.jsonl"])
    (tmp_path / "C.CSV.GZ").write_bytes(gzip.compress(FORMATS["a.csv"]))
    tar(tmp_path / "D.TGZ", "w:gz", {"E.TXT.XZ": lzma.compress(FORMATS["a.txt"])})
    assert files(tmp_path) == ["one\ntwo"] * 4


@pytest.mark.skipif(sys.platform == "win32", reason="has no such pipes")
def test_a_pipe_is_passed_over_and_not_waited_on(tmp_path):
    (tmp_path / "a.txt").write_text("text")
    os.mkfifo(tmp_path / "b.txt")
    for path in (tmp_path, tmp_path / "*.txt"):
        notes = SourceNotes()
        assert [document.text for document in read(Files(paths=(str(path),)), notes)] == [b"text"]
        assert notes.n_passed_over == 1
    with pytest.raises(SpecError, match=r"b\.txt' holds no file that can be read here"):
        files(tmp_path / "b.txt")


def test_a_file_that_may_not_be_read_is_not_said_to_be_torn():
    said = (
        r"^a\.txt cannot be read: Permission denied; make it readable, or leave it out of the"
        r" paths$"
    )
    with pytest.raises(RecordError, match=said), explain_read_errors("a.txt"):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_a_folder_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    (tmp_path / "shut").mkdir()
    (tmp_path / "a.txt").write_text("text")
    listed = os.scandir

    def refusing(path):  # whoever runs this may be one who may read everything
        if str(path).endswith("shut"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(
        RecordError,
        match="shut cannot be read: Permission denied; make it readable, or leave it out",
    ):
        files(tmp_path)


def test_a_line_of_a_hundred_megabytes_is_one_document(tmp_path):
    path = tmp_path / "a.jsonl"
    with path.open("w") as file:
        file.write('{"text": "')
        for _ in range(100):
            file.write("spam " * 200_000)
        file.write('"}\n{"text": "short"}\n')
    corpus = build_small_corpus(tmp_path, {"kind": "files", "paths": str(path)})
    assert corpus.index.sources[0].splits["train"].n_documents == 2
    assert corpus.index.sources[0].splits["train"].n_bytes == 100_000_000 + 5
    assert document_text(corpus, "train", 0, 1) == ("short",)
    assert document_text(corpus, "train", 0, 0, max_tokens=7) == ("spam sp",)

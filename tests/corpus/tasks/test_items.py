"""Items of tasks: columns put into templates, names of their own, and faults with file and line."""

import json
from pathlib import Path
from typing import Any

import pytest

from paribus.corpus.tasks import (
    choice_items,
    generation_items,
    labelled_items,
    tagged_items,
    task_rows,
)
from paribus.errors import SpecError
from paribus.spec.task_loading import load_task
from paribus.spec.tasks import ChoicesTask, GenerationTask, LabelsTask, TagsTask

ROWS = [
    {"q": "2 + 2 =", "all": ["3", "4"], "right": 1},
    {"q": "1 + 1 =", "all": ["2", "5", "7"], "right": 0},
    {"q": "3 + 3 =", "all": ["6", "8"], "right": 0},
]


def choices(path: Path, **fields: Any) -> ChoicesTask:
    table = {"kind": "choices", "context": "{q}", "options": " {all}", "key": "{right}"}
    task = load_task({**table, "paths": str(path), **fields})
    assert isinstance(task, ChoicesTask)
    return task


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "sums.jsonl", ROWS)


def test_a_list_column_gives_an_option_for_each_value(rows: Path) -> None:
    first, second, _ = choice_items(choices(rows))
    assert (first.context, first.options, first.key) == ("2 + 2 =", (" 3", " 4"), 1)
    assert second.options == (" 2", " 5", " 7")
    assert first.document == first.name


@pytest.mark.parametrize(
    ("form", "key"), [("index", "1"), ("number", "2"), ("letter", "B"), ("text", "4")]
)
def test_a_key_names_an_option_in_its_form(tmp_path: Path, form: str, key: str) -> None:
    path = write_rows(tmp_path / "one.jsonl", [{**ROWS[0], "right": key}])
    assert choice_items(choices(path, key_form=form))[0].key == 1


def test_tables_and_parquet_give_the_same_items_as_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('q,x,y,right\n"a, b",1,2,0\nc,3,4,1\n')
    (tmp_path / "a.tsv").write_text("q\tx\ty\tright\na, b\t1\t2\t0\nc\t3\t4\t1\n")
    tables = [{"q": "a, b", "x": 1, "y": 2, "right": 0}, {"q": "c", "x": 3, "y": 4, "right": 1}]
    write_rows(tmp_path / "a.jsonl", tables)
    files = ["a.csv", "a.tsv", "a.jsonl"]
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        pass
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(tables), tmp_path / "a.parquet")
        files.append("a.parquet")
    results = {choice_items(choices(tmp_path / file, options=["{x}", "{y}"])) for file in files}
    assert len(results) == 1


def test_a_compressed_file_is_read(tmp_path: Path, rows: Path) -> None:
    import gzip

    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(rows.read_bytes()))
    assert choice_items(choices(packed)) == choice_items(choices(rows))


def test_inner_tables_are_columns_of_their_own(tmp_path: Path) -> None:
    row = {"q": {"stem": "why"}, "c": [{"t": "x"}, {"t": "y"}], "right": 0}
    path = write_rows(tmp_path / "inner.jsonl", [row])
    (item,) = choice_items(choices(path, context="{q.stem}", options="{c.t}"))
    assert (item.context, item.options) == ("why", ("x", "y"))


def test_items_with_one_text_have_names_of_their_own(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "twice.jsonl", [ROWS[0], ROWS[0]])
    first, second = choice_items(choices(path))
    assert second.name == f"{first.name}-2"


def test_a_share_is_never_asked(rows: Path) -> None:
    many = [{**ROWS[0], "q": f"{n} + 2 ="} for n in range(200)]
    write_rows(rows, many)
    task = choices(rows, train_share=0.3, valid_share=0.2)
    names = {split: {item.name for item in choice_items(task, split)} for split in SPLITS}
    assert sum(map(len, names.values())) == 200
    assert not names["train"] & names["test"]
    assert 30 < len(names["train"]) < 90


SPLITS = ("train", "valid", "test")


def test_so_many_items_are_chosen_by_their_names_alone(rows: Path) -> None:
    many = [{**ROWS[0], "q": f"{n} + 2 ="} for n in range(40)]
    write_rows(rows, many)
    some = choice_items(choices(rows, n_items=5))
    write_rows(rows, many[::-1])
    assert {item.name for item in choice_items(choices(rows, n_items=5))} == {
        item.name for item in some
    }
    assert len(some) == 5


@pytest.mark.parametrize(
    ("content", "fields", "message"),
    [
        (b'{"q": "a"}\n', {}, r"sums.jsonl line 1 has no column 'all', which options names; its"),
        (b"\n", {}, "task task has no item in its test split"),
        (b'{"q": "\xff"}\n', {}, r"sums.jsonl line 1 is not UTF-8 at byte 7 of the line"),
        (b'{"q": "a",\n', {}, r"sums.jsonl line 1 is not JSON: "),
        (b"[1]\n", {}, r"sums.jsonl line 1 is a list, not an object"),
        (
            b'{"q": "a", "all": ["x", "y"], "right": 2}\n',
            {},
            r"line 1 has the key '2', and key_form is 'index'; use one of '0', '1'",
        ),
        (b'{"q": "a", "all": ["x"], "right": 0}\n', {}, "line 1 has 1 options; give two or more"),
        (b'{"q": "a", "all": ["x", " "], "right": 0}\n', {}, "line 1 has no text in option 2"),
        (b'{"q": ["a"], "all": ["x", "y"], "right": 0}\n', {}, "'q' holds a list"),
        (b'{"q": {"a": {}}, "all": [[1], 2]}\n', {}, r"line 1 has 'all' = \[1\] \(list\)"),
        (
            b'{"q": "a", "all": ["x", "y"], "right": 0}\n' * 2,
            {"id": "{q}"},
            r"line 2 has the id 'a', which .*sums.jsonl line 1 has too",
        ),
    ],
)
def test_a_bad_file_is_refused_with_its_line(
    rows: Path, content: bytes, fields: dict[str, Any], message: str
) -> None:
    rows.write_bytes(content)
    with pytest.raises(SpecError, match=message):
        choice_items(choices(rows, **fields))


def test_a_split_without_files_or_a_share_is_refused(rows: Path) -> None:
    with pytest.raises(SpecError, match="has no train split; give files as train = …"):
        choice_items(choices(rows), "train")


def test_a_bad_table_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    for content, message in (
        ("q,q\n1,2\n", "line 1 has the column 'q' twice"),
        ("q,right\n1\n", "line 2 has 1 columns, the header 2"),
        ('q,right\n"1,2\n', "line 2: unexpected end of data"),
    ):
        path.write_text(content)
        with pytest.raises(SpecError, match=message):
            list(task_rows(choices(path)))


def test_labels_are_numbers_and_are_asked_in_words(tmp_path: Path) -> None:
    path = tmp_path / "mood.tsv"
    path.write_text("sentence\tlabel\nfine day\t1\nbad day\t0\n")
    task = load_task({"reader": "sst2", "paths": str(path)})
    assert isinstance(task, LabelsTask)
    assert [item.label for item in labelled_items(task)] == [1, 0]
    first = choice_items(task)[0]
    assert (first.context, first.options, first.key) == (
        "fine day\nSentiment:",
        (" negative", " positive"),
        1,
    )
    path.write_text("sentence\tlabel\nfine day\t7\n")
    with pytest.raises(SpecError, match="line 2 has the label '7'; use one of 0, 1"):
        labelled_items(task)


def test_labels_without_a_prompt_are_asked_by_their_names(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", [{"a": "x", "b": "y", "c": "no"}])
    table = {"kind": "labels", "text": "{a}", "second": "{b}", "label": "{c}"}
    task = load_task({**table, "labels": ["yes", "no"], "paths": str(path)})
    assert isinstance(task, LabelsTask)
    (item,) = choice_items(task)
    assert (item.context, item.options, item.key) == ("x\ny\nLabel:", (" yes", " no"), 1)


def test_tags_are_numbers_one_for_each_word(tmp_path: Path) -> None:
    path = tmp_path / "names.conll"
    path.write_text("-DOCSTART- O\n\nAnn NNP B-PER\nran VBD O\n\nHi UH O\n")
    task = load_task({"reader": "conll", "paths": str(path), "labels": ["O", "B-PER"]})
    assert isinstance(task, TagsTask)
    items = tagged_items(task)
    assert [(item.words, item.tags) for item in items] == [
        (("Ann", "ran"), (1, 0)),
        (("Hi",), (0,)),
    ]
    path.write_text("Ann B-LOC\n")
    with pytest.raises(SpecError, match="line 1 has the tag 'B-LOC'; use one of O, B-PER"):
        tagged_items(task)
    path.write_text("Ann\n")
    with pytest.raises(SpecError, match="line 1 has one column; write a word and its tag"):
        tagged_items(task)


def test_rows_of_one_source_are_one_item_where_a_task_says_so(tmp_path: Path) -> None:
    path = tmp_path / "rest.csv"
    path.write_text('mr,ref\n"a[1]",one\n"a[1]",uno\n"b[2]",two\n')
    task = load_task({"reader": "e2e", "paths": str(path)})
    assert isinstance(task, GenerationTask)
    items = generation_items(task)
    assert [item.references for item in items] == [("one", "uno"), ("two",)]

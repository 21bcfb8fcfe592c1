"""Items of tasks as pairs to train on: the texts that scoring has, and the mark of their task."""

import json
from pathlib import Path
from typing import Any

import pytest

from paribus.corpus.documents import SourceNotes
from paribus.corpus.sources import source_documents
from paribus.corpus.tasks import (
    TaskPair,
    choice_items,
    marked_tasks,
    task_pairs,
    trained_task_name,
    write_task_pairs,
)
from paribus.errors import SpecError
from paribus.spec.corpus import PairFiles
from paribus.spec.task_loading import load_task
from paribus.spec.tasks import LabelsTask
from paribus.watcher import Watcher

MOODS = "sentence\tlabel\nso good\t1\nso bad\t0\n"


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def write_lines(path: Path, *rows: dict[str, Any]) -> str:
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


def test_labels_in_words_are_the_targets(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", MOODS)
    test = write(tmp_path / "test.tsv", "sentence\tlabel\nwell\t1\n")
    task = load_task({"reader": "sst2", "paths": test, "train": train})
    assert isinstance(task, LabelsTask)
    assert task_pairs(task) == (
        TaskPair("so good\nSentiment:", " positive", "sst2"),
        TaskPair("so bad\nSentiment:", " negative", "sst2"),
    )
    (asked,) = choice_items(task)
    assert task_pairs(task, "test") == (TaskPair(asked.context, asked.options[1], "sst2"),)


def test_right_options_and_first_references_are_the_targets(tmp_path: Path) -> None:
    row = {"q": "2 + 2 =", "all": ["3", "4"], "right": 1}
    choices = {"kind": "choices", "context": "{q}", "options": " {all}", "key": "{right}"}
    paths = write_lines(tmp_path / "sums.jsonl", row)
    sums = load_task({**choices, "name": "sums", "paths": paths})
    assert task_pairs(sums, "test") == (TaskPair("2 + 2 =", " 4", "sums"),)
    slots = write(tmp_path / "slots.csv", "mr,ref\na,\na,first\na,second\n")
    table = {"kind": "generation", "source": "{mr}\n", "references": ["{ref}", "{ref}!"]}
    written = load_task({**table, "name": "slots", "paths": slots, "merge_sources": True})
    assert task_pairs(written, "test") == (TaskPair("a\n", "!", "slots"),)
    slots = write(tmp_path / "slots.csv", "mr,ref\na,first\na,second\n")
    assert task_pairs(load_task(f"e2e:{slots}"), "test") == (TaskPair("a\n", "first", "e2e"),)


def test_questions_of_a_language_come_from_the_split_that_is_asked_for() -> None:
    task = load_task("copy-choices", {"language.n_documents": 300, "n_items": None})
    train, test = task_pairs(task), task_pairs(task, "test")
    assert {pair.source for pair in train}.isdisjoint(pair.source for pair in test)
    assert all(pair.source == f"{pair.target}=" for pair in train)


def test_a_format_of_many_tasks_is_marked_by_the_name_of_the_task() -> None:
    table = {"paths": "x", "name": "mine"}
    assert trained_task_name(load_task({**table, "reader": "sst2"})) == "sst2"
    assert trained_task_name(load_task({**table, "reader": "instruction-choices"})) == "mine"
    assert trained_task_name(load_task("arc:x")) == "arc"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"reader": "sst2"}, "has no train split; name the train file as its path and use --split"),
        (
            {"reader": "conll", "labels": ["O", "B"], "train": "x"},
            "is of kind 'tags', whose answers are no text, so it makes no pairs",
        ),
    ],
)
def test_what_makes_no_pairs_is_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        task_pairs(load_task({"paths": "x", **table}))


def test_items_without_a_context_are_refused(tmp_path: Path) -> None:
    row = {"sentence_good": "he is", "sentence_bad": "he are", "UID": "a", "pairID": "0"}
    path = write_lines(tmp_path / "a.jsonl", row)
    with pytest.raises(SpecError, match="task blimp has items without a context"):
        task_pairs(load_task(f"blimp:{path}"), "test")


def test_pairs_are_read_as_they_were_written_and_their_marks_too(tmp_path: Path) -> None:
    path = tmp_path / "new" / "pairs.jsonl"
    pairs = (TaskPair("è ‘a’\n", " yes", "cola"), TaskPair("b", " no", "other"))
    write_task_pairs(path, pairs)
    source = PairFiles(paths=(str(path),))
    documents = list(source_documents(source, SourceNotes(), Watcher(), 1))
    assert [(one.text, one.target) for one in documents] == [
        ("è ‘a’\n".encode(), b" yes"),
        (b"b", b" no"),
    ]
    assert marked_tasks(source) == {"cola": f"{path} line 1", "other": f"{path} line 2"}


def test_only_marks_that_are_text_count(tmp_path: Path) -> None:
    row = {"source": "a", "target": "b"}
    write_lines(tmp_path / "pairs.jsonl", {**row, "task": 3}, row)
    (tmp_path / "pairs.tsv").write_text("source\ttarget\ttask\na\tb\tcola\n")
    assert marked_tasks(PairFiles(paths=(str(tmp_path),))) == {}


def test_a_file_that_exists_is_kept_unless_told_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text("mine")
    pairs = (TaskPair("a", "b", "c"),)
    with pytest.raises(SpecError, match=r"exists; choose another file, or overwrite it with"):
        write_task_pairs(path, pairs)
    assert path.read_text() == "mine"
    write_task_pairs(path, pairs, overwrite=True)
    assert json.loads(path.read_text()) == {"source": "a", "target": "b", "task": "c"}
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(SpecError, match=r"does not end in .jsonl"):
        write_task_pairs(tmp_path / "pairs.csv", pairs)

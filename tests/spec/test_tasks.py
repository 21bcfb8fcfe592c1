"""Tasks are read strictly, filled from their readers, and addressed by their prompts."""

from pathlib import Path

import pytest

from paribus.errors import SpecError
from paribus.spec.task_loading import built_in_tasks, load_task, task_fingerprint
from paribus.spec.task_readers import READERS
from paribus.spec.tasks import ChoicesTask, GenerationTask, LabelsTask
from paribus.spec.templates import render, render_each, template_columns

CHOICES = {
    "kind": "choices",
    "paths": "questions.jsonl",
    "context": "{question}\nAnswer:",
    "options": [" {a}", " {b}"],
    "key": "{right}",
}


def test_a_template_names_columns_and_puts_their_values_in() -> None:
    assert template_columns("{a} {{b}} {c.d}") == ("a", "c.d")
    assert render("{a} {{b}} {c.d}", {"a": "x", "c.d": "{y}"}) == "x {b} {y}"
    assert render_each("{n}: {all}", {"n": "2", "all": ("p", "q")}) == ("2: p", "2: q")


def test_a_template_of_lists_must_name_one() -> None:
    with pytest.raises(ValueError, match="must name one column that holds a list, and names 0"):
        render_each("{n}", {"n": "2"})
    with pytest.raises(ValueError, match="holds a list, and one text is needed"):
        render("{all}", {"all": ("p", "q")})


@pytest.mark.parametrize("template", ["{a!r}", "{a:>3}", "{}", "{ }", "{a"])
def test_what_is_no_template_is_refused(template: str) -> None:
    with pytest.raises(SpecError, match="context"):
        load_task({**CHOICES, "context": template})


def test_a_table_is_read_as_its_kind() -> None:
    task = load_task(CHOICES)
    assert isinstance(task, ChoicesTask)
    assert (task.name, task.options, task.paths) == ("task", (" {a}", " {b}"), ("questions.jsonl",))


def test_a_file_gives_its_name_and_its_folder_to_a_task(tmp_path: Path) -> None:
    file = tmp_path / "capitals.toml"
    file.write_text('kind = "choices"\npaths = "data/*.jsonl"\noptions = "{all}"\nkey = "0"\n')
    task = load_task(file, {"n_items": 7})
    assert (task.name, task.n_items) == ("capitals", 7)
    assert task.paths == (str(tmp_path / "data/*.jsonl"),)


def test_a_reader_gives_the_fields_that_are_left_out() -> None:
    task = load_task({"reader": "blimp", "paths": "pairs", "normalisation": "byte"})
    assert isinstance(task, ChoicesTask)
    assert (task.name, task.document, task.normalisation) == ("blimp", "{UID}", "byte")
    assert load_task("blimp:pairs").paths == ("pairs",)
    assert isinstance(load_task("sst2:a.tsv"), LabelsTask)


def test_every_reader_is_described_and_its_templates_name_its_columns() -> None:
    for name, entry in READERS.items():
        assert entry.about.endswith((".", "?")), name
        extra: dict[str, object] = {"reader": name}
        if entry.suffixes:
            extra["paths"] = "somewhere"
        if name == "conll":
            extra["labels"] = ["O", "B"]
        task = load_task(extra)
        for field in ("context", "options", "key", "text", "label", "source", "references", "id"):
            value = getattr(task, field, None)
            templates = (value,) if isinstance(value, str) else value or ()
            for template in templates:
                assert set(template_columns(template)) <= set(entry.columns), (name, field)


def test_every_built_in_task_is_loaded_by_its_name() -> None:
    for name in built_in_tasks():
        assert load_task(name).name == name
    assert isinstance(load_task("recall"), GenerationTask)
    assert isinstance(load_task("recall-choices"), ChoicesTask)


def test_a_task_is_addressed_by_its_prompts_and_not_by_where_it_lies() -> None:
    one = task_fingerprint(load_task(CHOICES))
    assert one == task_fingerprint(load_task({**CHOICES, "paths": "there.jsonl", "name": "x"}))
    assert one != task_fingerprint(load_task({**CHOICES, "context": "{question} Answer:"}))
    assert one != task_fingerprint(load_task({**CHOICES, "separator": "\n"}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "choice"}, "task.kind is 'choice'; did you mean 'choices'"),
        ({"reader": "blim"}, "reader is 'blim'; did you mean 'blimp'"),
        ({"paths": None}, "has no paths; give files with items, or a language"),
        ({"options": ["only"]}, "task.options is"),
        ({"contxt": "x"}, "contxt is not a key here; did you mean 'context'"),
        ({"train": "x", "train_share": 0.5}, "train names files and train_share is set"),
        ({"train_share": 0.5, "valid_share": 0.5}, "leave nothing to ask"),
        ({"language": "copy"}, "language is given beside reader or paths"),
        ({"reader": "function-summary"}, "takes its items from the text of the run, and paths"),
    ],
)
def test_what_cannot_be_meant_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load_task({**CHOICES, **change})


def test_a_language_of_a_task_has_no_weight() -> None:
    with pytest.raises(
        SpecError, match="a language of weight 2, but all questions of a task are asked"
    ):
        load_task({"language": {"kind": "copy", "weight": 2.0}})


def test_labels_need_one_option_each_and_each_label_once() -> None:
    table = {"reader": "sst2", "paths": "x"}
    with pytest.raises(SpecError, match="options and labels have 3 and 2 texts"):
        load_task({**table, "options": ["a", "b", "c"]})
    with pytest.raises(SpecError, match="labels has one of them twice"):
        load_task({**table, "labels": ["0", "0"]})


def test_what_is_no_task_is_refused_with_what_there_is() -> None:
    with pytest.raises(SpecError, match="recal is no task; did you mean 'recall'"):
        load_task("recal")
    with pytest.raises(SpecError, match=r"nowhere.toml cannot be read"):
        load_task("nowhere.toml")

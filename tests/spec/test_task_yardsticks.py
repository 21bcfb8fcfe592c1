"""Tasks and heads as yardsticks of designs, as they are read."""

import json
from pathlib import Path
from typing import Any

import pytest

from paribus.analyse import column_of
from paribus.errors import SpecError
from paribus.spec.design import Design
from paribus.spec.design_reading import load_design
from paribus.spec.measure import ACCURACY, MATTHEWS, TASK_MEASURES
from paribus.spec.tasks import FewShot
from paribus.spec.yardstick import (
    HeadYardstick,
    TaskYardstick,
    read_design_yardstick,
    table_measure,
)

Table = dict[str, Any]
TASK: Table = {
    "name": "mine",
    "kind": "choices",
    "paths": "data/*.jsonl",
    "options": "{options}",
    "key": "{key}",
}


def design_table(**changes: Any) -> Table:
    base = {
        "architecture": {"preset": "gpt2", "n_layers": 2, "d_model": 32},
        "training": {"n_steps": 10, "length": 64},
    }
    table: Table = {
        "question": "Which?",
        "base": base,
        "baseline": "a",
        "factor": "architecture.mask",
        "arms": {"a": {}, "b": {"architecture": {"mask": "causal & window(8)"}}},
    }
    return table | changes


def with_task(task: Any, **fields: Any) -> Table:
    return design_table(primary={"measure": {"kind": "task", "task": task}, **fields})


def yardstick_of(design: Design) -> TaskYardstick:
    assert isinstance(design.primary.measure, TaskYardstick)
    return design.primary.measure


def test_a_design_names_a_built_in_task_and_changes_its_fields():
    design = load_design(with_task("recall-choices"), changes={"primary.measure.task.n_items": 7})
    measure = yardstick_of(design)
    assert measure.task.name == "recall-choices"
    assert measure.task.n_items == 7
    assert measure.scores == ACCURACY


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_task_that_is_set_as_a_whole_takes_the_place_of_the_one_there(depth: int):
    names = ["primary", "measure", "task"]
    value: Any = {"kind": "choices", "reader": "mmlu", "paths": "mine.csv"}
    for name in reversed(names[depth:]):
        value = {name: value}
    changes = {".".join(names[:depth]): value, "primary.measure.task.n_items": 7}
    old = {"kind": "task", "task": "recall-choices", "unseen": True}
    design = load_design(design_table(primary={"measure": old, "margin": 3.0}), changes=changes)
    measure = yardstick_of(design)
    assert (measure.task.name, measure.task.language) == ("mmlu", None)
    assert (measure.task.paths, measure.task.n_items) == (("mine.csv",), 7)
    assert measure.unseen
    assert design.primary.margin == 3.0


def test_a_task_that_is_set_by_its_name_takes_the_place_of_the_one_there():
    changes = {"primary.measure.task": "ag-news:mine.tsv", "primary.measure.task.n_items": 7}
    task = yardstick_of(load_design(with_task("recall-choices"), changes=changes)).task
    assert (task.name, task.kind, task.n_items) == ("ag-news", "labels", 7)
    kept = {"primary.measure.protocol": {"kind": "few-shot"}, "primary.margin": 2.0}
    assert yardstick_of(load_design(with_task("copy"), changes=kept)).task.name == "copy"


def test_a_yardstick_is_read_again_as_it_was_written_down():
    few = {"kind": "few-shot", "n_demonstrations": 2}
    measure = {"kind": "task", "task": "copy", "protocol": few, "split": "valid"}
    design = load_design(design_table(others=[measure, "pseudo"]))
    table = json.loads(json.dumps(design.others[0].model_dump(mode="json")))
    again = read_design_yardstick(table)
    assert again == design.others[0]
    assert isinstance(again, TaskYardstick)
    assert again.protocol == FewShot(n_demonstrations=2)
    assert table_measure(table) == TASK_MEASURES["exact match"]
    head = HeadYardstick(measure="matthews")
    assert read_design_yardstick(head.model_dump(mode="json")) == head
    assert head.scores == table_measure(head.model_dump(mode="json")) == MATTHEWS


def test_a_score_minus_the_parents_is_a_measure_of_its_own():
    table = {"kind": "task", "task": "copy", "minus_parent": True}
    plain, difference = load_design(
        design_table(others=[{**table, "minus_parent": False}, table])
    ).others
    assert "minus_parent" not in plain.model_dump(mode="json")  # so that addresses stay
    written = difference.model_dump(mode="json")
    assert written["minus_parent"] is True
    assert read_design_yardstick(written) == difference
    measure = table_measure(written)
    assert measure == difference.scores == TASK_MEASURES["exact match minus the parent's"]
    assert (measure.unit, measure.ceiling, measure.is_difference) == ("points", None, True)
    assert column_of(written) == "copy minus the parent's.test"
    assert column_of(plain.model_dump(mode="json")) == "copy.test"


def test_what_does_not_add_up_has_no_difference():
    task = {"name": "t", "kind": "generation", "language": "copy", "measure": "bleu"}
    with pytest.raises(SpecError, match="minus_parent is true, but 'bleu' does not add up"):
        load_design(design_table(others=[{"kind": "task", "task": task, "minus_parent": True}]))


def test_the_files_of_a_task_lie_where_the_design_does(tmp_path: Path):
    def placed(task: Any) -> tuple[str, ...] | None:
        path = tmp_path / "design.json"
        path.write_text(json.dumps(with_task(task)))
        return yardstick_of(load_design(path)).task.paths

    assert placed(TASK) == (str(tmp_path / "data/*.jsonl"),)
    assert placed("blimp:pairs.jsonl") == (str(tmp_path / "pairs.jsonl"),)
    (tmp_path / "own.toml").write_text(
        'kind = "choices"\npaths = "rows.jsonl"\noptions = ["{a}", "{b}"]\nkey = "{key}"\n'
    )
    assert placed("own.toml") == (str(tmp_path / "rows.jsonl"),)


@pytest.mark.parametrize(
    ("primary", "message"),
    [
        ({"measure": {"kind": "task"}}, "primary.measure.task is missing"),
        (
            {"measure": {"kind": "task", "task": "recal-choices"}},
            r"primary\.measure\.recal-choices is no task; did you mean 'recall-choices'",
        ),
        (
            {"measure": {"kind": "task", "task": {"kind": "choices", "paths": "x"}}},
            r"primary\.measure\.task\.options is missing",
        ),
        (
            {"measure": {"kind": "task", "task": "recall-choices"}, "margin": 100.0},
            "primary.margin is 100, and scores end at 100 points; use a difference that an arm",
        ),
        (
            {"measure": {"kind": "task", "task": "recall-choices"}, "margin": "5 % compute"},
            "or a margin in points",
        ),
        (
            {"measure": {"kind": "task", "task": "recall-choices", "split": "valid"}},
            "tune.split is 'valid', on which the primary yardstick reports",
        ),
        ({"measure": {"kind": "head", "measure": "luck"}}, "primary.measure.measure is 'luck'"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(primary: Table, message: str):
    with pytest.raises(SpecError, match=message):
        load_design(design_table(primary=primary))


def test_a_task_is_asked_once_on_a_split():
    with pytest.raises(SpecError, match="the task copy on test, the task copy on test"):
        load_design(with_task("copy") | {"others": [{"kind": "task", "task": "copy"}]})


def test_designs_without_a_task_are_what_they_were():
    dump = load_design(design_table()).model_dump(mode="json")
    assert dump["primary"]["measure"] == {
        "split": "test",
        "n_items": 200,
        "max_bytes": 240,
        "min_bytes": 16,
        "kind": "halves",
    }

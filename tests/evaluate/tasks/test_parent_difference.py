"""Scores minus those of the parent: each item against its own, by hand."""

from dataclasses import replace

import pytest
from task_answers import task_evaluation

from paribus.analyse.run_scores import (
    floor_of,
    item_totals,
    measure_of,
    parent_score,
    resolution_of,
    score_of,
)
from paribus.errors import RecordError
from paribus.evaluate.tasks.parent_difference import difference_of
from paribus.record import TaskEvaluation


def test_each_score_loses_that_of_the_parent_on_the_same_item() -> None:
    own, parent = task_evaluation(1.0, 0.5, 0.0, 1.0), task_evaluation(0.5, 0.5, 1.0, 0.25)
    other_order = TaskEvaluation(parent.head, parent.answers[::-1])
    difference = difference_of(own, other_order, "f00d")
    assert [answer.score for answer in difference.answers] == [0.5, 0.0, -1.0, 0.75]
    assert [answer.item for answer in difference.answers] == ["i0", "i1", "i2", "i3"]
    assert difference.head.measure == "accuracy minus the parent's"
    assert difference.head.protocol == {"kind": "zero-shot", "parent": "f00d"}
    assert score_of(difference) == pytest.approx(100 * 0.25 / 4)
    assert parent_score(difference) == pytest.approx(100 * 2.25 / 4)
    assert difference.head.summary["own"] == pytest.approx(2.5 / 4)
    assert [one.total for one in item_totals(difference)] == [50.0, 0.0, -100.0, 75.0]


def test_the_floor_of_a_difference_is_the_parent() -> None:
    own = task_evaluation(1.0, 0.0, 1.0, 1.0)
    difference = difference_of(own, own, "f00d")
    floor = floor_of(difference)
    assert floor is not None
    assert (floor.description, floor.value) == ("the parent itself", 0.0)
    assert measure_of(difference).ceiling is None
    assert resolution_of(difference) == resolution_of(own) == 25.0
    assert parent_score(own) is None


def test_a_parent_that_was_asked_something_else_is_refused() -> None:
    own, fewer = task_evaluation(1.0, 0.0), task_evaluation(1.0)
    with pytest.raises(RecordError, match="the parent was not asked 'i1' as the run was"):
        difference_of(own, fewer, "f00d")
    longer = replace(own.answers[0], count=2.0)
    other = TaskEvaluation(own.head, (longer, own.answers[1]))
    with pytest.raises(RecordError, match="the parent was not asked 'i0' as the run was"):
        difference_of(own, other, "f00d")

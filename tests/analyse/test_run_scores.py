"""Scores of runs from their answers, by hand: bits per byte, points, and what does not add up."""

from dataclasses import replace
from math import log

import pytest
from task_answers import TASK_HEAD, task_evaluation

from paribus.analyse.document_sums import document_sums
from paribus.analyse.pair_details import pair_new_documents
from paribus.analyse.run_scores import (
    floor_of,
    item_totals,
    measure_of,
    reference_score,
    resolution_of,
    score_of,
)
from paribus.analyse.score_bounds import Floor
from paribus.errors import RecordError
from paribus.record import Answer, Evaluation, EvaluationHead, TaskEvaluation
from paribus.spec.measure import ACCURACY, MATTHEWS, POINTS, TASK_MEASURES

HEAD = replace(TASK_HEAD, summary={"matthews": 0.25})


def pairs(*scores: float, documents: str = "aabb") -> TaskEvaluation:
    return replace(task_evaluation(*scores, documents=documents), head=HEAD)


def test_the_score_of_a_task_is_the_sum_of_scores_over_counts_in_points():
    answers = pairs(1, 0, 1, 1)
    assert measure_of(answers) == ACCURACY
    assert score_of(answers) == 75.0
    assert resolution_of(answers) == 25.0
    assert document_sums(answers) == {"a": (100.0, 2.0), "b": (200.0, 2.0)}


def test_the_floor_of_a_task_is_the_highest_and_a_run_below_it_has_a_score():
    answers = pairs(0, 0, 1, 0)
    assert floor_of(answers) == Floor("majority", 52.0)
    assert reference_score(answers) == 52.0
    assert score_of(answers) == 25.0
    without = replace(answers, head=replace(HEAD, floors={}))
    assert floor_of(without) is None


def test_a_measure_of_all_answers_at_once_is_read_from_the_head():
    answers = pairs(1, 0, 1, 1)
    own = replace(answers, head=replace(HEAD, measure="matthews"))
    assert measure_of(own) == MATTHEWS
    assert score_of(own) == 25.0
    with pytest.raises(RecordError, match="the answers to 'pairs' have no matthews"):
        score_of(replace(own, head=replace(own.head, summary={})))
    with pytest.raises(RecordError, match="measured in 'luck', which is not known here"):
        score_of(replace(answers, head=replace(HEAD, measure="luck")))


def test_the_floor_of_matthews_is_zero_and_that_of_macro_f1_is_of_one_label():
    answers = pairs(1, 0, 1, 1)
    keys = (0, 0, 0, 1)
    rows = tuple(replace(one, key=key) for one, key in zip(answers.answers, keys, strict=True))
    task = {"labels": ["a", "b"]}

    def floor(measure: str) -> Floor | None:
        head = replace(HEAD, task=task, measure=measure, summary={measure: 0.1})
        head = replace(head, protocol={"kind": "head"})
        return floor_of(replace(answers, head=head, answers=rows))

    assert floor("matthews") == Floor("uniform", 0.0)
    # always a: F1 of a is 2·3/(3+4), of b 0. A guess: (2·1.5/(3+2) + 2·0.5/(1+2)) / 2
    best = floor("macro f1")
    assert best is not None
    assert best.name == "uniform"
    assert best.value == pytest.approx(100 * (0.6 + 1 / 3) / 2)


def test_an_evaluation_is_in_bits_per_byte_and_has_no_floor():
    head = EvaluationHead({"kind": "halves"}, "likelihood", {}, 1, "", 8, "", 2, 0, "", 9.0, {})
    answers = Evaluation(head, (Answer("x", 2 * log(2), 2, 4, 0), Answer("y", log(2), 1, 2, 0)))
    assert score_of(answers) == pytest.approx(0.5)
    assert floor_of(answers) is None
    assert resolution_of(answers) == 0.0
    assert reference_score(answers) == pytest.approx(9.0 / log(2) / 6)
    assert [one.count for one in item_totals(answers)] == [4, 2]


def test_every_measure_in_points_ends_at_a_hundred_but_for_differences() -> None:
    for name, measure in TASK_MEASURES.items():
        assert measure.kind == name
        if not measure.is_inside:  # where neither way is better
            assert measure.lower_is_better == measure.unit.startswith("bits")
        assert measure.is_difference == name.endswith(" minus the parent's")
        has_end = measure.unit == POINTS and not measure.is_difference
        assert measure.ceiling == (100.0 if has_end else None)
        assert measure.is_inside == (": " in name)


def test_the_gain_on_new_documents_is_the_mean_of_points_and_none_where_nothing_adds_up():
    """Ten documents of two items: the arm gets one more right in each, in every seed."""
    documents = "".join(chr(97 + number // 2) for number in range(20))
    before = {seed: pairs(*([0, 0] * 10), documents=documents) for seed in (1, 2, 3)}
    after = {seed: pairs(*([1, 0] * 10), documents=documents) for seed in (1, 2, 3)}
    finding = pair_new_documents(before, after, (1, 2, 3), 0.95, ACCURACY)
    assert finding is not None
    assert finding.interval is not None
    assert finding.interval.effect == pytest.approx(50.0)
    assert finding.interval.n_items == 10
    silent = pair_new_documents(before, after, (1, 2, 3), 0.95, MATTHEWS)
    assert silent is not None
    assert silent.interval is None
    assert "matthews is computed from all items at once" in silent.description

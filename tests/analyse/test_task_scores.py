"""Scores of tasks and their intervals: as computed by hand, and over documents where items share
them.
"""

import numpy as np
import pytest

from paribus.analyse.task_scores import (
    label_measures,
    macro_f1,
    matthews,
    score_interval,
    wilson_interval,
)
from paribus.record import TaskAnswer, TaskEvaluation, TaskHead


def evaluation(answers: list[TaskAnswer], measure: str = "accuracy", **fields) -> TaskEvaluation:
    head = TaskHead(
        task={"labels": ["a", "b"]},
        name="t",
        measure=measure,
        label="likelihood",
        protocol={},
        component={},
        step=0,
        weights="",
        window=1,
        items="",
        n_items=len(answers),
        n_truncated=0,
        n_left_out=0,
        text="",
        floors={},
        summary=fields,
        environment={},
    )
    return TaskEvaluation(head, tuple(answers))


def answer(number: int, score: float, document: str = "", key: int = 0, chosen: int = 0):
    name = str(number)
    return TaskAnswer(
        item=name, document=document or name, score=score, count=1.0, chosen=chosen, key=key
    )


def test_wilson_as_in_a_book() -> None:
    low, high = wilson_interval(81, 263)  # Newcombe 1998, 0.2553 to 0.3662
    assert (low, high) == (pytest.approx(0.2553, abs=1e-4), pytest.approx(0.3662, abs=1e-4))
    assert wilson_interval(0, 10)[0] == pytest.approx(0.0, abs=1e-12)
    assert wilson_interval(10, 10)[1] == pytest.approx(1.0)


def test_items_that_stand_for_themselves_have_wilsons_interval() -> None:
    answers = [answer(n, float(n % 4 != 0)) for n in range(80)]
    assert score_interval(evaluation(answers)) == wilson_interval(60, 80)


def test_items_of_one_document_widen_the_interval() -> None:
    alone = [answer(n, float(n % 2)) for n in range(200)]
    together = [answer(n, float(n // 20 % 2), document=str(n // 20)) for n in range(200)]
    narrow, wide = score_interval(evaluation(alone)), score_interval(evaluation(together))
    assert narrow is not None
    assert wide is not None
    assert wide[1] - wide[0] > 2 * (narrow[1] - narrow[0])
    assert score_interval(evaluation(together)) == wide


def test_matthews_and_f1_as_computed_by_hand() -> None:
    confusion = np.array([[3.0, 1.0], [2.0, 4.0]])
    # (3·4 − 1·2) / √((3+1)(2+4)(3+2)(1+4))
    assert float(matthews(confusion)) == pytest.approx(10 / np.sqrt(4 * 6 * 5 * 5))
    assert float(macro_f1(confusion)) == pytest.approx((2 * 3 / 9 + 2 * 4 / 11) / 2)
    assert float(matthews(np.array([[5.0, 0.0], [3.0, 0.0]]))) == 0.0


def test_a_correlation_has_an_interval_over_documents() -> None:
    answers = [answer(n, 1.0, key=n % 2, chosen=int(n % 2 and n % 3 != 0)) for n in range(120)]
    result = evaluation(answers, "matthews", matthews=0.7)
    interval = score_interval(result)
    assert interval is not None
    assert interval[0] < 0.7 < interval[1]
    assert result.score == 0.7


def test_a_label_that_does_not_occur_counts_in_the_interval_as_in_the_score() -> None:
    answers = [answer(n, 1.0, key=0, chosen=0) for n in range(20)]
    measures = label_measures(answers, n_labels=2)
    assert measures["macro f1"] == 0.5
    assert score_interval(evaluation(answers, "macro f1", **measures)) == (0.5, 0.5)


def test_what_was_computed_over_all_items_at_once_has_no_interval() -> None:
    assert score_interval(evaluation([answer(0, 0.5)], "bleu", bleu=0.25)) is None


def test_bits_that_happen_to_be_0_or_1_are_no_shares():
    """Two options that cannot be told apart cost 1 bit each: Wilson's interval is of a share."""
    answers = [answer(number, 1.0) for number in range(9)]
    assert score_interval(evaluation(answers, "log loss")) == (1.0, 1.0)

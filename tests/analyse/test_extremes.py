"""The items with the largest differences, by hand."""

import math

from paribus.analyse import ExtremeItem, extreme_items
from paribus.record import Answer, Evaluation, EvaluationHead
from paribus.spec.measure import ACCURACY, MATTHEWS


def answered(*bits: float) -> Evaluation:
    head = EvaluationHead({}, "likelihood", {}, 1, "", 8, "", len(bits), 0, "", None, {})
    return Evaluation(
        head, tuple(Answer(f"i{n}", one * 2 * math.log(2), 2, 2, 0) for n, one in enumerate(bits))
    )


def test_items_are_ranked_by_their_mean_gain_over_seeds():
    baseline = {1: answered(1, 2, 3, 4), 2: answered(1, 2, 3, 4)}
    arm = {1: answered(1, 1, 5, 4), 2: answered(1, 1, 4, 6)}
    best, worst = extreme_items(baseline, arm, 2)
    assert [one.item for one in best] == ["i1", "i0"]
    assert [(one.item, round(one.gain, 9)) for one in worst] == [("i2", -1.5), ("i3", -1.0)]


def test_no_item_is_both_best_and_worst():
    best, worst = extreme_items({1: answered(1, 2, 3)}, {1: answered(3, 2, 1)}, 5)
    assert [one.item for one in (*best, *worst)] == ["i2", "i0"]


def test_without_a_common_seed_there_are_none():
    assert extreme_items({1: answered(1, 2)}, {2: answered(1, 2)}, 1) == ((), ())


def test_a_gain_is_fewer_bits_or_more_points():
    lower, _ = extreme_items({1: answered(3, 1)}, {1: answered(2, 1)}, 1)
    assert lower[0] == ExtremeItem("i0", 3.0, 2.0, 1.0)
    higher, _ = extreme_items({1: answered(3, 1)}, {1: answered(2, 1)}, 1, ACCURACY)
    assert higher[0] == ExtremeItem("i1", 1.0, 1.0, 0.0)


def test_a_measure_of_all_items_at_once_has_no_extreme_items():
    assert extreme_items({1: answered(1, 2)}, {1: answered(2, 1)}, 1, MATTHEWS) == ((), ())

import numpy as np
import pytest

from paribus.masks import (
    SequenceLayout,
    count_visible_keys,
    count_visible_pairs,
    dense_mask,
    mask_text,
    parse_rule,
)

LEAVES = {
    "full": lambda q, k, prefix: True,
    "causal": lambda q, k, prefix: k <= q,
    "reverse": lambda q, k, prefix: k >= q,
    "prefix": lambda q, k, prefix: k < prefix or k <= q,
    "same_side": lambda q, k, prefix: (q < prefix) == (k < prefix),
    "causal & same_side": lambda q, k, prefix: k <= q and (q < prefix) == (k < prefix),
    "same_side & causal": lambda q, k, prefix: k <= q and (q < prefix) == (k < prefix),
    "reverse & same_side": lambda q, k, prefix: k >= q and (q < prefix) == (k < prefix),
    "window(1)": lambda q, k, prefix: q == k,
    "window(3)": lambda q, k, prefix: q - 3 < k <= q,
    "window(11)": lambda q, k, prefix: q - 11 < k <= q,
    "strided(3)": lambda q, k, prefix: (q - k) % 3 == 0,
    "causal & window(5)": lambda q, k, prefix: q - 5 < k <= q,
    "causal & strided(2)": lambda q, k, prefix: k <= q and (q - k) % 2 == 0,
    "window(2) | prefix & strided(3)": lambda q, k, prefix: (
        q - 2 < k <= q or ((k < prefix or k <= q) and (q - k) % 3 == 0)
    ),
    "same_document & padding & causal": lambda q, k, prefix: k <= q,
}


def _pairs(sees, length, prefix):
    return sum(sees(q, k, prefix) for q in range(length) for k in range(length))


@pytest.mark.parametrize("text", LEAVES)
def test_visible_pairs_equal_counting_them_one_by_one(text):
    rule = parse_rule(text)
    for length in (1, 2, 3, 5, 7, 11, 13, 17):
        for prefix in range(0, length + 1, 2):
            assert count_visible_pairs(rule, SequenceLayout(length, prefix)) == _pairs(
                LEAVES[text], length, prefix
            ), (
                length,
                prefix,
            )


def test_long_sequences_are_counted_without_being_drawn():
    length, prefix = 2_000_003, 1_000_003
    triangle = length * (length + 1) // 2
    assert count_visible_pairs(parse_rule("full"), SequenceLayout(length)) == length**2
    assert count_visible_pairs(parse_rule("causal"), SequenceLayout(length)) == triangle
    assert count_visible_pairs(parse_rule("reverse"), SequenceLayout(length)) == triangle
    # Beyond the triangle, the prefix sees the part of itself above the diagonal.
    assert (
        count_visible_pairs(parse_rule("prefix"), SequenceLayout(length, prefix))
        == triangle + prefix * (prefix - 1) // 2
    )
    rest = length - prefix
    assert (
        count_visible_pairs(parse_rule("same_side"), SequenceLayout(length, prefix))
        == prefix**2 + rest**2
    )
    triangles = prefix * (prefix + 1) // 2 + rest * (rest + 1) // 2
    assert (
        count_visible_pairs(parse_rule("causal & same_side"), SequenceLayout(length, prefix))
        == triangles
    )
    # Every query sees 4099 keys, but the first 4098 lack 4098, 4097, … 1.
    assert (
        count_visible_pairs(parse_rule("window(4099)"), SequenceLayout(length))
        == 4099 * length - 4098 * 4099 // 2
    )


def test_more_rows_than_are_drawn_at_once_are_counted_whole():
    length = 2503
    expected = sum(1 for q in range(length) for _ in range(q % 7, q + 1, 7))
    assert (
        count_visible_pairs(parse_rule("causal & strided(7)"), SequenceLayout(length)) == expected
    )


def test_pairs_are_the_mean_over_groups_of_heads():
    # full 25, causal 15, and window(2) 9 over five positions.
    assert (
        count_visible_pairs(parse_rule("by_head(full, causal)"), SequenceLayout(5)) == (25 + 15) / 2
    )
    assert count_visible_pairs(
        parse_rule("by_head(full, causal, window(2))"), SequenceLayout(5)
    ) == pytest.approx((25 + 15 + 9) / 3)


def test_documents_and_padding_take_pairs_away():
    documents, real = np.array([0, 0, 1, 1, 1]), np.array([True, True, True, False, True])
    assert (
        count_visible_pairs(parse_rule("same_document"), SequenceLayout(5, documents=documents))
        == 2 * 2 + 3 * 3
    )
    assert (
        count_visible_pairs(
            parse_rule("causal & same_document"), SequenceLayout(5, documents=documents)
        )
        == 3 + 6
    )
    assert count_visible_pairs(parse_rule("padding"), SequenceLayout(5, real=real)) == 5 * 4
    assert (
        count_visible_pairs(
            parse_rule("padding & same_document"), SequenceLayout(5, 0, documents, real)
        )
        == 2 * 2 + 3 * 2
    )


def test_another_sequence_may_hold_the_keys():
    keys = SequenceLayout(3, documents=np.array([0, 1, 1]))
    queries = SequenceLayout(2, documents=np.array([1, 0]))
    assert np.array_equal(
        dense_mask(parse_rule("same_document"), queries, keys),
        [[False, True, True], [True, False, False]],
    )
    assert count_visible_pairs(parse_rule("same_document"), queries, keys) == 3
    assert count_visible_pairs(parse_rule("full"), queries, keys) == 6


def test_the_keys_of_chosen_queries_are_counted_once_per_query():
    chosen = np.array([False, True, False, False, True])
    assert count_visible_keys(parse_rule("causal"), SequenceLayout(5), chosen) == 2 + 5
    assert (
        count_visible_keys(parse_rule("by_head(causal, window(2))"), SequenceLayout(5), chosen)
        == ((2 + 5) + (2 + 2)) / 2
    )
    assert count_visible_keys(parse_rule("full"), SequenceLayout(5), chosen, SequenceLayout(3)) == 6
    assert (
        count_visible_keys(parse_rule("causal & same_side"), SequenceLayout(5, prefix=3), chosen)
        == 2 + 2
    )
    assert count_visible_keys(parse_rule("full"), SequenceLayout(5), np.zeros(5, bool)) == 0


def test_a_drawing_has_a_row_for_each_query():
    assert mask_text(np.array([[True, False, True], [False, True, False]])) == "#.#\n.#."


@pytest.mark.parametrize(
    "wrong",
    [{"prefix": 6}, {"prefix": -1}, {"documents": np.zeros(3, int)}, {"real": np.ones(7, bool)}],
)
def test_a_layout_that_cannot_be_is_a_programmers_mistake(wrong):
    with pytest.raises(AssertionError):
        SequenceLayout(5, **wrong)

"""What a growing text needs and reads again, against masks that are looked at pair by pair."""

import numpy as np
import pytest

from paribus.masks import (
    SequenceLayout,
    dense_mask,
    frees_keys,
    head_rules,
    needed_later,
    parse_rule,
    plan_growth,
)

FAR = 80  # positions after which every rule here repeats itself
RULES = [
    "full",
    "causal",
    "reverse",
    "prefix",
    "same_side & causal",
    "window(3)",
    "window(1)",
    "causal & strided(3)",
    "window(6) & strided(4)",
    "window(2) | prefix",
    "strided(2) & strided(3) | window(3)",
    "by_head(causal, window(2))",
    "by_head(window(5) & strided(2), reverse, prefix & window(4))",
]


@pytest.mark.parametrize("prefix", [0, 3, 9])
@pytest.mark.parametrize("text", RULES)
def test_needed_is_what_any_later_token_sees(text: str, prefix: int) -> None:
    length, rule = 9, parse_rule(text)
    seen = []
    for part in head_rules(rule):
        mask = dense_mask(part, SequenceLayout(FAR, prefix))
        seen.append(mask[length:, :length].any(0))
    found = needed_later(rule, np.arange(length), length, prefix)
    assert (found == np.stack(seen)).all()


def test_strides_too_long_to_be_told_apart_free_nothing() -> None:
    rule = parse_rule("causal & strided(5000) & strided(7)")
    assert needed_later(rule, np.arange(20), 20).all()
    within = parse_rule("window(3) & strided(5000)")
    assert needed_later(within, np.arange(20), 20)[0].tolist() == [False] * 18 + [True] * 2


def test_some_places_are_asked_alone() -> None:
    rule = parse_rule("window(3)")
    assert needed_later(rule, np.array([7, 2, 8]), 9).tolist() == [[True, False, True]]


def read(masks: list[str], old: tuple[int, int], new: tuple[int, int]) -> list[int]:
    stack = [parse_rule(text) for text in masks]
    plan = plan_growth(stack, SequenceLayout(*old), SequenceLayout(*new))
    assert plan.n_read == np.count_nonzero(plan.is_read)
    return np.flatnonzero(plan.is_read).tolist()


def test_what_a_decoder_and_a_prefix_model_read_in_the_next_turn() -> None:
    assert read(["causal"] * 3, (5, 0), (8, 0)) == [5, 6, 7]
    assert read(["prefix"] * 3, (5, 3), (8, 3)) == [5, 6, 7]  # the prefix stays
    assert read(["prefix"] * 3, (5, 3), (8, 6)) == list(range(8))  # it ends with the new prompt
    assert read(["prefix"], (5, 3), (8, 6)) == [5, 6, 7]  # one layer: keys are of tokens alone
    assert read(["full"] * 2, (5, 0), (6, 0)) == list(range(6))


def test_a_first_reading_reads_everything() -> None:
    assert read(["causal"] * 2, (0, 0), (4, 2)) == [0, 1, 2, 3]


def test_keys_that_were_freed_are_read_again_where_a_changed_token_asks_for_them() -> None:
    """The prefix grows over 3 and 4, so keys of 0 to 3 change above the second layer. To compute
    them the windows below need their neighbours, which are among them.
    """
    assert read(["window(2)", "prefix", "causal"], (9, 3), (11, 5)) == [0, 1, 2, 3, 9, 10]
    # 6 sees 5 by the window; 5 goes through the second layer too, where it sees 0 to 4
    assert read(["window(2)", "same_side", "causal"], (9, 6), (11, 6)) == list(range(11))
    assert read(["window(2)", "same_side"], (9, 6), (11, 6)) == [9, 10]


def test_a_key_that_is_freed_for_some_heads_is_read_again_for_them() -> None:
    """Tokens from 6 on see the new ones. The key of 5 is there for heads that look back all the
    way, and gone for those with a window, by which 6 sees it; to read 5, all before it are read.
    """
    assert read(["causal", "same_side", "causal"], (9, 6), (11, 6)) == [6, 7, 8, 9, 10]
    rules = ["by_head(causal, window(2))", "same_side", "causal"]
    assert read(rules, (9, 6), (11, 6)) == list(range(11))


def test_later_tokens_are_of_the_last_document_or_a_new_one() -> None:
    documents, places = np.array([0, 0, 1, 1, 1]), np.arange(5)
    for text, expected in (
        ("causal & same_document", [2, 3, 4]),
        ("causal & documents_so_far", [0, 1, 2, 3, 4]),
        ("window(4) & same_document", [2, 3, 4]),
        ("same_document | window(2)", [2, 3, 4]),
        ("window(2) | causal & documents_so_far", [0, 1, 2, 3, 4]),
    ):
        found = needed_later(parse_rule(text), places, 5, 0, documents)
        assert np.flatnonzero(found[0]).tolist() == expected


def test_documents_and_padding_are_looked_at_pair_by_pair() -> None:
    stack = [parse_rule("causal & same_document")] * 2
    documents = np.array([0, 0, 0, 1, 1])
    plan = plan_growth(stack, SequenceLayout(3, 0, documents[:3]), SequenceLayout(5, 0, documents))
    assert np.flatnonzero(plan.is_read).tolist() == [3, 4]


def test_a_text_without_documents_is_one_document() -> None:
    for text in ("causal & same_document", "causal & documents_so_far"):
        assert needed_later(parse_rule(text), np.arange(4), 4).tolist() == [[True] * 4]


@pytest.mark.parametrize(
    ("text", "is_freed"),
    [
        ("causal", False),
        ("full", False),
        ("window(1)", True),
        ("window(5)", True),
        ("window(2) | causal", False),
        ("by_head(causal, window(5))", True),
        ("window(6) & strided(3)", True),
        ("causal & strided(3)", False),
        ("reverse", True),
    ],
)
def test_keys_are_freed_where_no_later_token_sees_them(text: str, is_freed: bool) -> None:
    assert frees_keys(parse_rule(text)) is is_freed

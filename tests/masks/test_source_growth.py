"""A source that grows: what is read of it again, and who sees the same of it."""

import numpy as np
import pytest

from paribus.masks import (
    SequenceLayout,
    TextBesideSource,
    keeps_earlier_documents,
    keeps_source,
    parse_rule,
    plan_source_growth,
    same_source_views,
)

DOCUMENTS = np.array([0, 0, 0, 1, 1, 2, 2, 2])


def layout(length: int, has_documents: bool = True) -> SequenceLayout:
    return SequenceLayout(length, length, DOCUMENTS[:length] if has_documents else None)


@pytest.mark.parametrize(
    ("masks", "old", "new", "read"),
    [
        (["full"], 5, 8, range(8)),
        (["causal", "causal"], 5, 8, [5, 6, 7]),
        (["causal", "full"], 5, 8, range(8)),  # the last layer changes what a decoder reads
        (["causal", "prefix"], 5, 8, range(8)),  # all of a source is its prefix
        (["same_document"], 5, 8, [5, 6, 7]),
        (["same_document", "same_document"], 4, 8, [3, 4, 5, 6, 7]),  # the second document grows
        (["same_document", "documents_so_far"], 5, 8, range(8)),  # what it sees is not kept
        (["causal & same_document"], 4, 8, [4, 5, 6, 7]),
        (["same_document"], 0, 5, range(5)),
        (["full"], 5, 5, []),
    ],
)
def test_what_an_encoder_reads(masks: list[str], old: int, new: int, read: list[int]) -> None:
    plan = plan_source_growth(list(map(parse_rule, masks)), layout(old), layout(new))
    assert np.flatnonzero(plan.is_read).tolist() == list(read)
    assert plan.n_read == len(read)


def test_keys_of_an_encoder_are_kept_only_where_they_are_of_use() -> None:
    assert keeps_source([parse_rule("causal"), parse_rule("window(3)")])
    for last in ("full", "prefix", "same_document"):
        assert not keeps_source([parse_rule("causal"), parse_rule(last)])
    kept = plan_source_growth([parse_rule("window(3)")], layout(5), layout(8)).is_kept
    assert np.flatnonzero(kept[0]).tolist() == [6, 7]
    assert not plan_source_growth([parse_rule("full")], layout(5), layout(8)).is_kept.any()


def views(cross: str, has_documents: bool, is_unchanged: list[bool]) -> list[bool]:
    old = TextBesideSource(layout(4, has_documents), layout(5, has_documents))
    new = TextBesideSource(layout(8, has_documents), layout(8, has_documents))
    found = same_source_views([parse_rule(cross), None], old, new, np.array(is_unchanged))
    assert found[1].all()
    return found[0].tolist()


def test_a_text_sees_the_same_of_a_source_that_got_a_new_document() -> None:
    same, changed = [True] * 5, [True] * 3 + [False] * 2
    assert views("documents_so_far", True, same) == [True] * 4
    assert views("same_document", True, same) == [True] * 4
    assert views("full", True, same) == [False] * 4
    assert views("documents_so_far", False, same) == [False] * 4
    assert views("documents_so_far", True, changed) == [True, True, True, False]
    assert views("by_head(documents_so_far, full)", True, same) == [False] * 4


def test_which_models_keep_what_they_read_in_earlier_documents() -> None:
    def keeps(stack: str, encoder: str, cross: str) -> bool:
        rules = ([parse_rule(stack)] * 2, [parse_rule(encoder)] * 2, [parse_rule(cross)] * 2)
        return keeps_earlier_documents(*rules)

    assert keeps("causal", "same_document", "documents_so_far")
    assert keeps("causal", "causal", "documents_so_far")
    assert keeps("causal & same_document", "same_document", "same_document")
    assert not keeps("causal", "full", "documents_so_far")
    assert not keeps("causal", "same_document", "full")
    assert not keeps("full", "same_document", "documents_so_far")

import random

import numpy as np
import pytest
import torch
from torch.nn.attention.flex_attention import create_mask

from paribus.batch import BatchLayout
from paribus.masks import (
    ByHead,
    Causal,
    Full,
    Padding,
    Prefix,
    Reverse,
    SameDocument,
    SameSide,
    Strided,
    Window,
    dense_mask,
    parse_rule,
    rule_at_head,
)
from paribus.masks import SequenceLayout as OneLayout
from paribus.model.kernels import AttentionMask
from paribus.model.kernels.flex import _mask_mod

CPU = torch.device("cpu")
B, H = 3, 4


def _random_rule(generator, depth):
    if depth and generator.random() < 0.6:
        left, right = _random_rule(generator, depth - 1), _random_rule(generator, depth - 1)
        kind = generator.choice(["and", "or", "heads"])
        if kind == "heads":
            return ByHead((left, right))
        return left & right if kind == "and" else left | right
    n = generator.randint(1, 3)
    return generator.choice(
        [
            Full(),
            Causal(),
            Reverse(),
            Prefix(),
            SameSide(),
            SameDocument(),
            Padding(),
            Window(n),
            Strided(n),
        ],
    )


def _whole(layout, b):
    """The sequence b of a layout as masks know it, from place 0 on."""
    end = layout.start + layout.length
    prefix = int(layout.prefix[b]) if isinstance(layout.prefix, torch.Tensor) else layout.prefix

    def filled(given, fill):
        return (
            None
            if given is None
            else np.concatenate([np.full(layout.start, fill), given[b].numpy()])
        )

    return OneLayout(
        end, min(prefix, end), filled(layout.documents_BT, 0), filled(layout.real_BT, True)
    )


def _by_masks(rule, queries, keys):
    """[B, H, T, S] from the numpy pictures, each sequence and head on its own."""
    out = np.zeros((B, H, queries.length, keys.length), bool)
    for b in range(B):
        for h in range(H):
            picture = dense_mask(rule_at_head(rule, h, H), _whole(queries, b), _whole(keys, b))
            out[b, h] = picture[queries.start :, keys.start :]
    return torch.from_numpy(out)


def _layouts(generator):
    length, start = generator.randint(1, 5), generator.choice([0, 0, 2])
    torch.manual_seed(generator.randint(0, 10**6))
    prefix = generator.choice([0, 2, torch.randint(0, length + 1, (B,))])
    documents = generator.choice([None, torch.randint(0, 2, (B, length)).sort(1).values])
    real = generator.choice([None, torch.rand(B, length) < 0.7])
    keys = BatchLayout(B, length, start, prefix, documents, real)
    if generator.random() < 0.5:
        return keys, keys
    newest = generator.randint(1, length)  # queries at the end, keys before them in a cache

    def last(tensor):
        return None if tensor is None else tensor[:, -newest:]

    return BatchLayout(
        B, newest, start + length - newest, prefix, last(documents), last(real)
    ), keys


def test_a_views_dense_mask_is_the_picture_of_each_sequence_and_head():
    generator = random.Random(3)
    for _ in range(200):
        rule = _random_rule(generator, 2)
        if len(
            AttentionMask.of(rule, BatchLayout(B, 1), BatchLayout(B, 1), H, CPU).head_rules
        ) not in (1, 2, 4):
            continue
        queries, keys = _layouts(generator)
        view = AttentionMask.of(rule, queries, keys, H, CPU)
        got = view.dense_mask.expand(B, H, queries.length, keys.length)
        assert torch.equal(got, _by_masks(rule & Padding(), queries, keys)), (rule, queries, keys)


def test_a_view_that_is_never_blind_lets_every_query_see():
    generator = random.Random(5)
    found = set()
    for _ in range(300):
        queries, keys = _layouts(generator)
        if generator.random() < 0.3:
            # perhaps beyond the keys
            queries = BatchLayout(B, 3, generator.choice([0, 7]), keys.prefix)
        view = AttentionMask.of(_random_rule(generator, 2), queries, keys, H, CPU)
        blind = bool((~view.dense_mask.any(-1)).any())
        assert view.may_have_empty_rows or not blind, (view.rule, queries, keys)
        found.add((view.may_have_empty_rows, blind))
    assert {(True, True), (False, False)} <= found


def test_what_the_batch_does_not_have_is_left_out():
    rule = parse_rule("prefix & same_document & padding")
    layout = BatchLayout(B, 5)
    assert AttentionMask.of(rule, layout, layout, H, CPU).rule == Causal()
    some = BatchLayout(B, 5, prefix=2, real_BT=torch.ones(B, 5).bool())
    assert AttentionMask.of(rule, some, some, H, CPU).rule == parse_rule("prefix & padding")
    each = BatchLayout(B, 5, prefix=torch.tensor([0, 0, 0]), documents_BT=torch.zeros(B, 5))
    assert AttentionMask.of(rule, each, each, H, CPU).rule == parse_rule("prefix & same_document")


@pytest.mark.parametrize(
    ("rule", "layout", "static"),
    [
        ("causal", BatchLayout(B, 5), True),
        ("prefix", BatchLayout(B, 5, prefix=3), True),
        ("prefix", BatchLayout(B, 5, prefix=torch.tensor([1, 2, 3])), False),
        ("causal & same_side", BatchLayout(B, 5, prefix=3), True),
        ("causal & same_side", BatchLayout(B, 5, prefix=torch.tensor([1, 2, 3])), False),
        ("causal & padding", BatchLayout(B, 5, real_BT=torch.ones(B, 5).bool()), False),
        ("causal & padding", BatchLayout(B, 5), True),
        ("by_head(full, same_document)", BatchLayout(B, 5, documents_BT=torch.zeros(B, 5)), False),
    ],
)
def test_a_view_is_static_where_positions_alone_decide(rule, layout, static):
    assert AttentionMask.of(parse_rule(rule), layout, layout, H, CPU).is_static is static


@pytest.mark.parametrize("prefix", [2, torch.tensor([3, 3, 3])])
def test_parts_of_two_prefixes_are_a_programmers_mistake(prefix):
    keys = BatchLayout(B, 5, prefix=torch.tensor([3, 3, 3]))
    with pytest.raises(AssertionError):
        AttentionMask.of(
            parse_rule("causal & same_side"), BatchLayout(B, 5, prefix=prefix), keys, H, CPU
        )
    assert (
        AttentionMask.of(parse_rule("prefix"), BatchLayout(B, 5, prefix=prefix), keys, H, CPU).rule
        == Prefix()
    )


def test_a_view_is_aligned_where_queries_are_the_keys():
    assert AttentionMask.of(Causal(), BatchLayout(B, 5), BatchLayout(B, 5), H, CPU).is_aligned
    assert not AttentionMask.of(
        Causal(), BatchLayout(B, 1, start=4), BatchLayout(B, 5), H, CPU
    ).is_aligned
    assert not AttentionMask.of(
        Causal(), BatchLayout(B, 5, start=1), BatchLayout(B, 5), H, CPU
    ).is_aligned


@pytest.mark.parametrize("prefix", [2, 5, torch.tensor([0, 3, 5])])
@pytest.mark.parametrize(
    "rule", ["same_side", "causal & same_side", "by_head(prefix, reverse & same_side)"]
)
def test_what_flex_asks_of_each_pair_is_the_dense_mask(rule, prefix):
    keys = BatchLayout(B, 5, prefix=prefix)
    for queries in (keys, BatchLayout(B, 2, 3, prefix)):
        view = AttentionMask.of(parse_rule(rule), queries, keys, H, CPU)
        asked = create_mask(_mask_mod(view), B, H, queries.length, keys.length, "cpu")
        assert torch.equal(asked, view.dense_mask.expand_as(asked))


def test_static_masks_are_not_drawn_for_each_sequence_or_head():
    layout = BatchLayout(B, 5)
    assert AttentionMask.of(Window(2), layout, layout, H, CPU).dense_mask.shape == (1, 1, 5, 5)
    assert AttentionMask.of(
        parse_rule("by_head(causal, full)"), layout, layout, H, CPU
    ).dense_mask.shape == (
        1,
        H,
        5,
        5,
    )

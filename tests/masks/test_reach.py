import random
from functools import cache
from itertools import product

import numpy as np
import pytest

from paribus.masks import (
    ByHead,
    Causal,
    Full,
    Padding,
    Prefix,
    Reverse,
    SameDocument,
    SameSide,
    SequenceLayout,
    Strided,
    Window,
    appendable,
    dense_mask,
    find_leak,
    find_path,
    head_rules,
    leaks,
    looks_ahead,
    parse_rule,
    reachability,
    rule_at_layer,
    unchanged_states,
    valid_cache,
)
from paribus.masks.reach import _head_masks as head_masks


def _stack(text, n_layers):
    return [rule_at_layer(parse_rule(text), layer, n_layers) for layer in range(n_layers)]


def _random_rule(generator, depth):
    if depth and generator.random() < 0.6:
        left, right = _random_rule(generator, depth - 1), _random_rule(generator, depth - 1)
        kind = generator.choice(["and", "and", "or", "heads"])
        if kind == "heads":
            return ByHead((left, right))
        return left & right if kind == "and" else left | right
    n = generator.randint(1, 3)
    return generator.choice(
        [
            *(Full(), Causal(), Causal(), Reverse(), Prefix(), Prefix(), SameSide()),
            *(SameDocument(), Padding(), Window(n), Strided(n)),
        ],
    )


def _random_layout(generator, length):
    documents = generator.choice([None, np.array([i * 2 // length for i in range(length)])])
    real = generator.choice([None, np.array([generator.random() < 0.7 for _ in range(length)])])
    return SequenceLayout(length, generator.randint(0, length), documents, real)


def _sees(rule, layout, query, key):
    return query == key or any(dense_mask(part, layout)[query, key] for part in head_rules(rule))


# Reachability and paths


def test_information_travels_one_visible_hop_a_layer():
    generator = random.Random(3)
    for _ in range(40):
        length = generator.randint(1, 5)
        layout = _random_layout(generator, length)
        stack = [_random_rule(generator, 1) for _ in range(generator.randint(1, 3))]
        reached = {(p, p) for p in range(length)}
        for rule in stack:
            reached = {
                (q, source)
                for q in range(length)
                for k, source in reached
                if _sees(rule, layout, q, k)
            }  # a query has what each key it sees had
        expected = [[(p, source) in reached for source in range(length)] for p in range(length)]
        assert np.array_equal(reachability(stack, layout), expected)


def test_windows_add_up_over_layers():
    # Three layers of window(3) look back 3 · 2 positions.
    reached = reachability([Window(3)] * 3, SequenceLayout(11))
    assert [int(row.sum()) for row in reached] == [1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7]


def test_every_position_reaches_itself_even_without_attention():
    assert np.array_equal(reachability([], SequenceLayout(3)), np.eye(3))
    blind = SequenceLayout(3, real=np.zeros(3, bool))
    assert np.array_equal(reachability([Padding()], blind), np.eye(3))


def test_a_path_is_one_visible_hop_a_layer_and_exists_exactly_where_reached():
    generator = random.Random(5)
    for _ in range(30):
        length = generator.randint(2, 5)
        layout = _random_layout(generator, length)
        stack = [_random_rule(generator, 1) for _ in range(generator.randint(1, 3))]
        reached = reachability(stack, layout)
        for position, source in product(range(length), repeat=2):
            route = find_path(stack, layout, position, source)
            if not reached[position, source]:
                assert route is None
                continue
            assert route is not None
            assert (route[0], route[-1], len(route)) == (source, position, len(stack) + 1)
            hops = zip(stack, route[1:], route[:-1], strict=True)
            assert all(_sees(rule, layout, query, key) for rule, query, key in hops)


def test_a_path_names_the_hop_that_carries_the_answer():
    # The lower layer looks ahead, the upper one does not: 4 comes to 1 below and stays there.
    assert find_path([Full(), Causal()], SequenceLayout(5), 1, 4) == [4, 1, 1]
    assert find_path([Causal(), Full()], SequenceLayout(5), 1, 4) == [4, 4, 1]
    assert find_path([Causal(), Causal()], SequenceLayout(5), 1, 4) is None


# Leaks


NEXT = np.array([1, 2, 3, 4, -1])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("causal", []),
        ("window(2)", []),
        ("full", [0, 1, 2, 3]),
        ("reverse", [0, 1, 2, 3]),
        ("by_layer(full, causal)", [0, 1, 2, 3]),
        ("by_layer(causal, full)", [0, 1, 2, 3]),
        ("by_head(causal, reverse)", [0, 1, 2, 3]),
        ("alternate(causal, reverse)", [0, 1, 2, 3]),
        ("prefix", [0, 1]),
        ("same_side", [0, 1, 3]),
        ("causal & same_side", []),
        ("prefix & same_side", [0, 1]),
        ("causal & strided(2)", []),
        ("strided(2)", []),
        (
            "alternate(strided(2), strided(3))",
            [0, 1, 3],
        ),  # 0 → 3 → 1, 1 → 4 → 2, 3 → 0 → 4; from 2 no detour fits
    ],
)
def test_a_next_token_leaks_where_some_layer_or_head_looks_ahead(text, expected):
    assert leaks(_stack(text, 2), SequenceLayout(5, prefix=3), NEXT).tolist() == expected


def test_a_stride_leaks_the_next_token_only_by_two_hops():
    # One ahead is −2 + 3: it takes both strides, and room for the detour.
    assert leaks([Strided(2)], SequenceLayout(5), NEXT).tolist() == []
    assert leaks([Strided(3)], SequenceLayout(5), NEXT).tolist() == []
    assert leaks([Strided(2), Strided(3)], SequenceLayout(3), np.array([1, 2, -1])).tolist() == []


def test_some_leak_is_a_leak_exactly_where_there_is_one():
    generator = random.Random(23)
    seen = set()
    for _ in range(300):
        length = generator.randint(1, 12)
        layout = _random_layout(generator, length)
        stack = [_random_rule(generator, 2) for _ in range(generator.randint(1, 3))]
        sources = np.array([generator.randint(-1, length - 1) for _ in range(length)])
        reached = reachability(stack, layout)
        expected = [p for p in range(length) if sources[p] >= 0 and reached[p, sources[p]]]
        assert leaks(stack, layout, sources).tolist() == expected
        found = find_leak(stack, layout, sources)
        assert (found is None) == (not expected)
        assert found is None or found in expected
        seen.add(bool(expected))
    assert seen == {True, False}


@pytest.mark.parametrize("prefix", [0, 3, 7])
def test_a_stack_that_looks_back_leaks_no_answer_after_the_prefix(prefix):
    generator = random.Random(29)
    found = 0
    while found < 40:
        stack = [_random_rule(generator, 2) for _ in range(generator.randint(1, 3))]
        if looks_ahead(stack):
            continue
        found += 1
        reached = reachability(stack, SequenceLayout(7, prefix))
        assert not any(reached[p, a] for p in range(7) for a in range(max(p + 1, prefix), 7)), stack


def test_the_leaks_of_long_sequences_are_found():
    """One hop back, one of 1,500 ahead: only positions with so much room after them leak."""
    stack = [Causal(), Strided(1500)]
    assert leaks(stack, SequenceLayout(1600), np.append(np.arange(1, 1600), -1)).tolist() == list(
        range(100)
    )
    assert find_leak(stack, SequenceLayout(1501), np.append(np.arange(1, 1501), -1)) == 0
    assert find_leak(stack, SequenceLayout(1500), np.append(np.arange(1, 1500), -1)) is None


def test_what_is_not_predicted_or_not_in_the_input_does_not_leak():
    assert leaks([Full()], SequenceLayout(3), np.array([-1, -1, -1])).tolist() == []
    assert leaks([Full()], SequenceLayout(3), np.array([-1, 0, -1])).tolist() == [1]


def test_predicting_the_token_in_place_always_leaks():
    assert leaks([Causal()], SequenceLayout(3), np.array([0, 1, 2])).tolist() == [0, 1, 2]


def test_an_answer_in_another_document_does_not_leak():
    layout = SequenceLayout(4, documents=np.array([0, 0, 1, 1]))
    stack = [parse_rule("full & same_document")] * 3
    assert leaks(stack, layout, np.array([1, 2, 3, -1])).tolist() == [0, 2]


def test_an_input_part_does_not_reach_the_output_part():
    reached = reachability(_stack("causal & same_side", 3), SequenceLayout(5, prefix=2))
    assert np.array_equal(
        reached, dense_mask(parse_rule("causal & same_side"), SequenceLayout(5, prefix=2))
    )
    assert find_path(_stack("causal & same_side", 3), SequenceLayout(5, prefix=2), 4, 1) is None


# What stays the same when the text grows


def _values(stack, layout):
    """Each layer's input at each position, written out as what it was computed from."""
    rows = [list(range(layout.length))]
    for rule in stack:
        masks = [dense_mask(part, layout) for part in head_rules(rule)]
        below = rows[-1]
        rows.append(
            [
                (
                    below[q],
                    *(
                        tuple((k, below[k]) for k in range(layout.length) if mask[q, k])
                        for mask in masks
                    ),
                )
                for q in range(layout.length)
            ]
        )
    return rows


def _grown(generator, old):
    more = generator.randint(0, 3)
    new_prefix = (
        old.prefix if generator.random() < 0.5 else generator.randint(old.prefix, old.length + more)
    )
    documents = real = None
    if old.documents is not None:
        documents = np.concatenate(
            [old.documents, old.documents[-1] + np.sort([generator.randint(0, 1)] * more)]
        )
    if old.real is not None:
        real = np.concatenate([old.real, [generator.random() < 0.7 for _ in range(more)]]).astype(
            bool
        )
    return SequenceLayout(old.length + more, new_prefix, documents, real)


def test_unchanged_and_kept_equal_comparing_every_value_before_and_after():
    generator = random.Random(13)
    seen = set()
    for _ in range(300):
        old = _random_layout(generator, generator.randint(1, 5))
        new = _grown(generator, old)
        stack = [_random_rule(generator, 2) for _ in range(generator.randint(1, 3))]
        before, after = _values(stack, old), _values(stack, new)
        expected = np.array(
            [
                [a == b for a, b in zip(x, y, strict=False)]
                for x, y in zip(before, after, strict=True)
            ]
        )
        assert np.array_equal(unchanged_states(stack, old, new), expected), (stack, old, new)
        assert np.array_equal(valid_cache(stack, old, new), expected[:-1])
        seen.update(map(bool, expected.flat))
    assert seen == {True, False}


def test_a_prefix_fixed_at_the_first_turn_is_kept():
    assert valid_cache(
        [Prefix()] * 3, SequenceLayout(5, prefix=3), SequenceLayout(7, prefix=3)
    ).all()


def test_a_prefix_moved_to_the_end_of_the_prompt_is_computed_again():
    # The three old prefix tokens now see 3 and 4 as well; the first layer's keys come from
    # embeddings alone.
    after = unchanged_states(
        [Prefix()] * 2, SequenceLayout(4, prefix=3), SequenceLayout(5, prefix=5)
    )
    assert after.tolist() == [[True] * 4, [False] * 4, [False] * 4]
    # A prefix that grows by what was already causal changes only those before its new end.
    after = unchanged_states([Prefix()], SequenceLayout(5, prefix=2), SequenceLayout(5, prefix=3))
    assert after.tolist() == [[True] * 5, [False, False, True, True, True]]


def test_a_changed_position_spoils_those_that_see_it_one_layer_up():
    # Reverse lets only the old tokens look at the new one; through causal the damage spreads in the
    # next layer.
    after = unchanged_states(
        [parse_rule("reverse & strided(3)"), Causal()], SequenceLayout(4), SequenceLayout(5)
    )
    assert after.tolist() == [[True] * 4, [True, False, True, True], [True, False, False, False]]


def test_an_encoder_keeps_nothing_above_its_first_layer():
    assert valid_cache([Full()] * 3, SequenceLayout(2), SequenceLayout(3)).tolist() == [
        [True] * 2,
        [False] * 2,
        [False] * 2,
    ]


# Appendable: kept for every continuation


def _layouts(prefix_grows):
    """Pairs (old, new): short sequences with one or two documents, with or without padding."""
    for length, more in product((1, 2, 4, 6), (1, 3)):
        total = length + more
        ends = {None, length // 2, length}
        pads = {None, 0, length}
        for prefix, end, pad in product(range(length + 1), ends, pads):
            old = _layout(length, prefix, end, pad)
            for new_prefix in range(prefix, total + 1) if prefix_grows else (prefix,):
                yield old, _layout(total, new_prefix, end, pad)


@cache
def _layout(length, prefix, end, pad):
    """A layout whose first document ends there; equal ones are one, with the same masks."""
    documents = None if end is None else (np.arange(length) >= end).astype(int)
    real = None if pad is None else np.arange(length) != pad
    return SequenceLayout(length, prefix, documents, real)


FIXED, GROWING = list(_layouts(False)), list(_layouts(True))


def _stacks():
    generator = random.Random(17)
    for _ in range(40):
        yield [_random_rule(generator, 2) for _ in range(generator.randint(1, 4))]
    # Drawn at random, most stacks look ahead somewhere; these are rules that look ahead only in
    # part, or never.
    rules = [
        "causal",
        "prefix",
        "prefix & strided(2)",
        "strided(2) & strided(3)",
        "reverse & prefix",
        "reverse & causal",
        "reverse & window(2)",
        "(causal | reverse) & window(3)",
        "(window(2) | prefix) & (strided(3) | causal)",
        "by_head(causal, prefix & same_document)",
        "by_head(causal, window(3) & padding)",
        "reverse & prefix & causal",
        "causal & same_side",
        "prefix & same_side",
        "window(1) & same_side",
        "window(2) & same_side",
        "causal | same_side",
        "(causal | same_side) & causal",
        "window(2) | causal & strided(3) & same_side",
        "same_side & strided(2) & window(2)",
        "causal & (same_document | same_side)",
    ]
    for text in rules:
        yield [parse_rule(text), Causal()]
        yield [Causal(), Causal(), parse_rule(text)]


@pytest.mark.parametrize("prefix_grows", [False, True])
def test_appendable_is_exactly_kept_for_every_continuation(prefix_grows, monkeypatch):
    # many stacks have the same rules, and their masks are the same
    masks = {}

    def remembered_masks(rule, layout):
        key = (rule, id(layout))
        if key not in masks:
            masks[key] = head_masks(rule, layout)
        return masks[key]

    monkeypatch.setattr("paribus.masks.reach._head_masks", remembered_masks)
    layouts = GROWING if prefix_grows else FIXED
    random.Random(19).shuffle(layouts)
    answers = []
    for stack in _stacks():
        always = all(valid_cache(stack, old, new).all() for old, new in layouts)
        assert appendable(stack, prefix_grows) == always, list(map(str, stack))
        answers.append(always)
    assert 15 < sum(answers) < len(answers) - 15


def test_the_last_layers_rule_does_not_matter():
    assert appendable([Full()])
    assert appendable([Causal(), Full()])
    assert not appendable([Full(), Causal()])


def test_a_prefix_is_appendable_only_while_it_stays():
    assert appendable([Prefix(), Prefix()])
    assert not appendable([Prefix(), Prefix()], prefix_grows=True)


def test_parts_that_stay_are_kept_and_a_boundary_that_moves_spoils_what_it_crosses():
    stack = [parse_rule("causal & same_side")] * 2
    assert valid_cache(stack, SequenceLayout(5, prefix=3), SequenceLayout(7, prefix=3)).all()
    assert appendable(stack)
    assert not appendable(stack, prefix_grows=True)
    # 2 joins the prefix, so it sees 0 and 1, and 3 no longer sees it; the prefix's own tokens see
    # what they saw.
    after = unchanged_states(stack, SequenceLayout(5, prefix=2), SequenceLayout(5, prefix=3))
    assert after.tolist() == [[True] * 5, *[[True, True, False, False, False]] * 2]


def test_a_boundary_that_no_window_or_stride_crosses_spoils_nothing():
    assert appendable([parse_rule("window(1) & same_side")] * 2, prefix_grows=True)
    assert appendable(
        [parse_rule("window(6) & strided(2) & strided(3) & same_side")] * 2, prefix_grows=True
    )
    assert not appendable(
        [parse_rule("window(7) & strided(2) & strided(3) & same_side")] * 2, prefix_grows=True
    )

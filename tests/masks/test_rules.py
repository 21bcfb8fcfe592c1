import random

import numpy as np
import pytest

from paribus.errors import SpecError
from paribus.masks import (
    Alternate,
    And,
    ByHead,
    ByLayer,
    Causal,
    Full,
    Or,
    Padding,
    Prefix,
    Reverse,
    SameDocument,
    SameSide,
    SequenceLayout,
    Strided,
    Window,
    dense_mask,
    head_rules,
    leaves,
    parse_rule,
    rule_at_head,
    rule_at_layer,
    simplify_rule,
)

# Five positions: a prefix of 2, documents 0 0 0 1 1, the third token padding.
LAYOUT = SequenceLayout(5, 2, np.array([0, 0, 0, 1, 1]), np.array([True, True, False, True, True]))

BY_HAND = {
    "full": ["#####", "#####", "#####", "#####", "#####"],
    "causal": ["#....", "##...", "###..", "####.", "#####"],
    "reverse": ["#####", ".####", "..###", "...##", "....#"],
    "prefix": ["##...", "##...", "###..", "####.", "#####"],
    "same_side": ["##...", "##...", "..###", "..###", "..###"],
    "window(1)": ["#....", ".#...", "..#..", "...#.", "....#"],
    "window(3)": ["#....", "##...", "###..", ".###.", "..###"],
    "window(7)": ["#....", "##...", "###..", "####.", "#####"],
    "strided(1)": ["#####", "#####", "#####", "#####", "#####"],
    "strided(2)": ["#.#.#", ".#.#.", "#.#.#", ".#.#.", "#.#.#"],
    "strided(3)": ["#..#.", ".#..#", "..#..", "#..#.", ".#..#"],
    "same_document": ["###..", "###..", "###..", "...##", "...##"],
    "documents_so_far": ["###..", "###..", "###..", "#####", "#####"],
    "padding": ["##.##", "##.##", "##.##", "##.##", "##.##"],
    "causal & same_side": ["#....", "##...", "..#..", "..##.", "..###"],
    "reverse & same_side": ["##...", ".#...", "..###", "...##", "....#"],
    "same_side | window(2)": ["##...", "##...", ".####", "..###", "..###"],
    "causal & strided(2)": ["#....", ".#...", "#.#..", ".#.#.", "#.#.#"],
    "window(2) | strided(3)": ["#..#.", "##..#", ".##..", "#.##.", ".#.##"],
    "causal & same_document & padding": ["#....", "##...", "##...", "...#.", "...##"],
    "reverse & padding | window(1)": ["##.##", ".#.##", "..###", "...##", "....#"],
    "prefix & (same_document | window(2))": ["##...", "##...", "###..", "..##.", "...##"],
}


@pytest.mark.parametrize("text", BY_HAND)
def test_the_dense_mask_is_the_one_drawn_by_hand(text):
    drawn = np.array([[character == "#" for character in row] for row in BY_HAND[text]])
    # The drawings are of the rules themselves; over a sequence with padding nobody sees that.
    assert np.array_equal(dense_mask(parse_rule(text), LAYOUT), drawn & np.asarray(LAYOUT.real))


def test_anything_and_full_is_itself_and_anything_or_full_is_full():
    assert Causal() & Full() == Full() & Causal() == Causal()
    assert Causal() | Full() == Full() | Causal() == Full()


def test_a_rule_joined_with_itself_is_itself():
    assert Window(3) & Window(3) == Window(3) | Window(3) == Window(3)


def test_other_rules_are_kept_side_by_side():
    assert Causal() & Window(3) == And(Causal(), Window(3))
    assert Window(2) | Window(3) == Or(Window(2), Window(3))


def test_brackets_among_equals_do_not_make_another_rule():
    a, b, c, d = Causal(), Strided(3), SameDocument(), Padding()
    assert a & (b & c) == (a & b) & c
    assert a | (b | c) == (a | b) | c
    assert (a & b) & (c & d) == ((a & b) & c) & d
    assert a & (b | c) == And(a, Or(b, c))
    assert a & (a & b) == a & b
    assert a & b & a == a & b
    assert (a | b) | (c | a) == a | b | c


def test_rules_are_values():
    assert Window(3) == Window(3) != Window(5)
    assert len({Window(3), Window(3), Strided(3), Causal(), Causal()}) == 3


@pytest.mark.parametrize(("kind", "name"), [(Window, "window"), (Strided, "strided")])
@pytest.mark.parametrize("n", [0, -3])
def test_a_size_below_one_is_refused(kind, name, n):
    with pytest.raises(SpecError, match=rf"^mask {name}\({n}\) has size {n}; use 1 to 10000000$"):
        kind(n)


@pytest.mark.parametrize(
    ("kind", "name"), [(ByHead, "by_head"), (ByLayer, "by_layer"), (Alternate, "alternate")]
)
@pytest.mark.parametrize("rules", [(), (Causal(),)])
def test_fewer_than_two_rules_are_refused(kind, name, rules):
    with pytest.raises(
        SpecError, match=f"^{name} has {len(rules)} rule; give two or more, or the rule itself$"
    ):
        kind(rules)


def test_by_layer_gives_equal_groups_from_the_bottom_up():
    rule = ByLayer((Full(), Causal(), Reverse()))
    assert [rule_at_layer(rule, layer, 6) for layer in range(6)] == [Full()] * 2 + [
        Causal()
    ] * 2 + [Reverse()] * 2
    assert [rule_at_layer(rule, layer, 3) for layer in range(3)] == [Full(), Causal(), Reverse()]


def test_alternate_takes_turns_for_any_number_of_layers():
    rule = Alternate((Causal(), Reverse(), Full()))
    expected = [Causal(), Reverse(), Full(), Causal(), Reverse()]
    assert [rule_at_layer(rule, layer, 5) for layer in range(5)] == expected


def test_layers_reach_inside_and_or_and_heads():
    rule = ByHead((ByLayer((Full(), Causal())), Reverse())) & Padding()
    assert rule_at_layer(rule, 0, 2) == ByHead((Full(), Reverse())) & Padding()
    assert rule_at_layer(rule, 1, 2) == ByHead((Causal(), Reverse())) & Padding()
    assert rule_at_layer(Alternate((Causal(), Full())) | Window(3), 0, 2) == Or(Causal(), Window(3))
    assert rule_at_layer(Alternate((Causal(), Full())) | Window(3), 1, 2) == Full()


def test_rules_by_layer_may_lie_inside_each_other():
    rule = ByLayer((Alternate((Causal(), Reverse())), Full()))
    assert [rule_at_layer(rule, layer, 4) for layer in range(4)] == [
        Causal(),
        Reverse(),
        Full(),
        Full(),
    ]


A, B, C, D = Causal(), Reverse(), Full(), Window(2)


@pytest.mark.parametrize(
    ("rule", "n_layers", "expected"),
    [
        (ByLayer((ByLayer((A, B)), C)), 4, [A, B, C, C]),
        (ByLayer((C, ByLayer((A, B)))), 8, [C, C, C, C, A, A, B, B]),
        (ByLayer((ByLayer((A, B, D)), C)), 6, [A, B, D, C, C, C]),
        (ByLayer((ByLayer((ByLayer((A, B)), C)), D)), 8, [A, B, C, C, D, D, D, D]),
        (ByLayer((C, Alternate((A, B)))), 6, [C, C, C, A, B, A]),
        (ByLayer((Alternate((A, B)), Alternate((A, B)))), 6, [A, B, A, A, B, A]),
        (Alternate((Alternate((A, B)), C)), 5, [A, C, B, C, A]),
        (Alternate((C, Alternate((A, B)))), 4, [C, A, C, B]),
        (Alternate((ByLayer((A, B)), C)), 4, [A, C, B, C]),
        (Alternate((C, ByLayer((A, B)))), 5, [C, A, C, B, C]),
        (ByLayer((ByLayer((A, B)) & Strided(3), C)), 4, [A & Strided(3), B & Strided(3), C, C]),
        (ByLayer((ByLayer((A, B)) | Strided(3), D)), 4, [A | Strided(3), B | Strided(3), D, D]),
        (ByLayer((ByHead((ByLayer((A, B)), C)), D)), 4, [ByHead((A, C)), ByHead((B, C)), D, D]),
        (
            ByHead((ByLayer((ByLayer((A, B)), C)), D)),
            4,
            [ByHead((A, D)), ByHead((B, D)), ByHead((C, D)), ByHead((C, D))],
        ),
    ],
    ids=str,
)
def test_a_rule_within_has_the_layers_it_is_given_and_divides_those(rule, n_layers, expected):
    assert [rule_at_layer(rule, layer, n_layers) for layer in range(n_layers)] == expected


@pytest.mark.parametrize(
    ("rule", "n_layers", "message"),
    [
        (
            ByLayer((ByLayer((A, B)), C)),
            2,
            (
                "mask by_layer(causal, reverse) has 2 rules, so it needs a multiple of 2 layers,"
                " but it is assigned 1 of n_layers 2; use a number of rules among 1"
            ),
        ),
        (
            ByLayer((ByLayer((A, B)), C)),
            6,
            (
                "mask by_layer(causal, reverse) has 2 rules, so it needs a multiple of 2 layers,"
                " but it is assigned 3 of n_layers 6; use a number of rules among 1, 3"
            ),
        ),
        (
            Alternate((ByLayer((A, B)), C)),
            5,
            (
                "mask by_layer(causal, reverse) has 2 rules, so it needs a multiple of 2 layers,"
                " but it is assigned 3 of n_layers 5; use a number of rules among 1, 3"
            ),
        ),
        (
            Alternate((A, B, C)),
            2,
            (
                "mask alternate(causal, reverse, full) has 3 rules, so it needs at least 3 layers,"
                " but n_layers is 2; use fewer rules, or more layers"
            ),
        ),
        (
            ByLayer((C, Alternate((A, B)))),
            2,
            (
                "mask alternate(causal, reverse) has 2 rules, so it needs at least 2 layers, but it"
                " is assigned 1 of n_layers 2; use fewer rules, or more layers"
            ),
        ),
        (
            ByHead((Alternate((A, B)), C)),
            1,
            (
                "mask alternate(causal, reverse) has 2 rules, so it needs at least 2 layers, but"
                " n_layers is 1; use fewer rules, or more layers"
            ),
        ),
    ],
    ids=str,
)
def test_a_rule_that_would_be_left_without_a_layer_is_refused(rule, n_layers, message):
    with pytest.raises(SpecError) as caught:
        [rule_at_layer(rule, layer, n_layers) for layer in range(n_layers)]
    assert str(caught.value) == message


def test_every_nesting_shows_each_of_its_rules_or_is_refused():
    """Whatever lies in whatever, at any number of layers and heads: no rule that was written is
    missing.
    """
    generator = random.Random(19)
    refused = shown = 0
    for _ in range(600):
        written = iter(range(2, 100))
        rule = _nested(generator, written, depth=3)
        n_layers, n_heads = generator.randint(1, 12), generator.randint(1, 12)
        try:
            layers = [rule_at_layer(rule, layer, n_layers) for layer in range(n_layers)]
            found = {
                leaf
                for layer in layers
                for head in range(n_heads)
                for leaf in leaves(rule_at_head(layer, head, n_heads))
            }
        except SpecError:
            refused += 1
            continue
        shown += 1
        assert found == leaves(rule), (str(rule), n_layers, n_heads)
    assert min(refused, shown) > 100


def _nested(generator, written, depth):
    """A rule in which no window occurs twice."""
    if not depth or generator.random() < 0.3:
        return Window(next(written))
    kind = generator.choice([And, Or, ByHead, ByLayer, Alternate])
    parts = tuple(_nested(generator, written, depth - 1) for _ in range(2))
    return kind(*parts) if kind in (And, Or) else kind(parts)


def test_equal_groups_that_divide_their_heads_stay_apart():
    """Heads 0 and 2 have the one rule, 1 and 3 the other; merged, they would be 0 and 1, 2 and
    3.
    """
    rule = ByHead((ByHead((A, B)), ByHead((A, B))))
    assert [rule_at_head(rule_at_layer(rule, 0, 1), head, 4) for head in range(4)] == [A, B, A, B]
    plain = simplify_rule(rule, has_documents=False, has_padding=False, has_prefix=False)
    assert [rule_at_head(plain, head, 4) for head in range(4)] == [A, B, A, B]


def test_heads_that_are_equal_at_a_layer_are_one_rule_there():
    rule = ByHead((Alternate((Causal(), Full())), Causal()))
    assert rule_at_layer(rule, 0, 2) == Causal()
    assert rule_at_layer(rule, 1, 2) == ByHead((Full(), Causal()))


def test_a_rule_without_layers_is_the_same_at_each():
    assert rule_at_layer(Window(5), 2, 3) == Window(5)


def test_rules_that_do_not_divide_the_layers_are_refused():
    match = (
        r"^mask by_layer\(full, causal\) has 2 rules, so it needs a multiple of 2 layers, but"
        r" n_layers is 7; .* among 1, 7$"
    )
    with pytest.raises(SpecError, match=match):
        rule_at_layer(ByLayer((Full(), Causal())), 0, 7)


def test_heads_are_listed_in_equal_groups():
    assert head_rules(Causal()) == (Causal(),)
    assert head_rules(ByHead((Causal(), Reverse()))) == (Causal(), Reverse())
    assert head_rules(ByHead((ByHead((Causal(), Reverse())), Full()))) == (
        Causal(),
        Reverse(),
        Full(),
        Full(),
    )


def test_heads_of_a_combination_are_combined_group_by_group():
    two, three = ByHead((Causal(), Reverse())), ByHead((Window(2), Strided(3), Padding()))
    a, b = Causal(), Reverse()
    w, s, p = Window(2), Strided(3), Padding()
    assert head_rules(And(two, three)) == (a & w, a & w, a & s, b & s, b & p, b & p)
    assert head_rules(Or(two, Window(5))) == (a | Window(5), b | Window(5))


def test_each_head_has_the_rule_of_its_group():
    rule = ByHead((Causal(), Reverse(), Full()))
    assert [rule_at_head(rule, head, 6) for head in range(6)] == [Causal()] * 2 + [
        Reverse()
    ] * 2 + [Full()] * 2
    assert [rule_at_head(Window(3), head, 5) for head in range(5)] == [Window(3)] * 5


def test_groups_that_do_not_divide_the_heads_are_refused():
    match = (
        r"^mask by_head\(causal, reverse\) has 2 groups of heads, so it needs a multiple of 2"
        r" heads, but n_heads is 5; .* among 1, 5$"
    )
    with pytest.raises(SpecError, match=match):
        rule_at_head(ByHead((Causal(), Reverse())), 0, 5)


def test_a_rule_by_layer_has_no_heads_yet():
    with pytest.raises(
        TypeError, match=r"^by_layer\(full, causal\) differs by layer; call rule_at_layer first$"
    ):
        head_rules(ByLayer((Full(), Causal())))
    with pytest.raises(
        TypeError, match=r"^alternate\(full, causal\) differs by layer; call rule_at_layer first$"
    ):
        head_rules(Causal() & Alternate((Full(), Causal())))


def test_a_rule_by_head_or_layer_cannot_be_drawn_or_asked():
    match = (
        r"^by_head\(causal, full\) differs by head or layer; call rule_at_layer and rule_at_head"
        r" first$"
    )
    with pytest.raises(TypeError, match=match):
        dense_mask(ByHead((Causal(), Full())), SequenceLayout(3))
    with pytest.raises(TypeError, match=match):
        ByHead((Causal(), Full())).sees_new(prefix_grows=False)


def test_what_a_sequence_does_not_have_is_left_out():
    rule = (Prefix() & SameDocument()) & Padding()
    assert simplify_rule(rule, has_documents=False, has_padding=False, has_prefix=False) == Causal()
    assert simplify_rule(rule, has_documents=True, has_padding=False, has_prefix=False) == And(
        Causal(), SameDocument()
    )
    assert simplify_rule(rule, has_documents=False, has_padding=True, has_prefix=True) == And(
        Prefix(), Padding()
    )
    assert simplify_rule(Or(SameDocument(), Causal()), False, False, False) == Full()


def test_without_a_prefix_everything_is_one_part():
    assert simplify_rule(Causal() & SameSide(), False, False, has_prefix=True) == And(
        Causal(), SameSide()
    )
    assert simplify_rule(SameSide(), False, False, has_prefix=False) == Full()
    assert simplify_rule(Causal() & SameSide(), False, False, has_prefix=False) == Causal()


def test_a_window_is_already_causal():
    assert simplify_rule(And(Causal(), Window(3)), False, False, False) == Window(3)
    assert simplify_rule(And(Window(3), Prefix()), False, False, has_prefix=False) == Window(3)
    assert simplify_rule(And(Window(3), Prefix()), False, False, has_prefix=True) == And(
        Window(3), Prefix()
    )


def test_groups_that_become_equal_become_one():
    rule = ByHead((Causal(), Prefix()))
    assert simplify_rule(rule, False, False, has_prefix=False) == Causal()
    assert simplify_rule(rule, False, False, has_prefix=True) == rule


def test_leaves_are_the_elementary_rules():
    rule = ByLayer((Causal() & Window(3), ByHead((Full(), Causal() | Strided(2)))))
    assert leaves(rule) == {Causal(), Window(3), Full(), Strided(2)}


def test_a_simplified_rule_draws_the_same_mask():
    generator = random.Random(7)
    for _ in range(200):
        rule = _random_rule(generator, depth=3)
        length = generator.randint(1, 7)
        prefix = generator.choice([0, generator.randint(0, length)])
        documents = generator.choice([None, np.array([i // 3 for i in range(length)])])
        real = generator.choice([None, np.array([generator.random() < 0.7 for _ in range(length)])])
        layout = SequenceLayout(length, prefix, documents, real)
        plain = simplify_rule(rule, documents is not None, real is not None, prefix > 0)
        assert np.array_equal(dense_mask(plain, layout), dense_mask(rule, layout)), rule


def _random_rule(generator, depth):
    if depth and generator.random() < 0.7:
        left, right = _random_rule(generator, depth - 1), _random_rule(generator, depth - 1)
        return left & right if generator.random() < 0.5 else left | right
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

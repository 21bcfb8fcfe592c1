import random

import pytest

from paribus.errors import SpecError
from paribus.masks import (
    Alternate,
    And,
    ByHead,
    ByLayer,
    Causal,
    DocumentsSoFar,
    Full,
    Or,
    Padding,
    Prefix,
    Reverse,
    SameDocument,
    SameSide,
    Strided,
    Window,
    head_rules,
    parse_rule,
)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("full", Full()),
        ("causal()", Causal()),
        (" reverse ", Reverse()),
        ("prefix", Prefix()),
        ("same_side", SameSide()),
        ("same_document", SameDocument()),
        ("documents_so_far", DocumentsSoFar()),
        ("padding", Padding()),
        ("window(7)", Window(7)),
        ("strided(3)", Strided(3)),
        ("causal & window(2) | strided(5)", Or(And(Causal(), Window(2)), Strided(5))),
        ("causal & (window(2) | strided(5))", And(Causal(), Or(Window(2), Strided(5)))),
        ("by_head(causal, reverse & padding)", ByHead((Causal(), And(Reverse(), Padding())))),
        ("by_layer(full, causal, reverse)", ByLayer((Full(), Causal(), Reverse()))),
        (
            "alternate(by_head(full, causal), causal)",
            Alternate((ByHead((Full(), Causal())), Causal())),
        ),
        ("causal & full", Causal()),
    ],
)
def test_a_text_denotes_its_rule(text, rule):
    assert parse_rule(text) == rule


def test_a_rule_written_and_read_again_is_the_same_value():
    generator = random.Random(11)
    kinds = set()
    for _ in range(500):
        rule = _random_rule(generator, depth=4)
        kinds.add(type(rule))
        assert parse_rule(str(rule)) == rule, rule
    assert len(kinds) == 14


@pytest.mark.parametrize(
    "text", ["causal &", "causal window(3)", "", "causal; full", "\0", "window(3"]
)
def test_what_is_no_expression_cannot_be_read(text):
    with pytest.raises(
        SpecError, match=r"^mask .* cannot be read; write rules joined by & and \|, such as 'causal"
    ):
        parse_rule(text)


def test_endless_nesting_cannot_be_read_either():
    with pytest.raises(SpecError, match=r"cannot be read"):
        parse_rule("causal & reverse | " * 5000 + "full")


@pytest.mark.parametrize(
    ("text", "given", "meant"),
    [
        ("caual", "caual", "causal"),
        ("revers & padding", "revers", "reverse"),
        ("padding | by_heads(full, causal)", "by_heads(full, causal)", "by_head"),
        ("windw(3)", "windw(3)", "window"),
        ("by_layer(full, same_documents)", "same_documents", "same_document"),
        ("causal & sameside", "sameside", "same_side"),
        ("causal(3)", "causal(3)", "causal"),
        ("by_head(rules=full)", "by_head(rules=full)", "by_head"),
    ],
)
def test_a_near_miss_is_suggested(text, given, meant):
    with pytest.raises(SpecError) as caught:
        parse_rule(text)
    fault = "is no rule" if given == text else f"has {given!r}, which is no rule"
    assert str(caught.value).startswith(f"mask {text!r} {fault}; did you mean {meant!r}? rules")


@pytest.mark.parametrize(
    "text", ["xyzzy", "full + causal", "~causal", "causal and full", "3", "full.causal", "f()()"]
)
def test_what_is_near_to_nothing_is_shown_all_rules(text):
    with pytest.raises(
        SpecError, match=r"is no rule; rules are full, causal, .*, joined by & and \|$"
    ):
        parse_rule(text)


@pytest.mark.parametrize("size", ["", "(2.5)", "(True)", "(-1)", "('3')", "(3, 5)", "(n=3)", "()"])
@pytest.mark.parametrize("name", ["window", "strided"])
def test_a_size_is_one_whole_number(name, size):
    with pytest.raises(SpecError, match=rf"; {name} takes one whole number, as in '{name}\(8\)'$"):
        parse_rule(name + size)


def test_sizes_and_counts_of_rules_are_checked_in_writing_too():
    with pytest.raises(SpecError, match=r"^mask window\(0\) has size 0; use 1 to 10000000$"):
        parse_rule("causal & window(0)")
    with pytest.raises(SpecError, match=r"^by_head has 1 rule; give two or more"):
        parse_rule("by_head(causal)")


def _random_rule(generator, depth):
    if depth and generator.random() < 0.6:
        kind = generator.choice(["and", "or", ByHead, ByLayer, Alternate])
        if isinstance(kind, str):
            left, right = _random_rule(generator, depth - 1), _random_rule(generator, depth - 1)
            return left & right if kind == "and" else left | right
        return kind(
            tuple(_random_rule(generator, depth - 1) for _ in range(generator.randint(2, 3)))
        )
    n = generator.randint(1, 13)
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


def test_a_mask_of_too_many_words_is_refused():
    with pytest.raises(SpecError, match="has more than 64 words; use fewer"):
        parse_rule(" & ".join(f"window({n})" for n in range(1, 67)))


def test_a_mask_of_too_many_groups_of_heads_is_refused():
    nested = "causal"
    for _ in range(20):
        nested = f"by_head(reverse, {nested})"
    with pytest.raises(SpecError, match="groups of heads; use at most 4096"):
        head_rules(parse_rule(nested))

"""Fields that could have been equal: whichever arm is the baseline, and however the values came
about.
"""

import copy
from dataclasses import replace
from typing import Any

import pytest

from paribus.design import trials
from paribus.design.arms import arms_of
from paribus.design.control import describe_confounds, field_lines, judge_pairs
from paribus.design.trials import differing_fields, is_under, pair_findings
from paribus.spec.design_reading import load_design

TRAINING = {"n_steps": 5, "n_sequences": 2, "length": 20}
BASE = {
    "architecture": {
        "preset": "gpt2",
        "n_layers": 2,
        "d_model": 32,
        "attention": {"n_heads": 2},
        "positions": "none",
    },
    "training": TRAINING,
    "objective": "prefix",
}


def design(factor: Any, arms: dict[str, Any], **changes: Any) -> dict[str, Any]:
    table = {
        "question": "?",
        "base": copy.deepcopy(BASE),
        "baseline": next(iter(arms)),
        "factor": factor,
        "tune": False,
        "primary": {"measure": "halves"},
        "arms": {name: {"architecture": own} for name, own in arms.items()},
    }
    return table | changes


def said(table: dict[str, Any]) -> dict[str, str]:
    """What is refused of a design, by path."""
    read = load_design(table)
    arms = arms_of(read)
    lines = field_lines(read, arms, judge_pairs(read, arms))
    return {problem.split()[0]: problem for problem in describe_confounds(lines)}


PLAIN = design("architecture.mask", {"one": {"mask": "causal"}, "other": {"mask": "prefix"}})
HEADS = "by_head(causal, prefix, prefix, prefix)"
LAYERS = "by_layer(causal, prefix, prefix, prefix)"
UNFAIR: dict[str, tuple[Any, dict[str, Any], dict[str, Any], str]] = {
    "heads": (
        "architecture.mask",
        {"mask": "causal"},
        {"mask": HEADS, "attention": {"n_heads": 4}},
        "architecture.attention.n_heads",
    ),
    "layers": (
        "architecture.mask",
        {"mask": "causal"},
        {"mask": LAYERS, "n_layers": 4},
        "architecture.n_layers",
    ),
    "rotary": (
        "architecture.positions",
        {"attention": {"d_head": 5}},
        {"positions": "rotary", "attention": {"d_head": 6}},
        "architecture.attention.d_head",
    ),
    "any value": (
        "architecture.attention.n_heads",
        {},
        {"attention": {"n_heads": 3}, "d_model": 384},
        "architecture.d_model",
    ),
    "a third value": (
        "architecture.attention.n_heads",
        {},
        {"attention": {"n_heads": 3}, "d_model": 51},
        "architecture.d_model",
    ),
    "a third mask": (
        "architecture.n_layers",
        {"mask": "by_layer(causal, causal & window(8))"},
        {"n_layers": 3, "mask": "by_layer(prefix, prefix, prefix & window(2))"},
        "architecture.mask",
    ),
    "a third kind": (
        "architecture.attention",
        {"d_model": 30, "positions": "learned"},
        {
            "d_model": 30,
            "positions": "rotary",
            "attention": {
                "kind": "latent",
                "n_heads": 2,
                "d_latent": 16,
                "d_content": 14,
                "d_rotary": 2,
                "d_value": 15,
            },
        },
        "architecture.positions.kind",
    ),
    "eps of a kind": (
        "architecture.norm.kind",
        {"norm": "layer"},
        {"norm": "rms"},
        "architecture.norm.eps",
    ),
    "a default": (
        "architecture.mask",
        {"mask": "causal"},
        {"mask": "prefix", "norm": {"eps": 1e-6}},
        "architecture.norm.eps",
    ),
    "an encoder": (
        "architecture.mask",
        {"mask": "causal"},
        {"mask": "causal & window(8)", "encoder": {"n_layers": 1}},
        "architecture.encoder",
    ),
}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("case", UNFAIR)
def test_what_could_be_equal_is_refused_whichever_arm_is_the_baseline(
    case: str, turned: bool
) -> None:
    factor, one, other, path = UNFAIR[case]
    arms = {"one": one, "other": other}
    assert path in said(design(factor, dict(reversed(arms.items())) if turned else arms))


def test_the_message_names_the_trial() -> None:
    factor, one, other, path = UNFAIR["any value"]
    assert (
        said(design(factor, {"one": one, "other": other}))[path]
        == "architecture.d_model is 32 in one, 384 in other, but it is not the factor: other's 384"
        " is accepted in one too; set it equal, name it in factor, or list it under allow with a"
        " reason"
    )
    factor, one, other, path = UNFAIR["a third value"]
    assert (
        "but it is not the factor: 6 is accepted in both other and one; set"
        in said(design(factor, {"one": one, "other": other}))[path]
    )


def test_the_message_names_a_third_mask_or_kind() -> None:
    factor, one, other, path = UNFAIR["a third mask"]
    text = said(design(factor, {"one": one, "other": other}))[path]
    assert "but it is not the factor: 'prefix' is accepted in both other and one; set it" in text
    factor, one, other, path = UNFAIR["a third kind"]
    text = said(design(factor, {"one": one, "other": other}))[path]
    assert "but it is not the factor: 'none' is accepted in both other and one; set it" in text


def test_what_no_third_value_fits_follows() -> None:
    """Text is predicted forwards under one mask and backwards under another: none serves both."""
    table = design("objective", {"forwards": {}, "backwards": {"mask": "reverse"}})
    table["primary"] = {"measure": {"kind": "task", "task": "recall-choices"}}
    table["arms"]["forwards"]["objective"] = "causal"
    table["arms"]["backwards"]["objective"] = "reverse"
    assert said(table) == {}


SAMPLED = {"n_pairs": 20, "n_tokens": 8}
PAIRS = {"kind": "copy", "n_documents": 300, "form": "preferences"}


def preferring(*, objective: dict[str, Any], source: dict[str, Any]) -> dict[str, Any]:
    """An arm whose second stage prefers responses."""
    own = {"kind": "preference", **objective}
    stage = {"kind": "prefer", "objective": own, "corpus": {"sources": [source]}}
    return {"stages": {"1": {**stage, "training": TRAINING}}}


def test_of_a_list_each_field_of_each_entry_is_forced_or_not() -> None:
    """Own samples want conversations, and nothing says of what language or of how many letters."""
    first = {"corpus": {"sources": [{"kind": "copy"}]}, "objective": "seq2seq"}
    talk = {**PAIRS, "form": "conversations"}
    table = design("stages.1.objective.own_samples", {"given": {}, "own": {}})
    table["primary"] = {"measure": {"kind": "task", "task": "recall-choices"}}
    del table["base"]["objective"], table["base"]["training"]
    table["base"]["stages"] = {"0": {**first, "training": TRAINING}}
    table["arms"]["given"] = preferring(objective={}, source=PAIRS)
    for source in (talk, {**talk, "n_documents": 90}, {**talk, "kind": "sort"}):
        own = preferring(objective={"own_samples": SAMPLED}, source=source)
        table["arms"]["own"] = own
        found = said(copy.deepcopy(table))
        if source == talk:
            assert found == {}
            continue
        field = "kind" if source["kind"] == "sort" else "n_documents"
        text = found["stages.1.corpus.sources"]
        assert f"not the factor: stages.1.corpus.sources.0.{field}: given's" in text


def test_one_value_from_each_arm_may_fit_both() -> None:
    """Width 30 with 2 heads or 3; width 32 with 2 alone: both fit if one gives its width and
    takes nothing.
    """
    arms = {
        "one": {"d_model": 32, "attention": {"n_heads": 2}},
        "other": {"d_model": 30, "attention": {"n_heads": 3}},
    }
    found = said(design("architecture.mask", arms))
    assert set(found) == {"architecture.d_model", "architecture.attention.n_heads"}


def test_arms_that_are_compared_with_each_other_are_held_against_each_other() -> None:
    """The baseline has no encoder, so nothing there says how many layers one should have."""
    arms = {
        "decoder": {"mask": "causal"},
        "e2": {"mask": "causal", "encoder": {"n_layers": 2, "mask": "full"}},
        "e4": {"mask": "causal", "encoder": {"n_layers": 4, "mask": "causal"}},
    }
    masks = ["architecture.mask", "architecture.encoder.mask"]
    table = design(masks, arms, comparisons=[["e4", "e2"]])
    assert said(table).keys() == {"architecture.encoder.n_layers"}
    assert said({**table, "factor": ["architecture.encoder"]}) == {}


def test_a_whole_number_that_no_common_value_fits_needs_a_reason() -> None:
    """Shared blocks need as many encoder layers as there are layers, and these are the factor."""
    arms = {
        "two": {"n_layers": 2, "encoder": {"n_layers": 2, "shared": True}},
        "four": {"n_layers": 4, "encoder": {"n_layers": 4, "shared": True}},
    }
    table = design("architecture.n_layers", arms)
    path = "architecture.encoder.n_layers"
    assert (
        "but it is not the factor: no value up to 8 is accepted in both four and two; name it in"
        in said(table)[path]
    )
    assert said({**table, "allow": {path: "shared blocks are as many as layers"}}) == {}


def test_widths_for_many_heads_are_found_among_common_multiples() -> None:
    """59 and 61 heads: the least width for both is 3,599, past the first 2,000 numbers."""
    arms = {
        "a": {"d_model": 5900, "attention": {"n_heads": 59}},
        "b": {"d_model": 6100, "attention": {"n_heads": 61}},
    }
    found = said(design("architecture.attention.n_heads", arms))
    assert "3599 is accepted in both b and a" in found["architecture.d_model"]


@pytest.mark.parametrize(
    ("n_layers", "n_rules", "said_of"),
    [
        (
            (4, 9),
            (2, 3),
            "6 is accepted in both other and one",
        ),  # no divisor of either, nor a common multiple
        ((2, 3), (2, 3), "6 is accepted in both other and one"),  # twice the largest held
        (
            (3, 4),
            (3, 4),
            "no value up to 8 is accepted in both other and one",
        ),  # 12 would do, but nobody is near it
    ],
)
def test_whole_numbers_up_to_twice_the_largest_held_are_tried(
    n_layers: tuple[int, int], n_rules: tuple[int, int], said_of: str
) -> None:
    """Rules by layer must divide the layers."""
    arms = {
        name: {"mask": f"by_layer(causal{', prefix' * (n - 1)})", "n_layers": own}
        for name, own, n in zip(("one", "other"), n_layers, n_rules, strict=True)
    }
    assert (
        f"not the factor: {said_of};"
        in said(design("architecture.mask", arms))["architecture.n_layers"]
    )


def test_divisors_of_what_is_held_are_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads are a multiple of four under the mask, and divide the width: 4 is the third
    divisor, the fifth number.
    """
    monkeypatch.setattr(trials, "MAX_VALUES", 4)
    arms = {
        "one": {"d_model": 60, "attention": {"n_heads": 20}},
        "other": {"d_model": 84, "attention": {"n_heads": 28}},
    }
    table = design("architecture.d_model", arms)
    table["base"]["architecture"]["mask"] = HEADS
    assert (
        "not the factor: 4 is accepted in both other and one"
        in said(table)["architecture.attention.n_heads"]
    )


def test_not_all_whole_numbers_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Latent attention has rotary channels where positions are rotary, and none where there are
    none.
    """
    latent = {"kind": "latent", "n_heads": 2, "d_latent": 8, "d_content": 8, "d_value": 8}
    arms = {
        "none": {"positions": "none", "attention": {**latent, "d_rotary": 0}},
        "rotary": {"positions": "rotary", "attention": {**latent, "d_rotary": 102}},
    }
    monkeypatch.setattr(trials, "MAX_VALUES", 50)
    found = said(design("architecture.positions", arms))["architecture.attention.d_rotary"]
    assert "none of 50 values up to 204 is accepted in both rotary and none" in found


def test_the_search_ends_at_the_most_values_though_a_later_one_would_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Six layers would do for two rules and for three: the eighth number, after 1, 3, 9, 2, 4,
    0 and 5.
    """
    arms = {
        "one": {"mask": "by_layer(causal, prefix)", "n_layers": 4},
        "other": {"mask": "by_layer(causal, prefix, prefix)", "n_layers": 9},
    }
    table = design("architecture.mask", arms)
    monkeypatch.setattr(trials, "MAX_VALUES", 7)
    assert (
        "none of 7 values up to 18 is accepted in both other and one"
        in said(table)["architecture.n_layers"]
    )
    monkeypatch.setattr(trials, "MAX_VALUES", 8)
    assert (
        "not the factor: 6 is accepted in both other and one"
        in said(table)["architecture.n_layers"]
    )


def test_two_fields_that_can_only_move_together_are_tried_beside_a_third_that_cannot_move() -> None:
    """2 heads of 16 and 3 of 15; layers of a shared encoder are as many as those of the factor."""
    arms = {
        "two": {
            "n_layers": 2,
            "d_model": 16,
            "attention": {"n_heads": 2},
            "encoder": {"n_layers": 2, "shared": True},
        },
        "four": {
            "n_layers": 4,
            "d_model": 15,
            "attention": {"n_heads": 3},
            "encoder": {"n_layers": 4, "shared": True},
        },
    }
    found = said(design("architecture.n_layers", arms))
    assert (
        "two's 16 is accepted in four too, together with its architecture.attention.n_heads"
        in (found["architecture.d_model"])
    )


ALL = ("a.x", "a.y", "a.z", "b.x", "b.y")


@pytest.mark.parametrize("taker", [0, 1])
@pytest.mark.parametrize(
    "paths",
    [("a.x",), ("b.y",), ("a.x", "b.x"), ("a.x", "a.y", "a.z"), ALL, ALL[1:], ALL[:-1]],
    ids=["one", "another", "a pair", "a table", "all", "all but the first", "all but the last"],
)
def test_fields_are_tried_alone_in_pairs_in_tables_and_all_at_once_in_both_arms(
    paths: tuple[str, ...], taker: int
) -> None:
    """Words, which only a trial can make equal: one arm accepts one set of the other's, and
    nothing else.
    """
    arms = [
        replace(arm, table=words(letter))
        for arm, letter in zip(arms_of(load_design(PLAIN)), "st", strict=True)
    ]
    own, other = arms[taker].table, arms[1 - taker].table
    accepted = {**own, **words_of(own, other, paths)}
    found = pair_findings(
        arms[0],
        arms[1],
        ["architecture.factor"],
        lambda table: None if table == accepted else "refused",
    )
    assert {path for path, finding in found.items() if finding.mark == "✗"} == set(paths)
    assert {
        path: finding.note for path, finding in found.items() if finding.mark == "→"
    } == dict.fromkeys(set(ALL) - set(paths), "refused")


def words(letter: str) -> dict[str, Any]:
    return {
        "architecture": {"factor": letter},
        "a": dict.fromkeys("xyz", letter),
        "b": dict.fromkeys("xy", letter),
    }


def words_of(own: dict[str, Any], other: dict[str, Any], paths: tuple[str, ...]) -> dict[str, Any]:
    """Each table of words, those at some paths taken from the other arm."""
    return {
        table: {
            name: (other if f"{table}.{name}" in paths else own)[table][name] for name in own[table]
        }
        for table in ("a", "b")
    }


def test_sizes_nobody_wrote_follow_from_the_text_and_its_length() -> None:
    arms = {"one": {}, "other": {}}
    table = design(["corpus.tokenizer", "training.length"], arms)
    table["arms"]["other"] |= {
        "corpus": {"tokenizer": {"kind": "bpe", "n_vocab": 300}},
        "training": {"length": 24},
    }
    assert said(table) == {}
    table["arms"]["other"]["architecture"] = {"n_vocab": 5000}
    assert said(table).keys() == {"architecture.n_vocab"}


@pytest.mark.parametrize("turned", [False, True])
def test_sizes_that_are_written_are_judged_by_what_they_are(turned: bool) -> None:
    """Equal, though it is one arm's length and not the other's; apart, though each is its arm's
    length.
    """
    names = ["long", "short"] if turned else ["short", "long"]
    table = design("training.length", {name: {} for name in names})
    for name, length in (("short", 20), ("long", 24)):
        table["arms"][name] |= {"training": {"length": length}, "architecture": {"max_length": 24}}
    assert said(table) == {}
    del table["arms"]["long"]["architecture"]
    assert said(table) == {}
    table["arms"]["short"]["architecture"] = {"max_length": 20}
    assert "long's 24 is accepted in short too" in said(table)["architecture.max_length"]
    table["arms"]["long"]["architecture"] = {"max_length": 24}
    assert "long's 24 is accepted in short too" in said(table)["architecture.max_length"]


def test_fields_of_one_kind_alone_depend_on_the_kind_and_fields_of_both_do_not() -> None:
    one = {"a": {"kind": "x", "own": 1, "both": 2}, "b": None, "c": 3}
    other = {"a": {"kind": "y", "else": {"in": 4}, "both": 5}, "b": {"in": 6}, "c": 3}
    fields, dependents = differing_fields(one, other)
    assert fields == {"a.kind": ("x", "y"), "a.both": (2, 5), "b": (None, {"in": 6})}
    assert dependents == {"a.own": "a.kind", "a.else.in": "a.kind", "b.in": "b"}


@pytest.mark.parametrize(
    ("path", "inside"),
    [("a.b", True), ("a.b.c", True), ("a", False), ("a.bc", False), ("b", False), ("a.c", False)],
)
def test_a_path_is_under_another_or_inside_it_and_no_place_inside_frees_it(
    path: str, inside: bool
) -> None:
    assert is_under(path, ["a.b"]) is inside


def test_to_allow_a_field_of_a_table_is_not_to_allow_the_table() -> None:
    norms = {
        "none": {"norm": "rms"},
        "some": {"norm": {"kind": "layer", "eps": 1e-6}, "encoder": {"n_layers": 2}},
    }
    table = design(
        "architecture.norm.kind",
        norms,
        allow={"architecture.encoder.n_layers": "as deep as the decoder"},
    )
    assert (
        "architecture.encoder is None in none, a table in some, but"
        in said(table)["architecture.encoder"]
    )
    assert said({**table, "allow": {"architecture.encoder": "it is small"}}) == {}


def test_long_values_are_cut_short_in_the_message() -> None:
    table = design("architecture.mask", {"one": {"mask": "causal"}, "other": {"mask": "prefix"}})
    for name, weight in (("one", 1.0), ("other", 2.0)):
        parts = [{"objective": "spans", "weight": weight}, {"objective": "prefix"}]
        table["arms"][name]["objective"] = {"kind": "mixture", "components": parts}
    message = said(table)["objective.components"]
    assert "the list of one is accepted in other too" in message
    assert len(message) < 350


@pytest.mark.parametrize("written", [{}, {"encoder": {"n_layers": 2}}])
def test_the_depth_of_an_encoder_that_follows_is_no_second_factor(written: dict[str, Any]) -> None:
    encdec = {"preset": "t5", "d_model": 32, "attention": {"n_heads": 2}}
    table = design(
        "architecture.n_layers", {"shallow": {"n_layers": 2, **written}, "deep": {"n_layers": 4}}
    )
    table["base"]["architecture"] = encdec
    runs = {arm.name: arm.run.architecture for arm in arms_of(load_design(table))}
    assert runs["deep"].encoder is not None
    assert runs["deep"].encoder.n_layers == 4
    if written:  # one encoder grows with the decoder, and the other was said to be as it is
        assert "architecture.encoder.n_layers" in said(table)
    else:
        assert not said(table)


def test_a_depth_that_is_written_equals_one_that_follows() -> None:
    table = design(
        "architecture.mask",
        {
            "one": {"mask": "causal", "encoder": {"n_layers": 2}},
            "other": {"mask": "causal & window(8)"},
        },
    )
    table["base"]["architecture"] = {
        "preset": "t5",
        "n_layers": 2,
        "d_model": 32,
        "attention": {"n_heads": 2},
    }
    assert not said(table)

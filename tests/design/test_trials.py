"""Fields that could have been equal: whichever arm is the baseline, and however the values came about."""

import copy
from typing import Any

import pytest

from paribus.design import trials
from paribus.design.arms import arms_of
from paribus.design.control import confounds, field_lines, judge_pairs
from paribus.design.trials import differing_fields, under
from paribus.spec.sound import load_design

TRAINING = {"n_steps": 5, "n_sequences": 2, "length": 20}
BASE = {
    "architecture": {"preset": "gpt2", "n_layers": 2, "d_model": 32, "attention": {"n_heads": 2}, "positions": "none"},
    "training": TRAINING,
    "objective": "prefix",
}


def design(factor: Any, arms: dict[str, Any], **changes: Any) -> dict[str, Any]:
    table = {
        "question": "?", "base": copy.deepcopy(BASE), "baseline": next(iter(arms)), "factor": factor, "tune": False,
        "primary": {"measure": "halves"}, "arms": {name: {"architecture": own} for name, own in arms.items()},
    }  # fmt: skip
    return table | changes


def said(table: dict[str, Any]) -> dict[str, str]:
    """What is refused of a design, by path."""
    read = load_design(table)
    arms = arms_of(read)
    lines = field_lines(read, arms, judge_pairs(read, arms))
    return {problem.split()[0]: problem for problem in confounds(lines)}


HEADS = "by_head(causal, prefix, prefix, prefix)"
LAYERS = "by_layer(causal, prefix, prefix, prefix)"
UNFAIR: dict[str, tuple[Any, dict[str, Any], dict[str, Any], str]] = {
    "heads": ("architecture.mask", {"mask": "causal"}, {"mask": HEADS, "attention": {"n_heads": 4}},
              "architecture.attention.n_heads"),
    "layers": ("architecture.mask", {"mask": "causal"}, {"mask": LAYERS, "n_layers": 4}, "architecture.n_layers"),
    "rotary": ("architecture.positions", {"attention": {"d_head": 5}},
               {"positions": "rotary", "attention": {"d_head": 6}}, "architecture.attention.d_head"),
    "any value": ("architecture.attention.n_heads", {}, {"attention": {"n_heads": 3}, "d_model": 384},
                  "architecture.d_model"),
    "a third value": ("architecture.attention.n_heads", {}, {"attention": {"n_heads": 3}, "d_model": 51},
                      "architecture.d_model"),
    "eps of a kind": ("architecture.norm.kind", {"norm": "layer"}, {"norm": "rms"}, "architecture.norm.eps"),
    "a default": ("architecture.mask", {"mask": "causal"}, {"mask": "prefix", "norm": {"eps": 1e-6}},
                  "architecture.norm.eps"),
    "an encoder": ("architecture.mask", {"mask": "causal"},
                   {"mask": "causal & window(8)", "encoder": {"n_layers": 1}}, "architecture.encoder"),
}  # fmt: skip


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("case", UNFAIR)
def test_what_could_be_equal_is_refused_whichever_arm_is_the_baseline(case: str, turned: bool) -> None:
    factor, one, other, path = UNFAIR[case]
    arms = {"one": one, "other": other}
    assert path in said(design(factor, dict(reversed(arms.items())) if turned else arms))


def test_the_message_names_the_trial() -> None:
    factor, one, other, path = UNFAIR["any value"]
    assert said(design(factor, {"one": one, "other": other}))[path] == (
        "architecture.d_model is 32 in one, 384 in other, but it is not the factor: other's 384 is accepted in one "
        "too; set it equal, name it in factor, or list it under allow with a reason"
    )
    factor, one, other, path = UNFAIR["a third value"]
    assert (
        "but it is not the factor: 6 is accepted in both other and one; set"
        in said(design(factor, {"one": one, "other": other}))[path]
    )


def test_one_value_from_each_arm_may_fit_both() -> None:
    """Width 30 with 2 heads or 3; width 32 with 2 alone: both fit if one gives its width and takes nothing."""
    arms = {"one": {"d_model": 32, "attention": {"n_heads": 2}}, "other": {"d_model": 30, "attention": {"n_heads": 3}}}
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
        "but it is not the factor: no value up to 8 is accepted in both four and two; name it in" in said(table)[path]
    )
    assert said({**table, "allow": {path: "shared blocks are as many as layers"}}) == {}


def test_widths_for_many_heads_are_found_among_common_multiples() -> None:
    """59 and 61 heads: the least width for both is 3,599, past the first 2,000 numbers."""
    arms = {"a": {"d_model": 5900, "attention": {"n_heads": 59}}, "b": {"d_model": 6100, "attention": {"n_heads": 61}}}
    found = said(design("architecture.attention.n_heads", arms))
    assert "3599 is accepted in both b and a" in found["architecture.d_model"]


def test_not_all_whole_numbers_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Latent attention has rotary channels where positions are rotary, and none where there are none."""
    latent = {"kind": "latent", "n_heads": 2, "d_latent": 8, "d_content": 8, "d_value": 8}
    arms = {
        "none": {"positions": "none", "attention": {**latent, "d_rotary": 0}},
        "rotary": {"positions": "rotary", "attention": {**latent, "d_rotary": 102}},
    }
    monkeypatch.setattr(trials, "MOST_VALUES", 50)
    found = said(design("architecture.positions", arms))["architecture.attention.d_rotary"]
    assert "none of 50 values up to 204 is accepted in both rotary and none" in found


def test_sizes_nobody_wrote_follow_from_the_text_and_its_length() -> None:
    arms = {"one": {}, "other": {}}
    table = design(["corpus.tokenizer", "training.length"], arms)
    table["arms"]["other"] |= {"corpus": {"tokenizer": {"kind": "bpe", "n_vocab": 300}}, "training": {"length": 24}}
    assert said(table) == {}
    table["arms"]["other"]["architecture"] = {"n_vocab": 5000}
    assert said(table).keys() == {"architecture.n_vocab"}


@pytest.mark.parametrize("turned", [False, True])
def test_sizes_that_are_written_are_judged_by_what_they_are(turned: bool) -> None:
    """Equal, though it is one arm's length and not the other's; apart, though each is its arm's length."""
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
    [("a.b", True), ("a.b.c", True), ("a", True), ("a.bc", False), ("b", False), ("a.c", False)],
)
def test_a_path_is_under_another_inside_it_or_where_it_would_be(path: str, inside: bool) -> None:
    assert under(path, ["a.b"]) is inside


def test_to_allow_a_field_of_a_table_is_not_to_allow_the_table() -> None:
    norms = {"none": {"norm": "rms"}, "some": {"norm": {"kind": "layer", "eps": 1e-6}, "encoder": {"n_layers": 2}}}
    table = design("architecture.norm.kind", norms, allow={"architecture.encoder.n_layers": "as deep as the decoder"})
    assert "architecture.encoder is None in none, a table in some, but" in said(table)["architecture.encoder"]
    assert said({**table, "allow": {"architecture.encoder": "it is small"}}) == {}


def test_long_values_are_cut_short_in_the_message() -> None:
    table = design("architecture.mask", {"one": {"mask": "causal"}, "other": {"mask": "prefix"}})
    for name, weight in (("one", 1.0), ("other", 2.0)):
        parts = [{"objective": "spans", "weight": weight}, {"objective": "prefix"}]
        table["arms"][name]["objective"] = {"kind": "mixture", "parts": parts}
    message = said(table)["objective.parts"]
    assert "the list of one is accepted in other too" in message
    assert len(message) < 350

"""What the tokens of an arm see stands beside the pair, where no field that differs says so.

A field may be equal as it is written, and show something else: to another objective, to another
depth, to cross-attention that follows it, to a later stage that takes it over.
"""

import re

import pytest

from paribus.errors import ConfoundError

ENCODER = """
factor = "architecture.encoder"
match = "nothing"
budget = "tokens_read"
allow = { "cut contexts" = "windows are asked about" }
base.architecture.mask = "MASK"
[arms.plain]
[arms.other]
architecture.encoder = WRITTEN
"""
DIRECTION = "other reading its input in both directions and plain from left to right"


def _encoder(mask: str, written: str = "{}") -> str:
    return ENCODER.replace("MASK", mask).replace("WRITTEN", written)


@pytest.mark.parametrize("mask", ["causal", "by_head(causal, causal)", "causal & window(1000)"])
def test_the_direction_is_read_off_what_masks_show_and_not_off_their_names(
    plan_design, mask: str
) -> None:
    (one,) = plan_design(_encoder(mask)).judged
    assert one.factors == ("encoder",)
    assert DIRECTION in one.details
    (alike,) = plan_design(_encoder(mask, f'{{ mask = "{mask}" }}')).judged
    assert DIRECTION not in alike.details


@pytest.mark.parametrize(
    "mask",
    [
        "causal & window(1)",
        "causal & window(3)",
        "causal & same_document",
        "causal & strided(2)",
        "alternate(causal & window(1), causal)",
    ],
)
def test_an_encoder_that_sees_what_the_other_mask_hides_is_two_factors(
    plan_design, mask: str
) -> None:
    said = (
        "2 factors: encoder, encoder.mask; .*an encoder that hides what the mask of plain hides:"
        f' architecture.encoder.mask = "{re.escape(mask)}" in other'
    )
    with pytest.raises(ConfoundError, match=said):
        plan_design(_encoder(mask))
    (one,) = plan_design(_encoder(mask, f'{{ mask = "{mask}" }}')).judged
    assert one.factors == ("encoder",)
    assert DIRECTION not in one.details


def test_an_encoder_may_keep_documents_apart_as_the_other_mask_does(plan_design) -> None:
    apart = _encoder("causal & same_document", '{ mask = "same_document" }')
    (one,) = plan_design(apart).judged
    assert one.factors == ("encoder",)
    assert one.details[-1] == DIRECTION
    with pytest.raises(ConfoundError, match=r"2 factors: encoder, encoder\.mask"):
        plan_design(_encoder("causal", '{ mask = "same_document" }'))


def test_a_later_stage_that_hides_more_from_the_decoder_alone_counts(plan_design) -> None:
    stages = """
    [[base.stages]]
    [[base.stages]]
    kind = "adapt"
    architecture.mask = "STAGE"
    """
    design = ENCODER.replace("WRITTEN", "{}").replace("[arms.plain]", stages + "[arms.plain]")
    design = design.replace("MASK", "causal")
    with pytest.raises(ConfoundError, match=r"2 factors: encoder, encoder\.mask"):
        plan_design(design.replace("STAGE", "causal & window(1)"))
    (one,) = plan_design(design.replace("STAGE", "causal")).judged
    assert one.factors == ("encoder",)
    assert one.details[-2:] == (f"{DIRECTION} in stage 0", f"{DIRECTION} in stage 1")


def test_an_output_that_sees_more_of_its_input_through_an_encoder_says_so(plan_design) -> None:
    """Cross-attention has no windows; the encoder alone can hide what the decoder's mask hides."""
    window = "causal & window(4)"
    (one,) = plan_design(_encoder(window, f'{{ mask = "{window}" }}')).judged
    assert one.details[-1].startswith(
        "the output of other seeing 1 of its input and that of plain 0"
    )
    (one,) = plan_design(_encoder("causal")).judged
    assert not any("output" in detail for detail in one.details)


def test_cross_attention_that_follows_the_mask_of_the_decoder_says_so(plan_design) -> None:
    masks = """
    factor = "architecture.mask"
    [base.architecture]
    encoder = CROSS
    [arms.plain]
    [arms.other]
    architecture.mask = "causal & same_document"
    """
    said = "cross-attention seeing same_document in other and full in plain"
    (one,) = plan_design(masks.replace("CROSS", "{}")).judged
    assert (one.factors, one.details) == (("mask",), (said,))
    (one,) = plan_design(masks.replace("CROSS", '{ cross = "full" }')).judged
    assert (one.factors, one.details) == (("mask",), ())


OBJECTIVE = """
factor = "objective"
match = "nothing"
budget = "tokens_read"
base.architecture.mask = "MASK"
[arms.plain]
[arms.other]
objective = "causal"
"""


def test_an_objective_under_which_a_mask_shows_less_says_so(plan_design) -> None:
    (one,) = plan_design(OBJECTIVE.replace("MASK", "prefix")).judged
    assert one.details == (
        "other reading its input from left to right and plain in both directions",
        "other seeing 0.516 of the pairs of positions and plain 0.633",
    )
    assert all(detail in one.description for detail in one.details)
    (one,) = plan_design(OBJECTIVE.replace("MASK", "causal")).judged
    assert one.details == ()


def test_a_depth_that_changes_what_layers_see_says_so(plan_design) -> None:
    deeper = """
    factor = "architecture.n_layers"
    match = "nothing"
    budget = "tokens_read"
    base.architecture.mask = "alternate(causal & window(1), causal)"
    [arms.plain]
    [arms.other]
    architecture.n_layers = LAYERS
    """
    said = "other seeing 0.193 of the pairs of positions and plain 0.273"
    (one,) = plan_design(deeper.replace("LAYERS", "3")).judged
    assert said in one.details
    (one,) = plan_design(deeper.replace("LAYERS", "4")).judged
    assert not any("pairs of positions" in detail for detail in one.details)


STAGES = """
factor = "stages.1.architecture.mask"
[[base.stages]]
[[base.stages]]
kind = "adapt"
[[base.stages]]
kind = "adapt"
LAST
[arms.plain]
[arms.other]
stages.1.architecture.mask = "prefix"
"""


def test_a_stage_that_takes_over_what_an_earlier_one_changes_is_named(plan_design) -> None:
    (one,) = plan_design(STAGES.replace("LAST", "")).judged
    assert one.details == ("stages.1.architecture.mask also changing stage 2",)
    own = 'architecture.mask = "causal"'
    (one,) = plan_design(STAGES.replace("LAST", own)).judged
    assert (one.factors, one.details) == (("stages.1.architecture.mask",), ())


TURNS = """
factor = "architecture.encoder.mask"
match = "nothing"
budget = "tokens_read"
base.architecture.encoder = { cross = "CROSS" }
[primary]
margin = 2
[primary.measure]
kind = "task"
[primary.measure.task]
name = "copy"
kind = "choices"
language = { kind = "copy", n_documents = 400, min_length = 4 }
n_items = 4
[[base.stages]]
[[base.stages]]
kind = "instruct"
objective = "seq2seq"
training.length = 64
[[base.stages.corpus.sources]]
kind = "copy"
n_documents = 400
form = "conversations"
min_turns = 2
max_turns = 3
min_length = 2
max_length = 4
[arms.plain]
[arms.other]
architecture.encoder.mask = "same_document"
"""


def test_an_encoder_that_reads_each_turn_alone_says_so(plan_design) -> None:
    said = "other encoding each turn alone and plain the conversation so far in stage 1"
    (one,) = plan_design(TURNS.replace("CROSS", "documents_so_far")).judged
    assert (one.factors, one.details) == (("encoder.mask",), (said,))
    (one,) = plan_design(TURNS.replace("CROSS", "full")).judged
    assert (one.factors, one.details) == (("encoder.mask",), ())


def test_a_mask_that_is_the_factor_needs_no_more_words(plan_design) -> None:
    masks = 'factor = "architecture.mask"\n[arms.plain]\n[arms.other]\narchitecture.mask = "prefix"'
    (one,) = plan_design(masks).judged
    assert (one.factors, one.details) == (("mask",), ())

"""What is the prefix, under each objective: given as it is told, the same in training and
evaluation, or refused.
"""

from typing import get_args

import pytest
import torch
from tiny_model import tiny_architecture

from paribus.batch import N_SPECIAL_TOKENS, TextBatch, Vocabulary
from paribus.errors import SpecError
from paribus.model import Transformer, build
from paribus.objectives import Problem, pose_problem, require_permitted
from paribus.objectives.framing import item_layout, item_problems, lay_item
from paribus.objectives.permission import example_problem
from paribus.objectives.problem_layout import PREFIX_DESCRIPTIONS, PROBLEM_LAYOUTS, problem_layout
from paribus.spec import load, resolve
from paribus.spec.objectives import (
    UL2_COMPONENTS,
    CausalLM,
    Continuation,
    LastToken,
    MaskedLM,
    MixtureComponent,
    PrefixLM,
    ReverseLM,
    Seq2Seq,
    SpanCorruption,
    TokenObjective,
)

LENGTH = 24
PARTS = [
    *(MixtureComponent(objective=kind()) for kind in get_args(TokenObjective)),
    *UL2_COMPONENTS,
]
IN_PLACE = [MixtureComponent(objective=MaskedLM()), MixtureComponent(objective=LastToken())]
ASKING = [
    "prefix",
    "same_side",
    "by_head(causal, prefix)",
    "by_layer(prefix, causal)",
    "prefix & strided(2)",
]


def named(part: MixtureComponent) -> str:
    return f"{part.objective.kind}{part.mode or ''}"


def framed(part: MixtureComponent, has_encoder: bool) -> str | None:
    try:
        return problem_layout(part.objective, has_encoder)
    except SpecError:
        return None


def prefix_of(problem: Problem) -> int:
    return int(problem.inputs.layout.prefix)


def test_every_objective_and_every_framing_is_walked() -> None:
    # labels and tags read other texts: tests/objectives/test_label_problem.py
    assert {part.objective.kind for part in PARTS} == set(PROBLEM_LAYOUTS) - {"labels", "tags"}
    assert {framed(part, with_encoder) for part in PARTS for with_encoder in (False, True)} - {
        None
    } == set(PREFIX_DESCRIPTIONS)


@pytest.mark.parametrize("part", PARTS, ids=named)
@pytest.mark.parametrize("has_encoder", [False, True])
def test_the_prefix_is_the_one_that_is_told(part: MixtureComponent, has_encoder: bool) -> None:
    spec = resolve(tiny_architecture("t5" if has_encoder else "unilm"))
    frame = framed(part, has_encoder)
    if frame is None:
        return
    problem = example_problem(part, spec, LENGTH)
    length = problem.inputs.layout.length
    match frame:
        case "in place":
            assert PREFIX_DESCRIPTIONS[frame] == "the whole text is the prefix"
            assert prefix_of(problem) == length
        case "shifted":
            assert PREFIX_DESCRIPTIONS[frame].startswith("there is no prefix")
            assert prefix_of(problem) == 0
        case "together":
            assert PREFIX_DESCRIPTIONS[frame] == "the source is the prefix"
            first = int(problem.scored_positions_BM[0][problem.weights_BM[0] > 0][0])
            assert 0 < prefix_of(problem) == first + 1 < length
        case "apart":
            assert PREFIX_DESCRIPTIONS[frame].startswith(
                "in the encoder the whole source is the prefix"
            )
            source = problem.inputs.source
            assert source is not None
            real = source.layout.real_BT
            assert int(source.layout.prefix) == (
                source.layout.length if real is None else int(real.sum())
            )
            assert prefix_of(problem) == 0


def alike(mask: str, other: str, objective: TokenObjective, **changes: object) -> bool:
    """Do two models of the same weights, that differ in a mask alone, answer alike as training
    asks them?
    """
    field = "encoder.mask" if "encoder.n_layers" in changes else "mask"
    preset = "t5" if "encoder.n_layers" in changes else "gpt2"
    models = [
        build(tiny_architecture(preset, {**changes, field: rule, "n_vocab": 200}), seed=3).double()
        for rule in (mask, other)
    ]
    return torch.equal(*(answered(model, objective) for model in models))


def answered(model: Transformer, objective: TokenObjective) -> torch.Tensor:
    require_permitted(objective, model.spec, LENGTH)
    return model(
        example_problem(MixtureComponent(objective=objective), model.spec, LENGTH).inputs
    ).logits_BTV


@pytest.mark.parametrize("part", IN_PLACE, ids=named)
def test_a_prefix_mask_shows_the_whole_text_where_answers_are_hidden_in_it(
    part: MixtureComponent,
) -> None:
    assert alike("prefix", "full", part.objective)
    assert not alike("prefix", "causal", part.objective)
    assert alike("by_head(causal, prefix)", "by_head(causal, full)", part.objective)


def test_a_prefix_mask_is_causal_where_every_token_is_asked_for() -> None:
    assert alike("prefix", "causal", CausalLM())


@pytest.mark.parametrize(
    "objective", [PrefixLM(), SpanCorruption(), Continuation(), Seq2Seq()], ids=lambda one: one.kind
)
def test_an_encoder_under_a_prefix_mask_reads_the_whole_source(objective: TokenObjective) -> None:
    layers = {"encoder.n_layers": 3}
    assert alike("prefix", "full", objective, **layers)
    assert not alike("prefix", "causal", objective, **layers)


@pytest.mark.parametrize("part", [part for part in PARTS if framed(part, True)], ids=named)
@pytest.mark.parametrize("mask", ASKING)
def test_a_decoder_that_asks_for_a_prefix_is_refused(part: MixtureComponent, mask: str) -> None:
    spec = resolve(load("t5", mask=mask, n_layers=2))
    with pytest.raises(
        SpecError,
        match=r"for an encoder-decoder, but the mask .* asks for a prefix, and a decoder reads",
    ):
        require_permitted(part.objective, spec, LENGTH)


@pytest.mark.parametrize("part", IN_PLACE, ids=named)
def test_items_are_laid_with_the_prefix_of_training(part: MixtureComponent) -> None:
    spec = resolve(tiny_architecture("unilm", {"n_vocab": 200}))
    tokens = torch.arange(LENGTH)[None]
    zeros = torch.zeros_like(tokens)
    words = Vocabulary(LENGTH, torch.zeros(LENGTH + N_SPECIAL_TOKENS, dtype=torch.int64))
    reading = TextBatch(0, zeros[:, 0], tokens, zeros, zeros)
    training = pose_problem(
        part.objective, reading, words, 1, has_encoder=False, separates_documents=False
    )
    laid = item_layout(part, spec, words, LENGTH)
    rows = list(item_problems(laid, lay_item(laid, "it", range(10), range(10, 16))))
    assert len(rows) == 6
    for row in (*rows, training):
        assert prefix_of(row) == row.inputs.layout.length


@pytest.mark.parametrize("mask", ["prefix", "causal"])
def test_a_prefix_mask_shows_what_is_before_under_reverse_too_and_is_refused(mask: str) -> None:
    spec = resolve(load("gpt2", mask=mask, n_layers=2))
    with pytest.raises(
        SpecError,
        match=rf"position 1 must predict the token at 0, but it can see it: layer 0 \({mask}\)",
    ):
        require_permitted(ReverseLM(), spec, LENGTH)

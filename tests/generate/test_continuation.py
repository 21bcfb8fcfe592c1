"""Continuations against scores computed by hand."""

from typing import Any

import pytest
import torch
from tiny_model import tiny_architecture

from paribus.batch import N_SPECIAL_TOKENS, Batch, Vocabulary
from paribus.errors import SpecError, UnsupportedError
from paribus.generate import Sampling, can_generate, continuation
from paribus.model import Transformer, build
from paribus.objectives import require_permitted
from paribus.objectives.framing import plain_layout
from paribus.spec.objectives import CausalLM

WORDS = Vocabulary(13, torch.zeros(13 + N_SPECIAL_TOKENS, dtype=torch.int64))
SPEAKERS = [
    "gpt1",
    "gpt2",
    "llama",
    "palm",
    "unilm",
    "mixtral",
    "deepseek-v3",
    "t5",
    "bart",
    "encdec-shared",
]
MUTE = ["bert", "hybrid", "mixed-heads", "mixed-layers", "fixed-head"]


def model_of(preset: str, seed: int = 1):
    return build(tiny_architecture(preset, {"n_vocab": WORDS.size}), seed=seed)


def contexts(n: int = 3, length: int = 5) -> torch.Tensor:
    return torch.randint(13, (n, length), generator=torch.Generator().manual_seed(2))


def plainly(
    model: Transformer,
    context: torch.Tensor,
    sampling: Sampling,
    lengths_B: torch.Tensor | None = None,
    context_is_prefix: bool = True,
) -> torch.Tensor:
    """What follows contexts around which no token of ours is put."""
    layout = plain_layout(model.spec, WORDS, model.spec.max_length, context_is_prefix)
    return continuation(model, layout, context, sampling, lengths_B).tokens_BT


def sayable(logits: torch.Tensor) -> torch.Tensor:
    kept = torch.full_like(logits, float("-inf"))
    kept[..., :13], kept[..., WORDS.eos] = logits[..., :13], logits[..., WORDS.eos]
    return kept


@pytest.mark.parametrize("preset", SPEAKERS)
def test_each_token_is_the_likeliest_after_those_before_it(preset: str) -> None:
    model, context = model_of(preset), contexts()
    told = plainly(model, context, Sampling(4))
    for row in range(3):
        for place in range(told.shape[1]):
            before = told[row : row + 1, :place]
            if (before == WORDS.eos).any():
                assert told[row, place] == WORDS.pad
                continue
            if model.encoder is None:
                given = Batch.of(torch.cat([context[row : row + 1], before], 1), prefix=5)
            else:
                start = torch.tensor([[WORDS.decoder_start]])
                given = Batch.of(torch.cat([start, before], 1), source=context[row : row + 1])
            assert told[row, place] == sayable(model(given).logits_BTV[0, -1]).argmax()


@pytest.mark.parametrize("preset", MUTE)
def test_what_sees_ahead_is_not_asked_what_comes(preset: str) -> None:
    model = model_of(preset)
    assert not can_generate(model)
    with pytest.raises(
        UnsupportedError,
        match="lets a position see later tokens, so it cannot predict them",
    ):
        plainly(model, contexts(), Sampling(2))


@pytest.mark.parametrize("mask", ["by_layer(causal, strided(9))", "by_layer(strided(9), causal)"])
def test_what_sees_ahead_by_a_detour_is_asked_only_where_there_is_no_room_for_it(mask: str) -> None:
    """Position 0 sees 9, which has seen 1: in ten positions, not in nine."""
    model = build(tiny_architecture("gpt2", {"n_vocab": WORDS.size, "mask": mask}), seed=1)
    assert not can_generate(model)
    assert can_generate(model, 9)
    assert not can_generate(model, 10)
    with pytest.raises(SpecError, match="must predict the token at"):
        require_permitted(CausalLM(), model.spec, 10)
    assert plainly(model, contexts(1, 5), Sampling(4)).shape[0] == 1
    with pytest.raises(UnsupportedError, match="lets a position see later tokens"):
        plainly(model, contexts(1, 5), Sampling(5))
    with pytest.raises(UnsupportedError, match="lets a position see later tokens"):
        plainly(model, contexts(2, 6), Sampling(4), lengths_B=torch.tensor([3, 6]))


@pytest.mark.parametrize("mask", ["full", "reverse", "same_side", "by_head(causal, full)"])
@pytest.mark.parametrize("preset", ["gpt2", "t5"])
def test_one_token_is_no_more_to_be_asked_than_many(mask: str, preset: str) -> None:
    model = build(tiny_architecture(preset, {"n_vocab": WORDS.size, "mask": mask}), seed=1)
    with pytest.raises(UnsupportedError, match="lets a position see later tokens"):
        plainly(model, contexts(), Sampling(1))


NO_DRAWS = [
    ({"temperature": -1.0}, r"temperature is -1\.0; use 0 or more, and below infinity"),
    ({"temperature": float("nan")}, "temperature is nan; use 0 or more, and below infinity"),
    ({"temperature": float("inf")}, "temperature is inf; use 0 or more, and below infinity"),
    ({"temperature": "1"}, "temperature is '1'; use 0 or more, and below infinity"),
    ({"temperature": 10**400}, "temperature is 1000+; use 0 or more, and below infinity"),
    ({"temperature": True}, "temperature is True; use 0 or more, and below infinity"),
    ({"n_tokens": 0}, "n_tokens is 0; use a whole number from 1 up"),
    ({"n_tokens": -3}, "n_tokens is -3; use a whole number from 1 up"),
    ({"n_tokens": 2.5}, r"n_tokens is 2\.5; use a whole number from 1 up"),
    ({"seed": -1}, "seed is -1; use a whole number from 0 up"),
    ({"seed": 0.5}, r"seed is 0\.5; use a whole number from 0 up"),
]


@pytest.mark.parametrize(("given", "message"), NO_DRAWS)
def test_what_cannot_be_drawn_is_refused_by_name(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=f"^{message}$"):
        plainly(model_of("gpt2"), contexts(), Sampling(**{"n_tokens": 2, **given}))


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-46, 5e-324])
def test_a_temperature_near_zero_takes_the_likeliest(temperature: float) -> None:
    model, context = model_of("gpt2"), contexts(5)
    assert torch.equal(
        plainly(model, context, Sampling(4, temperature)),
        plainly(model, context, Sampling(4)),
    )


def test_a_temperature_divides_the_scores() -> None:
    """At 1/2 the chances are squared, at 2 their root is drawn from: each to its sum."""
    model = model_of("gpt2")
    chances = sayable(model(contexts(1)).logits_BTV[0, -1]).double().softmax(-1)
    for temperature, power in ((0.5, 2.0), (2.0, 0.5)):
        told = plainly(model, contexts(1).expand(4000, -1), Sampling(1, temperature, seed=5))[:, 0]
        expected = 4000 * chances**power / (chances**power).sum()
        counts = torch.bincount(told, minlength=WORDS.size)
        assert ((counts - expected).abs() <= 5 * expected.sqrt() + 1e-9).all(), temperature


@pytest.mark.parametrize("preset", ["gpt2", "t5"])
def test_text_is_made_without_dropout(preset: str) -> None:
    wet, dry = (
        build(tiny_architecture(preset, {"n_vocab": WORDS.size, "dropout": share}), seed=1)
        for share in (0.5, 0.0)
    )
    assert torch.equal(
        plainly(wet.train(), contexts(), Sampling(6)),
        plainly(dry, contexts(), Sampling(6)),
    )


def test_a_context_is_no_prefix_where_training_had_none() -> None:
    """Under a prefix mask without a prefix each token sees those before it, as under a causal
    mask.
    """
    prefixed, causal = (
        build(tiny_architecture("gpt2", {"n_vocab": WORDS.size, "mask": mask}), seed=1)
        for mask in ("prefix", "causal")
    )
    context, lengths = contexts(5, 11), torch.tensor([11, 1, 7, 4, 7])
    expected = plainly(causal, context, Sampling(6))
    assert torch.equal(plainly(prefixed, context, Sampling(6), context_is_prefix=False), expected)
    assert not torch.equal(plainly(prefixed, context, Sampling(6)), expected)
    ragged = plainly(prefixed, context, Sampling(6), lengths_B=lengths, context_is_prefix=False)
    assert torch.equal(ragged, plainly(causal, context, Sampling(6), lengths_B=lengths))


def test_an_encoder_under_a_prefix_mask_reads_all_of_the_context() -> None:
    """As under a full mask, also where contexts end early."""
    prefixed, full = (
        build(tiny_architecture("t5", {"n_vocab": WORDS.size, "encoder.mask": mask}), seed=1)
        for mask in ("prefix", "full")
    )
    context, lengths = contexts(5, 11), torch.tensor([11, 1, 7, 4, 7])
    assert torch.equal(
        plainly(prefixed, context, Sampling(6)),
        plainly(full, context, Sampling(6)),
    )
    ragged = plainly(prefixed, context, Sampling(6), lengths_B=lengths)
    assert torch.equal(ragged, plainly(full, context, Sampling(6), lengths_B=lengths))


def test_draws_follow_the_chances_and_the_seed() -> None:
    model = model_of("gpt2")
    context = contexts(1).expand(4000, -1)
    first = plainly(model, context, Sampling(1, temperature=1.0, seed=5))[:, 0]
    chances = sayable(model(context[:1]).logits_BTV[0, -1]).softmax(-1)
    counts = torch.bincount(first, minlength=WORDS.size)
    assert (
        (counts - 4000 * chances).abs() <= 5 * (4000 * chances * (1 - chances)).sqrt() + 1e-9
    ).all()
    assert torch.equal(first, plainly(model, context, Sampling(1, temperature=1.0, seed=5))[:, 0])
    assert not torch.equal(
        first, plainly(model, context, Sampling(1, temperature=1.0, seed=6))[:, 0]
    )


def test_a_row_says_the_same_in_any_company() -> None:
    model, context = model_of("llama"), contexts(4)
    together = plainly(model, context, Sampling(3, temperature=0.8, seed=1))
    assert torch.equal(
        together[:2], plainly(model, context[:2], Sampling(3, temperature=0.8, seed=1))
    )


def test_it_stops_where_the_model_ends() -> None:
    assert plainly(model_of("gpt2"), contexts(2, 27), Sampling(10)).shape[1] <= 3


@pytest.mark.parametrize(
    "preset", [*SPEAKERS, "encdec-causal-encoder", "encdec-mixed-encoder", "switch"]
)
def test_contexts_of_several_lengths_are_continued_as_each_alone(preset: str) -> None:
    model, context = model_of(preset), contexts(5, 11)
    lengths = torch.tensor([11, 1, 7, 4, 7])
    together = plainly(model, context, Sampling(6), lengths_B=lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = plainly(model, context[row : row + 1, :length], Sampling(6))
        assert torch.equal(together[row, : alone.shape[1]], alone[0])
        assert (together[row, alone.shape[1] :] == WORDS.pad).all()


@pytest.mark.parametrize("preset", ["gpt2", "unilm"])
def test_a_row_without_room_does_not_hold_back_the_others(preset: str) -> None:
    model, context = model_of(preset), contexts(3, 29)
    lengths = torch.tensor([29, 20, 28])
    together = plainly(model, context, Sampling(20), lengths_B=lengths)
    alone = [
        plainly(model, context[row : row + 1, :length], Sampling(20))
        for row, length in enumerate(lengths)
    ]
    assert [len(row[row != WORDS.pad]) for row in together] == [told.shape[1] for told in alone]
    for row, told in enumerate(alone):
        assert torch.equal(together[row, : told.shape[1]], told[0])


@pytest.mark.parametrize("lengths", [[3, 6], [0, 5], [5]])
def test_lengths_that_do_not_fit_the_contexts_are_refused(lengths: list[int]) -> None:
    with pytest.raises(
        SpecError,
        match=r"lengths_B is .* beside contexts \[2, 5\]; give one of 1 to 5 for each of 2 rows",
    ):
        plainly(model_of("gpt2"), contexts(2), Sampling(1), lengths_B=torch.tensor(lengths))

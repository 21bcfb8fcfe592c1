"""Continuations against scores computed by hand."""

import pytest
import torch

from paribus.batch import N_SENTINELS, Batch, Vocabulary
from paribus.errors import SpecError, UnsupportedError
from paribus.generate import continued, speaks
from paribus.model import build
from tiny import tiny

WORDS = Vocabulary(13, torch.zeros(13 + 7 + N_SENTINELS, dtype=torch.int64))
SPEAKERS = ["gpt1", "gpt2", "llama", "palm", "unilm", "mixtral", "deepseek-v3", "t5", "bart", "encdec-shared"]
MUTE = ["bert", "hybrid", "mixed-heads", "mixed-layers", "fixed-head"]


def model_of(preset: str, seed: int = 1):
    return build(tiny(preset, {"n_vocab": WORDS.size}), seed=seed)


def contexts(n: int = 3, length: int = 5) -> torch.Tensor:
    return torch.randint(13, (n, length), generator=torch.Generator().manual_seed(2))


def sayable(logits: torch.Tensor) -> torch.Tensor:
    kept = torch.full_like(logits, float("-inf"))
    kept[..., :13], kept[..., WORDS.end] = logits[..., :13], logits[..., WORDS.end]
    return kept


@pytest.mark.parametrize("preset", SPEAKERS)
def test_each_token_is_the_likeliest_after_those_before_it(preset: str) -> None:
    model, context = model_of(preset), contexts()
    told = continued(model, WORDS, context, 4)
    for row in range(3):
        for place in range(told.shape[1]):
            before = told[row : row + 1, :place]
            if (before == WORDS.end).any():
                assert told[row, place] == WORDS.pad
                continue
            if model.encoder is None:
                given = Batch.of(torch.cat([context[row : row + 1], before], 1), prefix=5)
            else:
                start = torch.tensor([[WORDS.start]])
                given = Batch.of(torch.cat([start, before], 1), source=context[row : row + 1])
            assert told[row, place] == sayable(model(given).logits_BTV[0, -1]).argmax()


@pytest.mark.parametrize("preset", MUTE)
def test_what_sees_ahead_is_not_asked_what_comes(preset: str) -> None:
    model = model_of(preset)
    assert not speaks(model)
    with pytest.raises(UnsupportedError, match="lets a position see what comes after it, so it cannot say what does"):
        continued(model, WORDS, contexts(), 2)


def test_draws_follow_the_chances_and_the_seed() -> None:
    model = model_of("gpt2")
    context = contexts(1).expand(4000, -1)
    first = continued(model, WORDS, context, 1, temperature=1.0, seed=5)[:, 0]
    chances = sayable(model(context[:1]).logits_BTV[0, -1]).softmax(-1)
    counts = torch.bincount(first, minlength=WORDS.size)
    assert ((counts - 4000 * chances).abs() <= 5 * (4000 * chances * (1 - chances)).sqrt() + 1e-9).all()
    assert torch.equal(first, continued(model, WORDS, context, 1, temperature=1.0, seed=5)[:, 0])
    assert not torch.equal(first, continued(model, WORDS, context, 1, temperature=1.0, seed=6)[:, 0])


def test_a_row_says_the_same_in_any_company() -> None:
    model, context = model_of("llama"), contexts(4)
    together = continued(model, WORDS, context, 3, temperature=0.8, seed=1)
    assert torch.equal(together[:2], continued(model, WORDS, context[:2], 3, temperature=0.8, seed=1))


def test_it_stops_where_the_model_ends() -> None:
    assert continued(model_of("gpt2"), WORDS, contexts(2, 27), 10).shape[1] <= 3


@pytest.mark.parametrize("preset", [*SPEAKERS, "encdec-causal-encoder", "encdec-mixed-encoder", "switch"])
def test_contexts_of_several_lengths_are_continued_as_each_alone(preset: str) -> None:
    model, context = model_of(preset), contexts(5, 11)
    lengths = torch.tensor([11, 1, 7, 4, 7])
    together = continued(model, WORDS, context, 6, lengths_B=lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = continued(model, WORDS, context[row : row + 1, :length], 6)
        assert torch.equal(together[row, : alone.shape[1]], alone[0])
        assert (together[row, alone.shape[1] :] == WORDS.pad).all()


@pytest.mark.parametrize("preset", ["gpt2", "unilm"])
def test_a_row_without_room_does_not_hold_back_the_others(preset: str) -> None:
    model, context = model_of(preset), contexts(3, 29)
    lengths = torch.tensor([29, 20, 28])
    together = continued(model, WORDS, context, 20, lengths_B=lengths)
    alone = [continued(model, WORDS, context[row : row + 1, :length], 20) for row, length in enumerate(lengths)]
    assert [len(row[row != WORDS.pad]) for row in together] == [told.shape[1] for told in alone]
    for row, told in enumerate(alone):
        assert torch.equal(together[row, : told.shape[1]], told[0])


@pytest.mark.parametrize("lengths", [[3, 6], [0, 5], [5]])
def test_lengths_that_do_not_fit_the_contexts_are_refused(lengths: list[int]) -> None:
    with pytest.raises(
        SpecError, match=r"lengths_B is .* beside contexts \[2, 5\]; give one of 1 to 5 for each of 2 rows"
    ):
        continued(model_of("gpt2"), WORDS, contexts(2), 1, lengths_B=torch.tensor(lengths))

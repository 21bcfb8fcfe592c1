"""Masks are filled from all tokens in sight, in the order that is asked for."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch
from byte_models import BYTE_TOKENIZER, VOCABULARY, byte_model

import paribus as pb
from paribus.batch import Batch
from paribus.errors import SpecError
from paribus.generate import Sampling, TextDecoder, fill_answers
from paribus.generate.mask_filling import (
    fills_masks,
    lay_masked_text,
    mask_candidates,
    mask_filling_layout,
)
from paribus.generate.requests import token_bar
from paribus.interop import load_checkpoint
from paribus.model import Transformer
from paribus.objectives.framing import ItemLayout, lay_context
from paribus.spec.objectives import CausalLM, MaskedLM, Mixture, MixtureComponent

MASK = VOCABULARY.mask
CONTEXTS = [list(b"the other day"), list(b"a"), list(b"where were we")]
DECODER = TextDecoder(BYTE_TOKENIZER, VOCABULARY)


def model_and_layout(window: int = 83) -> tuple[Transformer, ItemLayout]:
    model = byte_model("bert")
    return model, mask_filling_layout(MaskedLM(), model.spec, VOCABULARY, window)


@torch.no_grad()
def filled_by_hand(
    model: Transformer, laid: tuple[int, ...], order: Literal["left", "confident"]
) -> list[int]:
    tokens = list(laid)
    while MASK in tokens:
        batch = Batch.of(torch.tensor([tokens]), prefix=len(tokens))
        logprobs_TV = model(batch).logits_BTV[0].log_softmax(-1)
        sayable = [*range(VOCABULARY.n_text), VOCABULARY.eos]
        best: tuple[float, int, int] | None = None
        for place, token in enumerate(tokens):
            if token != MASK:
                continue
            value, index = logprobs_TV[place, sayable].max(-1)
            if best is None or (order == "confident" and value.item() > best[0]):
                best = value.item(), place, sayable[int(index)]
        assert best is not None
        tokens[best[1]] = best[2]
    return tokens


@pytest.mark.parametrize("order", ["left", "confident"])
def test_each_mask_is_filled_with_the_likeliest_token(
    order: Literal["left", "confident"],
) -> None:
    model, layout = model_and_layout()
    answers = fill_answers(model, layout, CONTEXTS, Sampling(5, order=order))
    for context, answer in zip(CONTEXTS, answers, strict=True):
        inputs = lay_context(layout, context, 5).inputs
        by_hand = filled_by_hand(model, (*inputs, *[MASK] * 5), order)[len(inputs) :]
        if VOCABULARY.eos in by_hand:
            by_hand = by_hand[: by_hand.index(VOCABULARY.eos)]
        assert list(answer.tokens) == by_hand


def test_the_two_orders_are_not_the_same() -> None:
    model, layout = model_and_layout()
    left, confident = (
        fill_answers(model, layout, CONTEXTS, Sampling(9, order=order))
        for order in ("left", "confident")
    )
    assert left != confident


@pytest.mark.parametrize("order", ["left", "confident"])
def test_answers_together_are_those_of_each_alone(order: Literal["left", "confident"]) -> None:
    model, layout = model_and_layout(window=17)
    sampling = Sampling(
        9, temperature=0.8, top_k=30, repetition_penalty=1.2, n_logprobs=2, order=order
    )
    together = fill_answers(model, layout, CONTEXTS, sampling, DECODER)
    (alone,) = fill_answers(model, layout, CONTEXTS[:1], sampling, DECODER)
    assert alone.tokens == together[0].tokens
    assert alone.logprobs == pytest.approx(together[0].logprobs, abs=1e-5)
    several = fill_answers(model, layout, CONTEXTS, replace(sampling, n_samples=2), DECODER)
    assert [answer.tokens for answer in several[::2]] == [answer.tokens for answer in together]
    for answer in together:
        assert answer.logprobs is not None
        assert answer.likeliest is not None
        assert all(value < 0 for value in answer.logprobs)
        assert len(answer.logprobs) == len(answer.likeliest) == len(answer.tokens) <= 9


def test_a_filled_answer_ends_before_its_stop_string() -> None:
    model, layout = model_and_layout()
    sampling = Sampling(12, temperature=3.0, seed=1)
    (whole,) = fill_answers(model, layout, CONTEXTS[:1], sampling, DECODER)
    assert whole.text
    letter = whole.text[4]
    (answer,) = fill_answers(
        model, layout, CONTEXTS[:1], replace(sampling, stop=(letter,)), DECODER
    )
    assert (answer.text, answer.stop_string) == (whole.text.partition(letter)[0], letter)


def test_candidates_are_the_likeliest_tokens_under_each_mask() -> None:
    model, layout = model_and_layout()
    tokens = [*b"the ", MASK, *b" da", MASK]
    laid = lay_masked_text(layout, tokens)
    with torch.no_grad():
        batch = Batch.of(torch.tensor([laid]), prefix=len(laid))
        chances_TV = model(batch).logits_BTV[0].softmax(-1)
    places = [place for place, token in enumerate(laid) if token == MASK]
    found = mask_candidates(model, layout, tokens, 3)
    assert len(found) == 2
    for place, candidates in zip(places, found, strict=True):
        chances, ids = chances_TV[place].topk(3)
        assert [number for number, _ in candidates] == ids.tolist()
        assert [chance for _, chance in candidates] == pytest.approx(chances.tolist())


def test_what_cannot_be_filled_is_refused() -> None:
    model, layout = model_and_layout(window=9)
    with pytest.raises(SpecError, match="TEXT has no mask; write"):
        mask_candidates(model, layout, list(b"abc"), 3)
    with pytest.raises(SpecError, match="TEXT has 9 tokens, and 1 stand around it, but the length"):
        mask_candidates(model, layout, [*b"abcdefgh", MASK], 3)
    with pytest.raises(SpecError, match="is 'causal', which was not trained to fill masks"):
        mask_filling_layout(CausalLM(), model.spec, VOCABULARY, 9)
    with pytest.raises(SpecError, match="n_beams is 2, but masks are filled one by one"):
        fill_answers(model, layout, CONTEXTS, Sampling(2, n_beams=2))


def test_one_component_that_fills_masks_is_enough() -> None:
    parts = (MixtureComponent(objective=CausalLM()), MixtureComponent(objective=MaskedLM()))
    assert fills_masks(Mixture(components=parts))
    assert not fills_masks(CausalLM())
    assert not fills_masks(None)


def test_candidates_are_those_of_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    hf_models = pytest.importorskip("hf_models")
    theirs = hf_models.write_family("bert", tmp_path / "theirs").float()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    pb.import_(tmp_path / "theirs", out=tmp_path / "ours")
    text = "the [MASK] words, abc [MASK]"
    inputs = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        chances_TV = theirs(**inputs).logits[0].softmax(-1)
    places = (inputs["input_ids"][0] == tokenizer.mask_token_id).nonzero()[:, 0]
    checkpoint = load_checkpoint(tmp_path / "ours")
    assert checkpoint.vocabulary.mask == tokenizer.mask_token_id
    found = pb.fill_mask(tmp_path / "ours", text, 4)
    for place, candidates in zip(places, found, strict=True):
        chances, ids = chances_TV[place].topk(4)
        assert [one.token for one in candidates] == ids.tolist()
        assert [one.probability for one in candidates] == pytest.approx(chances.tolist(), abs=1e-5)
        assert [one.text for one in candidates] == [tokenizer.decode([one]) for one in ids]


def test_filling_masks_bars_the_mask_for_nobody_else() -> None:
    model, layout = model_and_layout()
    open_layout = replace(layout, bars_special_tokens=False)
    before = token_bar(open_layout, model.spec.n_vocab, torch.device("cpu"))[MASK].item()
    fill_answers(model, open_layout, CONTEXTS, Sampling(n_tokens=2))
    after = token_bar(open_layout, model.spec.n_vocab, torch.device("cpu"))[MASK].item()
    assert before == after == 0

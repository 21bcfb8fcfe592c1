"""represent(text): one state for a text from any architecture, whatever stands beside it."""

import numpy as np
import pytest
import torch
from byte_models import BYTE_TOKENIZER, VOCABULARY, byte_model
from tiny_model import PRESETS, tiny_architecture

from paribus.batch import Batch
from paribus.corpus.tokenizer import train_tokenizer
from paribus.errors import SpecError, UnsupportedError
from paribus.evaluate.likelihood import AskedModel
from paribus.evaluate.represent import parameters_used, represent, represent_words
from paribus.model import Transformer
from paribus.spec import resolve, text_parameters
from paribus.spec.corpus import BPETokenizer
from paribus.spec.objectives import (
    UL2,
    CausalLM,
    MaskedLM,
    Objective,
    PrefixLM,
    ReverseLM,
    Seq2Seq,
    SpanCorruption,
)

TEXTS = ("a", "some words", "x" * 31, "the end of it, and no more", "b", "seventeen letters")


def asked(
    preset: str, objective: Objective | None = None, window: int | None = None, **changes: object
) -> AskedModel:
    model = byte_model(preset, changes=dict(changes))
    if objective is None:
        objective = CausalLM() if model.encoder is None else SpanCorruption()
    return AskedModel(model, objective, BYTE_TOKENIZER, window=window)


def read_alone(model: Transformer, before: list[int], text: str) -> np.ndarray:
    """The states of the text's own tokens, computed without any of our batching."""
    tokens = torch.tensor([[*before, *text.encode()]])
    if model.encoder is None:
        batch = Batch.of(tokens, prefix=tokens.shape[1])
        states = model.hidden_states(batch).states_BTD
    else:
        source = Batch.of(tokens, prefix=tokens.shape[1])
        out: list[torch.Tensor] = []
        model.encoder.register_forward_hook(lambda _, __, result: out.append(result.states_BTD))
        model.hidden_states(Batch.of(torch.zeros(1, 1, dtype=torch.int64), source=source))
        (states,) = out
    return states[0, len(before) :].detach().numpy()


@pytest.mark.parametrize("preset", PRESETS)
def test_batched_equals_one_by_one_in_any_order(preset):
    one = asked(preset)
    together = represent(one, TEXTS, n_sequences=4)
    assert together.dtype == np.float32
    assert together.shape == (len(TEXTS), one.model.spec.d_model)
    alone = np.concatenate([represent(one, [text]) for text in TEXTS])
    turned = represent(one, TEXTS[::-1], n_sequences=3)[::-1]
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(together, turned, atol=1e-5)


@pytest.mark.parametrize("preset", ["gpt2", "bert", "unilm", "t5", "encdec-shared"])
def test_the_mean_is_over_the_tokens_of_the_text_alone(preset):
    one = asked(preset)
    # what precedes a document in training precedes a text here
    states = read_alone(one.model, [VOCABULARY.eos], "some words")
    np.testing.assert_allclose(represent(one, ["some words"])[0], states.mean(0), atol=1e-5)
    np.testing.assert_allclose(
        represent(one, ["some words", "x" * 31], "max")[0], states.max(0), atol=1e-5
    )


def test_last_and_first_are_states_of_single_tokens():
    one = asked("bert", MaskedLM())
    states = read_alone(one.model, [VOCABULARY.eos], "some words")
    np.testing.assert_allclose(represent(one, TEXTS, "last")[1], states[-1], atol=1e-5)
    np.testing.assert_allclose(represent(one, TEXTS, "first")[1], states[0], atol=1e-5)


def test_nothing_precedes_the_source_of_a_pair():
    one = asked("t5", Seq2Seq())
    states = read_alone(one.model, [], "some words")
    np.testing.assert_allclose(represent(one, ["some words"])[0], states.mean(0), atol=1e-5)


def test_a_mode_token_is_read_and_not_pooled():
    one = asked("t5", UL2())
    before = [VOCABULARY.mode_tokens["S"], VOCABULARY.eos]
    states = read_alone(one.model, before, "some words")
    np.testing.assert_allclose(represent(one, ["some words"])[0], states.mean(0), atol=1e-5)


def test_under_a_prefix_mask_the_whole_text_is_the_prefix():
    one = asked("unilm", PrefixLM())
    # the first token sees the last one
    changed = represent(one, ["some wordx"], "first") - represent(one, ["some words"], "first")
    assert np.abs(changed).max() > 1e-4


@pytest.mark.parametrize(
    ("preset", "changes", "objective", "pooling", "able"),
    [
        ("gpt2", {}, CausalLM(), "first", "'mean' or 'last' or 'max'"),
        ("gpt2", {"mask": "reverse"}, ReverseLM(), "last", "'mean' or 'first' or 'max'"),
        ("gpt2", {"mask": "causal & window(3)"}, CausalLM(), "last", "'mean' or 'max'"),
        ("encdec-causal-encoder", {}, SpanCorruption(), "first", "'mean' or 'last' or 'max'"),
    ],
)
def test_a_token_that_the_whole_text_does_not_reach_is_refused(
    preset, changes, objective, pooling, able
):
    one = asked(preset, objective, **changes)
    with pytest.raises(SpecError, match=f"pooling is '{pooling}', but under the mask") as fault:
        represent(one, ["seventeen letters"], pooling)
    assert f"use {able}" in str(fault.value)


def test_the_mean_and_short_texts_are_never_refused():
    one = asked("gpt2", mask="causal & window(3)")
    assert represent(one, ["seventeen letters"], "mean").shape == (1, 23)
    # four layers of windows of three tokens reach nine of them
    assert represent(one, ["nine lett"], "last").shape == (1, 23)


def test_of_a_long_text_the_beginning_is_read():
    one = asked("gpt2", window=11)
    np.testing.assert_array_equal(
        represent(one, ["0123456789 and more"]), represent(one, ["0123456789"])
    )


def test_a_text_without_a_token_is_refused():
    with pytest.raises(SpecError, match="the text '' has no token; give one"):
        represent(asked("gpt2"), ["a", ""])


def test_a_model_of_another_vocabulary_is_refused():
    with pytest.raises(SpecError, match="n_vocab 37, but the tokenizer"):
        represent(asked("gpt2", n_vocab=37), ["a"])


def test_words_have_the_state_of_their_last_token():
    tokenizer = train_tokenizer(BPETokenizer(n_vocab=262), ["the cat and the dog"] * 9)
    one = asked("bert", MaskedLM(), n_vocab=400)
    one = AskedModel(one.model, MaskedLM(), tokenizer)
    sentences = [["the", "cat"], ["a", "é", "theorem", "the"]]
    rows = represent_words(one, sentences, n_sequences=2)
    assert [len(row) for row in rows] == [2, 4]
    eos = len(tokenizer.bytes_of_ids) + 1
    for words, row in zip(sentences, rows, strict=True):
        ids = tokenizer.encode(" ".join(words))
        tokens = torch.tensor([[eos, *ids]])
        states = one.model.hidden_states(Batch.of(tokens, prefix=len(ids) + 1)).states_BTD[0]
        for number in range(len(words)):
            # the tokens of the words up to this one, of which this one has the last
            place = len(tokenizer.encode(" ".join(words[: number + 1])))
            np.testing.assert_allclose(row[number], states[place].detach(), atol=1e-5)


def test_a_word_that_does_not_fit_is_refused():
    with pytest.raises(UnsupportedError, match="sentence 1 needs 15 positions for its 3 words"):
        represent_words(asked("gpt2", window=9), [["a", "b"], ["much", "too", "longer"]])
    with pytest.raises(UnsupportedError, match="sentence 0 has a word without a token"):
        represent_words(asked("gpt2"), [["a", ""]])


@pytest.mark.parametrize("preset", PRESETS)
def test_the_parameters_used_are_those_with_a_gradient(preset):
    model = byte_model(preset)
    tokens = torch.tensor([list(b"some words to read")])
    states = model.text_states(Batch.of(tokens, prefix=tokens.shape[1])).states_BTD
    states.pow(3).sum().backward()
    moved = set[str]()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and bool((parameter.grad != 0).any()):
            moved.add(name)
    used = text_parameters(model.spec)
    assert moved <= used.keys()
    # a bias of all keys alike, and an expert that no token chose, change nothing
    for name in used.keys() - moved:
        assert name.endswith("key.bias") or "feed_forward" in name, name
    counts = {name: parameter.numel() for name, parameter in model.named_parameters()}
    assert parameters_used(model.spec) == sum(counts[name] for name in used)


def test_an_encoder_decoder_does_not_use_its_decoder_and_tied_tables_count_once():
    separate = resolve(tiny_architecture("t5"))
    assert all(name.startswith(("embedding", "encoder")) for name in text_parameters(separate))
    tied = resolve(tiny_architecture("gpt2"))
    assert parameters_used(tied) == sum(
        parameter.count for parameter in text_parameters(tied).values()
    )
    assert "head.weight" not in text_parameters(resolve(tiny_architecture("llama")))

"""Greedy text against transformers' `generate`, token for token, on imported models."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from engine_requests import BUDGET, context_request, drain, tokens_of

import paribus as pb
from paribus.generate import Engine, Sampling, generate_answers
from paribus.interop import load_checkpoint
from paribus.interop.loaded_checkpoint import LoadedCheckpoint
from paribus.model import Transformer
from paribus.objectives.framing import Ids, ItemLayout, lay_context
from paribus.serve.speaker import prompt_layout

hf_models = pytest.importorskip("hf_models")

FAMILIES = ("gpt2", "llama", "t5", "bart", "mixtral", "deepseek-v3")
PROMPTS = ("the other", "abc abd that", "words: a b c d", "reverse this", "a")
N_TOKENS = 66


@dataclass(frozen=True, eq=False)
class Pair:
    """A model of transformers and the same imported, both in float64."""

    theirs: Any
    checkpoint: LoadedCheckpoint
    ours: Transformer
    layout: ItemLayout

    @property
    def contexts(self) -> list[list[int]]:
        return [self.checkpoint.encode_prompt(text) for text in PROMPTS]

    def laid_contexts(self) -> list[Ids]:
        return [lay_context(self.layout, ids, N_TOKENS).inputs for ids in self.contexts]


@pytest.fixture(scope="module", params=FAMILIES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp(request.param)
    theirs = hf_models.write_family(request.param, folder / "theirs", is_talkative=True)
    pb.import_(folder / "theirs", out=folder / "ours")
    checkpoint = load_checkpoint(folder / "ours")
    ours = checkpoint.restore().double()
    return Pair(theirs, checkpoint, ours, prompt_layout(checkpoint, ours))


def with_end(layout: ItemLayout, end: int) -> ItemLayout:
    """A layout in which another token ends an answer, and what begins one is as before."""
    own = layout.vocabulary.own_special_tokens
    assert own is not None
    begin = own.get("begin", own["end"])
    ids = {**own, "begin": begin, "end": end}
    return replace(layout, vocabulary=replace(layout.vocabulary, own_special_tokens=ids))


def their_answers(
    model: Any, layout: ItemLayout, contexts: list[Ids], repetition_penalty: float = 1.0
) -> list[Ids]:
    """What transformers says to a batch: contexts of one sequence are padded on the left."""
    longest, pad = max(map(len, contexts)), layout.vocabulary.pad
    is_apart = layout.framing == "apart"
    rows, real = [], []
    for context in contexts:
        # a token that is there anyway: transformers' penalty counts padding as said
        filler = [context[0]] * (longest - len(context))
        row, mask = [*filler, *context], [0] * len(filler) + [1] * len(context)
        if is_apart:
            row, mask = [*context, *filler], mask[::-1]
        rows.append(row)
        real.append(mask)
    n_before, decoder = longest, {}
    if is_apart:
        opening = [layout.vocabulary.decoder_start, *layout.opening]
        n_before = len(opening)
        decoder = {"decoder_input_ids": torch.tensor([opening] * len(rows))}
    elif layout.opening:
        raise AssertionError("no family opens its answers within one sequence")
    said = model.generate(
        input_ids=torch.tensor(rows),
        attention_mask=torch.tensor(real),
        **decoder,
        max_new_tokens=N_TOKENS,
        do_sample=False,
        num_beams=1,
        repetition_penalty=repetition_penalty,
        eos_token_id=list(layout.end_tokens),
        forced_eos_token_id=None,
        pad_token_id=pad,
    )
    return [before_end(row[n_before:], layout) for row in said.tolist()]


def before_end(tokens: list[int], layout: ItemLayout) -> Ids:
    said = []
    for token in tokens:
        if token in layout.end_tokens:
            break
        said.append(token)
    return tuple(said)


def require_varied(answers: list[Ids], n_least: int) -> None:
    """A text that says one token again and again would agree by chance."""
    assert all(len(set(tokens)) > n_least for tokens in answers)
    assert len(set().union(*answers)) > 12


@pytest.mark.parametrize(("penalty", "n_least"), [(1.0, 0), (1.5, 10)])
def test_greedy_text_is_that_of_transformers(pair: Pair, penalty: float, n_least: int) -> None:
    """In a batch of contexts of several lengths, past the length at which steps are recorded; a
    penalty keeps every text from repeating itself.
    """
    contexts = pair.laid_contexts()
    assert len({len(context) for context in contexts}) > 2
    wanted = their_answers(pair.theirs, pair.layout, contexts, penalty)
    require_varied(wanted, n_least)
    sampling = Sampling(N_TOKENS, repetition_penalty=penalty)
    said = generate_answers(pair.ours, pair.layout, pair.contexts, sampling)
    assert [answer.tokens for answer in said] == wanted


def test_rows_that_end_at_several_places_are_those_of_transformers(pair: Pair) -> None:
    contexts = pair.laid_contexts()
    free = their_answers(pair.theirs, pair.layout, contexts)
    layout = with_end(pair.layout, free[0][41])
    wanted = their_answers(pair.theirs, layout, contexts)
    assert len({len(tokens) for tokens in wanted}) > 1
    said = generate_answers(pair.ours, layout, pair.contexts, Sampling(N_TOKENS))
    assert [answer.tokens for answer in said] == wanted
    assert [answer.is_ended for answer in said] == [len(one) < N_TOKENS for one in wanted]


def test_the_command_says_the_text_of_transformers(pair: Pair) -> None:
    """In float32, as a user gets it."""
    wanted = their_answers(pair.theirs, pair.layout, pair.laid_contexts())
    for prompt, tokens in list(zip(PROMPTS, wanted, strict=True))[:2]:
        text = pb.generate_text(pair.checkpoint.folder, prompt, Sampling(N_TOKENS))
        assert text == pair.checkpoint.tokenizer.decode(tokens)


def test_an_engine_says_what_transformers_says(pair: Pair) -> None:
    contexts = pair.laid_contexts()
    wanted = their_answers(pair.theirs, pair.layout, contexts)
    engine = Engine(pair.ours, BUDGET, chunk=7)
    handles = []
    for context in contexts:
        handles.append(engine.submit(context_request(pair.layout, context, N_TOKENS)))
        engine.step()
    drain(engine)
    assert [tokens_of(handle) for handle in handles] == wanted

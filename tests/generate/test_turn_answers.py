"""Conversations with a model that encodes each turn alone: what an engine says over its cache is
what one fresh pass over a row of training says.
"""

import numpy as np
import pytest
import torch
from byte_models import VOCABULARY, byte_model
from engine_requests import BUDGET, drain

from paribus.errors import SpecError
from paribus.generate import AnswerHandle, Engine, Sampling, TokenRequest, generate_answers
from paribus.generate.choosing import RowStream
from paribus.model import Transformer
from paribus.objectives.framing import Ids, ItemLayout, item_layout, item_problems, lay_item
from paribus.spec.objectives import MixtureComponent, Seq2Seq

ROLES, END = VOCABULARY.role_tokens, VOCABULARY.end_of_turn
WINDOW = 200
SAMPLING = Sampling(11, temperature=1.0, n_logprobs=2)


def model_and_layout(**changes: str) -> tuple[Transformer, ItemLayout]:
    model = byte_model("encdec-turns", WINDOW, changes=changes).double()
    layout = item_layout(MixtureComponent(objective=Seq2Seq()), model.spec, VOCABULARY, WINDOW)
    assert layout.encodes_turns
    return model, layout


def user_turn(rng: np.random.Generator) -> list[int]:
    content = rng.integers(256, size=rng.integers(1, 20)).tolist()
    return [ROLES["user"], *content, END, ROLES["assistant"]]


def ask(engine: Engine, layout: ItemLayout, ids: Ids, row: int = 0) -> AnswerHandle:
    request = TokenRequest(
        inputs=ids, layout=layout, sampling=SAMPLING, stream=RowStream(SAMPLING.seed, row)
    )
    return engine.submit(request)


def fresh_logprobs(
    model: Transformer, layout: ItemLayout, context: Ids, tokens: Ids
) -> torch.Tensor:
    """Of the tokens of an answer, by one pass over the conversation as training lays it."""
    (problem,) = item_problems(layout, lay_item(layout, "", context, tokens))
    logits_MV = model(problem.inputs).logits_BTV[0, problem.scored_positions_BM[0]]
    logprobs_M = logits_MV.log_softmax(-1).gather(1, problem.targets_BM[0][:, None])[:, 0]
    return logprobs_M[problem.weights_BM[0] > 0]


@torch.no_grad()
@pytest.mark.parametrize("budget", [0, 3000, BUDGET])
@pytest.mark.parametrize("mask", ["same_document", "causal & same_document"])
def test_what_is_served_is_what_is_trained(mask: str, budget: int) -> None:
    """Turn by turn, with all that was read before, with little of it, and with none; several
    conversations at once.
    """
    model, layout = model_and_layout(**{"encoder.mask": mask})
    engine = Engine(model, budget, chunk=13)
    rng = np.random.default_rng(3)
    contexts: list[list[int]] = [[], [], []]
    for _ in range(4):
        handles = []
        for row, context in enumerate(contexts):
            context += user_turn(rng)
            handles.append(ask(engine, layout, tuple(context), row))
        drain(engine)
        for context, handle in zip(contexts, handles, strict=True):
            assert handle.error is None
            said = [one.token for one in handle.said_tokens]
            logprobs = [one.logprob for one in handle.said_tokens]
            wanted = fresh_logprobs(model, layout, tuple(context), tuple(said))
            assert logprobs == pytest.approx(wanted.tolist(), abs=1e-4)
            context += [*said, END]


def test_what_was_read_is_not_read_again() -> None:
    model, layout = model_and_layout()
    engine, rng = Engine(model, BUDGET), np.random.default_rng(4)
    context: list[int] = []
    n_earlier_source = n_text = 0
    for _ in range(4):
        turn = user_turn(rng)
        context += turn
        handle = ask(engine, layout, tuple(context))
        drain(engine)
        assert handle.n_cached_tokens + handle.n_read_tokens == len(context)
        n_answers = len(context) - n_earlier_source - len(turn)
        n_answers_again = handle.n_read_tokens - len(turn)
        assert 0 <= n_answers_again <= min(n_answers, 16 + 1)
        n_earlier_source += len(turn)
        said = [one.token for one in handle.said_tokens]
        context += [*said, END]
        n_text += len(said) + 2
    assert n_text > 32  # so that some blocks of answers are full


def test_another_first_turn_shares_no_answer() -> None:
    """The names of blocks hold the sources that their tokens see."""
    model, layout = model_and_layout()
    engine, rng = Engine(model, BUDGET), np.random.default_rng(5)
    first, other, second = user_turn(rng), user_turn(rng), user_turn(rng)
    answer = [*range(40), END]
    for turn, n_shared in ((first, 0), (other, len(second)), (first, None)):
        handle = ask(engine, layout, (*turn, *answer, *second))
        drain(engine)
        if n_shared is None:
            n_shared = len(first) + len(second) + 32 - 1  # the first block has a start in it
        assert handle.n_cached_tokens == n_shared


def test_generate_answers_reads_conversations_so_too() -> None:
    model, layout = model_and_layout()
    rng = np.random.default_rng(6)
    contexts = []
    for n_turns in (1, 2, 3):
        context = user_turn(rng)
        for _ in range(n_turns - 1):
            context += [*rng.integers(256, size=5).tolist(), END, *user_turn(rng)]
        contexts.append(context)
    sampling = Sampling(9, n_logprobs=2, n_samples=2, temperature=1.0)
    together = generate_answers(model, layout, contexts, sampling)
    assert len(together) == 6
    for number, context in enumerate(contexts):
        answer = together[2 * number]
        assert answer.logprobs is not None
        wanted = fresh_logprobs(model, layout, tuple(context), answer.tokens)
        assert list(answer.logprobs) == pytest.approx(wanted.tolist(), abs=1e-4)
        assert answer.likeliest is not None
        assert all(len(one) == 2 for one in answer.likeliest)
    alone = generate_answers(model, layout, contexts[:1], sampling)
    assert [one.tokens for one in alone] == [one.tokens for one in together[:2]]


def test_beams_after_several_turns_are_refused() -> None:
    model, layout = model_and_layout()
    rng = np.random.default_rng(7)
    context = [*user_turn(rng), 5, END, *user_turn(rng)]
    with pytest.raises(SpecError, match="n_beams is 3 for a conversation of several turns"):
        generate_answers(model, layout, [context], Sampling(2, n_beams=3))
    (one,) = generate_answers(model, layout, [context[:3]], Sampling(2, n_beams=3))
    assert one.beam_score is not None

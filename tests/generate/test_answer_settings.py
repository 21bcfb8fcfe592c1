"""Answers under settings of their own: samples, stop strings, penalties, log-probabilities, and the
same text in any company.
"""

import pytest
import torch
from byte_models import BYTE_TOKENIZER, VOCABULARY, byte_model
from scipy.stats import chisquare

from paribus.errors import SpecError
from paribus.generate import Sampling, TextDecoder, generate_answers
from paribus.generate.choosing import RowStream, filter_scores, row_choices
from paribus.generate.requests import RowRequests, barred_tokens
from paribus.generate.sampling import continue_rows, next_logits
from paribus.model import Transformer
from paribus.objectives.framing import (
    ItemLayout,
    generation_layout,
    item_problems,
    lay_context,
    lay_item,
)
from paribus.spec.objectives import CausalLM, Objective, PrefixLM, SpanCorruption

CONTEXTS = [list(b"the other day"), list(b"a"), list(b"where were we")]
CASES: list[tuple[str, Objective]] = [
    ("gpt2", CausalLM()),
    ("unilm", PrefixLM()),
    ("t5", SpanCorruption()),
]
DECODER = TextDecoder(BYTE_TOKENIZER, VOCABULARY)
DRAWN = {"temperature": 0.9, "top_k": 40, "top_p": 0.95, "repetition_penalty": 1.2}


def model_and_layout(preset: str, objective: Objective) -> tuple[Transformer, ItemLayout]:
    model = byte_model(preset)
    return model, generation_layout(objective, model.spec, VOCABULARY, 83)


@pytest.mark.parametrize(("preset", "objective"), CASES)
def test_the_first_of_several_samples_is_the_single_one(preset: str, objective: Objective) -> None:
    model, layout = model_and_layout(preset, objective)
    single = generate_answers(model, layout, CONTEXTS, Sampling(9, seed=4, **DRAWN))
    several = generate_answers(model, layout, CONTEXTS, Sampling(9, seed=4, n_samples=3, **DRAWN))
    assert several[::3] == single
    assert len(set(several)) == 9
    more = generate_answers(model, layout, CONTEXTS, Sampling(9, seed=4, n_samples=5, **DRAWN))
    assert [more[5 * row : 5 * row + 3] for row in range(3)] == [
        several[3 * row : 3 * row + 3] for row in range(3)
    ]


@pytest.mark.parametrize(("preset", "objective"), CASES)
def test_requests_with_their_own_seeds_say_the_same_in_any_company(
    preset: str, objective: Objective
) -> None:
    model, layout = model_and_layout(preset, objective)
    samplings = [
        Sampling(7, seed=3, **DRAWN),
        Sampling(4),
        Sampling(9, temperature=1.1, min_p=0.01, seed=8),
    ]
    inputs = [torch.tensor(lay_context(layout, context, 9).inputs) for context in CONTEXTS]
    inputs_BT = torch.nn.utils.rnn.pad_sequence(inputs, batch_first=True)
    lengths_B = torch.tensor([len(row) for row in inputs])
    streams = [RowStream(one.seed) for one in samplings]
    together = continue_rows(model, layout, inputs_BT, RowRequests(samplings, streams), lengths_B)
    for row, sampling in enumerate(samplings):
        requests = RowRequests([sampling], [streams[row]])
        alone = continue_rows(model, layout, inputs[row][None], requests)
        n_tokens = int(alone.lengths_B[0])
        assert int(together.lengths_B[row]) == n_tokens <= sampling.n_tokens
        assert torch.equal(together.tokens_BT[row, :n_tokens], alone.tokens_BT[0, :n_tokens])


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 1.0},
        {"temperature": 1.4, "top_k": 9},
        {"temperature": 1.2, "top_p": 0.7},
        {"temperature": 1.0, "min_p": 0.3},
        {"temperature": 1.0, "repetition_penalty": 3.0},
    ],
)
def test_first_tokens_follow_the_models_own_probabilities(fields: dict[str, float]) -> None:
    model, layout = model_and_layout("gpt2", CausalLM())
    n_draws = 3000
    sampling = Sampling(1, seed=2, n_samples=n_draws, **fields)  # pyright: ignore[reportArgumentType]
    answers = generate_answers(model, layout, CONTEXTS[:1], sampling)
    inputs_BT = torch.tensor([lay_context(layout, CONTEXTS[0], 1).inputs])
    with torch.no_grad():
        logits_BV = next_logits(model, layout, inputs_BT, None, inputs_BT[:, :0])
    logits_BV[:, barred_tokens(layout, logits_BV.shape[1])] = -torch.inf
    for token in set(inputs_BT[0].tolist()):
        value = logits_BV[0, token]
        penalty = sampling.repetition_penalty
        logits_BV[0, token] = value * penalty if value < 0 else value / penalty
    chances = filter_scores(logits_BV, row_choices([sampling])).softmax(-1)[0]
    counts = torch.zeros(len(chances), dtype=torch.float64)
    for answer in answers:
        counts[VOCABULARY.eos if answer.is_ended else answer.tokens[0]] += 1
    expected = n_draws * chances
    assert (counts[expected == 0] == 0).all()
    is_common = expected >= 5
    observed = torch.cat([counts[is_common], counts[~is_common].sum()[None]])
    wanted = torch.cat([expected[is_common], expected[~is_common].sum()[None]])
    is_cell = wanted > 0
    assert chisquare(observed[is_cell].numpy(), wanted[is_cell].numpy()).pvalue > 1e-3


def test_a_strong_penalty_says_nothing_twice() -> None:
    model, layout = model_and_layout("gpt2", CausalLM())
    said = generate_answers(model, layout, CONTEXTS, Sampling(20, repetition_penalty=1e6))
    for context, answer in zip(CONTEXTS, said, strict=True):
        assert len(set(answer.tokens)) == len(answer.tokens)
        assert not set(answer.tokens) & set(context)


def first_new_pair(text: str) -> str:
    """Two letters in the middle of a text that do not stand together before."""
    for place in range(3, len(text)):
        pair = text[place : place + 2]
        if text.index(pair) == place:
            return pair
    raise AssertionError(text)


@pytest.mark.parametrize(("preset", "objective"), CASES)
def test_an_answer_ends_before_its_stop_string(preset: str, objective: Objective) -> None:
    model, layout = model_and_layout(preset, objective)
    free = Sampling(20, temperature=4.0, seed=6, n_logprobs=0)
    whole = generate_answers(model, layout, CONTEXTS, free, decoder=DECODER)
    text = whole[0].text
    assert text is not None
    stop = first_new_pair(text)
    stopped = generate_answers(
        model,
        layout,
        CONTEXTS,
        Sampling(20, temperature=4.0, seed=6, stop=("never", stop), n_logprobs=0),
        decoder=DECODER,
    )
    place = text.index(stop)
    assert (stopped[0].text, stopped[0].stop_string) == (text[:place], stop)
    assert not stopped[0].is_ended
    n_tokens = len(stopped[0].tokens)
    assert stopped[0].tokens == whole[0].tokens[:n_tokens]
    assert DECODER.text(stopped[0].tokens[:-1]) != text[:place]
    assert stopped[0].logprobs is not None
    assert len(stopped[0].logprobs) == n_tokens
    for answer, free_answer in zip(stopped[1:], whole[1:], strict=True):
        assert free_answer.text is not None
        assert answer.text == free_answer.text.partition(stop)[0]


def test_a_stop_string_at_once_leaves_nothing() -> None:
    model, layout = model_and_layout("gpt2", CausalLM())
    (whole,) = generate_answers(model, layout, CONTEXTS[:1], Sampling(9), decoder=DECODER)
    assert whole.text
    (answer,) = generate_answers(
        model, layout, CONTEXTS[:1], Sampling(9, stop=(whole.text[:2],)), decoder=DECODER
    )
    assert (answer.text, answer.tokens, answer.stop_string) == ("", (), whole.text[:2])


def test_log_probabilities_are_minus_the_nats_that_scoring_gives() -> None:
    """Whatever the temperature and the filters, of the model's own probabilities."""
    model, layout = model_and_layout("gpt2", CausalLM())
    sampling = Sampling(9, seed=1, n_logprobs=3, temperature=0.7, top_k=30, repetition_penalty=1.3)
    answers = generate_answers(model, layout, CONTEXTS, sampling, decoder=DECODER)
    for context, answer in zip(CONTEXTS, answers, strict=True):
        assert answer.logprobs is not None
        assert answer.likeliest is not None
        assert len(answer.likeliest) == len(answer.tokens)
        (problem,) = item_problems(layout, lay_item(layout, "it", context, answer.tokens))
        with torch.no_grad():
            logits_MV = model(problem.inputs).logits_BTV[0, problem.scored_positions_BM[0]]
        logprobs_MV = logits_MV.log_softmax(-1)[-len(answer.tokens) :]
        own = logprobs_MV.gather(1, torch.tensor(answer.tokens)[:, None])[:, 0]
        assert answer.logprobs == pytest.approx(own.tolist(), abs=1e-5)
        highest_MK, ids_MK = logprobs_MV.topk(3)
        for place, likeliest in enumerate(answer.likeliest):
            assert [number for number, _ in likeliest] == ids_MK[place].tolist()
            values = [value for _, value in likeliest]
            assert values == pytest.approx(highest_MK[place].tolist(), abs=1e-5)


def test_log_probabilities_are_only_where_they_are_asked_for() -> None:
    model, layout = model_and_layout("gpt2", CausalLM())
    (answer,) = generate_answers(model, layout, CONTEXTS[:1], Sampling(3))
    assert (answer.logprobs, answer.likeliest, answer.text) == (None, None, None)


def test_what_tokens_alone_cannot_obey_is_refused() -> None:
    model, layout = model_and_layout("gpt2", CausalLM())
    with pytest.raises(SpecError, match=r"stop is \('x',\), but nothing here turns tokens into"):
        generate_answers(model, layout, CONTEXTS, Sampling(3, stop=("x",)))
    with pytest.raises(SpecError, match="order is 'confident', but the tokens are said one after"):
        generate_answers(model, layout, CONTEXTS, Sampling(3, order="confident"))

"""Requests that an engine answers together are answered as each is alone."""

import pytest
import torch
from byte_models import VOCABULARY, byte_model

from paribus.errors import SpecError, UnsupportedError
from paribus.generate.answer_handle import AnswerHandle
from paribus.generate.choosing import RowStream
from paribus.generate.engine import Engine
from paribus.generate.sampling import continuation
from paribus.generate.settings import Sampling
from paribus.generate.token_request import TokenRequest
from paribus.model import Transformer
from paribus.objectives.framing import Ids, ItemLayout, generation_layout, lay_context
from paribus.spec.objectives import CausalLM, Objective, PrefixLM, Seq2Seq, SpanCorruption

TEXTS = ["the other day", "a", "where were we, and who was there", "once upon a time", "oh"]
BUDGET = 2**20
CASES: list[tuple[str, Objective]] = [
    ("gpt2", CausalLM()),
    ("unilm", PrefixLM()),
    ("unilm", SpanCorruption()),
    ("t5", Seq2Seq()),
    ("bart", SpanCorruption()),
    ("mixtral", CausalLM()),
    ("deepseek-v3", CausalLM()),
]


def model_and_layout(
    preset: str, objective: Objective, window: int = 83
) -> tuple[Transformer, ItemLayout]:
    model = byte_model(preset).double()
    return model, generation_layout(objective, model.spec, VOCABULARY, window)


def request_of(
    layout: ItemLayout, text: str, sampling: Sampling, row: int = 0, salt: bytes = b""
) -> TokenRequest:
    inputs = lay_context(layout, list(text.encode()), sampling.n_tokens).inputs
    stream = RowStream(sampling.seed, row)
    return TokenRequest(inputs=inputs, layout=layout, sampling=sampling, stream=stream, salt=salt)


def answer_alone(model: Transformer, request: TokenRequest) -> Ids:
    """What the model says when it makes one text, without an engine; it is the first row."""
    inputs = torch.tensor([request.inputs])
    said = continuation(model, request.layout, inputs, request.sampling)
    tokens = said.tokens_BT[0, : said.lengths_B[0]].tolist()
    return tuple(token for token in tokens if token not in request.layout.end_tokens)


def tokens_of(handle: AnswerHandle) -> Ids:
    return tuple(one.token for one in handle.said_tokens)


def drain(engine: Engine) -> None:
    for _ in range(1000):
        if engine.is_idle:
            return
        engine.step()
    raise AssertionError("the engine goes on and on")


@pytest.mark.parametrize("temperature", [0.0, 1.3])
@pytest.mark.parametrize(("preset", "objective"), CASES)
def test_together_as_alone(preset: str, objective: Objective, temperature: float) -> None:
    model, layout = model_and_layout(preset, objective)
    engine = Engine(model, BUDGET, max_rows=3)
    handles = []
    for number, text in enumerate(TEXTS):
        sampling = Sampling(n_tokens=5 + number, temperature=temperature, seed=number)
        handles.append(engine.submit(request_of(layout, text, sampling)))
        engine.step()
    drain(engine)
    for handle in handles:
        assert tokens_of(handle) == answer_alone(model, handle.request)
        assert handle.finish_reason == ("stop" if handle.end_token is not None else "length")
        assert handle.seconds_queued is not None


def test_a_thread_answers_what_others_submit() -> None:
    model, layout = model_and_layout("gpt2", CausalLM())
    engine = Engine(model, BUDGET)
    engine.start()
    handles = [engine.submit(request_of(layout, text, Sampling(n_tokens=7))) for text in TEXTS]
    calls: list[int] = []
    handles[0].listen(lambda: calls.append(1))
    answers = [tuple(one.token for one in handle) for handle in handles]
    engine.close()
    assert calls
    for handle, answer in zip(handles, answers, strict=True):
        assert answer == answer_alone(model, handle.request)
    with pytest.raises(UnsupportedError, match="the engine is closed; make another one"):
        engine.submit(handles[0].request)


def test_a_cancelled_request_ends_and_others_go_on() -> None:
    model, layout = model_and_layout("gpt2", CausalLM())
    engine = Engine(model, BUDGET, max_rows=2)
    handles = [engine.submit(request_of(layout, text, Sampling(n_tokens=9))) for text in TEXTS]
    engine.step()
    engine.step()
    handles[0].cancel()
    handles[3].cancel()
    drain(engine)
    assert [handle.finish_reason for handle in handles].count("cancelled") == 2
    assert 0 < len(handles[0].said_tokens) < 9
    assert not handles[3].said_tokens
    for handle in (handles[1], handles[2], handles[4]):
        assert tokens_of(handle) == answer_alone(model, handle.request)


def test_a_fault_ends_its_request_alone() -> None:
    model, layout = model_and_layout("gpt2", CausalLM())
    engine = Engine(model, BUDGET)

    def fail(_: Ids) -> bool:
        raise ValueError("no such thing")

    request = request_of(layout, TEXTS[0], Sampling(n_tokens=5))
    broken = engine.submit(
        TokenRequest(
            inputs=request.inputs,
            layout=layout,
            sampling=request.sampling,
            stream=request.stream,
            is_done=fail,
        )
    )
    good = engine.submit(request)
    drain(engine)
    assert broken.finish_reason == "error"
    with pytest.raises(ValueError, match="no such thing"):
        list(broken)
    assert tokens_of(good) == answer_alone(model, request)


def test_closing_without_draining_cancels() -> None:
    model, layout = model_and_layout("gpt2", CausalLM())
    engine = Engine(model, BUDGET, max_rows=1)
    handles = [engine.submit(request_of(layout, text, Sampling(n_tokens=9))) for text in TEXTS[:2]]
    engine.step()
    engine.close(drain=False)
    assert [handle.finish_reason for handle in handles] == ["cancelled", "cancelled"]


def test_what_a_request_cannot_be_is_refused() -> None:
    model, layout = model_and_layout("gpt2", CausalLM(), window=19)
    request = request_of(layout, "a", Sampling())
    with pytest.raises(SpecError, match="n_samples is 2, but a request has one answer; use 1"):
        request_of(layout, "a", Sampling(n_samples=2))
    with pytest.raises(SpecError, match="order is 'confident', but tokens are said one after"):
        request_of(layout, "a", Sampling(order="confident"))
    with pytest.raises(SpecError, match=r"stop is .*, but a request has no text; give is_done"):
        request_of(layout, "a", Sampling(stop=("x",)))
    for inputs, said in (
        ((), "a request has no token to go on from; give at least one"),
        ((97,) * 20, "a request has 20 tokens, past its window of 19; give fewer"),
    ):
        with pytest.raises(SpecError, match=said):
            TokenRequest(inputs=inputs, layout=layout, sampling=Sampling(), stream=request.stream)
    outside = TokenRequest(
        inputs=(99999,), layout=layout, sampling=Sampling(), stream=request.stream
    )
    with pytest.raises(SpecError, match="a request has a token outside of 0 to"):
        Engine(model, BUDGET).submit(outside)


def test_an_engine_that_could_do_nothing_is_refused() -> None:
    model, _ = model_and_layout("gpt2", CausalLM())
    with pytest.raises(SpecError, match="max_rows is 0; use a whole number from 1 up"):
        Engine(model, BUDGET, max_rows=0)

"""Requests that an engine answers together are answered as each is alone."""

import threading

import pytest
import torch
from engine_requests import (
    BUDGET,
    TEXTS,
    answer_alone,
    context_request,
    drain,
    last_handle,
    model_and_layout,
    request_of,
    tokens_of,
)

from paribus.errors import SpecError, UnsupportedError
from paribus.generate import Engine, Sampling, TokenRequest, continuation
from paribus.objectives.framing import Ids
from paribus.spec.objectives import (
    CausalLM,
    LastToken,
    Objective,
    PrefixLM,
    Seq2Seq,
    SpanCorruption,
)

CASES: list[tuple[str, Objective]] = [
    ("gpt2", CausalLM()),
    ("unilm", PrefixLM()),
    ("unilm", SpanCorruption()),
    ("t5", Seq2Seq()),
    ("bart", SpanCorruption()),
    ("mixtral", CausalLM()),
    ("deepseek-v3", CausalLM()),
]


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


def test_a_long_context_does_not_stop_an_answer() -> None:
    model, layout = model_and_layout("gpt2", CausalLM())
    engine = Engine(model, BUDGET, chunk=10)
    quick = engine.submit(context_request(layout, (97,), 12))
    engine.step()
    slow = engine.submit(context_request(layout, tuple(range(97, 97 + 55))))
    for n_said in range(2, 7):
        engine.step()
        assert len(quick.said_tokens) == n_said
        assert not slow.said_tokens
    engine.step()
    assert len(slow.said_tokens) == 1
    drain(engine)
    assert tokens_of(slow) == answer_alone(model, slow.request)


def test_settings_of_one_answer_do_not_change_another() -> None:
    model, layout = model_and_layout("gpt2", CausalLM())
    samplings = [
        Sampling(n_tokens=9, repetition_penalty=1.7),
        Sampling(n_tokens=9, temperature=0.9, top_k=5, seed=3),
        Sampling(n_tokens=9, temperature=1.5, top_p=0.7, seed=4, n_logprobs=2),
        Sampling(n_tokens=9, temperature=1.5, min_p=0.2, seed=5),
        Sampling(n_tokens=9, n_logprobs=0),
    ]
    engine = Engine(model, BUDGET)
    handles = []
    for text, sampling in zip(TEXTS, samplings, strict=True):
        handles.append(engine.submit(request_of(layout, text, sampling)))
    drain(engine)
    for handle in handles:
        assert tokens_of(handle) == answer_alone(model, handle.request)
    expected = continuation(model, layout, torch.tensor([handles[2].request.inputs]), samplings[2])
    assert expected.logprobs_BT is not None
    assert expected.likeliest_BTK is not None
    for place, said in enumerate(handles[2].said_tokens):
        assert said.logprob == pytest.approx(float(expected.logprobs_BT[0, place]))
        likeliest = expected.likeliest_BTK[0, place].tolist()
        assert [token for token, _ in said.likeliest] == likeliest
    assert handles[4].said_tokens[0].logprob is not None
    assert handles[0].said_tokens[0].logprob is None


def test_an_answer_ends_where_its_window_is_full() -> None:
    model, layout = model_and_layout("gpt2", CausalLM(), window=18)
    engine = Engine(model, BUDGET)
    handle = last_handle(engine, context_request(layout, tuple(range(97, 97 + 15)), 9))
    assert len(handle.said_tokens) == 4
    assert handle.finish_reason == "length"
    assert tokens_of(handle) == answer_alone(model, handle.request)


def test_what_is_filled_in_place_is_answered_without_a_cache() -> None:
    model, layout = model_and_layout("gpt2", LastToken())
    assert layout.framing == "in place"
    engine = Engine(model, BUDGET)
    handles = [engine.submit(request_of(layout, text, Sampling(n_tokens=4))) for text in TEXTS[:2]]
    drain(engine)
    for handle in handles:
        assert tokens_of(handle) == answer_alone(model, handle.request)


def test_many_threads_submit_and_listen() -> None:
    model, layout = model_and_layout("gpt2", CausalLM())
    engine = Engine(model, BUDGET, max_rows=4)
    engine.start()
    answers: dict[int, Ids] = {}

    def ask(number: int) -> None:
        request = request_of(layout, TEXTS[number % 5], Sampling(n_tokens=6))
        answers[number] = tuple(one.token for one in engine.submit(request))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    engine.close()
    for number in range(12):
        request = request_of(layout, TEXTS[number % 5], Sampling(n_tokens=6))
        assert answers[number] == answer_alone(model, request)
    assert engine.is_idle


def test_a_window_past_the_model_is_refused() -> None:
    model, layout = model_and_layout("gpt2", CausalLM(), window=84)
    with pytest.raises(SpecError, match="a request has a window of 84, past max_length 83; use"):
        Engine(model, BUDGET).submit(request_of(layout, "a", Sampling()))


def test_a_listener_that_fails_cancels_its_request_alone() -> None:
    model, layout = model_and_layout("gpt2", CausalLM())
    engine = Engine(model, BUDGET)
    handles = [engine.submit(request_of(layout, text, Sampling(n_tokens=5))) for text in TEXTS[:2]]

    def fail() -> None:
        raise RuntimeError("the event loop is closed")

    handles[0].listen(fail)
    drain(engine)
    assert handles[0].finish_reason == "cancelled"
    assert tokens_of(handles[1]) == answer_alone(model, handles[1].request)


def test_a_fault_of_a_step_ends_what_is_running_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, layout = model_and_layout("gpt2", CausalLM())
    engine = Engine(model, BUDGET, max_rows=1)
    handles = [engine.submit(request_of(layout, text, Sampling(n_tokens=5))) for text in TEXTS[:2]]
    engine.step()
    with monkeypatch.context() as patch:
        patch.setattr(model, "logits", None)
        engine.step()
    drain(engine)
    assert handles[0].finish_reason == "error"
    assert isinstance(handles[0].error, TypeError)
    assert tokens_of(handles[1]) == answer_alone(model, handles[1].request)


def test_a_fault_while_contexts_are_read_spares_those_that_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, layout = model_and_layout("t5", Seq2Seq())
    engine = Engine(model, BUDGET)
    good = engine.submit(request_of(layout, TEXTS[0], Sampling(n_tokens=5)))
    engine.step()
    broken = engine.submit(request_of(layout, TEXTS[1], Sampling(n_tokens=5)))
    with monkeypatch.context() as patch:
        patch.setattr(model, "read_source", None)
        engine.step()
    drain(engine)
    assert broken.finish_reason == "error"
    assert tokens_of(good) == answer_alone(model, good.request)

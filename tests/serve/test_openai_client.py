"""The official client of OpenAI drives the server."""

from __future__ import annotations

import math
from collections.abc import Iterator

import openai
import pytest
from openai import OpenAI
from running_server import RunningServer

import paribus as pb

QUESTION = [{"role": "user", "content": "reverse: a b c"}]


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def test_models_are_listed(client: OpenAI) -> None:
    listed = {model.id: model for model in client.models.list()}
    assert set(listed) == {"causal", "encoder-decoder", "base", "filler"}
    assert listed["causal"].owned_by == "paribus"
    assert client.models.retrieve("base").id == "base"


def test_a_completion_is_what_generate_says(client: OpenAI, served_runs) -> None:
    answer = client.completions.create(
        model="base", prompt="abc", max_tokens=9, temperature=0.7, seed=5, n=2
    )
    sampling = pb.Sampling(n_tokens=9, temperature=0.7, seed=5, n_samples=2)
    expected = pb.generate_texts("base", "abc", sampling, runs=served_runs)
    assert [choice.text for choice in answer.choices] == [one.text for one in expected]
    assert answer.usage.completion_tokens == sum(len(one.tokens) for one in expected)
    assert answer.usage.prompt_tokens == 4  # the end of a document, and three letters
    assert answer.choices[0].finish_reason in ("stop", "length")


def test_prompts_may_be_several_and_may_be_tokens(client: OpenAI) -> None:
    both = client.completions.create(
        model="base", prompt=["abc", "cab"], max_tokens=5, temperature=0
    )
    tokens = client.completions.create(
        model="base", prompt=[list(b"abc"), list(b"cab")], max_tokens=5, temperature=0
    )
    assert [one.text for one in both.choices] == [one.text for one in tokens.choices]
    assert [one.index for one in both.choices] == [0, 1]
    assert both.usage.prompt_tokens == 8


@pytest.mark.parametrize("model", ["causal", "encoder-decoder"])
def test_a_stream_says_what_a_whole_answer_says(client: OpenAI, model: str) -> None:
    settings = {"model": model, "messages": QUESTION, "seed": 3, "max_tokens": 12, "n": 2}
    whole = client.chat.completions.create(**settings)
    texts, reasons, usage = ["", ""], [None, None], None
    stream = client.chat.completions.create(
        **settings, stream=True, stream_options={"include_usage": True}
    )
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            reasons[choice.index] = choice.finish_reason or reasons[choice.index]
    assert texts == [choice.message.content for choice in whole.choices]
    assert reasons == [choice.finish_reason for choice in whole.choices]
    assert usage.completion_tokens == whole.usage.completion_tokens
    assert usage.prompt_tokens == whole.usage.prompt_tokens
    assert usage.prompt_tokens_details.cached_tokens <= usage.prompt_tokens


def test_a_chat_is_what_generate_says(client: OpenAI, served_runs) -> None:
    answer = client.chat.completions.create(
        model="causal", messages=QUESTION, max_completion_tokens=11, temperature=0
    )
    expected = pb.generate_text(
        "causal", QUESTION[0]["content"], pb.Sampling(n_tokens=11), runs=served_runs
    )
    assert answer.choices[0].message.content == expected


def test_log_probabilities_are_those_of_the_model(client: OpenAI, served_runs) -> None:
    sampling = pb.Sampling(n_tokens=6, n_logprobs=2)
    (expected,) = pb.generate_texts("base", "abc", sampling, runs=served_runs)
    answer = client.completions.create(
        model="base", prompt="abc", max_tokens=6, temperature=0, logprobs=2
    )
    got = answer.choices[0].logprobs
    assert got.token_logprobs == pytest.approx(expected.logprobs, abs=1e-5)
    assert all(len(own) <= 2 for own in got.top_logprobs)
    assert got.text_offset[0] == 0
    chat = client.chat.completions.create(
        model="causal", messages=QUESTION, max_tokens=5, logprobs=True, top_logprobs=3, seed=1
    )
    content = chat.choices[0].logprobs.content
    assert len(content) == chat.usage.completion_tokens
    for one in content:
        assert one.logprob <= 0
        assert len(one.top_logprobs) == 3
        assert sum(math.exp(other.logprob) for other in one.top_logprobs) <= 1 + 1e-6


def test_streamed_log_probabilities_are_those_of_the_whole_answer(client: OpenAI) -> None:
    settings = {"model": "base", "prompt": "abc", "max_tokens": 7, "temperature": 0, "logprobs": 1}
    whole = client.completions.create(**settings).choices[0].logprobs
    tokens, values = [], []
    for chunk in client.completions.create(**settings, stream=True):
        for choice in chunk.choices:
            if choice.logprobs is not None:
                tokens += choice.logprobs.tokens
                values += choice.logprobs.token_logprobs
    assert tokens == whole.tokens
    assert values == pytest.approx(whole.token_logprobs, abs=1e-5)


def test_a_stop_string_ends_the_answer_before_it(client: OpenAI) -> None:
    settings = {"model": "base", "prompt": "abc", "max_tokens": 20, "temperature": 1, "seed": 2}
    whole = client.completions.create(**settings).choices[0].text
    assert len(whole) > 4
    stop = whole[2:4]
    cut = client.completions.create(**settings, stop=[stop, "never said"]).choices[0]
    assert cut.text == whole[: whole.index(stop)]
    assert cut.finish_reason == "stop"
    streamed = ""
    for chunk in client.completions.create(**settings, stop=stop, stream=True):
        streamed += chunk.choices[0].text
    assert streamed == cut.text


def test_embeddings_are_what_represent_gives(client: OpenAI) -> None:
    answer = client.embeddings.create(model="causal", input=["abc", "cb"])  # base64 by default
    plain = client.embeddings.create(model="causal", input=["abc", "cb"], encoding_format="float")
    for one, other in zip(answer.data, plain.data, strict=True):
        assert one.embedding == pytest.approx(other.embedding, abs=1e-6)
    assert len(plain.data[0].embedding) == 32
    assert plain.usage.prompt_tokens == 5


def test_a_stream_that_is_left_frees_its_place(client: OpenAI, server: RunningServer) -> None:
    stream = client.completions.create(
        model="base", prompt="a", max_tokens=1000, temperature=1, seed=0, stream=True
    )
    next(iter(stream))
    stream.close()
    assert server.wait_until_idle()


def test_refusals_are_errors_of_the_client(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="use 'causal'"):
        client.completions.create(model="other", prompt="a")
    with pytest.raises(openai.BadRequestError) as fault:
        client.chat.completions.create(model="causal", messages=[])
    assert fault.value.param == "messages"
    with pytest.raises(openai.BadRequestError) as fault:
        client.chat.completions.create(
            model="causal", messages=[{"role": "user", "content": "a " * 80}]
        )
    assert fault.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError) as fault:
        client.chat.completions.create(
            model="causal", messages=QUESTION, tools=[{"type": "function", "function": {}}]
        )
    assert (fault.value.code, fault.value.param) == ("unsupported_parameter", "tools")
    with pytest.raises(openai.BadRequestError) as fault:
        client.completions.create(model="base", prompt="a", extra_body={"top_k": 3})
    assert (fault.value.code, fault.value.param) == ("unknown_parameter", "top_k")

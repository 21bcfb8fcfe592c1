"""Bad input is a 4xx with a message, and the next request is answered as ever."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from openai.types import completion_create_params, embedding_create_params
from openai.types.chat import completion_create_params as chat_params
from running_server import RunningServer

from paribus.serve.requests import (
    NEUTRAL_VALUES,
    ChatRequest,
    CompletionRequest,
    EmbeddingRequest,
)

GOOD: dict[str, Any] = {"model": "base", "prompt": "abc", "max_tokens": 4, "temperature": 0}
TALK: dict[str, Any] = {
    "model": "causal",
    "messages": [{"role": "user", "content": "abc"}],
    "temperature": 0,
    "max_tokens": 4,
}


def ask(server: RunningServer, path: str, body: Any) -> httpx.Response:
    return httpx.post(f"{server.url}{path}", json=body, timeout=60)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"prompt": ""}, "prompt is empty; give a text"),
        ({"prompt": []}, "prompt is empty; give a text"),
        ({"prompt": [[]]}, "prompt is empty; give a text"),
        ({"prompt": [-1]}, "prompt has a token outside of 0 to"),
        ({"prompt": [10**9]}, "prompt has a token outside of 0 to"),
        (
            {"prompt": "a" * 3_000_000},
            "prompt: a prompt of 3,000,000 bytes, which are at least 3,000,000 tokens, is given,"
            " but the window of 'base' has 1,024; send less",
        ),
        ({"prompt": [1] * 5000}, "prompt: a prompt of 5,000 tokens is asked for, but the window"),
        ({"prompt": ["a"] * 5000, "n": 1}, "the request asks for 5,000 answers; use at most 256"),
        (
            {"max_tokens": 5000},
            "answer of 5,000 is asked for, but the window of 'base' has 1,024",
        ),
        ({"max_tokens": 0}, "max_tokens: Input should be greater than or equal to 1"),
        ({"temperature": -1}, "temperature: Input should be greater than or equal to 0"),
        ({"temperature": "hot"}, "temperature: Input should be a valid number"),
        ({"top_p": 0}, "top_p: Input should be greater than 0"),
        ({"seed": -1}, "seed: Input should be greater than or equal to 0"),
        ({"n": 0}, "n: Input should be greater than or equal to 1"),
        ({"stop": ["x"] * 1000}, "stop has 1,000 strings; use at most 64"),
        ({"stop": [""]}, "stop.0 has 0 letters; use 1 to 1,000"),
        ({"stop": "x" * 2000}, "stop.0 has 2,000 letters"),
        ({"logprobs": 1000}, "logprobs: Input should be less than or equal to 20"),
        ({"model": "nobody"}, "model is 'nobody', which is not served; use 'causal'"),
        ({"model": "filler"}, "'filler' fills masks and does not say what comes next"),
        ({"best_of": 3}, "best_of is 3, which this server does not support"),
        ({"echo": True}, "echo is True, which this server does not support"),
        ({"logit_bias": {"5": 1}}, "logit_bias is {'5': 1}, which this server does not support"),
        ({"min_p": 0.5}, "min_p: there is no such parameter; leave it out"),
    ],
)
def test_a_completion_that_cannot_be_made_says_why(
    server: RunningServer, change: dict[str, Any], words: str
) -> None:
    answer = ask(server, "/v1/completions", {**GOOD, **change})
    assert 400 <= answer.status_code < 500
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert words in error["message"]
    assert error["param"] in change
    assert ask(server, "/v1/completions", GOOD).status_code == 200


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"messages": []}, "messages: List should have at least 1 item"),
        ({"messages": [{"role": "user", "content": ""}]}, "messages.0.content is empty"),
        ({"messages": [{"role": "user"}]}, "messages.0.content is empty"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "messages.0.content",
        ),
        (
            {"messages": [{"role": "user", "content": "a" * 3_000_000}]},
            "messages: a prompt of 3,000,000 bytes, which are at least 3,000,000 tokens, is given",
        ),
        (
            {"messages": [{"role": "user", "content": "a"}] * 10_000},
            "messages: a prompt of 10,000 bytes, which are at least 10,000 tokens, is given",
        ),
        ({"model": "base"}, "'base' was not trained on conversations"),
        ({"max_completion_tokens": 3}, "max_tokens and max_completion_tokens are both given"),
        ({"top_logprobs": 2}, "top_logprobs needs logprobs; set it to true"),
        ({"response_format": {"type": "json_object"}}, "response_format is"),
        ({"presence_penalty": 0.5}, "presence_penalty is 0.5, which this server does not"),
        ({"store": True}, "store is True, which this server does not support"),
        ({"top_k": 5}, "top_k: there is no such parameter"),
    ],
)
def test_a_conversation_that_cannot_be_answered_says_why(
    server: RunningServer, change: dict[str, Any], words: str
) -> None:
    answer = ask(server, "/v1/chat/completions", {**TALK, **change})
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
    assert ask(server, "/v1/chat/completions", TALK).status_code == 200


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"model": "base", "prompt": "\xff\xfe"}',
        b'{"model": "base", "prompt": "\\ud800"}',
        b'{"model": "base", "prompt": "a", "temperature": NaN}',
        b'{"model": "base", "prompt": "a", "seed": ' + b"9" * 5000 + b"}",
        b'{"model": ' * 3000,
        b"[" * 60_000,
    ],
)
def test_a_body_that_is_no_json_of_ours_is_refused(server: RunningServer, content: bytes) -> None:
    for path in ("/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/fill-mask"):
        headers = {"Content-Type": "application/json"}
        answer = httpx.post(server.url + path, content=content, headers=headers)
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["message"]


def test_fields_of_openai_are_accepted_where_they_ask_for_nothing(server: RunningServer) -> None:
    neutral: dict[str, Any] = {
        "user": "me",
        "metadata": {"a": "b"},
        "store": False,
        "frequency_penalty": 0,
        "presence_penalty": 0.0,
        "tools": [],
        "tool_choice": "none",
        "logit_bias": {},
        "response_format": {"type": "text"},
        "service_tier": "auto",
        "n": 1,
        "stream": False,
        "stop": None,
    }
    plain = ask(server, "/v1/chat/completions", TALK).json()["choices"]
    assert ask(server, "/v1/chat/completions", {**TALK, **neutral}).json()["choices"] == plain


@pytest.mark.parametrize(
    ("params", "model"),
    [
        (chat_params.CompletionCreateParamsBase, ChatRequest),
        (completion_create_params.CompletionCreateParamsBase, CompletionRequest),
        (embedding_create_params.EmbeddingCreateParams, EmbeddingRequest),
    ],
)
def test_every_field_of_openai_is_known_by_name(params: Any, model: Any) -> None:
    theirs = set(params.__annotations__) | {"stream"} & set(model.model_fields)
    assert set(model.model_fields) == theirs
    unread = {name for name, one in model.model_fields.items() if one.annotation is Any}
    assert unread <= set(NEUTRAL_VALUES)


def test_masks_are_filled_and_other_models_are_refused(server: RunningServer) -> None:
    body = {"model": "filler", "text": "a[MASK]c[MASK]", "n_candidates": 3}
    told = ask(server, "/fill-mask", body).json()
    assert [len(candidates) for candidates in told["data"]] == [3, 3]
    chances = [one["probability"] for one in told["data"][0]]
    assert chances == sorted(chances, reverse=True)
    for change, words in (
        ({"model": "causal"}, "was not trained to fill masks"),
        ({"text": "abc"}, "TEXT has no mask"),
        ({"text": ""}, "TEXT has no mask"),
        ({"text": "[MASK]" * 5000}, "text: a prompt of 30,000 bytes, which are at least 5,000"),
        ({"n_candidates": 0}, "n_candidates: Input should be greater"),
    ):
        answer = ask(server, "/fill-mask", {**body, **change})
        assert answer.status_code == 400
        assert words in answer.json()["error"]["message"]


def test_texts_that_cannot_be_represented_are_refused(server: RunningServer) -> None:
    for name, texts, words in (
        ("causal", [], "input has 0 texts; give 1 to 2,048"),
        ("causal", "", "input.0 is empty; give a text"),
        ("base", "a" * 1024, "input: a prompt of 1,024 tokens is asked for, but the window"),
        (
            "causal",
            ["a", "a" * 500],
            "input.1: a prompt of 500 bytes, which are at least 500 tokens",
        ),
        ("causal", [[1, 2]], "input.list[str].0: Input should be a valid string"),
    ):
        answer = ask(server, "/v1/embeddings", {"model": name, "input": texts})
        assert answer.status_code == 400
        assert words in answer.json()["error"]["message"]


def test_what_is_not_there_is_an_error_of_the_same_shape(server: RunningServer) -> None:
    assert httpx.get(f"{server.url}/v1/nothing").json()["error"]["type"] == "invalid_request_error"
    assert httpx.get(f"{server.url}/v1/completions").status_code == 405
    assert httpx.get(f"{server.url}/v1/models/nobody").json()["error"]["code"] == "model_not_found"

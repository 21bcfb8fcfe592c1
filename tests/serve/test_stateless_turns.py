"""Conversations that come back whole with each request reuse what was read and said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

import httpx
import pytest
from running_server import RunningServer

from paribus.serve.access import access_for
from paribus.serve.app import ServerLimits, make_app


def talk(server: RunningServer, messages: list[dict[str, str]], **fields: Any) -> dict[str, Any]:
    body = {"model": "causal", "messages": messages, "max_tokens": 6, "seed": 4, **fields}
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_tokens_of_an_answer_are_those_that_were_said(server: RunningServer) -> None:
    messages = [{"role": "user", "content": "a stateless talk"}]
    first = talk(server, messages)
    content = first["choices"][0]["message"]["content"]
    n_said = first["usage"]["completion_tokens"]
    messages += [
        {"role": "assistant", "content": content},
        {"role": "user", "content": "on"},
    ]
    second = talk(server, messages)
    n_first = first["usage"]["prompt_tokens"]
    # the answer, ‹end of turn›, ‹user›, two letters, ‹end of turn›, ‹assistant›
    assert second["usage"]["prompt_tokens"] == n_first + n_said + 1 + 1 + 2 + 2
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] >= 16
    timings = second["timings"]
    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached + timings["read_tokens"] == second["usage"]["prompt_tokens"]
    assert 0 <= timings["seconds_queued"] <= timings["seconds_to_first_token"]


def test_parts_of_a_message_are_read_as_one_text(server: RunningServer) -> None:
    parts: Any = [{"type": "text", "text": "ab"}, {"type": "text", "text": "c"}]
    whole = talk(server, [{"role": "user", "content": "abc"}], temperature=0)
    split = talk(server, [{"role": "user", "content": parts}], temperature=0)
    assert split["choices"] == whole["choices"]


def test_a_developer_speaks_as_the_system(server: RunningServer) -> None:
    asked = {"role": "user", "content": "abc"}
    one = talk(server, [{"role": "developer", "content": "s"}, asked])
    other = talk(server, [{"role": "system", "content": "s"}, asked])
    assert one["choices"] == other["choices"]


def test_the_same_seed_gives_the_same_text_whatever_else_is_asked(server: RunningServer) -> None:
    asked = [{"role": "user", "content": "abc"}]
    alone = talk(server, asked, seed=9)["choices"][0]
    among = talk(server, asked, seed=9, n=3)["choices"]
    assert among[0] == alone
    assert len({choice["message"]["content"] for choice in among}) > 1


@pytest.mark.parametrize("path", ["/v1/models", "/health", "/metrics", "/docs", "/"])
def test_what_can_be_looked_at_is_there(server: RunningServer, path: str) -> None:
    assert httpx.get(f"{server.url}{path}").status_code == 200


def test_metrics_count_what_was_done(server: RunningServer) -> None:
    def value(name: str) -> float:
        lines = httpx.get(f"{server.url}/metrics").text.splitlines()
        found = [line for line in lines if line.startswith(name)]
        return float(found[0].rpartition(" ")[2]) if found else 0.0

    names = ('paribus_said_tokens_total{model="causal"', 'paribus_responses_total{status="200"')
    bins = 'paribus_seconds_to_first_token_count{model="causal"}'
    before = [value(name) for name in (*names, bins)]
    n_said = talk(server, [{"role": "user", "content": "abc"}])["usage"]["completion_tokens"]
    after = [value(name) for name in (*names, bins)]
    assert after[0] - before[0] == n_said
    assert after[1] > before[1]
    assert after[2] - before[2] == 1
    text = httpx.get(f"{server.url}/metrics").text
    for line in text.splitlines():
        assert line.startswith("# ") or len(line.rpartition(" ")[2]) > 0
    assert value('paribus_running_requests{model="causal"}') == 0


def test_a_client_that_hangs_up_before_its_answer_frees_its_place(server: RunningServer) -> None:
    body = {"model": "base", "prompt": "a", "max_tokens": 1000, "temperature": 1, "seed": 0}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{server.url}/v1/completions", json=body, timeout=0.05)
    assert server.wait_until_idle()


@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_client_that_has_gone_at_once_leaves_nothing_behind(
    server: RunningServer, is_streamed: bool
) -> None:
    app = make_app(server.models, access_for("127.0.0.1", ()), ServerLimits(max_open=1))
    body = {"model": "base", "prompt": "a", "max_tokens": 800, "stream": is_streamed}
    statuses = []

    async def ask(max_tokens: int, leaves: bool) -> None:
        content = json.dumps({**body, "max_tokens": max_tokens}).encode()
        messages = [{"type": "http.request", "body": content, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            if not leaves:
                await asyncio.Event().wait()
            return {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": headers}
        await app({**scope, "query_string": b"", "http_version": "1.1"}, receive, send)

    async def ask_twice() -> None:
        for _ in range(3):
            await ask(800, leaves=True)
        await ask(2, leaves=False)

    asyncio.run(ask_twice())
    assert statuses[-1] == 200
    assert 429 not in statuses
    assert server.wait_until_idle()

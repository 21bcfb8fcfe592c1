"""A request that comes while the server ends is told so, in the shape of OpenAI."""

from __future__ import annotations

import http.client
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import openai
import pytest
from running_server import running_server

BODIES: dict[str, dict[str, Any]] = {
    "/v1/completions": {"prompt": "abc"},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "abc"}]},
}


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [False, True])
def test_a_request_that_comes_too_late_is_answered_by_503(
    served_runs: Path, path: str, stream: bool
) -> None:
    body = {"model": "causal", "max_tokens": 4, "stream": stream, **BODIES[path]}
    with running_server(served_runs, ("causal",)) as server:
        assert httpx.post(f"{server.url}{path}", json=body, timeout=60).status_code == 200
        server.models[0].engine.close()  # as the end of the server does first
        late = httpx.post(f"{server.url}{path}", json=body, timeout=60)
    assert late.status_code == 503
    assert late.json() == {
        "error": {
            "message": "the server is about to end and takes no more requests; ask again later",
            "type": "server_error",
            "param": None,
            "code": "server_shutting_down",
        }
    }


def test_what_has_begun_is_answered_and_what_comes_then_is_told_so(served_runs: Path) -> None:
    body = json.dumps({"model": "causal", "prompt": "abc", "max_tokens": 4}).encode()
    with running_server(served_runs, ("causal",)) as running:
        parts = urlsplit(running.url)
        assert parts.hostname is not None
        begun = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        begun.putrequest("POST", "/v1/completions")
        begun.putheader("Content-Type", "application/json")
        begun.putheader("Content-Length", str(len(body)))
        begun.endheaders(body[:5])
        while not running.server.server_state.tasks:
            time.sleep(0.01)
        running.server.should_exit = True  # as a signal does
        while httpx.get(f"{running.url}/health").status_code == 200:
            time.sleep(0.01)
        late = httpx.post(f"{running.url}/v1/completions", content=body)
        assert late.status_code == 503
        assert late.json()["error"]["code"] == "server_shutting_down"
        assert late.headers["retry-after"] == "1"
        assert late.headers["connection"] == "close"
        begun.send(body[5:])
        assert begun.getresponse().status == 200
        begun.close()


def test_a_client_of_openai_takes_it_for_a_fault_of_the_server(served_runs: Path) -> None:
    with running_server(served_runs, ("causal",)) as server:
        server.models[0].engine.close()
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
        with pytest.raises(openai.InternalServerError, match="about to end") as caught:
            client.completions.create(model="causal", prompt="abc")
    assert caught.value.status_code == 503

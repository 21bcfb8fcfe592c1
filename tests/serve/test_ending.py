"""A request that comes while the server ends is told so, in the shape of OpenAI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


def test_a_client_of_openai_takes_it_for_a_fault_of_the_server(served_runs: Path) -> None:
    with running_server(served_runs, ("causal",)) as server:
        server.models[0].engine.close()
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
        with pytest.raises(openai.InternalServerError, match="about to end") as caught:
            client.completions.create(model="causal", prompt="abc")
    assert caught.value.status_code == 503

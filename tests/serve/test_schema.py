"""The server's own schema, walked by schemathesis: whatever fits it, or nearly does, is answered
without a fault of the server.
"""

from __future__ import annotations

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from running_server import RunningServer

N_EXAMPLES = 20
MAX_TOKENS = 8  # so that no answer takes long


@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_no_request_of_the_schema_breaks_the_server(server: RunningServer, mode: str) -> None:
    schema = schemathesis.openapi.from_dict(httpx.get(f"{server.url}/openapi.json").json())
    names = [served.name for served in server.models]
    statuses = set()
    for result in schema.get_all_operations():
        operation = result.ok()
        if mode == "negative" and operation.method != "post":
            continue  # what takes nothing cannot be asked wrongly

        @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode)))
        @settings(
            max_examples=N_EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        def check(case: schemathesis.Case) -> None:
            if isinstance(case.body, dict):
                if isinstance(case.body.get("model"), str):  # nobody would guess a name
                    case.body["model"] = names[len(repr(case.body)) % len(names)]
                if isinstance(case.body.get("max_tokens"), int):
                    case.body["max_tokens"] = min(case.body["max_tokens"], MAX_TOKENS)
            response = case.call(base_url=server.url)
            statuses.add(response.status_code)
            assert response.status_code < 500, response.text

        check()
    assert 400 in statuses
    assert mode == "negative" or 200 in statuses
    assert httpx.get(f"{server.url}/health").status_code == 200

"""A server of runs that are trained once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from running_server import RunningServer, running_server


@pytest.fixture(scope="session")
def server(served_runs: Path) -> Iterator[RunningServer]:
    names = ("causal", "encoder-decoder", "base", "filler")
    with running_server(served_runs, names) as running:
        yield running

"""Runs that are trained once, and a server of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from running_server import RunningServer, running_server, train_runs


@pytest.fixture(scope="session")
def served_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_runs(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def server(served_runs: Path) -> Iterator[RunningServer]:
    names = ("causal", "encoder-decoder", "base", "filler")
    with running_server(served_runs, names) as running:
        yield running

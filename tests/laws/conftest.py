"""Processes that make the runs that are killed."""

from collections.abc import Iterator

import pytest
from run_attempts import Runner, runner


@pytest.fixture(scope="session")
def runners() -> Iterator[tuple[Runner, Runner]]:
    """One for whole runs and attempts that are killed, and another, which shares nothing with it,
    to resume them.
    """
    with runner() as one, runner() as another:
        yield one, another

"""The log of a server cannot fill a disk."""

from __future__ import annotations

import io
import logging

import pytest

from paribus.serve import server
from paribus.serve.server import LogLimit, ShortFormatter


@pytest.fixture
def log() -> io.StringIO:
    return io.StringIO()


def logger_to(log: io.StringIO) -> logging.Logger:
    handler = logging.StreamHandler(log)
    handler.addFilter(LogLimit())
    handler.setFormatter(ShortFormatter("%(levelname)s: %(message)s"))
    logger = logging.Logger("one")
    logger.addHandler(handler)
    return logger


def test_what_one_line_of_code_says_is_left_out_after_a_few_times(log: io.StringIO) -> None:
    logger = logger_to(log)
    for number in range(10_000):
        logger.warning("request %d is faulty", number)
    logger.warning("another line")
    *first, last, other = log.getvalue().splitlines()
    assert first == [f"WARNING: request {number} is faulty" for number in range(4)]
    assert last == "WARNING: request 4 is faulty (more of these are left out for an hour)"
    assert other == "WARNING: another line"


def test_after_an_hour_it_says_how_many_were_left_out(
    log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(server.time, "monotonic", lambda: now)
    logger = logger_to(log)
    for number in range(12):
        if number == 11:
            now = 3600.0
        logger.warning("faulty")
    assert log.getvalue().splitlines()[-1] == "WARNING: faulty (6 more in the hours before)"


def test_a_long_trace_is_cut_in_the_middle(log: io.StringIO) -> None:
    logger_to(log).error("a%sb", "x" * 100_000)
    text = log.getvalue()
    assert len(text) < 9000
    assert text.startswith("ERROR: axx")
    assert text.endswith("xxb\n")

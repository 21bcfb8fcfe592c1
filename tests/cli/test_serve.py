"""`paribus serve` and `paribus chat` as a shell starts them."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest


@pytest.fixture
def started(served_runs: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    words = ["serve", "base", "--runs", str(served_runs), "--port", "0", "--device", "cpu"]
    process = subprocess.Popen(
        [sys.executable, "-m", "paribus", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PARIBUS_KEY": "secret", "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("base: http://127.0.0.1:"), process.stderr
    yield process, line.split(": ", 1)[1].strip().rstrip("/")
    process.kill()
    process.communicate()


def test_a_server_that_is_asked_to_end_finishes_what_it_says(
    started: tuple[subprocess.Popen[str], str],
) -> None:
    process, url = started
    headers = {"Authorization": "Bearer secret"}
    for _ in range(100):  # the address is printed before it listens
        try:
            assert httpx.get(f"{url}/v1/models").status_code == 401
            break
        except httpx.ConnectError:
            threading.Event().wait(0.1)
    body = {"model": "base", "prompt": "a", "max_tokens": 900, "temperature": 1, "seed": 1}
    with httpx.stream(
        "POST", f"{url}/v1/completions", json={**body, "stream": True}, headers=headers, timeout=60
    ) as stream:
        lines = stream.iter_lines()
        next(lines)
        process.send_signal(signal.SIGTERM)
        assert [line for line in lines if line][-1] == "data: [DONE]"
    assert process.wait(timeout=60) in (0, -signal.SIGTERM, 143)
    assert process.stderr is not None
    assert process.stderr.read() == ""


def test_what_cannot_be_served_is_refused(ask, served_runs: Path) -> None:
    told = ask("serve", "nobody", "--runs", served_runs, "--port", "0")
    assert told.status != 0
    assert "nobody" in told.err
    twice = ask("serve", "base", served_runs / "base", "--runs", served_runs, "--port", "0")
    assert twice.status == 2
    assert "two models are called 'base'; rename a folder" in twice.err
    two = ask("serve", "base", "causal", "--tokenizer", "x", "--runs", served_runs, "--port", "0")
    assert two.status == 2
    assert "--tokenizer is for one checkpoint" in two.err
    key = ask("serve", "base", "--key", "a b", "--runs", served_runs, "--port", "0")
    assert key.status == 2
    assert "a key is empty, or has spaces" in key.err
    assert "a b" not in key.err


def test_a_port_that_is_taken_is_refused(ask, served_runs: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        told = ask("serve", "base", "--runs", served_runs, "--port", str(port))
    assert told.status == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in told.err


def test_a_terminal_talks_and_obeys_commands(
    ask, served_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["abc", "", "/stats", "/what", "/reset", "/help", "cab", "x" * 99, "/quit", "never"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines)))
    told = ask("chat", "causal", "--runs", served_runs, "--tokens", "4", "--device", "cpu")
    assert told.status == 0, told.err
    assert "from cache" in told.out
    assert "a new conversation" in told.out
    assert "/reset  begin a new conversation" in told.out
    assert "'/what' is no command; use /reset, /stats, /help, /quit" in told.err
    assert "do not fit into the window of 64" in told.err


def test_a_base_model_is_named_and_the_end_of_input_ends_the_chat(
    ask, served_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("abc\n"))
    told = ask("chat", "base", "--runs", served_runs, "--tokens", "4", "--device", "cpu")
    assert told.status == 0
    assert "note: it was not trained on conversations" in told.err
    monkeypatch.setattr(sys, "stdin", io.StringIO("abc " * 60 + "\n" + "d " * 60))
    told = ask("chat", "causal", "--runs", served_runs, "--device", "cpu")
    assert told.err.count("do not fit") == 2

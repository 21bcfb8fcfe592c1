"""Many clients at once, for minutes: no error, no stream that is stuck, memory flat, and each
answer is the one that is made alone.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.slow
N_CLIENTS, SECONDS, N_QUESTIONS, N_ALONE = 64, 120, 300, 100
MAX_GROWTH = 0.05
RUNS = ("causal", "encoder-decoder")


@pytest.fixture(scope="module")
def process(served_runs: Path) -> Iterator[tuple[int, str]]:
    """A server in a process of its own, whose memory can be told from that of its clients."""
    words = ["serve", *RUNS, "--runs", str(served_runs), "--port", "0", "--cache", "4"]
    with subprocess.Popen(
        [sys.executable, "-m", "paribus", *words, "--device", "cpu"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as running:
        assert running.stdout is not None
        address = running.stdout.readline().rpartition(": ")[2].strip().rstrip("/")
        yield running.pid, address
        running.terminate()


def question(number: int) -> dict[str, Any]:
    draw = Random(number)
    turns = []
    for place in range(draw.choice([1, 3])):
        text = "".join(draw.choice("abcde ") for _ in range(draw.randint(1, 9)))
        turns.append({"role": ("user", "assistant")[place % 2], "content": f"x{text}"})
    return {
        "model": draw.choice(RUNS),
        "messages": turns,
        "seed": number,
        "temperature": draw.choice([0, 0.7, 1.0]),
        "max_tokens": draw.randint(1, 20),
        "stream": True,
    }


async def answer(client: httpx.AsyncClient, url: str, number: int) -> str:
    text, is_done = "", False
    async with client.stream("POST", f"{url}/v1/chat/completions", json=question(number)) as stream:
        assert stream.status_code == 200
        async for line in stream.aiter_lines():
            if line == "data: [DONE]":
                is_done = True
            elif line:
                chunk = json.loads(line.removeprefix("data: "))
                text += chunk["choices"][0]["delta"].get("content") or ""
    assert is_done
    return text


def memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1])


async def load(pid: int, url: str) -> tuple[dict[int, set[str]], list[int]]:
    end = time.monotonic() + SECONDS
    texts: dict[int, set[str]] = {}
    pages: list[int] = []
    numbers = itertools.count()

    async def ask(client: httpx.AsyncClient) -> None:
        while time.monotonic() < end:
            number = next(numbers) % N_QUESTIONS
            texts.setdefault(number, set()).add(await answer(client, url, number))

    async def watch() -> None:
        while time.monotonic() < end:
            await asyncio.sleep(SECONDS / 12)
            pages.append(memory(pid))

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=120, limits=limits) as client:
        await asyncio.gather(watch(), *(ask(client) for _ in range(N_CLIENTS)))
        for number in sorted(texts)[:N_ALONE]:
            texts[number].add(await answer(client, url, number))
    return texts, pages


def test_many_clients_are_answered_as_if_each_were_alone(process: tuple[int, str]) -> None:
    texts, pages = asyncio.run(load(*process))
    assert len(texts) > N_CLIENTS
    different = [number for number, own in texts.items() if len(own) > 1]
    assert len(different) <= 1  # ties of two tokens within rounding
    settled = pages[len(pages) // 3 :]
    assert max(settled) <= (1 + MAX_GROWTH) * min(settled)

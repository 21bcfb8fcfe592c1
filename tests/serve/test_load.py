"""Many clients at once, for minutes: no error, no stream that is stuck, memory flat, and each
answer is the one that is made alone, but where two tokens are as good as equal.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
import torch

from paribus.corpus.conversations import Turn
from paribus.generate import Sampling, continuation
from paribus.generate.choosing import RowStream, draw_uniforms, filter_scores, row_choices
from paribus.generate.requests import barred_tokens
from paribus.generate.sampling import next_logits
from paribus.objectives.framing import Ids, lay_context
from paribus.serve.speaker import Speaker, load_speaker

pytestmark = pytest.mark.slow
N_CLIENTS, SECONDS, N_QUESTIONS = 64, 120, 300
MAX_GROWTH = 0.05
TIE = 1e-5  # between the best two logits, or between a draw and the bound of a token
TOKENS_PER_TIE = 10_000  # at least
RUNS = ("causal", "encoder-decoder")
TokenTexts = tuple[str, ...]


@dataclass
class Load:
    """What clients got, and the pages of memory that the server had meanwhile."""

    answers: dict[int, Counter[TokenTexts]] = field(default_factory=dict)  # by question
    pages: list[int] = field(default_factory=list)


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
        "logprobs": True,
    }


async def answer(client: httpx.AsyncClient, url: str, number: int) -> TokenTexts:
    tokens, text, is_done = [], "", False
    async with client.stream("POST", f"{url}/v1/chat/completions", json=question(number)) as stream:
        assert stream.status_code == 200
        async for line in stream.aiter_lines():
            if line == "data: [DONE]":
                is_done = True
            elif line:
                (choice,) = json.loads(line.removeprefix("data: "))["choices"]
                text += choice["delta"].get("content") or ""
                if choice["logprobs"] is not None:
                    tokens += [one["token"] for one in choice["logprobs"]["content"]]
    assert is_done
    assert bool(text) <= bool(tokens)
    return tuple(tokens)


def memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1])


async def load_server(pid: int, url: str) -> Load:
    end, load, numbers = time.monotonic() + SECONDS, Load(), itertools.count()

    async def ask(client: httpx.AsyncClient) -> None:
        while time.monotonic() < end:
            number = next(numbers) % N_QUESTIONS
            said = await answer(client, url, number)
            load.answers.setdefault(number, Counter())[said] += 1

    async def watch() -> None:
        while time.monotonic() < end:
            await asyncio.sleep(SECONDS / 12)
            load.pages.append(memory(pid))

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=120, limits=limits) as client:
        await asyncio.gather(watch(), *(ask(client) for _ in range(N_CLIENTS)))
    return load


@dataclass(frozen=True)
class AloneAnswer:
    """What a model says to a question that it is asked alone, and how it is asked."""

    speaker: Speaker
    sampling: Sampling
    inputs: Ids
    tokens: Ids

    @staticmethod
    def of(speaker: Speaker, asked: dict[str, Any]) -> AloneAnswer:
        turns = [Turn(one["role"], one["content"]) for one in asked["messages"]]
        sampling = Sampling(
            n_tokens=asked["max_tokens"], temperature=asked["temperature"], seed=asked["seed"]
        )
        layout = speaker.chat_layout
        inputs = lay_context(layout, speaker.chat_tokens(turns), sampling.n_tokens).inputs
        said = continuation(speaker.model, layout, torch.tensor([inputs]), sampling)
        tokens = said.tokens_BT[0, : said.lengths_B[0]].tolist()
        if tokens[-1] in layout.end_tokens:
            tokens.pop()
        return AloneAnswer(speaker, sampling, tuple(inputs), tuple(tokens))

    @property
    def texts(self) -> TokenTexts:
        return tuple(self.speaker.decoder.token_text(token) for token in self.tokens)

    @torch.no_grad()
    def tie_at(self, place: int) -> float:
        """How close another token was at a place: in logits to the best one, or in probability to
        what was drawn.
        """
        layout, model = self.speaker.chat_layout, self.speaker.model
        before = torch.tensor([[*layout.opening, *self.tokens[:place]]], dtype=torch.int64)
        logits_1V = next_logits(
            model, layout, torch.tensor([self.inputs]), None, before.view(1, -1)
        )
        logits_1V[:, barred_tokens(layout, logits_1V.shape[1])] = float("-inf")
        if self.sampling.temperature == 0:
            best, second = logits_1V[0].topk(2).values.tolist()
            return best - second
        scores_1V = filter_scores(logits_1V, row_choices([self.sampling]))
        bounds_V = scores_1V.softmax(-1)[0].cumsum(-1)
        drawn = draw_uniforms([RowStream(self.sampling.seed)], 1, first_place=place)[0, 0]
        return float((bounds_V - drawn).abs().min())


def first_difference(one: TokenTexts, other: TokenTexts) -> int:
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return min(len(one), len(other))


def test_many_clients_are_answered_as_if_each_were_alone(
    process: tuple[int, str], served_runs: Path, record_property: Callable[[str, object], None]
) -> None:
    load = asyncio.run(load_server(*process))
    assert len(load.answers) > N_CLIENTS
    speakers = {name: load_speaker(name, served_runs) for name in RUNS}
    n_tokens = n_ties = 0
    for number, answers in load.answers.items():
        asked = question(number)
        alone = AloneAnswer.of(speakers[asked["model"]], asked)
        for said, n_times in answers.items():
            n_tokens += n_times * len(said)
            if said != alone.texts:
                n_ties += n_times
                assert alone.tie_at(first_difference(said, alone.texts)) <= TIE
    record_property("tokens", n_tokens)
    record_property("ties", n_ties)
    assert n_ties * TOKENS_PER_TIE <= n_tokens
    settled = load.pages[len(load.pages) // 3 :]
    assert max(settled) <= (1 + MAX_GROWTH) * min(settled)

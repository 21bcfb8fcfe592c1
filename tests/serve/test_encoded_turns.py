"""A run that encodes each turn alone is trained on conversations, and then talked to."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from string import ascii_lowercase

import httpx
import pytest
from conversation_run import conversation_table
from running_server import running_server

import paribus as pb
from paribus.workspace import Workspace

LETTERS = "abcd"
GREEDY = pb.Sampling(n_tokens=4)
TRAINING = {
    "n_steps": 200,
    "n_sequences": 32,
    "length": 20,
    "valid_every": 200,
    "checkpoint_every": 200,
    "optimizer": {"rate": 1e-2},
}


def write_conversations(path: Path) -> None:
    """The second answer is the user's first letter, which only the first source holds."""
    lines = []
    for first, other, later in product(LETTERS, ascii_lowercase, LETTERS):
        messages = [
            {"role": "user", "content": first + other},
            {"role": "assistant", "content": "ok"},
            {"role": "user", "content": f"?{later}"},
            {"role": "assistant", "content": first},
        ]
        lines.append(json.dumps({"messages": messages}))
    path.write_text("\n".join(lines))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("turns")
    write_conversations(folder / "talks.jsonl")
    source = {"kind": "conversations", "paths": str(folder / "talks.jsonl")}
    table = conversation_table("encoder-decoder")
    table["architecture"] |= {"preset": "encdec-turns", "max_length": 64, "n_layers": 2}
    table["stages"]["1"] |= {"corpus": {"sources": [source], "valid": 0.1}, "training": TRAINING}
    workspace = Workspace(folder / "runs", cache=folder / "cache", device="cpu")
    pb.train_run(table, name="turns", workspace=workspace)
    return folder / "runs"


def test_a_chat_remembers_the_first_turn(runs: Path) -> None:
    for letter in LETTERS:
        with pb.chat("turns", workspace=Workspace(runs, device="cpu")) as conversation:
            said = ["".join(conversation.say(text, GREEDY)) for text in (f"{letter}x", "?b")]
            first, second = conversation.stats
        assert said == ["ok", letter]
        # ‹user› two letters ‹end of turn› ‹assistant›
        assert (first.n_context, first.n_cached, first.n_read) == (5, 0, 5)
        # the first turn is encoded once; the answer is shorter than a block, and read again
        assert (second.n_context, second.n_cached, second.n_read) == (5 + 3 + 5, 5, 3 + 5)


def test_a_server_answers_conversations_that_come_back_whole(runs: Path) -> None:
    with running_server(runs, ("turns",)) as server:
        card = httpx.get(f"{server.url}/v1/models").json()["data"][0]
        assert card["can_chat"]
        assert card["cache_across_turns"] == "if a turn is a document"
        for letter in LETTERS:
            messages = [{"role": "user", "content": f"{letter}y"}]
            body = {"model": "turns", "messages": messages, "max_tokens": 4, "temperature": 0}
            url = f"{server.url}/v1/chat/completions"
            first = httpx.post(url, json=body, timeout=60).json()
            content = first["choices"][0]["message"]["content"]
            assert content == "ok"
            messages += [
                {"role": "assistant", "content": content},
                {"role": "user", "content": "?a"},
            ]
            second = httpx.post(url, json=body, timeout=60).json()
            assert second["choices"][0]["message"]["content"] == letter
            usage = second["usage"]
            cached = usage["prompt_tokens_details"]["cached_tokens"]
            assert cached >= 5
            assert cached + second["timings"]["read_tokens"] == usage["prompt_tokens"] == 13


def test_a_full_window_drops_the_oldest_turns(runs: Path) -> None:
    with pb.chat("turns", workspace=Workspace(runs, device="cpu")) as conversation:
        for number in range(12):
            "".join(conversation.say(LETTERS[number % 4] * 5, GREEDY))
        dropped = [own.n_dropped_turns for own in conversation.stats]
        assert all(own.n_context + 4 <= 64 + 1 for own in conversation.stats)
    assert dropped[0] == 0
    assert sum(dropped) > 0

"""`paribus chat-demo`: two models from nothing to their page, at a tiny size and whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import webbrowser
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest

import paribus as pb
from paribus.cli import chat_demo as demo
from paribus.cli.chat_demo import ARMS, GOOD_SHARE, N_MESSAGES, run_name
from paribus.corpus.languages.questions import language_documents
from paribus.design.design_files import designs_folder
from paribus.errors import RecordError, UnsupportedError
from paribus.record.chat_answers import ChatAnswer, ChatScore, read_chat_scores, write_chat_scores
from paribus.report.toml_text import inline_toml
from paribus.serve.held_out_chat import taught_languages
from paribus.spec.price import count_parameters
from paribus.spec.resolved import resolve
from paribus.spec.run import RunSpec, load_run
from paribus.watcher import Watcher
from paribus.workspace import Workspace

TURNS = {"form": "conversations", "min_turns": 2, "max_turns": 3, "n_documents": 600}
SORT = {"kind": "sort", "min_length": 2, "max_length": 4, "phrasings": "sort {source}."}
TINY: dict[str, Any] = {
    "architecture.d_model": 16,
    "architecture.attention": {"n_heads": 2, "d_head": 8},
    "stages.0.corpus.sources": [{"kind": "copy", "form": "text", "n_documents": 300}],
    "stages.0.training.n_steps": 3,
    "stages.1.corpus.sources": [{**SORT, "form": "conversations", "n_documents": 300}],
    "stages.1.training.n_steps": 3,
    "stages.2.corpus.sources": [
        {**SORT, **TURNS},
        {"kind": "recall", "min_length": 2, "max_length": 3, **TURNS},
    ],
    "stages.2.training": {"n_steps": 3, "n_sequences": 4},
}


def shipped(arm: str) -> RunSpec:
    return load_run(designs_folder() / "chat" / f"{arm}.toml")


def words(folder: Path, *more: str) -> list[str]:
    own = ["--runs", str(folder / "runs"), "--cache", str(folder / "cache"), "--device", "cpu"]
    return ["chat-demo", *own, *more]


def settings() -> list[str]:
    given: list[str] = []
    for path, value in TINY.items():
        given += ["--set", f"{path}={inline_toml(value)}"]
    return given


def test_the_two_models_are_as_large_and_taught_alike() -> None:
    causal, other = (shipped(arm) for arm in ARMS)
    assert causal.stages[1:] == other.stages[1:]
    assert causal.stages[0].corpus == other.stages[0].corpus
    assert causal.stages[0].training.n_steps == other.stages[0].training.n_steps
    sizes = [count_parameters(resolve(run.architecture)).total for run in (causal, other)]
    assert max(sizes) < 1.15 * min(sizes)


def test_no_conversation_is_longer_than_a_row_and_three_turns_leave_room_for_an_answer() -> None:
    run = shipped("causal")
    turns = [language.max_turns for language in taught_languages(run.last.corpus)]
    assert set(turns) == {2, 3}
    window, length = run.architecture.max_length, run.last.training.length
    assert length + window // 4 <= window
    longest = 0
    for language in taught_languages(run.last.corpus):
        for document in islice(language_documents(language, Watcher()), 2000):
            assert document.target is not None
            longest = max(longest, len(document.text) + len(document.target) + 1)
    assert length - 8 <= longest <= length


@pytest.mark.filterwarnings("error")
def test_two_models_are_trained_at_once_asked_and_not_trained_again(
    ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = ask(*words(tmp_path, "--train-only", *settings()))
    assert told.status == 1, told.err  # three steps teach nothing
    for arm in ARMS:
        assert f"{run_name(arm)}: stage 3 of 3: instruct" in told.out
        assert f"note: {run_name(arm)} answers less than 80 % exactly" in told.err
    head, *lines = told.out.splitlines()[-3:]
    assert head.split()[-2:] == ["sort", "recall"]
    assert [line.split()[0] for line in lines] == [run_name(arm) for arm in ARMS]
    scores = read_chat_scores(tmp_path / "runs")
    assert {name: score.n_messages for name, score in scores.items()} == {
        run_name(arm): N_MESSAGES for arm in ARMS
    }
    assert {answer.turn for answer in scores["chat-causal"].answers} == {1, 2, 3}

    def refuse(*_: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(demo, "train_in_parallel", refuse)
    monkeypatch.setattr(demo, "_ask", refuse)
    again = pb.chat_demo(Workspace(tmp_path / "runs", tmp_path / "cache", "cpu"))
    assert again == scores
    page = served_page(tmp_path)
    cards = page["data"]
    assert [card["id"] for card in cards] == [run_name(arm) for arm in ARMS]
    assert cards[0]["prompts"] == cards[1]["prompts"]
    assert all(cards[0]["follow_ups"][prompt] for prompt in cards[0]["prompts"])
    assert "sort, recall, in conversations of up to 3 questions" in cards[0]["taught"]


def served_page(folder: Path) -> dict[str, Any]:
    """What the page of the demonstration is told of its models, in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "paribus", *words(folder, "--port", "0", "--no-open")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        address = ""
        for line in process.stdout:
            if "http://" in line:
                address = line.split(": ", 1)[1].strip()
                break
        assert address, process.communicate()
        for _ in range(200):  # the address is printed before it listens
            try:
                return httpx.get(f"{address}v1/models").json()
            except httpx.ConnectError:
                threading.Event().wait(0.1)
        raise AssertionError("no server")
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()


def test_a_training_that_fails_is_named(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "runs", tmp_path / "cache", "cpu")
    (tmp_path / "runs" / "chat-causal").mkdir(parents=True)
    (tmp_path / "runs" / "chat-causal" / "spec.json").write_text("{}")
    with pytest.raises(UnsupportedError, match="training 'chat-causal' ended with status 1; its"):
        pb.chat_demo(workspace, changes=TINY)


def test_a_taken_port_is_named_before_anything_is_trained(ask, tmp_path: Path) -> None:
    with demo.bind("127.0.0.1", 0) as listener:
        listener.listen()
        port = listener.getsockname()[1]
        told = ask(*words(tmp_path, "--port", str(port)))
    assert told.status == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in told.err
    assert not (tmp_path / "runs").exists()


def test_a_file_that_holds_no_answers_is_refused(tmp_path: Path) -> None:
    score = ChatScore((ChatAnswer("sort", 1, "sort ba.", "ab", "ab"),))
    write_chat_scores(tmp_path, {"a": score})
    assert read_chat_scores(tmp_path) == {"a": score}
    path = tmp_path / "chat-answers.json"
    assert json.loads(path.read_text())["a"]["n_exact"] == 1
    for text in ("[]", '{"a": {}}', '{"a": {"answers": [{}]}}'):
        path.write_text(text)
        with pytest.raises(RecordError, match="does not hold answers of a chat: "):
            read_chat_scores(tmp_path)


def test_a_browser_that_cannot_be_opened_is_no_error(
    served_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def fail(address: str) -> bool:
        opened.append(address)
        os.kill(os.getpid(), signal.SIGINT)  # the page was reached: end the server
        raise webbrowser.Error("there is none")

    monkeypatch.setattr(webbrowser, "open", fail)
    workspace = Workspace(served_runs, device="cpu")
    listening = demo.Listening(port=0)
    with suppress(KeyboardInterrupt):
        pb.serve_runs("base", listening=listening, workspace=workspace, open_page=True)
    assert len(opened) == 1
    assert opened[0].startswith("http://127.0.0.1:")


@pytest.mark.slow
def test_both_models_answer_most_held_out_messages_exactly(tmp_path: Path) -> None:
    scores = pb.chat_demo(Workspace(tmp_path / "runs", tmp_path / "cache", "cpu"))
    for score in scores.values():
        assert score.n_messages == N_MESSAGES
        assert score.share >= GOOD_SHARE
        assert score.in_turn(3).n_messages >= 10
        assert score.in_turn(2).share >= 0.5
        assert score.in_turn(3).share >= 0.5

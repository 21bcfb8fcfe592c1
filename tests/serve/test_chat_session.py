"""A conversation owns its tokens, reuses what was read, and drops the oldest turns."""

from __future__ import annotations

from pathlib import Path

import pytest

import paribus as pb
from paribus.errors import SpecError
from paribus.generate import generate_answers
from paribus.serve import ChatSession
from paribus.workspace import Workspace

SAMPLING = pb.Sampling(n_tokens=5, temperature=1.0)


@pytest.fixture
def workspace(served_runs: Path) -> Workspace:
    return Workspace(served_runs, device="cpu")


def answer(conversation: ChatSession, text: str) -> str:
    return "".join(conversation.say(text, SAMPLING))


@pytest.mark.parametrize("run", ["causal", "encoder-decoder"])
def test_the_first_answer_is_what_generate_says(
    run: str, workspace: Workspace, served_runs: Path
) -> None:
    with pb.chat(run, workspace=workspace) as conversation:
        said = answer(conversation, "a b c")
    assert said == pb.generate_text(run, "a b c", SAMPLING, runs=served_runs)


def test_what_the_model_said_keeps_its_tokens(workspace: Workspace) -> None:
    with pb.chat("causal", workspace=workspace) as conversation:
        for text in ("abc", "cab"):
            answer(conversation, text)
        first, second = conversation.stats
        turns = conversation.turns
    assert [turn.role for turn in turns] == ["user", "assistant"] * 2
    # ‹user› text ‹end of turn› ‹assistant›, the answer, ‹end of turn› and so on
    assert first.n_context == 3 + 3
    assert second.n_context == first.n_context + first.n_said + 1 + 3 + 3
    for own in (first, second):
        assert own.n_cached + own.n_read == own.n_context
        assert 0 < own.seconds_to_first_token <= own.seconds


def test_a_long_conversation_drops_the_oldest_whole_turns(workspace: Workspace) -> None:
    with pb.chat("causal", system="be brief", workspace=workspace) as conversation:
        for number in range(6):
            answer(conversation, f"message {number}")
        dropped = [own.n_dropped_turns for own in conversation.stats]
        turns = conversation.turns
        window = conversation.speaker.window
        assert all(own.n_context + 5 <= window + 1 for own in conversation.stats)
    assert dropped[0] == 0
    assert sum(dropped) > 0
    assert all(number % 2 == 0 for number in dropped)
    assert turns[0].role == "system"
    assert turns[1].role == "user"
    assert turns[-2].content == "message 5"


def test_a_message_that_cannot_fit_is_refused_and_forgotten(workspace: Workspace) -> None:
    with pb.chat("causal", workspace=workspace) as conversation:
        with pytest.raises(SpecError, match="do not fit into the window of 64; write less"):
            answer(conversation, "x" * 100)
        with pytest.raises(SpecError, match="the message is empty; write something"):
            answer(conversation, " ")
        assert conversation.turns == []
        assert conversation.stats == []
        answer(conversation, "abc")


def test_an_answer_that_is_left_is_kept_as_far_as_it_was_said(workspace: Workspace) -> None:
    with pb.chat("base", workspace=workspace) as conversation:
        pieces = conversation.say("abc", pb.Sampling(n_tokens=500, temperature=1.0, seed=3))
        first = next(pieces)
        pieces.close()
        assert conversation.turns[-1].content == first
        assert conversation.stats[-1].finish_reason == "cancelled"
        answer(conversation, "d")
        assert conversation.stats[-1].n_context > 5


def test_a_model_without_turns_goes_on_from_all_that_was_said(workspace: Workspace) -> None:
    with pb.chat("base", workspace=workspace) as conversation:
        answer(conversation, "abc")
        context = [*conversation.context_tokens(), *b"cab"]
        second, speaker = answer(conversation, "cab"), conversation.speaker
    assert context[:3] == [*b"abc"]
    (expected,) = generate_answers(
        speaker.model, speaker.layout, [context], SAMPLING, decoder=speaker.decoder
    )
    assert second == expected.text
    with (
        pytest.raises(SpecError, match="was not trained on conversations; leave it out"),
        pb.chat("base", system="x", workspace=workspace),
    ):
        pass


def test_reset_begins_anew(workspace: Workspace) -> None:
    with pb.chat("causal", system="s", workspace=workspace) as conversation:
        first = answer(conversation, "abc")
        conversation.reset()
        assert [turn.role for turn in conversation.turns] == ["system"]
        assert answer(conversation, "abc") == first


def test_a_model_that_fills_masks_is_refused(workspace: Workspace) -> None:
    with (
        pytest.raises(SpecError, match="fills masks and does not say what comes next"),
        pb.chat("filler", workspace=workspace),
    ):
        pass

"""Held-out conversations: what is asked was in no training text, and a chat answers it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from paribus.corpus.languages.questions import turn_answer
from paribus.errors import SpecError
from paribus.generate.engine import Engine
from paribus.serve import held_out_chat, load_speaker
from paribus.serve.held_out_chat import (
    answer_conversations,
    held_out_conversations,
    held_out_questions,
    taught_languages,
)
from paribus.spec.corpus import Corpus

COPY = {"kind": "copy", "min_length": 3, "max_length": 5}
RECALL = {"kind": "recall", "min_length": 2, "max_length": 3}
TURNS = {"form": "conversations", "min_turns": 2, "max_turns": 3, "n_documents": 400}
CORPUS = Corpus.model_validate({"sources": [{**COPY, **TURNS}, {**RECALL, **TURNS}], "test": 0.2})


def test_messages_are_counted_over_all_turns_and_languages() -> None:
    conversations = held_out_conversations([CORPUS], 41)
    assert sum(len(one.exchanges) for one in conversations) == 41
    assert [one.language for one in conversations[:4]] == ["copy", "recall"] * 2
    turns = Counter(len(one.exchanges) for one in conversations)
    assert turns[2] > 1
    assert turns[3] > 1
    languages = {language.kind: language for language in taught_languages(CORPUS)}
    for one in conversations:
        messages = [message for message, _ in one.exchanges]
        assert turn_answer(languages[one.language], messages) == one.exchanges[-1][1]


def test_too_few_messages_are_refused() -> None:
    with pytest.raises(SpecError, match="messages too few; use larger n_documents"):
        held_out_conversations([CORPUS], 10_000)


def test_a_conversation_of_the_training_text_is_no_held_out_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held_out_chat, "HELD_OUT", "train")
    with pytest.raises(AssertionError):
        held_out_conversations([CORPUS], 10)


def test_what_an_earlier_stage_was_trained_on_is_not_held_out() -> None:
    all_of_it = CORPUS.model_copy(update={"test": 0.0, "valid": 0.0})
    with pytest.raises(AssertionError):
        held_out_conversations([all_of_it, CORPUS], 10)


def test_a_source_is_asked_once() -> None:
    (language, _) = taught_languages(CORPUS)
    sources = [one.source for one in held_out_questions(language, CORPUS)]
    assert len(sources) == len(set(sources)) > 40


def test_a_run_answers_in_chats_of_their_own(served_runs: Path) -> None:
    speaker = load_speaker("causal", served_runs)
    assert speaker.checkpoint.stage is not None
    conversations = held_out_conversations([speaker.checkpoint.stage.corpus], 7)
    engine = Engine(speaker.model, 1 << 22, max_rows=1)
    engine.start()
    try:
        answers = list(answer_conversations(speaker, engine, conversations))
    finally:
        engine.close(drain=False)
    assert [one.turn for one in answers] == [1] * 7
    for answer, conversation in zip(answers, conversations, strict=True):
        assert (answer.message, answer.right) == conversation.exchanges[0]
        assert answer.is_exact == (answer.response == answer.right)

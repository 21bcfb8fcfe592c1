"""What is asked next in conversations of invented languages: by hand, and as it is drawn."""

from random import Random

import pytest
from invented_languages import LANGUAGES
from pydantic import ValidationError
from small_corpus import build_small_corpus

from paribus.corpus import document_turns, turn_answer
from paribus.corpus.languages.follow_ups import draw_follow_up, follow_up_answer
from paribus.corpus.languages.questions import language_documents, language_questions
from paribus.corpus.splits import split_digest
from paribus.spec import (
    ArithmeticLanguage,
    CopyLanguage,
    LinearLanguage,
    RecallLanguage,
    ReverseLanguage,
    SortLanguage,
    TranslationLanguage,
)
from paribus.spec.languages import MAX_TURNS
from paribus.spec.tasks import GenerationTask
from paribus.watcher import Watcher

BY_HAND = [
    (CopyLanguage(), ("cab=", "backwards"), "bac"),
    (CopyLanguage(), ("cab=", "sorted", "backwards"), "cba"),
    (ReverseLanguage(), ("cab=", "again", "again"), "bac"),
    (SortLanguage(n_symbols=62), ("cZ0=", "backwards", "sorted"), "cZ0"),
    (RecallLanguage(), ("axbycz?b=", "and c?"), "z"),
    (RecallLanguage(), ("axbycz?b=", "and c?", "and a?"), "x"),
    (LinearLanguage(modulus=11), ("b>dc>fd>=", "and e?"), "j"),  # 2x + 1 at 4
    (ArithmeticLanguage(), ("95+4=", "plus 5", "plus 96"), "6"),
]
NO_FOLLOW_UPS = [
    (CopyLanguage(), "sideways"),
    (RecallLanguage(), "and q?"),
    (RecallLanguage(), "a?"),
    (LinearLanguage(), "e?"),
    (ArithmeticLanguage(), "plus ten"),
    (TranslationLanguage(), "again"),
]


@pytest.mark.parametrize(("language", "messages", "expected"), BY_HAND)
def test_answers_worked_out_by_hand(language, messages, expected):
    assert turn_answer(language, messages) == expected


def test_a_translation_is_asked_for_its_first_and_last_word():
    language = TranslationLanguage(n_symbols=20, seed=3)
    question = next(language_questions(language, Watcher()))
    words = question.answer.split()
    assert turn_answer(language, (question.question, "last word")) == words[-1]
    assert turn_answer(language, (question.question, "last word", "first word")) == words[0]


@pytest.mark.parametrize(("language", "message"), NO_FOLLOW_UPS)
def test_a_message_that_is_no_follow_up_is_refused(language, message):
    source = {"recall": "axby?a", "linear": "b>dc>fd>"}.get(language.kind, "cab")
    with pytest.raises(ValueError, match="is no follow-up of"):
        follow_up_answer(language, source, "1", message)


@pytest.mark.parametrize("kind", LANGUAGES)
def test_every_answer_of_a_conversation_is_a_document_after_all_before_it(kind):
    language = kind(n_documents=60, form="conversations", min_turns=2, max_turns=5, seed=3)
    lengths = set()
    for question in language_questions(language, Watcher()):
        messages = [message for message, _ in question.exchanges]
        lengths.add(len(messages))
        assert len(question.documents) == len(messages)
        assert len({split_digest(document) for document in question.documents}) == 1
        for number, (_, answer) in enumerate(question.exchanges):
            document = question.documents[number]
            assert document.target == answer.encode()
            assert turn_answer(language, messages[: number + 1]) == answer
            for earlier, said in question.exchanges[:number]:
                assert earlier.encode() in document.text
                assert said.encode() in document.text
            assert messages[number].encode() in document.text
    assert lengths == {2, 3, 4, 5}


@pytest.mark.parametrize("kind", LANGUAGES)
def test_the_first_question_of_a_conversation_is_that_of_a_single_one(kind):
    single = kind(n_documents=40, form="conversations")
    several = kind(n_documents=40, form="conversations", max_turns=3)
    for one, other in zip(
        language_questions(single, Watcher()), language_questions(several, Watcher()), strict=True
    ):
        assert other.exchanges[0] == one.exchanges[0]
        assert other.documents[0] == one.documents[0]
    first = list(language_documents(several, Watcher()))
    assert first == list(language_documents(several, Watcher()))


def test_a_linear_function_is_asked_where_its_examples_determine_it():
    language = LinearLanguage(modulus=5, n_inputs=2, min_length=3, max_length=3)
    draw = Random(1)
    source = "ba>dba>dba>dba>"  # one example three times over
    for _ in range(20):
        message = draw_follow_up(language, source, draw)
        assert follow_up_answer(language, source, "d", message) == "d"


def test_turns_reach_the_corpus(tmp_path):
    source = {"kind": "sort", "n_documents": 30, "min_length": 2, "max_length": 5}
    source |= {"form": "conversations", "min_turns": 3, "max_turns": 3}
    corpus = build_small_corpus(tmp_path, source)
    turns = document_turns(corpus, "train", 0, 2)
    assert [turn.role for turn in turns] == ["user", "assistant", "user", "assistant", "user"]


def test_turns_that_make_no_conversation_are_refused():
    with pytest.raises(ValidationError, match="min_turns is 3, above max_turns 2; use at most"):
        SortLanguage(form="conversations", min_turns=3, max_turns=2)
    with pytest.raises(ValidationError, match="max_turns is 2, but form 'pairs' has one question"):
        SortLanguage(max_turns=2)
    with pytest.raises(ValidationError, match="less than or equal to 16"):
        SortLanguage(form="conversations", max_turns=MAX_TURNS + 1)
    language = {"kind": "sort", "form": "conversations", "max_turns": 2}
    with pytest.raises(ValidationError, match="max_turns 2, but a task asks one question at a tim"):
        GenerationTask(name="t", language=(language,), source="{question}", references="{answer}")

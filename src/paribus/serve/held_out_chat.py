"""Held-out conversations of the languages that a run was taught, and how it answers them in a
chat. Nothing of them was in its training text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from paribus.corpus.languages.questions import AnsweredQuestion, language_questions
from paribus.corpus.splits import Split, split_digest, split_of
from paribus.errors import SpecError
from paribus.generate import Sampling
from paribus.generate.engine import Engine
from paribus.record.chat_answers import ChatAnswer
from paribus.serve.chat_session import ChatSession
from paribus.serve.speaker import Speaker
from paribus.spec.corpus import Corpus
from paribus.spec.languages import InventedLanguage, Language
from paribus.watcher import Watcher

HELD_OUT: Split = "test"


@dataclass(frozen=True)
class HeldOutConversation:
    """What a user says, each message with its answer, in a language."""

    language: str
    exchanges: tuple[tuple[str, str], ...]


def taught_languages(corpus: Corpus) -> list[InventedLanguage]:
    """The invented languages that a corpus has conversations of."""
    languages: list[InventedLanguage] = []
    for source in corpus.sources:
        if isinstance(source, Language) and source.form == "conversations":
            languages.append(source)
    return languages


def held_out_questions(language: InventedLanguage, corpus: Corpus) -> Iterator[AnsweredQuestion]:
    """Every different question of the test split of a corpus that has the language."""
    sources: set[str] = set()
    for question in language_questions(language, Watcher()):
        if _split(question, corpus) == HELD_OUT and question.source not in sources:
            sources.add(question.source)
            yield question


def held_out_conversations(corpora: Sequence[Corpus], n_messages: int) -> list[HeldOutConversation]:
    """Conversations of all languages of the last of the corpora that a run has read, in turn, with
    so many messages in all; the last one may be shortened. SpecError where there are fewer.
    """
    chosen: list[HeldOutConversation] = []
    for language, question in _in_turn(corpora[-1]):
        exchanges = question.exchanges[:n_messages]
        chosen.append(HeldOutConversation(language.kind, exchanges))
        n_messages -= len(exchanges)
        if n_messages == 0:
            _require_unseen(corpora, chosen)
            return chosen
    raise SpecError(
        f"the test split of the invented languages has {n_messages} messages too few; use larger"
        " n_documents, or a larger share corpus.test"
    )


def answer_conversations(
    speaker: Speaker, engine: Engine, conversations: Sequence[HeldOutConversation]
) -> Iterator[ChatAnswer]:
    """What a run says to each message, in a chat of its own for each conversation: an earlier
    answer stands as the run gave it, right or wrong.
    """
    sampling = Sampling(n_tokens=max(speaker.window // 4, 1), temperature=0.0)
    for conversation in conversations:
        session = ChatSession(speaker, engine)
        for turn, (message, right) in enumerate(conversation.exchanges, 1):
            response = "".join(session.say(message, sampling))
            yield ChatAnswer(conversation.language, turn, message, right, response)


def _in_turn(corpus: Corpus) -> Iterator[tuple[InventedLanguage, AnsweredQuestion]]:
    """A question of each language, then another of each, as long as there are any."""
    languages = taught_languages(corpus)
    rounds = zip_longest(*(held_out_questions(language, corpus) for language in languages))
    for questions in rounds:
        for language, question in zip(languages, questions, strict=True):
            if question is not None:
                yield language, question


def _split(question: AnsweredQuestion, corpus: Corpus) -> Split:
    return split_of(split_digest(question.documents[0]), corpus.valid, corpus.test)


def _require_unseen(
    corpora: Sequence[Corpus], conversations: Sequence[HeldOutConversation]
) -> None:
    """No conversation begins as one of a training text does, so none of its prompts is there."""
    openings = {one.exchanges[0][0] for one in conversations}
    for corpus in corpora:
        for language in taught_languages(corpus):
            for question in language_questions(language, Watcher()):
                assert question.question not in openings or _split(question, corpus) != "train"

"""Conversations and preferences out of lines of JSON; what is wrong with a line is said with its
number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paribus.corpus.archives import ArchiveMember
from paribus.corpus.conversations import ASSISTANT, Turn, conversation_documents, prompt_bytes
from paribus.corpus.documents import Document, SourceNotes, encode_text
from paribus.corpus.formats import json_objects
from paribus.errors import RecordError
from paribus.spec.corpus import ROLES, ConversationFiles, TurnFiles

SYSTEM, USER = ROLES[:2]
MESSAGE_KEYS = ("role", "content")


def turn_documents(
    member: ArchiveMember, source: TurnFiles, notes: SourceNotes
) -> Iterator[Document]:
    """The documents of a file of conversations, a pair for each response, or of preferences."""
    for location, row in json_objects(member, source.errors, notes):
        line = _Line(row, location, source, notes)
        if isinstance(source, ConversationFiles):
            yield from conversation_documents(line.conversation())
        else:
            yield line.preference()


class _Line:
    """One line of a file, and how to read it."""

    def __init__(
        self, row: Mapping[str, Any], location: str, source: TurnFiles, notes: SourceNotes
    ):
        self.row, self.location, self.source, self.notes = row, location, source, notes

    def conversation(self) -> tuple[Turn, ...]:
        """Turns that end with a response; RecordError where they are no conversation."""
        if "messages" not in self.row:
            turns = (*self._prompt(), Turn(ASSISTANT, self._text("response")))
        else:
            self._require_absent(("prompt", "response"))
            turns = self._messages()
            if all(turn.role != ASSISTANT for turn in turns):
                raise RecordError(
                    f"{self.location} has no {ASSISTANT!r} turn; give at least one response"
                )
            if turns[-1].role != ASSISTANT:
                raise RecordError(
                    f"{self.location} ends with a {turns[-1].role!r} turn, which has no response;"
                    " leave it out, or add the response"
                )
        return turns

    def preference(self) -> Document:
        """What was asked, and two different responses."""
        if "messages" not in self.row:
            turns = self._prompt()
        else:
            self._require_absent(("prompt",))
            turns = self._messages()
            if turns[-1].role != USER:
                raise RecordError(
                    f"{self.location} has messages that end with a {turns[-1].role!r} turn; end"
                    f" them with a {USER!r} turn, and give the responses as 'chosen' and 'rejected'"
                )
        chosen, rejected = self._text("chosen"), self._text("rejected")
        if chosen == rejected:
            raise RecordError(
                f"{self.location} has the same text as 'chosen' and 'rejected'; give two responses"
            )
        return Document(prompt_bytes(turns), chosen.encode(), rejected.encode())

    def _prompt(self) -> tuple[Turn, ...]:
        turns = [Turn(USER, self._text("prompt"))]
        if self.row.get("system") is not None:
            turns.insert(0, Turn(SYSTEM, self._text("system")))
        return tuple(turns)

    def _messages(self) -> tuple[Turn, ...]:
        self._require_absent(("system",))
        messages = self.row["messages"]
        if not isinstance(messages, list) or not messages:
            raise RecordError(
                f"{self.location} has messages = {str(messages)[:40]!r}; give a list of objects"
                " with a role and a content"
            )
        turns = []
        for number, message in enumerate(messages):
            turns.append(self._turn(message, f"messages[{number}]"))
        self._require_order(turns)
        return tuple(turns)

    def _turn(self, message: Any, name: str) -> Turn:
        if not isinstance(message, dict):
            raise RecordError(
                f"{self.location} has {name} = {str(message)[:40]!r}; give an object with a role"
                " and a content"
            )
        unknown = [key for key in message if key not in MESSAGE_KEYS]
        if unknown:
            raise RecordError(
                f"{self.location} has the key {unknown[0]!r} in {name}; give a role and a content"
                " alone"
            )
        role = message.get("role")
        if role not in ROLES:
            raise RecordError(
                f"{self.location} has the role {role!r} in {name}; roles are {', '.join(ROLES)}"
            )
        return Turn(role, self._content(message.get("content"), f"{name}.content"))

    def _require_order(self, turns: Sequence[Turn]) -> None:
        """System at most once, first; then user and assistant in turn."""
        speakers = [turn.role for turn in turns]
        if SYSTEM in speakers[1:]:
            if speakers[0] == SYSTEM:
                fault = "two system turns"
            else:
                fault = "a system turn after another"
            raise RecordError(
                f"{self.location} has {fault}; give at most one, before all other turns"
            )
        if speakers[0] == SYSTEM:
            speakers = speakers[1:]
        for number, role in enumerate(speakers):
            expected = (USER, ASSISTANT)[number % 2]
            if role != expected:
                before = f"after the {speakers[number - 1]!r} turn" if number else "first"
                raise RecordError(
                    f"{self.location} has a {role!r} turn {before}, where a {expected!r} turn is"
                    f" due; user and assistant speak in turn, the user first"
                )
        if not speakers:
            raise RecordError(f"{self.location} has a system turn alone; give a user turn after it")

    def _text(self, key: str) -> str:
        if key not in self.row:
            names = ", ".join(map(repr, self.row)) or "none"
            raise RecordError(
                f"{self.location} has no key {key!r}; its keys are {names}. {self._advice()}"
            )
        return self._content(self.row[key], key)

    def _advice(self) -> str:
        if isinstance(self.source, ConversationFiles):
            return "Give 'messages', or 'prompt' and 'response'"
        return "Give 'chosen' and 'rejected' with 'prompt' or 'messages'"

    def _content(self, value: Any, name: str) -> str:
        if not isinstance(value, str):
            raise RecordError(
                f"{self.location} has {name} = {str(value)[:40]!r} ({type(value).__name__}); give"
                " it as text"
            )
        if not value.strip():
            raise RecordError(f"{self.location} has no text in {name}; give some")
        return encode_text(value, self.location, self.source.errors, self.notes).decode()

    def _require_absent(self, keys: Sequence[str]) -> None:
        for key in keys:
            if key in self.row:
                raise RecordError(
                    f"{self.location} has {key!r} beside 'messages'; give one of the two"
                )

"""What runs answered to held-out messages of a chat: one file beside the runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from paribus.errors import RecordError
from paribus.record.disk import read_json, write_json
from paribus.record.file_names import CHAT_ANSWERS_FILE

_REMEDY = "remove it, and the same command asks again"


@dataclass(frozen=True)
class ChatAnswer:
    """What a run said to one message of a conversation, and what was right."""

    language: str
    turn: int  # the first is 1
    message: str
    right: str
    response: str

    @property
    def is_exact(self) -> bool:
        return self.response == self.right


@dataclass(frozen=True)
class ChatScore:
    """All that a run answered."""

    answers: tuple[ChatAnswer, ...]

    @property
    def n_messages(self) -> int:
        return len(self.answers)

    @property
    def n_exact(self) -> int:
        return sum(answer.is_exact for answer in self.answers)

    @property
    def share(self) -> float:
        """The share of messages that were answered exactly."""
        return self.n_exact / self.n_messages

    def in_turn(self, turn: int) -> ChatScore:
        """The answers of one turn."""
        return ChatScore(tuple(one for one in self.answers if one.turn == turn))

    def in_language(self, language: str) -> ChatScore:
        """The answers in one language."""
        return ChatScore(tuple(one for one in self.answers if one.language == language))


def read_chat_scores(runs: Path) -> dict[str, ChatScore]:
    """What was answered so far, by the name of the run; nothing where there is no file."""
    path = runs / CHAT_ANSWERS_FILE
    if not path.exists():
        return {}
    scores: dict[str, ChatScore] = {}
    try:
        for name, table in read_json(path, _REMEDY).items():
            scores[name] = ChatScore(tuple(ChatAnswer(**row) for row in table["answers"]))
    except (AttributeError, KeyError, TypeError) as fault:
        raise RecordError(f"{path} does not hold answers of a chat: {fault}; {_REMEDY}") from fault
    return scores


def write_chat_scores(runs: Path, scores: Mapping[str, ChatScore]) -> None:
    """Keep what was answered, with the counts on top."""
    tables = {}
    for name, score in scores.items():
        answers = [asdict(answer) for answer in score.answers]
        tables[name] = {
            "n_messages": score.n_messages,
            "n_exact": score.n_exact,
            "answers": answers,
        }
    write_json(runs / CHAT_ANSWERS_FILE, tables)

"""Conversations: turns as bytes on disk, as tokens before a model, and as text for people.

Every response of a conversation is a target. Its source is all that comes before it:

    ‹system› text ‹end of turn› ‹user› text ‹end of turn› ‹assistant›

and the target is the response, then ‹end of turn›. The special tokens are never read out of text:
on disk they are bytes that UTF-8 does not have, and each stretch of text is encoded by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paribus.batch import Vocabulary
from paribus.corpus.documents import Document
from paribus.corpus.tokenizer import Tokenizer
from paribus.spec.corpus import END_OF_TURN, ROLES

TURN_TOKENS = (*ROLES, END_OF_TURN)  # in the order of their ids, on disk and in a vocabulary
ASSISTANT = "assistant"
_FIRST_BYTE = 0xF8  # from here on no byte occurs in UTF-8
_SPECIAL_BYTES = {name: bytes([_FIRST_BYTE + n]) for n, name in enumerate(TURN_TOKENS)}
_AT_SPECIAL_BYTES = re.compile(b"([%b])" % b"".join(_SPECIAL_BYTES.values()))


@dataclass(frozen=True)
class Turn:
    """What one speaker says."""

    role: str
    content: str


def conversation_documents(turns: Sequence[Turn]) -> Iterator[Document]:
    """A pair for each response; all of a conversation are dealt to the same split."""
    opening = None
    for number, turn in enumerate(turns):
        if turn.role == ASSISTANT:
            source = prompt_bytes(turns[:number])
            opening = opening or source
            yield Document(source, turn.content.encode(), split_by=opening)


def prompt_bytes(turns: Sequence[Turn]) -> bytes:
    """Turns as they lie on disk, up to where the assistant speaks."""
    pieces = []
    for turn in turns:
        pieces += [_SPECIAL_BYTES[turn.role], turn.content.encode(), _SPECIAL_BYTES[END_OF_TURN]]
    return b"".join([*pieces, _SPECIAL_BYTES[ASSISTANT]])


def special_byte_name(piece: bytes) -> str | None:
    """Which special token a byte on disk stands for; None for text."""
    if len(piece) == 1 and piece[0] >= _FIRST_BYTE:
        return TURN_TOKENS[piece[0] - _FIRST_BYTE]
    return None


def holds_special_bytes(data: NDArray[np.unsignedinteger]) -> bool:
    """Do bytes on disk hold more than text?"""
    return bool((data >= _FIRST_BYTE).any())


def split_at_special_bytes(data: bytes) -> list[bytes]:
    """Text and special bytes, in order, each by itself; nothing is empty."""
    return [piece for piece in _AT_SPECIAL_BYTES.split(data) if piece]


def prompt_tokens(turns: Sequence[Turn], tokenizer: Tokenizer, vocabulary: Vocabulary) -> list[int]:
    """Turns as a model reads them, up to where the assistant speaks."""
    ids: list[int] = []
    for turn in turns:
        ids.append(vocabulary.role_tokens[turn.role])
        ids += tokenizer.encode(turn.content)
        ids.append(vocabulary.end_of_turn)
    return [*ids, vocabulary.role_tokens[ASSISTANT]]


def user_turn_frame(vocabulary: Vocabulary) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What stands before and after the text of a user's only turn, as `prompt_tokens` has it."""
    roles = vocabulary.role_tokens
    return (roles["user"],), (vocabulary.end_of_turn, roles[ASSISTANT])


def parse_turns(stored_ids: Sequence[int], tokenizer: Tokenizer) -> tuple[Turn, ...]:
    """The turns of a source as it lies in a shard, whose ids after the text's are turn tokens."""
    turns = []
    for role, content in _stretches(stored_ids, tokenizer):
        if role in ROLES and content is not None:
            turns.append(Turn(role, content))
    return tuple(turns)


def readable_turns(turns: Sequence[Turn]) -> str:
    """Turns as text for people, with special tokens by their names."""
    parts = [f"‹{turn.role}›{turn.content}‹{END_OF_TURN}›" for turn in turns]
    return "".join([*parts, f"‹{ASSISTANT}›"])


def readable_tokens(stored_ids: Sequence[int], tokenizer: Tokenizer) -> str:
    """Stored ids as text for people, wherever they begin and end."""
    parts = []
    for name, content in _stretches(stored_ids, tokenizer):
        parts.append("" if name is None else f"‹{name}›")
        parts.append(content or "")
    return "".join(parts)


def _stretches(
    stored_ids: Sequence[int], tokenizer: Tokenizer
) -> Iterator[tuple[str | None, str | None]]:
    """Each special token with the text after it; None before the first, or where none follows."""
    name: str | None = None
    text: list[int] = []
    for number in [*stored_ids, None]:
        if number is not None and number < tokenizer.n_text:
            text.append(number)
            continue
        if name is not None or text:
            yield name, tokenizer.decode(text) if text else None
        if number is not None:
            name, text = TURN_TOKENS[number - tokenizer.n_text], []


def _chat_template() -> str:
    """The framing of `prompt_tokens` as a template of transformers: it gives the same tokens."""
    turn = f"{{{{ '‹' + message['role'] + '›' + message['content'] + '‹{END_OF_TURN}›' }}}}"
    return (
        f"{{% for message in messages %}}{turn}{{% endfor %}}"
        f"{{% if add_generation_prompt %}}{{{{ '‹{ASSISTANT}›' }}}}{{% endif %}}"
    )


CHAT_TEMPLATE = _chat_template()

"""What every arm is asked: texts in two parts, drawn from what was held out.

A pure function of the corpus's text and the yardstick. Items are taken in the order of a hash of
their text: no seed, no tokenizer and no other document moves one before another.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from paribus.corpus import TokenisedCorpus, Turn, document_text, document_turns
from paribus.corpus.conversations import ASSISTANT, readable_turns
from paribus.errors import SpecError
from paribus.spec.corpus import gives_pairs
from paribus.spec.yardstick import HalvesYardstick, HeldOutPairs, Yardstick

N_NAME_DIGITS = 16  # hexadecimal digits
WHOLE_DOCUMENT = 2**62  # tokens
# Byte-level BPE as GPT-2's cuts text here by itself: parted at such a place, both parts are the
# tokens of the whole.
_BEFORE_WORD = re.compile(r"(?<=[!-~])(?= [!-~])")


@dataclass(frozen=True)
class Item:
    """A target to be predicted from its context; items of one document are no independent
    evidence.

    Where the context is a conversation, its `turns` are what a model reads, and `context` is how
    they are shown to people.
    """

    name: str
    document: str
    context: str
    target: str
    turns: tuple[Turn, ...] = ()


def select_items(dataset: TokenisedCorpus, yardstick: Yardstick) -> tuple[Item, ...]:
    """As many different items as the yardstick asks for, or all there are."""
    _require_fit(dataset, yardstick)
    items = heapq.nsmallest(
        yardstick.n_items, _unique_items(dataset, yardstick), key=lambda item: item.name
    )
    if not items:
        n_documents = sum(reader.shard.n_documents for reader in dataset.readers[yardstick.split])
        raise SpecError(
            f"yardstick.split {yardstick.split!r} has no {_describe_wanted(yardstick)} in"
            f" {n_documents} documents; hold out a share such as corpus.{yardstick.split} = 0.05,"
            " or take other sizes"
        )
    return tuple(items)


def items_fingerprint(items: Sequence[Item]) -> str:
    """The sha256 of items: arms with equal ones answered the same."""
    texts: list[str] = []
    for item in items:
        texts += [item.name, item.document, item.context, item.target]
        for turn in item.turns:
            texts += [turn.role, turn.content]
    return _digest(*texts)


def _require_fit(dataset: TokenisedCorpus, yardstick: Yardstick) -> None:
    pairs = any(map(gives_pairs, dataset.spec.sources))
    if pairs != isinstance(yardstick, HeldOutPairs):
        if pairs:
            needs, has = ("running text", "pairs")
        else:
            needs, has = ("pairs", "running text")
        if pairs:
            advice = "'pairs'"
        else:
            advice = "'halves', or 'pseudo' for what fills masks"
        raise SpecError(
            f"yardstick.kind is {yardstick.kind!r}, which needs {needs}, but the corpus has {has};"
            f" use {advice}"
        )


def _describe_wanted(yardstick: Yardstick) -> str:
    if isinstance(yardstick, HalvesYardstick):
        return f"document of {yardstick.min_bytes} bytes or more"
    return f"pair with a target of {yardstick.max_target_bytes} bytes or less"


def _unique_items(dataset: TokenisedCorpus, yardstick: Yardstick) -> Iterator[Item]:
    earlier_names: set[str] = set()
    for item in _candidate_items(dataset, yardstick):
        if item.name not in earlier_names:
            earlier_names.add(item.name)
            yield item


def _candidate_items(dataset: TokenisedCorpus, yardstick: Yardstick) -> Iterator[Item]:
    for pieces, turns in _split_documents(dataset, yardstick):
        if isinstance(yardstick, HalvesYardstick):
            text = _truncate(pieces[0], yardstick.max_bytes)
            if len(text.encode()) >= yardstick.min_bytes:
                yield _make_item(text, *split_in_halves(text))
        elif len(pieces[1].encode()) <= yardstick.max_target_bytes:
            item = _make_item(_opening(turns) or pieces[0], *pieces[:2])
            yield replace(item, turns=turns)


def _n_tokens(dataset: TokenisedCorpus, yardstick: Yardstick) -> int:
    """How much of a document is read: where each token has a byte or more, what is cut off need
    not be.
    """
    if isinstance(yardstick, HalvesYardstick) and dataset.tokenizer.is_byte_level:
        return yardstick.max_bytes + 4  # and the rest of a character
    return WHOLE_DOCUMENT


def _split_documents(
    dataset: TokenisedCorpus, yardstick: Yardstick
) -> Iterator[tuple[tuple[str, ...], tuple[Turn, ...]]]:
    """Each document's pieces, and the turns of a conversation."""
    split, max_tokens = yardstick.split, _n_tokens(dataset, yardstick)
    for source, reader in enumerate(dataset.readers[split]):
        for number in range(reader.shard.n_documents):
            pieces = document_text(dataset, split, source, number, max_tokens)
            yield pieces, document_turns(dataset, split, source, number)


def _opening(turns: tuple[Turn, ...]) -> str:
    """How a conversation begins, up to its first response: what all its responses share."""
    first_turns = list(takewhile(lambda turn: turn.role != ASSISTANT, turns))
    if first_turns:
        return readable_turns(first_turns)
    return ""


def _make_item(text: str, context: str, target: str) -> Item:
    return Item(
        _digest(context, target)[:N_NAME_DIGITS], _digest(text)[:N_NAME_DIGITS], context, target
    )


def _digest(*texts: str) -> str:
    total = hashlib.sha256()
    for text in texts:
        data = text.encode()
        total.update(len(data).to_bytes(8))
        total.update(data)
    return total.hexdigest()


def _truncate(text: str, max_bytes: int) -> str:
    """The first bytes of a text, up to the end of a word if one ends in the last quarter of
    them.
    """
    data = text.encode()
    if len(data) <= max_bytes:
        return text
    begin = data[:max_bytes].decode(errors="ignore")  # half a character at the end goes too
    ends = [match.start() for match in _BEFORE_WORD.finditer(begin, len(begin) * 3 // 4)]
    if ends:
        return begin[: ends[-1]]
    return begin


def split_in_halves(text: str) -> tuple[str, str]:
    """A text in two halves of its bytes, parted at the next character, or the nearest word if
    one begins close by.
    """
    data = text.encode()
    half = (len(data) + 1) // 2
    while data[half] & 0xC0 == 0x80:  # within a character
        half += 1
    place = len(data[:half].decode())
    close = len(text) // 8
    around = _BEFORE_WORD.finditer(text, place - close, place + close + 2)
    words = [match.start() for match in around]
    place = min(words, key=lambda word: abs(word - place), default=place)
    return text[:place], text[place:]

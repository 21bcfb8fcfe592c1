"""Sentences of CoNLL's columns: a word a line, an empty line after each sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paribus.corpus.archives import ArchiveMember
from paribus.corpus.documents import Document, SourceNotes
from paribus.corpus.lines import decoded_lines
from paribus.corpus.words import WORD_SEPARATOR
from paribus.errors import RecordError
from paribus.spec.corpus import TaggedFiles

COLUMN_SUFFIXES = (".conll", ".bio", ".txt")
DOCUMENT_LINE = "-DOCSTART-"  # where CoNLL's documents begin; no sentence


def tagged_documents(
    member: ArchiveMember, source: TaggedFiles, notes: SourceNotes
) -> Iterator[Document]:
    """A document for each sentence: its words and its tags, a space between any two."""
    words: list[str] = []
    tags: list[str] = []
    for number, line in decoded_lines(member, source.errors, notes):
        columns = line.split()
        if columns and columns[0] != DOCUMENT_LINE:
            location = f"{member.where} line {number}"
            words.append(_column(columns, source.word, location))
            tags.append(_column(columns, source.tag, location))
        elif words:
            yield _sentence(words, tags)
            words, tags = [], []
    if words:
        yield _sentence(words, tags)


def _sentence(words: Sequence[str], tags: Sequence[str]) -> Document:
    return Document(WORD_SEPARATOR.join(words).encode(), WORD_SEPARATOR.join(tags).encode())


def _column(columns: Sequence[str], number: int, location: str) -> str:
    if not -len(columns) <= number < len(columns):
        raise RecordError(
            f"{location} has {len(columns)} columns, and none of the number {number}; give every"
            " line as many columns, or name another"
        )
    return columns[number]

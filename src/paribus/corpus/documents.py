"""One text on its own, as bytes of UTF-8."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from paribus.errors import RecordError
from paribus.spec.corpus import DecodeErrors

BATCH_BYTES, BATCH_DOCUMENTS = 2**20, 4096


@dataclass(frozen=True, slots=True)
class Document:
    """Running text, with a target a pair, with a rejected target a preference; UTF-8.

    The text before a response of a conversation has special bytes in it.
    """

    text: bytes
    target: bytes | None = None
    rejected: bytes | None = None
    split_by: bytes | None = None  # whose hash decides which split it is in; None: that of the text

    @property
    def pieces(self) -> tuple[bytes, ...]:
        if self.target is None:
            return (self.text,)
        if self.rejected is None:
            return (self.text, self.target)
        return (self.text, self.target, self.rejected)


@dataclass
class SourceNotes:
    """What was met while reading a source and does not show in its text."""

    n_replaced: int = 0  # faults of UTF-8
    n_empty: int = 0  # documents without a letter
    n_passed_over: int = 0  # files of other kinds in folders and tars


def batch_documents(documents: Iterable[Document], notes: SourceNotes) -> Iterator[list[Document]]:
    """Documents in lists of about a megabyte; those without a letter are left out and counted."""
    parcel: list[Document] = []
    size = 0
    for document in documents:
        if not all(piece.strip() for piece in document.pieces):
            notes.n_empty += 1
            continue
        parcel.append(document)
        size += sum(map(len, document.pieces))
        if size >= BATCH_BYTES or len(parcel) == BATCH_DOCUMENTS:
            yield parcel
            parcel, size = [], 0
    if parcel:
        yield parcel


def decode_text(
    data: bytes, where: str, offset: int, errors: DecodeErrors, notes: SourceNotes
) -> str:
    """Bytes as text; what is not UTF-8 is refused with its place in the file, or replaced and
    counted.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as fault:
        if errors == "strict":
            raise RecordError(
                f"{where} is not UTF-8 at byte {offset + fault.start}; save it as UTF-8, or set"
                " errors = 'replace'"
            ) from None
    text = data.decode(errors="replace")
    notes.n_replaced += text.count("\ufffd") - data.count("\ufffd".encode())
    return text


def encode_text(text: str, where: str, errors: DecodeErrors, notes: SourceNotes) -> bytes:
    """Text as bytes; half of a surrogate pair, which JSON can write, is no character."""
    try:
        return text.encode()
    except UnicodeEncodeError as fault:
        if errors == "strict":
            raise RecordError(
                f"{where} holds half a surrogate pair at character {fault.start}; correct it, or"
                " set errors = 'replace'"
            ) from None
    whole = text.encode(errors="replace")
    notes.n_replaced += sum("\ud800" <= letter <= "\udfff" for letter in text)
    return whole

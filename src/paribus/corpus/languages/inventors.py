"""A large language invented by several processes side by side.

Each block of questions has a stream of its own, so the documents are those that one process
invents, in their order. A process is sent the language and told which blocks are its; it answers
with a line of JSON for each block:

    python -m paribus.corpus.languages.inventors 0 4  # blocks 0, 4, 8 …
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import astuple
from typing import Annotated

from pydantic import Field, TypeAdapter

from paribus.corpus.documents import Document
from paribus.corpus.languages.questions import (
    block_documents,
    block_sizes,
    language_documents,
)
from paribus.spec.languages import InventedLanguage
from paribus.watcher import Watcher

MIN_BLOCKS = 64  # fewer are there before a process has started
_LANGUAGE: TypeAdapter[InventedLanguage] = TypeAdapter(
    Annotated[InventedLanguage, Field(discriminator="kind")]
)


def invented_documents(
    language: InventedLanguage, progress: Watcher, n_workers: int
) -> Iterator[Document]:
    """All documents of a language, in their order."""
    n_workers = min(n_workers, len(block_sizes(language)) // MIN_BLOCKS * 2)
    if n_workers < 2:
        yield from language_documents(language, progress)
    else:
        yield from _from_processes(language, progress, n_workers)


def _from_processes(
    language: InventedLanguage, progress: Watcher, n_workers: int
) -> Iterator[Document]:
    table = _LANGUAGE.dump_json(language).decode()
    with (
        ExitStack() as stack,
        progress.stage(f"inventing {language.kind}", language.n_documents),
    ):
        inventors: list[subprocess.Popen[str]] = []
        for number in range(n_workers):
            inventors.append(stack.enter_context(_start(number, n_workers)))
        # entered last: on the way out they are stopped before anybody waits for them
        stack.callback(_stop, inventors)
        for inventor in inventors:
            _send(inventor, table)
        for block, size in enumerate(block_sizes(language)):
            yield from _next_documents(inventors[block % n_workers], language, block)
            progress.advance(size)


def _start(number: int, n_workers: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "paribus.corpus.languages.inventors"]
    return subprocess.Popen(
        [*command, str(number), str(n_workers)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C is for us
    )


def _send(inventor: subprocess.Popen[str], table: str) -> None:
    assert inventor.stdin is not None
    with suppress(OSError):  # of one that has died
        inventor.stdin.write(table)
    with suppress(OSError):
        inventor.stdin.close()


def _stop(inventors: Sequence[subprocess.Popen[str]]) -> None:
    for inventor in inventors:
        inventor.kill()


def _next_documents(
    inventor: subprocess.Popen[str], language: InventedLanguage, block: int
) -> Iterator[Document]:
    """The documents of a block. If the process has died, they are invented here, where an error
    says what is wrong.
    """
    assert inventor.stdout is not None
    line = inventor.stdout.readline()
    if not line.endswith("\n"):
        yield from block_documents(language, block)
        return
    for text, *others in json.loads(line):
        kept = [None if piece is None else piece.encode("latin-1") for piece in others]
        yield Document(text.encode("latin-1"), *kept)


def _main() -> None:
    number, n_workers = map(int, sys.argv[1:])
    language = _LANGUAGE.validate_json(sys.stdin.read())
    for block in range(number, len(block_sizes(language)), n_workers):
        documents = []
        for document in block_documents(language, block):
            # every byte as the character of that number, which JSON can hold
            pieces = [None if one is None else one.decode("latin-1") for one in astuple(document)]
            documents.append(pieces)
        print(json.dumps(documents), flush=True)


if __name__ == "__main__":
    _main()

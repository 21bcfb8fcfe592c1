"""Documents of a built corpus as they were read: some of them, short, for a terminal; or whole, for a program."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from paribus.cli.terminal.text import cropped
from paribus.corpus import Built, Sample, Split, sampled

MAX_TOKENS = 2000  # of each piece: more than its lines can show
MAX_WIDTH = 120  # of a line, also in a pipe
WHOLE = 2**62  # tokens: all there are


def print_samples(built: Built, split: Split, n: int, seed: int, page: Console) -> None:
    """Each document under a line that says which it is."""
    for place, one in enumerate(sampled(built, split, n, seed, MAX_TOKENS)):
        if place:
            page.print()
        page.print(_heading(built, split, one), style="dim")
        for line in _lines(one, min(page.width, MAX_WIDTH)):
            page.print(Text(line, no_wrap=True, overflow="ignore"), crop=False)


def samples_described(built: Built, split: Split, n: int, seed: int) -> list[dict[str, Any]]:
    """The same documents, whole and as they are."""
    return [asdict(one) for one in sampled(built, split, n, seed, WHOLE)]


def _heading(built: Built, split: Split, one: Sample) -> str:
    n_documents = built.readers[split][one.source].shard.n_documents
    tokens = " → ".join(f"{length:,}" for length in one.lengths)
    return f"{one.kind}, {split} document {one.number:,} of {n_documents:,}, {tokens} tokens"


def _lines(one: Sample, width: int) -> list[str]:
    """The text, or a source and its target behind an arrow."""
    shown = []
    for number, (piece, length) in enumerate(zip(one.pieces, one.lengths, strict=True)):
        mark = "→ " if number else "  "
        lines = cropped(piece, width - len(mark), whole=length <= MAX_TOKENS)
        shown += [f"{mark if place == 0 else '  '}{line}" for place, line in enumerate(lines)]
    return shown

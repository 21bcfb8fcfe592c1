"""Documents of a built corpus as they were read: some of them, short, for a terminal; or whole,
for a program.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from paribus.cli.terminal.text_crop import crop_lines
from paribus.corpus import DocumentSample, Split, TokenisedCorpus, sample_documents

MAX_TOKENS = 2000  # of each piece: more than its lines can show
MAX_WIDTH = 120  # of a line, also in a pipe
ALL_TOKENS = 2**62  # tokens: all there are


def print_samples(dataset: TokenisedCorpus, split: Split, n: int, seed: int, page: Console) -> None:
    """Each document under a line that says which it is."""
    for place, one in enumerate(sample_documents(dataset, split, n, seed, MAX_TOKENS)):
        if place:
            page.print()
        page.print(_sample_heading(dataset, split, one), style="dim")
        for line in _sample_lines(one, min(page.width, MAX_WIDTH)):
            page.print(Text(line, no_wrap=True, overflow="ignore"), crop=False)


def samples_json(dataset: TokenisedCorpus, split: Split, n: int, seed: int) -> list[dict[str, Any]]:
    """Sampled documents for another program, whole and as they are."""
    return [asdict(one) for one in sample_documents(dataset, split, n, seed, ALL_TOKENS)]


def _sample_heading(dataset: TokenisedCorpus, split: Split, sample: DocumentSample) -> str:
    n_documents = dataset.readers[split][sample.source].shard.n_documents
    tokens = " → ".join(f"{length:,}" for length in sample.lengths)
    return f"{sample.kind}, {split} document {sample.number:,} of {n_documents:,}, {tokens} tokens"


def _sample_lines(sample: DocumentSample, width: int) -> list[str]:
    """The text, or a source and its target behind an arrow."""
    sample_lines = []
    for number, (piece, length) in enumerate(zip(sample.pieces, sample.lengths, strict=True)):
        mark = "  "
        if number:
            mark = "→ "
        lines = crop_lines(piece, width - len(mark), is_complete=length <= MAX_TOKENS)
        for line in lines:
            sample_lines.append(f"{mark}{line}")
            mark = "  "
    return sample_lines

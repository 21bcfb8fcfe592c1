"""What a built corpus holds, by source and by split, in a table as wide as the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from paribus.batch import N_SPECIAL_TOKENS
from paribus.cli.terminal.console import justify_method, table_width
from paribus.cli.terminal.field_format import format_field
from paribus.corpus import SplitCount, TokenisedCorpus, split_counts, truncation_remarks
from paribus.errors import SpecError
from paribus.report.numbers import (
    format_count,
    format_duration,
    format_percent,
    format_plain,
    format_size,
    significant,
)
from paribus.spec.training import Training


@dataclass(frozen=True)
class CorpusLine:
    """The counts of one split of a source, and its epochs in a run; None without a run, or if
    it is held out.
    """

    split_count: SplitCount
    epochs: float | None

    @property
    def is_first_of_source(self) -> bool:
        """Is it the first line of its source?"""
        return self.split_count.split == "train"

    @property
    def tokens_per_byte(self) -> float | None:
        if self.split_count.n_bytes:
            return self.split_count.n_tokens / self.split_count.n_bytes
        return None


@dataclass(frozen=True)
class CorpusColumn:
    """A heading, its cells, and how early it is dropped on a narrow page (0: never)."""

    heading: str
    cell: Callable[[CorpusLine], str]
    drop_order: int = 0
    is_number: bool = True

    @property
    def name(self) -> str:
        """The heading on one line."""
        return self.heading.replace("\n", " ")


def _format_source(line: CorpusLine) -> str:
    if line.is_first_of_source:
        return line.split_count.kind
    return ""


def _format_share(line: CorpusLine) -> str:
    if line.is_first_of_source:
        return format_percent(line.split_count.share)
    return ""


def _format_tokens_per_byte(line: CorpusLine) -> str:
    if line.tokens_per_byte is None:
        return ""
    return format_plain(line.tokens_per_byte, 3)


def _format_epochs(line: CorpusLine) -> str:
    if line.epochs is None:
        return ""
    if line.epochs < 1000:
        return significant(line.epochs)
    return f"{round(line.epochs):,}"


COLUMNS = (
    CorpusColumn("source", _format_source, is_number=False),
    CorpusColumn("share", _format_share, drop_order=2),
    CorpusColumn("split", lambda line: line.split_count.split, is_number=False),
    CorpusColumn("documents", lambda line: f"{line.split_count.n_documents:,}", drop_order=4),
    CorpusColumn("tokens", lambda line: format_count(line.split_count.n_tokens)),
    CorpusColumn("bytes", lambda line: format_size(line.split_count.n_bytes), drop_order=1),
    CorpusColumn("tokens\nper byte", _format_tokens_per_byte, drop_order=3),
    CorpusColumn("epochs", _format_epochs),
)


def print_corpus_table(dataset: TokenisedCorpus, training: Training | None, page: Console) -> None:
    """The table of what there is, the facts about it, and what a person should know."""
    epochs, notes = _epochs_and_notes(dataset, training)
    table, left_out = _fit_table(_corpus_lines(dataset, epochs), page)
    page.print(table)
    page.print()
    page.print(_fact_table(dataset, training))
    if left_out:
        notes.append(
            f"no room for {', '.join(left_out)}: a wider terminal or --json shows the rest"
        )
    for note in [*_reading_notes(dataset), *notes]:
        page.print(f"note: {note}", style="dim")


def print_build_summary(dataset: TokenisedCorpus, seconds: float, page: Console) -> None:
    """What was built, and where it lies."""
    for number, source in enumerate(dataset.spec.sources):
        n_documents, n_tokens, n_bytes = 0, 0, 0
        for count in split_counts(dataset):
            if count.source == number:
                n_documents += count.n_documents
                n_tokens += count.n_tokens
                n_bytes += count.n_bytes
        page.print(
            f"{source.kind}: {n_documents:,} documents, {format_count(n_tokens)} tokens,"
            f" {format_size(n_bytes)}"
        )
    page.print(_fact_table(dataset, None))
    for note in _reading_notes(dataset):
        page.print(f"note: {note}", style="dim")
    page.print(f"ready in {format_duration(seconds)}")


def corpus_json(dataset: TokenisedCorpus, training: Training | None) -> dict[str, Any]:
    """The corpus table for another program."""
    epochs, _ = _epochs_and_notes(dataset, training)
    lines = _corpus_lines(dataset, epochs)
    sources: list[dict[str, Any]] = []
    for number, index in enumerate(dataset.index.sources):
        own = [line for line in lines if line.split_count.source == number]
        source = {
            "kind": index.kind,
            "share": own[0].split_count.share,
            "epochs": None if epochs is None else epochs[number],
            "n_replaced": index.n_replaced,
            "n_empty": index.n_empty,
            "n_passed_over": index.n_passed_over,
            "n_unknown": index.n_unknown,
            "n_lost": index.n_lost,
            "splits": {line.split_count.split: _line_counts(line) for line in own},
        }
        sources.append(source)
    return {
        "fingerprint": dataset.fingerprint,
        "folder": str(dataset.folder),
        "tokenizer": dataset.spec.tokenizer.model_dump(mode="json"),
        "n_text": dataset.vocabulary.n_text,
        "n_vocab": dataset.vocabulary.size,
        "sources": sources,
    }


def _line_counts(line: CorpusLine) -> dict[str, Any]:
    count = line.split_count
    return {
        "n_documents": count.n_documents,
        "n_tokens": count.n_tokens,
        "n_bytes": count.n_bytes,
        "tokens_per_byte": line.tokens_per_byte,
    }


def _epochs_and_notes(
    dataset: TokenisedCorpus, training: Training | None
) -> tuple[tuple[float, ...] | None, list[str]]:
    """How often a run reads each source, or why it cannot; and what it cuts."""
    if training is None:
        return None, []
    try:
        epochs = dataset.epochs(
            training.data_seed, training.n_steps, training.n_sequences, training.length
        )
    except SpecError as fault:
        return None, [f"a run would be refused: {fault}"]
    return epochs, list(truncation_remarks(dataset, training.length))


def _corpus_lines(dataset: TokenisedCorpus, epochs: tuple[float, ...] | None) -> list[CorpusLine]:
    lines: list[CorpusLine] = []
    for count in split_counts(dataset):
        if epochs is not None and count.split == "train":
            lines.append(CorpusLine(count, epochs[count.source]))
        else:
            lines.append(CorpusLine(count, None))
    return lines


def _reading_notes(dataset: TokenisedCorpus) -> Iterator[str]:
    """What happened while reading and does not show in the counts."""
    for source in dataset.index.sources:
        counts = {
            "empty documents left out": source.n_empty,
            "files of other kinds skipped": source.n_passed_over,
            "UTF-8 errors replaced": source.n_replaced,
            "tokens for words unknown to the tokenizer": source.n_unknown,
            "letters lost, about, because they have no token": source.n_lost,
        }
        remarks = [f"{number:,} {what}" for what, number in counts.items() if number]
        if remarks:
            yield f"{source.kind}: {', '.join(remarks)}"


def _fact_table(dataset: TokenisedCorpus, training: Training | None) -> Table:
    tokenizer = format_field(dataset.spec.tokenizer.model_dump(mode="json"))
    rows = {
        "tokenizer": (
            f"{tokenizer}, {dataset.vocabulary.n_text:,} ids of text and {N_SPECIAL_TOKENS}"
            " special tokens"
        ),
        "fingerprint": dataset.fingerprint[:12],
        "folder": str(dataset.folder),
    }
    if training is not None:
        n_steps, n_sequences, length = training.n_steps, training.n_sequences, training.length
        rows["read"] = (
            f"{n_steps:,} steps × {n_sequences} × {length} ="
            f" {format_count(n_steps * n_sequences * length)} tokens"
        )
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows.items():
        table.add_row(name, text)
    return table


def _fit_table(lines: Sequence[CorpusLine], page: Console) -> tuple[Table, tuple[str, ...]]:
    """The table, and the headings there was no room for."""
    every = [column for column in COLUMNS if any(map(column.cell, lines))]
    columns, table = every, _build_table(lines, every)
    for columns in _narrower_columns(every):
        table = _build_table(lines, columns)
        if table_width(table, page).maximum <= page.width:
            break
    left_out = tuple(column.name for column in every if column not in columns)
    return table, left_out


def _narrower_columns(columns: list[CorpusColumn]) -> Iterator[list[CorpusColumn]]:
    yield columns
    droppable = [column for column in columns if column.drop_order]
    for leaving in sorted(droppable, key=lambda column: column.drop_order):
        columns = [column for column in columns if column is not leaving]
        yield columns


def _build_table(lines: Sequence[CorpusLine], columns: Sequence[CorpusColumn]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.heading, justify=justify_method(column.is_number), no_wrap=True)
    for line in lines:
        table.add_row(*(column.cell(line) for column in columns))
    return table

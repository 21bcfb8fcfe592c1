"""What a built corpus holds, source by source and split by split, on a page it fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from paribus.batch import N_SIGNS
from paribus.cli.terminal.console import room
from paribus.cli.terminal.spelling import spelled
from paribus.corpus import Built, Holding, cuts, holdings
from paribus.errors import SpecError
from paribus.report.numbers import count, duration, percent, size
from paribus.spec.training import Training


@dataclass(frozen=True)
class Line:
    """A holding, and how often a run reads it; None where there is no run, or it is held out."""

    held: Holding
    epochs: float | None

    @property
    def first(self) -> bool:
        """Of its source."""
        return self.held.split == "train"

    @property
    def tokens_per_byte(self) -> float | None:
        return self.held.n_tokens / self.held.n_bytes if self.held.n_bytes else None


@dataclass(frozen=True)
class Column:
    """A heading, what stands under it, and how early it goes when the page is narrow (0: never)."""

    heading: str
    cell: Callable[[Line], str]
    leaves: int = 0
    number: bool = True


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


COLUMNS = (
    Column("source", lambda line: line.held.kind if line.first else "", number=False),
    Column("share", lambda line: percent(line.held.share) if line.first else "", leaves=2),
    Column("split", lambda line: line.held.split, number=False),
    Column("documents", lambda line: f"{line.held.n_documents:,}", leaves=4),
    Column("tokens", lambda line: count(line.held.n_tokens)),
    Column("bytes", lambda line: size(line.held.n_bytes), leaves=1),
    Column("tokens\na byte", lambda line: _number(line.tokens_per_byte, ".3f"), leaves=3),
    Column("times\nread", lambda line: _number(line.epochs, ".3g" if (line.epochs or 0) < 1000 else ",.0f")),
)


def print_holdings(built: Built, training: Training | None, page: Console) -> None:
    """The table of what there is, the facts about it, and what a person should know."""
    epochs, notes = _epochs(built, training)
    table, left_out = _fitted(_lines(built, epochs), page)
    page.print(table)
    page.print()
    page.print(_facts(built, training))
    notes += [f"no room for {', '.join(left_out)}: a wider terminal or --json shows the rest"] if left_out else []
    for note in [*_met(built), *notes]:
        page.print(f"note: {note}", style="dim")


def print_built(built: Built, seconds: float, page: Console) -> None:
    """What was built, and where it lies."""
    for number, source in enumerate(built.corpus.sources):
        parts = [held for held in holdings(built) if held.source == number]
        n_documents, n_tokens, n_bytes = (
            sum(values) for values in zip(*((one.n_documents, one.n_tokens, one.n_bytes) for one in parts), strict=True)
        )
        page.print(f"{source.kind}: {n_documents:,} documents, {count(n_tokens)} tokens, {size(n_bytes)}")
    page.print(_facts(built, None))
    for note in _met(built):
        page.print(f"note: {note}", style="dim")
    page.print(f"ready in {duration(seconds)}")


def described(built: Built, training: Training | None) -> dict[str, Any]:
    """All of it, for another program."""
    epochs, _ = _epochs(built, training)
    lines = _lines(built, epochs)
    sources = [
        {
            "kind": index.kind,
            "share": next(line.held.share for line in lines if line.held.source == number),
            "epochs": None if epochs is None else epochs[number],
            "n_replaced": index.n_replaced,
            "n_empty": index.n_empty,
            "n_passed_over": index.n_passed_over,
            "n_unknown": index.n_unknown,
            "n_lost": index.n_lost,
            "splits": {line.held.split: _counts(line) for line in lines if line.held.source == number},
        }
        for number, index in enumerate(built.index.sources)
    ]
    return {
        "fingerprint": built.fingerprint,
        "folder": str(built.folder),
        "tokenizer": built.corpus.tokenizer.model_dump(mode="json"),
        "n_text": built.vocabulary.n_text,
        "n_vocab": built.vocabulary.size,
        "sources": sources,
    }


def _counts(line: Line) -> dict[str, Any]:
    held = line.held
    return {
        "n_documents": held.n_documents,
        "n_tokens": held.n_tokens,
        "n_bytes": held.n_bytes,
        "tokens_per_byte": line.tokens_per_byte,
    }


def _epochs(built: Built, training: Training | None) -> tuple[tuple[float, ...] | None, list[str]]:
    """How often a run reads each source, or why it cannot; and what it cuts."""
    if training is None:
        return None, []
    try:
        epochs = built.epochs(training.data_seed, training.n_steps, training.n_sequences, training.length)
    except SpecError as fault:
        return None, [f"a run would be refused: {fault}"]
    return epochs, list(cuts(built, training.length))


def _lines(built: Built, epochs: tuple[float, ...] | None) -> list[Line]:
    return [
        Line(held, epochs[held.source] if epochs is not None and held.split == "train" else None)
        for held in holdings(built)
    ]


def _met(built: Built) -> Iterator[str]:
    """What was met while reading and does not show in the counts."""
    for source in built.index.sources:
        met = {
            "documents without a letter left out": source.n_empty,
            "files of other kinds passed over": source.n_passed_over,
            "faults of UTF-8 replaced": source.n_replaced,
            "tokens for words that the tokenizer does not know": source.n_unknown,
            "letters or so lost, which have no token": source.n_lost,
        }
        if any(met.values()):
            yield f"{source.kind}: {', '.join(f'{number:,} {what}' for what, number in met.items() if number)}"


def _facts(built: Built, training: Training | None) -> Table:
    tokenizer = spelled(built.corpus.tokenizer.model_dump(mode="json"))
    rows = {
        "tokenizer": f"{tokenizer}, {built.vocabulary.n_text:,} ids of text and {N_SIGNS} signs",
        "fingerprint": built.fingerprint[:12],
        "folder": str(built.folder),
    }
    if training is not None:
        n_steps, n_sequences, length = training.n_steps, training.n_sequences, training.length
        rows["read"] = f"{n_steps:,} steps × {n_sequences} × {length} = {count(n_steps * n_sequences * length)} tokens"
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows.items():
        table.add_row(name, text)
    return table


def _fitted(lines: Sequence[Line], page: Console) -> tuple[Table, tuple[str, ...]]:
    """The table, and the headings there was no room for."""
    every = [column for column in COLUMNS if any(column.cell(line) for line in lines)]
    tries = [(columns, _table(lines, columns)) for columns in _narrower(every)]
    columns, table = next((one for one in tries if room(one[1], page).maximum <= page.width), tries[-1])
    return table, tuple(column.heading.replace("\n", " ") for column in every if column not in columns)


def _narrower(columns: list[Column]) -> Iterator[list[Column]]:
    yield columns
    for leaving in sorted((column for column in columns if column.leaves), key=lambda column: column.leaves):
        columns = [column for column in columns if column is not leaving]
        yield columns


def _table(lines: Sequence[Line], columns: Sequence[Column]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.heading, justify="right" if column.number else "left", no_wrap=True)
    for line in lines:
        table.add_row(*(column.cell(line) for column in columns))
    return table

"""The costs of a conversation as a table: one line an arm."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from paribus.cli.terminal.console import justify_method
from paribus.record.turn_study import TurnStudy
from paribus.report.turn_page import (
    NOTES,
    SUMMARY_HEADING,
    crossover_lines,
    describe_conversation,
    describe_moves,
    summary_lines,
)


def print_turn_study(page: Console, study: TurnStudy) -> None:
    """The conversation, the first and the last turn of each arm, and who pays more from when."""
    page.print(describe_conversation(study))
    page.print()
    page.print(_summary_table(study))
    page.print()
    for line in crossover_lines(study):
        page.print(line)
    for line in describe_moves(study):
        page.print(f"Moved for its size: {line}.", style="dim")
    for note in NOTES:
        page.print(note.replace("*", ""), style="dim")


def _summary_table(study: TurnStudy) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for place, name in enumerate(SUMMARY_HEADING):
        table.add_column(name, justify=justify_method(place > 0))
    for line in summary_lines(study):
        table.add_row(*line)
    return table

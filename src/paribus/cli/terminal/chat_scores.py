"""How many held-out messages of a chat each run answers exactly."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from paribus.record.chat_answers import ChatScore


def chat_score_table(scores: Mapping[str, ChatScore]) -> Table:
    """A line for each run: exact answers of all messages, by turn and by language."""
    turns: dict[int, None] = {}
    languages: dict[str, None] = {}
    for score in scores.values():
        turns |= dict.fromkeys(answer.turn for answer in score.answers)
        languages |= dict.fromkeys(answer.language for answer in score.answers)
    table = Table("answered exactly", box=None, pad_edge=False, header_style="bold")
    for name in ("all", *(f"turn {turn}" for turn in sorted(turns)), *languages):
        table.add_column(name, justify="right")
    for name, score in scores.items():
        parts = [score, *(score.in_turn(turn) for turn in sorted(turns))]
        parts += [score.in_language(language) for language in languages]
        table.add_row(name, *(f"{part.n_exact} of {part.n_messages}" for part in parts))
    return table

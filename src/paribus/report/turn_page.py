"""A study of conversations as Markdown: what was asked, the plots, who pays more from which turn,
and every number by turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paribus.analyse.turn_costs import (
    CostOrder,
    CostReading,
    cache_bytes,
    cost_orders,
    first_token_flops,
    first_token_seconds,
    growth_ratio,
    next_token_seconds,
    total_cost,
)
from paribus.record.turn_study import ArmTurns, TurnCosts, TurnStudy
from paribus.report.numbers import (
    DASH,
    format_count,
    format_duration,
    format_flops,
    format_plural,
    format_size,
    join_words,
    significant,
)

ORDER_WORDS = {-1: "less", 0: "as much", 1: "more"}
SUMMARY_HEADING = (
    "arm",
    "parameters",
    "first token, turn 1",
    "first token, last turn",
    "last over first",
    "FLOPs before the first token, turn 1",
    "last turn",
    "cache, last turn",
    "of that reused",
)
TURN_HEADING = (
    "turn",
    "tokens before the answer",
    "tokens read",
    "of these again",
    "FLOPs before the first token",
    "FLOPs of the turn",
    "cache",
    "of that reused",
    "first token",
    "each next token",
)
NOTES = (
    "*Tokens read* go through a stack before the first token of the answer is chosen; *again* are"
    " those that went through a stack in an earlier turn. The last token of an answer is read with"
    " the next turn, so turns after the first have one new token more. FLOPs are those of matrix"
    " products, for query-key pairs that the mask lets through. *Cache* is what the next token"
    " of the answer needs, at the end of a turn; *reused* is what the next turn need not compute"
    " again.",
    "Tokens, FLOPs and bytes are counted by arithmetic from the masks and sizes. Where an arm was"
    " measured, the tokens that went through its stacks and the bytes of its cache are the same"
    " numbers. Times are medians of interleaved repeats with their quartiles; all arms read the"
    " same text, one conversation at a time.",
)


def summary_lines(study: TurnStudy) -> list[tuple[str, ...]]:
    """One line an arm: its first and its last turn."""
    lines = []
    for arm in study.arms:
        first, last = arm.turns[0], arm.turns[-1]
        ratio = growth_ratio(arm, first_token_seconds)
        lines.append(
            (
                arm.name,
                format_count(arm.n_parameters),
                describe_seconds(first, first_token_seconds),
                describe_seconds(last, first_token_seconds),
                DASH if ratio is None else significant(ratio),
                format_flops(first.first_token_flops_visible),
                format_flops(last.first_token_flops_visible),
                format_size(last.cache_bytes),
                format_size(last.reused_bytes),
            )
        )
    return lines


def turn_lines(arm: ArmTurns) -> list[tuple[str, ...]]:
    """One line a turn."""
    lines = []
    for turn in arm.turns:
        lines.append(
            (
                str(turn.turn),
                str(turn.n_prompt),
                str(turn.n_read),
                str(turn.n_read_again),
                format_flops(turn.first_token_flops_visible),
                format_flops(turn.turn_flops_visible),
                format_size(turn.cache_bytes),
                format_size(turn.reused_bytes),
                describe_seconds(turn, first_token_seconds, with_quartiles=True),
                describe_seconds(turn, next_token_seconds, with_quartiles=True),
            )
        )
    return lines


def describe_seconds(turn: TurnCosts, reading: CostReading, with_quartiles: bool = False) -> str:
    """A time, with the quartiles where they are asked for; – where it was not measured."""
    cost = reading(turn)
    if cost is None:
        return DASH
    if not with_quartiles:
        return format_duration(cost.middle)
    low, high = format_duration(cost.low), format_duration(cost.high)
    return f"{format_duration(cost.middle)} ({low} to {high})"


def crossover_lines(study: TurnStudy) -> list[str]:
    """For each arm but the baseline: in which turns it costs less or more before the first token,
    counted and measured, and has a smaller or larger cache.
    """
    baseline, lines = study.arms[0], []
    for arm in study.arms[1:]:
        counted = describe_orders(cost_orders(arm, baseline, first_token_flops))
        line = f"{arm.name} against {baseline.name}: {counted} by count"
        measured = cost_orders(arm, baseline, first_token_seconds)
        if measured:
            line += f"; {describe_orders(measured)} by the clock"
        cache = describe_orders(cost_orders(arm, baseline, cache_bytes))
        lines.append(f"{line}. Cache: {cache}.{_total_note(arm, baseline)}")
    return lines


def _total_note(arm: ArmTurns, baseline: ArmTurns) -> str:
    """How the whole conversation compares, before first tokens."""
    notes = []
    for reading, words in ((first_token_flops, "FLOPs"), (first_token_seconds, "time")):
        own, other = total_cost(arm, reading), total_cost(baseline, reading)
        if own is not None and other:
            notes.append(f"{significant(own / other)} × the {words}")
    return f" Over all turns: {join_words(notes)}."


def describe_orders(orders: Sequence[CostOrder]) -> str:
    """Less in turn 1, more from turn 2 on."""
    if len(orders) == 1:
        return f"{ORDER_WORDS[orders[0].sign]} in every turn"
    words = []
    for place, order in enumerate(orders):
        if order.first_turn == order.last_turn:
            when = f"in turn {order.first_turn}"
        elif place == len(orders) - 1:
            when = f"from turn {order.first_turn} on"
        else:
            when = f"in turns {order.first_turn} to {order.last_turn}"
        words.append(f"{ORDER_WORDS[order.sign]} {when}")
    return join_words(words)


def describe_conversation(study: TurnStudy) -> str:
    """How long the conversation is, and on what it was held."""
    turns = format_plural(study.n_turns, "turn")
    text = f"{turns} of {study.n_user} tokens from the user and {study.n_answer} of the answer."
    if study.match != "nothing":
        text += f" Equal between the arms: {study.match.replace('_', ' ')}."
    if study.is_measured and study.environment is not None:
        environment = study.environment
        text += (
            f" Measured on {environment['device']}, {study.dtype}, torch {environment['torch']},"
            f" {format_plural(study.n_repeats, 'repeat')}."
        )
        if environment["device"] == "cpu":
            threads = format_plural(environment["n_threads"], "thread")
            text += f" The processor: {environment['processor']}, {threads}."
    else:
        text += " Counted; nothing was measured."
    return text


def describe_moves(study: TurnStudy) -> list[str]:
    """What moved in each arm for its size."""
    lines: dict[str, None] = {}
    for arm in study.arms:
        moves = []
        for path, (before, after) in arm.moved_fields.items():
            moves.append(f"{path} {before} → {after}")
        if moves:
            lines[f"{arm.name}: {', '.join(moves)}"] = None
    return list(lines)


@dataclass(frozen=True)
class PlotFile:
    """A plot in a file, with its title and how to read it."""

    name: str
    title: str
    caption: str


def turn_page(study: TurnStudy, plots: Sequence[PlotFile]) -> str:
    """The whole page, with plots that lie beside it."""
    return "\n".join(_page_lines(study, plots)) + "\n"


def _page_lines(study: TurnStudy, plots: Sequence[PlotFile]) -> Iterator[str]:
    yield f"# {study.question}\n"
    yield f"{describe_conversation(study)}\n"
    for plot in plots:
        yield f"**{plot.title}.** {plot.caption}\n"
        yield f"![{plot.title}]({plot.name})\n"
    yield "## Who pays more, and from which turn on\n"
    for line in crossover_lines(study):
        yield f"- {line}"
    yield "\n## First and last turn\n"
    yield from markdown_table(SUMMARY_HEADING, summary_lines(study))
    for line in describe_moves(study):
        yield f"\nMoved for its size: {line}."
    for note in NOTES:
        yield f"\n{note}"
    for arm in study.arms:
        yield f"\n## {arm.name}\n"
        yield from markdown_table(TURN_HEADING, turn_lines(arm))


def markdown_table(heading: Sequence[str], lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table of texts without marks of Markdown in them."""
    yield f"| {' | '.join(heading)} |"
    yield f"|{'---|' * len(heading)}"
    for line in lines:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |"

"""One objective on a card: examples of its question, and which presets may be asked it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from paribus.cli.terminal.interlinear import Row, interlinear
from paribus.cli.terminal.question import Example, examples, verdicts
from paribus.cli.terminal.spelling import spelled
from paribus.objectives.framing import PREFIXES, Framing
from paribus.spec.objectives import Objective, Seq2Seq, Simple

MAX_WIDTH = 110  # also where the page is wider: a reader goes from line to line
FRAMES: dict[Framing, str] = {
    "shifted": "one stack: every token is the answer to its neighbours",
    "in place": "one stack: answers are given where they are hidden",
    "together": "one stack: question and answer in one sequence",
    "apart": "encoder-decoder: the question to the encoder, the answer to the decoder",
}


def objective_card(objective: Objective, page: Console) -> None:
    """Print examples of an objective, and what it may be asked of."""
    width = min(page.width, MAX_WIDTH)
    page.print(objective.kind, style="bold")
    page.print((type(objective).__doc__ or "").partition("\n")[0])
    before = None
    for one in examples(objective):
        page.print()
        if one.part != before:
            before = one.part
            page.print(_question(one.part.objective, one.part.mode), style="bold")
        page.print(FRAMES[one.frame], style="dim")
        page.print(f"under a prefix mask, {PREFIXES[one.frame]}", style="dim", width=width)
        for rows in _rows(one):
            for line in interlinear(rows, width):
                page.print(line, no_wrap=True)
    page.print()
    page.print(_verdicts(verdicts(objective)), width=width)


def objective_described(objective: Objective) -> dict[str, Any]:
    """The same for another program; under `presets`, null where one may be trained, else why not."""
    shown = [{**asdict(one), "part": one.part.model_dump(mode="json")} for one in examples(objective)]
    return {
        "objective": objective.model_dump(mode="json"),
        "examples": [
            {
                **one,
                "asked": [{"at": place, "answer": answer} for place, answer in one["asked"].items()],
                "under_prefix_mask": PREFIXES[one["frame"]],
            }
            for one in shown
        ],
        "presets": verdicts(objective),
    }


def _question(objective: Simple, mode: str | None) -> str:
    needs = "pairs" if isinstance(objective, Seq2Seq) else "running text"
    under = f", under ‹{mode}›" if mode else ""
    return f"{spelled(objective.model_dump(mode='json'))}{under}, from {needs}"


def _rows(one: Example) -> Iterator[list[Row]]:
    """What is read and, beneath, what is to be answered there; an encoder's words stand before."""
    answers = Row("  answers", [one.asked.get(place, "") for place in range(len(one.reads))], "cyan")
    if one.source is not None:
        yield [Row("  encoder reads", one.source)]
        yield [Row("  decoder reads", one.reads), answers]
    else:
        lines = ["─" * len(word) if place < one.prefix else "" for place, word in enumerate(one.reads)]
        yield [Row("  reads", one.reads), Row("  prefix", lines, "dim"), answers]


def _verdicts(found: dict[str, str | None]) -> Table:
    refused: dict[str, list[str]] = {}
    for name, why in found.items():
        if why is not None:
            refused.setdefault(short(why), []).append(name)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_row("presets allowed", ", ".join(name for name, why in found.items() if why is None) or "none")
    for why, names in refused.items():
        table.add_row("refused", Text.assemble(", ".join(names), (f": {why}", "dim")))
    return table


def short(why: str) -> str:
    """A refusal without what was asked, which is known, and without what would do."""
    return re.sub(r"^objective\.kind is '\w+'(, under which| for an encoder-decoder, but) ", "", why).partition(";")[0]

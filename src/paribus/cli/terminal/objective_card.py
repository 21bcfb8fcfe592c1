"""One objective on a card: examples of it, and which presets can be trained with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from paribus.cli.terminal.field_format import format_field
from paribus.cli.terminal.interlinear import InterlinearRow, interlinear_lines
from paribus.cli.terminal.objective_example import (
    ObjectiveExample,
    objective_examples,
    preset_refusals,
)
from paribus.objectives.problem_layout import PREFIX_DESCRIPTIONS, ProblemLayout
from paribus.spec.objectives import Objective, Seq2Seq, SimpleObjective

MAX_WIDTH = 110  # also where the page is wider: a reader goes from line to line
FRAMING_DESCRIPTIONS: dict[ProblemLayout, str] = {
    "shifted": "one stack: each token is predicted from those on one side of it",
    "in place": "one stack: answers are given where they are hidden",
    "together": "one stack: source and target in one sequence",
    "apart": "encoder-decoder: the source to the encoder, the target to the decoder",
}


def print_objective_card(objective: Objective, page: Console) -> None:
    """Print examples of an objective, and the presets that can be trained with it."""
    width = min(page.width, MAX_WIDTH)
    page.print(objective.kind, style="bold")
    page.print((type(objective).__doc__ or "").partition("\n")[0])
    before = None
    for one in objective_examples(objective):
        page.print()
        if one.component != before:
            before = one.component
            page.print(_describe_component(before.objective, before.mode), style="bold")
        page.print(FRAMING_DESCRIPTIONS[one.frame], style="dim")
        page.print(
            f"under a prefix mask, {PREFIX_DESCRIPTIONS[one.frame]}", style="dim", width=width
        )
        for rows in _example_rows(one):
            for line in interlinear_lines(rows, width):
                page.print(line, no_wrap=True)
    page.print()
    page.print(_preset_table(preset_refusals(objective)), width=width)


def objective_json(objective: Objective) -> dict[str, Any]:
    """An objective for another program; under `presets`, null where one may be trained, else
    why not.
    """
    return {
        "objective": objective.model_dump(mode="json"),
        "examples": [_example_json(one) for one in objective_examples(objective)],
        "presets": preset_refusals(objective),
    }


def _example_json(example: ObjectiveExample) -> dict[str, Any]:
    table = asdict(example)
    return {
        **table,
        "component": example.component.model_dump(mode="json"),
        "answers": [{"at": place, "answer": answer} for place, answer in table["answers"].items()],
        "under_prefix_mask": PREFIX_DESCRIPTIONS[table["frame"]],
    }


def _describe_component(objective: SimpleObjective, mode: str | None) -> str:
    text = format_field(objective.model_dump(mode="json"))
    if mode:
        text += f", with the mode token ‹{mode}›"
    if isinstance(objective, Seq2Seq):
        return f"{text}, from pairs"
    return f"{text}, from running text"


def _example_rows(example: ObjectiveExample) -> Iterator[list[InterlinearRow]]:
    """What is read and, below it, what must be predicted there; the words of an encoder come
    first.
    """
    answers = InterlinearRow(
        "  answers", [example.answers.get(place, "") for place in range(len(example.reads))], "cyan"
    )
    if example.source is not None:
        yield [InterlinearRow("  encoder reads", example.source)]
        yield [InterlinearRow("  decoder reads", example.reads), answers]
    else:
        lines = [""] * len(example.reads)
        for place, word in enumerate(example.reads[: example.prefix]):
            lines[place] = "─" * len(word)
        yield [
            InterlinearRow("  reads", example.reads),
            InterlinearRow("  prefix", lines, "dim"),
            answers,
        ]


def _preset_table(refusals: dict[str, str | None]) -> Table:
    allowed_presets: list[str] = []
    presets_by_reason: dict[str, list[str]] = {}
    for name, why in refusals.items():
        if why is None:
            allowed_presets.append(name)
        else:
            presets_by_reason.setdefault(shorten_refusal(why), []).append(name)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_row("presets allowed", ", ".join(allowed_presets) or "none")
    for why, names in presets_by_reason.items():
        table.add_row("refused", Text.assemble(", ".join(names), (f": {why}", "dim")))
    return table


def shorten_refusal(refusal: str) -> str:
    """A refusal without what was asked, which is known, and without what would do."""
    return re.sub(
        r"^objective\.kind is '\w+'(, under which| for an encoder-decoder, but) ", "", refusal
    ).partition(";")[0]

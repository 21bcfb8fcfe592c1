"""The most likely tokens for each mask in a text, by a model that was trained to fill masks.

Write [MASK], <mask> or ‹mask› in the text. A space before it belongs to the token that is asked
for, where the tokenizer joins a word to the space before it. The probabilities are those of the
model; where there are several masks, each is filled while the others are masks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from paribus.cli.terminal.arguments import JsonOption
from paribus.cli.terminal.console import console, print_json, print_notes
from paribus.cli.terminal.folders import RUN_HELP, RUNS, RunsOption, TokenizerOption
from paribus.errors import SpecError
from paribus.generate import TextDecoder
from paribus.generate.masked_text import MaskCandidate, text_candidates
from paribus.interop.loaded_checkpoint import load_checkpoint
from paribus.report.numbers import score


def fill_mask(
    run: str | Path,
    text: str,
    n_candidates: int = 5,
    *,
    runs: str | Path = RUNS,
    tokenizer: str | Path | None = None,
) -> tuple[tuple[MaskCandidate, ...], ...]:
    """The most likely tokens for each mask of a text, the likeliest first, in a run or a
    checkpoint that was trained to fill masks.
    """
    if n_candidates < 1:
        raise SpecError(f"n_candidates is {n_candidates}; use a whole number from 1 up")
    checkpoint = load_checkpoint(run, runs, tokenizer=tokenizer)
    print_notes(*checkpoint.notes)
    decoder = TextDecoder(checkpoint.tokenizer, checkpoint.vocabulary)
    model = checkpoint.restore()
    return text_candidates(model, checkpoint.objective(), decoder, text, n_candidates)


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help=RUN_HELP)],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A text with [MASK] in it.")],
    n_candidates: Annotated[
        int, typer.Option("--candidates", min=1, metavar="N", help="Tokens for each mask.")
    ] = 5,
    tokenizer: TokenizerOption = None,
    runs: RunsOption = RUNS,
    as_json: JsonOption = False,
) -> None:
    found = fill_mask(run, text, n_candidates, runs=runs, tokenizer=tokenizer)
    if as_json:
        print_json([[vars(one) for one in candidates] for candidates in found])
        return
    table = Table("mask", "token", box=None, pad_edge=False, header_style="bold")
    table.add_column("probability", justify="right")
    for number, candidates in enumerate(found, 1):
        for one in candidates:
            table.add_row(f"{number}", repr(one.text), score(one.probability))
    console().print(table)

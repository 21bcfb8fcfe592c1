"""What a run would say after a text: greedily, or drawn at a temperature."""

import math
from pathlib import Path
from typing import Annotated

import torch
import typer

from paribus.cli.terminal.console import console, note
from paribus.cli.terminal.folders import RUN, RUNS, Runs, checkpoint_of
from paribus.cli.terminal.text import visible
from paribus.corpus.built import vocabulary_of
from paribus.corpus.tokenizer import opened
from paribus.errors import SpecError
from paribus.generate import continued
from paribus.model import restore
from paribus.train.checkpoint import TOKENIZER_FILE


def generate_text(
    run: str | Path,
    text: str,
    n_tokens: int = 100,
    temperature: float = 0.0,
    seed: int = 0,
    runs: str | Path = RUNS,
) -> str:
    """What follows a text in the newest whole checkpoint of a run, given by its name or its folder."""
    folder, notes = checkpoint_of(run, Path(runs))
    note(*notes)
    tokenizer = opened(folder / TOKENIZER_FILE)
    if not 0 <= temperature < math.inf:
        raise SpecError(f"temperature is {temperature}; use 0 or more")
    ids = tokenizer.ids(text)
    if not ids:
        raise SpecError("TEXT is empty; give something to go on from")
    model = restore(folder)
    context = torch.tensor([ids[-(model.spec.max_length - 1) :]])
    told = continued(model, vocabulary_of(tokenizer), context, n_tokens, temperature, seed)
    return tokenizer.text(told[0].tolist())


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help=RUN)],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to go on from.")],
    n_tokens: Annotated[int, typer.Option("--tokens", min=1, metavar="N", help="At most so many.")] = 100,
    temperature: Annotated[float, typer.Option(min=0.0, metavar="T", help="0 takes the likeliest.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of the draws.")] = 0,
    runs: Runs = RUNS,
) -> None:
    page, told = console(), generate_text(run, text, n_tokens, temperature, seed, runs)
    page.print(visible(told) if page.is_terminal else told, soft_wrap=True)

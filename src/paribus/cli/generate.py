"""What a run would say after a text: greedily, or drawn at a temperature."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import torch
import typer

from paribus.cli.terminal.console import console, note
from paribus.cli.terminal.folders import RUN, RUNS, Runs, checkpoint_of
from paribus.corpus.built import vocabulary_of
from paribus.corpus.tokenizer import opened
from paribus.errors import RecordError, SpecError
from paribus.evaluate import stage_of
from paribus.generate import continued
from paribus.model import Transformer, restore
from paribus.spec.objectives import LastToken, MaskedLM, parts
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
    n_read, n_said = _room(model, len(ids), n_tokens)
    note(*_remarks(folder), *_cut(len(ids), n_read, model.spec.max_length))
    context = torch.tensor([ids[-n_read:]])
    told = continued(model, vocabulary_of(tokenizer), context, n_said, temperature, seed)
    return tokenizer.text(told[0].tolist())


def _room(model: Transformer, n_given: int, n_tokens: int) -> tuple[int, int]:
    """How much of a text is read, and how much may be said: without an encoder they share a model's length."""
    most = model.spec.max_length
    if model.encoder is not None:
        return min(n_given, most), min(n_tokens, most)
    n_read = min(n_given, max(most + 1 - n_tokens, (most + 1) // 2))
    return n_read, min(n_tokens, most + 1 - n_read)


def _cut(n_given: int, n_read: int, most: int) -> Iterator[str]:
    if n_read < n_given:
        yield f"TEXT has {n_given} tokens, of which the last {n_read} are read: the model has a length of {most}"


def _remarks(checkpoint: Path) -> Iterator[str]:
    """What a run was asked in training may not be to go on."""
    run = checkpoint.absolute().parent.parent
    try:
        objective = stage_of(run).objective
    except RecordError:  # a checkpoint that lies elsewhere, or was trained by another version
        return
    if all(isinstance(part.objective, MaskedLM | LastToken) for part in parts(objective)):
        yield f"it was trained with {objective.kind!r} and never asked what comes next: what it says means little"


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help=RUN)],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to go on from.")],
    n_tokens: Annotated[
        int, typer.Option("--tokens", min=1, metavar="N", help="At most so many; no more than the model has room for.")
    ] = 100,
    temperature: Annotated[float, typer.Option(min=0.0, metavar="T", help="0 takes the likeliest.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of the draws.")] = 0,
    runs: Runs = RUNS,
) -> None:
    page, told = console(), generate_text(run, text, n_tokens, temperature, seed, runs)
    page.print(told, soft_wrap=True)

"""What a run would say after a text: greedily, or drawn at a temperature."""

from pathlib import Path
from typing import Annotated

import torch
import typer

from paribus.cli.terminal.console import console
from paribus.cli.terminal.folders import Runs
from paribus.corpus.built import vocabulary_of
from paribus.corpus.tokenizer import opened
from paribus.errors import RecordError, SpecError
from paribus.generate import continued
from paribus.model import restore
from paribus.record import existing, latest
from paribus.train.checkpoint import TOKENIZER_FILE


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The name of a run; `paribus runs` lists them.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to go on from.")],
    n_tokens: Annotated[int, typer.Option("--tokens", min=1, metavar="N", help="At most so many.")] = 100,
    temperature: Annotated[float, typer.Option(min=0.0, metavar="T", help="0 takes the likeliest.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of the draws.")] = 0,
    runs: Runs = Path("runs"),
) -> None:
    found = latest(existing(runs, run) / "checkpoints")
    if found.checkpoint is None:
        raise RecordError(f"{runs / run} has no checkpoint yet; train it further")
    model = restore(found.checkpoint.folder)
    tokenizer = opened(found.checkpoint.folder / TOKENIZER_FILE)
    ids = tokenizer.ids(text)
    if not ids:
        raise SpecError("TEXT is empty; give something to go on from")
    context = torch.tensor([ids[-(model.spec.max_length - 1) :]])
    told = continued(model, vocabulary_of(tokenizer), context, n_tokens, temperature, seed)
    console().print(tokenizer.text(told[0].tolist()), soft_wrap=True)

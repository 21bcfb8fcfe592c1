"""Continue a text with a trained model, greedily or by sampling at a temperature."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer

from paribus.cli.terminal.console import console, print_notes
from paribus.cli.terminal.folders import RUN_HELP, RUNS, RunsOption, TokenizerOption
from paribus.errors import SpecError
from paribus.evaluate import context_is_prefix
from paribus.generate import Sampling, continuation
from paribus.interop.loaded_checkpoint import LoadedCheckpoint, load_checkpoint
from paribus.model import Transformer
from paribus.spec.objectives import LastToken, MaskedLM, components_of


def generate_text(
    run: str | Path,
    text: str,
    sampling: Sampling | None = None,
    *,
    runs: str | Path = RUNS,
    tokenizer: str | Path | None = None,
) -> str:
    """What follows a text in a run, given by its name or its folder, or in a checkpoint, also
    an imported one.

    Of a run, the newest complete checkpoint is taken. `tokenizer` is a tokenizer.json for a
    checkpoint that has none.
    """
    sampling = sampling or Sampling()
    checkpoint = load_checkpoint(run, runs, tokenizer=tokenizer)
    print_notes(*checkpoint.notes)
    if not checkpoint.tokenizer.encode(text):
        raise SpecError("TEXT is empty; give a text to continue")
    ids, vocabulary = checkpoint.encode_text(text), checkpoint.vocabulary
    model = checkpoint.restore()
    n_read, n_new = _split_length(model, len(ids), sampling.n_tokens)
    print_notes(*_remarks(checkpoint), *_truncation_note(len(ids), n_read, model.spec.max_length))
    context = torch.tensor([ids[-n_read:]])
    is_prefix = checkpoint.stage is None or context_is_prefix(checkpoint.stage.objective)
    sampling = replace(sampling, n_tokens=n_new)
    answer = continuation(model, vocabulary, context, sampling, context_is_prefix=is_prefix)
    special = set((vocabulary.own_special_tokens or {}).values())
    text_ids = [number for number in answer[0].tolist() if number not in special]
    return checkpoint.tokenizer.decode(text_ids)


def _split_length(model: Transformer, n_context: int, n_tokens: int) -> tuple[int, int]:
    """How many tokens are read and how many may be new: without an encoder both share the
    model's length.
    """
    most = model.spec.max_length
    if model.encoder is not None:
        return min(n_context, most), min(n_tokens, most)
    n_read = min(n_context, max(most + 1 - n_tokens, (most + 1) // 2))
    return n_read, min(n_tokens, most + 1 - n_read)


def _truncation_note(n_context: int, n_read: int, max_length: int) -> Iterator[str]:
    if n_read < n_context:
        yield (
            f"TEXT has {n_context} tokens, of which only the last {n_read} are read: the length"
            f" of the model is {max_length}"
        )


def _remarks(checkpoint: LoadedCheckpoint) -> Iterator[str]:
    """A note if a run was not trained to predict the next token."""
    if checkpoint.stage is None:
        return
    objective = checkpoint.stage.objective
    if all(isinstance(one.objective, MaskedLM | LastToken) for one in components_of(objective)):
        yield (
            f"it was trained with {objective.kind!r} and never predicted the next token:"
            " its output means little"
        )


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help=RUN_HELP)],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text to continue.")],
    n_tokens: Annotated[
        int,
        typer.Option(
            "--tokens",
            min=1,
            metavar="N",
            help="Maximum number of new tokens; the length of the model may allow fewer.",
        ),
    ] = 100,
    temperature: Annotated[
        float,
        typer.Option(
            min=0.0, metavar="T", help="Sampling temperature; 0 takes the most likely token."
        ),
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the sampling.")] = 0,
    tokenizer: TokenizerOption = None,
    runs: RunsOption = RUNS,
) -> None:
    page = console()
    sampling = Sampling(n_tokens, temperature, seed)
    answer = generate_text(run, text, sampling, runs=runs, tokenizer=tokenizer)
    page.print(answer, soft_wrap=True)

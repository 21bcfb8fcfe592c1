"""Continue a text with a trained model, greedily or by sampling at a temperature."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from paribus.cli.terminal.console import console, print_notes
from paribus.cli.terminal.folders import RUN_HELP, RUNS, RunsOption, TokenizerOption
from paribus.errors import RecordError, SpecError, UnsupportedError
from paribus.generate import Sampling, generate_answers
from paribus.interop.loaded_checkpoint import LoadedCheckpoint, load_checkpoint
from paribus.objectives.framing import ItemLayout, generation_layout, lay_context
from paribus.spec.objectives import LastToken, MaskedLM, Objective, components_of


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

    Of a run, the newest complete checkpoint is taken. One that was trained on conversations reads
    the text as the turn of a user, and answers until the end of its turn. `tokenizer` is a
    tokenizer.json for a checkpoint that has none.
    """
    sampling = sampling or Sampling()
    checkpoint = load_checkpoint(run, runs, tokenizer=tokenizer)
    print_notes(*checkpoint.notes)
    if not checkpoint.tokenizer.encode(text):
        raise SpecError("TEXT is empty; give a text to continue")
    model = checkpoint.restore()
    layout, ids = _layout_and_tokens(checkpoint, text)
    n_truncated = lay_context(layout, ids, sampling.n_tokens).n_truncated
    print_notes(*_remarks(checkpoint), *_truncation_note(len(ids), n_truncated, layout.window))
    (answer,) = generate_answers(model, layout, [ids], sampling)
    special = set((checkpoint.vocabulary.own_special_tokens or {}).values())
    text_ids = [number for number in answer.tokens if number not in special]
    return checkpoint.tokenizer.decode(text_ids)


def _layout_and_tokens(checkpoint: LoadedCheckpoint, text: str) -> tuple[ItemLayout, list[int]]:
    """How a text is laid before a model, and its tokens. An imported tokenizer adds what it always
    adds where nobody knows what its model was trained to predict.
    """
    spec, vocabulary = checkpoint.spec, checkpoint.vocabulary
    objective = _objective_of(checkpoint)
    layout = generation_layout(objective, spec, vocabulary, spec.max_length)
    if objective is None:
        return layout, checkpoint.encode_text(text)
    in_turns = checkpoint.chat_template is not None
    return replace(layout, in_turns=in_turns), checkpoint.encode_prompt(text)


def _objective_of(checkpoint: LoadedCheckpoint) -> Objective | None:
    """What a model was trained to predict; None where that is not known."""
    try:
        return checkpoint.objective()
    except (UnsupportedError, RecordError):
        return None


def _truncation_note(n_context: int, n_truncated: int, max_length: int) -> Iterator[str]:
    if n_truncated:
        yield (
            f"TEXT has {n_context} tokens, of which only the last {n_context - n_truncated} are"
            f" read: the length"
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

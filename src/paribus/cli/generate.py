"""Continue a text with a trained model: greedily, by sampling or by beam search.

At temperature 0, the default, each token is the most likely one. Above 0 tokens are drawn: the
repetition penalty changes the logits first, then the temperature divides them, and --top-k, --top-p
and --min-p remove tokens, in this order. The same seed gives the same text. --beams searches for
the most likely texts as a whole.

A model that was trained to fill masks, such as BERT, is given --tokens masks after the text, and
fills them from left to right or, with --order confident, the most confident first.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, cast

import typer

from paribus.cli.terminal.arguments import JsonOption
from paribus.cli.terminal.console import console, print_json, print_notes
from paribus.cli.terminal.folders import RUN_HELP, RUNS, RunsOption, TokenizerOption
from paribus.cli.terminal.logprob_table import answer_json, logprob_table
from paribus.errors import SpecError
from paribus.generate import (
    GeneratedAnswer,
    Sampling,
    TextDecoder,
    fill_answers,
    generate_answers,
)
from paribus.generate.mask_filling import fills_masks
from paribus.generate.settings import FillOrder
from paribus.interop.loaded_checkpoint import LoadedCheckpoint, load_checkpoint
from paribus.objectives.framing import ItemLayout, lay_context
from paribus.serve.speaker import prompt_ids, prompt_layout
from paribus.spec.objectives import LastToken, MaskedLM, components_of
from paribus.spec.run import Stage


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
    if sampling is not None and sampling.n_samples > 1:
        raise SpecError(
            f"n_samples is {sampling.n_samples}, but generate_text gives one text; use"
            " generate_texts"
        )
    (answer,) = generate_texts(run, text, sampling, runs=runs, tokenizer=tokenizer)
    assert answer.text is not None
    return answer.text


def generate_texts(
    run: str | Path,
    text: str,
    sampling: Sampling | None = None,
    *,
    runs: str | Path = RUNS,
    tokenizer: str | Path | None = None,
) -> tuple[GeneratedAnswer, ...]:
    """What follows a text, `n_samples` times: tokens with their text and, where they are asked
    for, log-probabilities; see `generate_text`.
    """
    checkpoint = load_checkpoint(run, runs, tokenizer=tokenizer)
    print_notes(*checkpoint.notes)
    return _texts_of(checkpoint, text, sampling or Sampling())


def _texts_of(
    checkpoint: LoadedCheckpoint, text: str, sampling: Sampling
) -> tuple[GeneratedAnswer, ...]:
    if not checkpoint.tokenizer.encode(text):
        raise SpecError("TEXT is empty; give a text to continue")
    model = checkpoint.restore()
    layout, ids = prompt_layout(checkpoint, model), prompt_ids(checkpoint, text)
    n_truncated = lay_context(layout, ids, sampling.n_tokens).n_truncated
    print_notes(*_remarks(checkpoint, layout))
    print_notes(*_truncation_note(len(ids), n_truncated, layout.window))
    decoder = TextDecoder(checkpoint.tokenizer, checkpoint.vocabulary)
    if fills_masks(layout.component.objective):
        return fill_answers(model, layout, [ids], sampling, decoder)
    return generate_answers(model, layout, [ids], sampling, decoder=decoder)


def _truncation_note(n_context: int, n_truncated: int, max_length: int) -> Iterator[str]:
    if n_truncated:
        yield (
            f"TEXT has {n_context} tokens, of which only the last {n_context - n_truncated} are"
            f" read: the length"
            f" of the model is {max_length}"
        )


def _remarks(checkpoint: LoadedCheckpoint, layout: ItemLayout) -> Iterator[str]:
    """A note if a run was not trained to predict the next token."""
    if fills_masks(layout.component.objective):
        yield "it fills masks after TEXT, and was not trained to go on from a text"
    elif checkpoint.stage is not None:
        yield from _objective_remarks(checkpoint.stage)


def _objective_remarks(stage: Stage) -> Iterator[str]:
    objective = stage.objective
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
    top_k: Annotated[
        int,
        typer.Option(min=0, metavar="K", help="Draw from the K most likely tokens; 0: from all."),
    ] = 0,
    top_p: Annotated[
        float,
        typer.Option(
            max=1.0,
            metavar="P",
            help="Draw from the fewest tokens whose probability adds up to P; 1: from all.",
        ),
    ] = 1.0,
    min_p: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1.0,
            metavar="P",
            help="Draw from tokens at least P times as likely as the most likely one.",
        ),
    ] = 0.0,
    repetition_penalty: Annotated[
        float,
        typer.Option(
            metavar="X", help="Above 1, tokens that were read or said before are less likely."
        ),
    ] = 1.0,
    stop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="End the answer before this text. May be repeated, up to 64 times."
        ),
    ] = None,
    n_samples: Annotated[
        int, typer.Option("--samples", min=1, metavar="N", help="Number of answers.")
    ] = 1,
    n_logprobs: Annotated[
        int | None,
        typer.Option(
            "--logprobs",
            min=0,
            metavar="K",
            help="Print the log-probability of each token, before temperature and filters, and"
            " those of the K most likely ones.",
        ),
    ] = None,
    n_beams: Annotated[
        int, typer.Option("--beams", min=1, metavar="N", help="Beam search with N beams.")
    ] = 1,
    length_penalty: Annotated[
        float,
        typer.Option(
            metavar="X",
            help="With --beams, divide log-probabilities by length to this power: above 0 favours"
            " long answers.",
        ),
    ] = 1.0,
    order: Annotated[
        str,
        typer.Option(
            "--order",
            metavar="ORDER",
            help="Of a model that fills masks: left (to right) or confident.",
        ),
    ] = "left",
    tokenizer: TokenizerOption = None,
    runs: RunsOption = RUNS,
    as_json: JsonOption = False,
) -> None:
    sampling = Sampling(
        n_tokens=n_tokens,
        temperature=temperature,
        seed=seed,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        stop=tuple(stop or ()),
        n_samples=n_samples,
        n_logprobs=n_logprobs,
        n_beams=n_beams,
        length_penalty=length_penalty,
        order=cast(FillOrder, order),
    )
    checkpoint = load_checkpoint(run, runs, tokenizer=tokenizer)
    print_notes(*checkpoint.notes)
    answers = _texts_of(checkpoint, text, sampling)
    decoder = TextDecoder(checkpoint.tokenizer, checkpoint.vocabulary)
    if as_json:
        print_json([answer_json(answer, decoder) for answer in answers])
    else:
        _print_answers(answers, decoder)


def _print_answers(answers: tuple[GeneratedAnswer, ...], decoder: TextDecoder) -> None:
    """Each answer, under its number where there are several, and with its tokens where their
    log-probabilities were asked for.
    """
    page = console()
    for number, answer in enumerate(answers, 1):
        if len(answers) > 1:
            page.print(f"sample {number} of {len(answers)}", style="bold")
        page.print(answer.text, soft_wrap=True)
        if answer.logprobs is not None:
            page.print(logprob_table(answer, decoder))

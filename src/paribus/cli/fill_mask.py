"""The most likely tokens for each mask in a text, by a model that was trained to fill masks.

Write [MASK], <mask> or ‹mask› in the text. A space before it belongs to the token that is asked
for, where the tokenizer joins a word to the space before it. The probabilities are those of the
model; where there are several masks, each is filled while the others are masks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from paribus.cli.terminal.arguments import JsonOption
from paribus.cli.terminal.console import console, print_json, print_notes
from paribus.cli.terminal.folders import RUN_HELP, RUNS, RunsOption, TokenizerOption
from paribus.cli.terminal.logprob_table import token_text
from paribus.corpus import Tokenizer
from paribus.errors import SpecError
from paribus.generate import TextDecoder
from paribus.generate.mask_filling import mask_candidates, mask_filling_layout
from paribus.interop.loaded_checkpoint import load_checkpoint
from paribus.report.numbers import score

MASK_WORDS = re.compile(r"\[MASK\]|<mask>|‹mask›")
_JOINED_SPACES = ("Ġ", "▁")  # how vocabularies write the space that begins a word


@dataclass(frozen=True)
class MaskCandidate:
    """A token that may stand under a mask, and the probability that a model gives it."""

    token: int
    text: str
    probability: float


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
    spec, vocabulary = checkpoint.spec, checkpoint.vocabulary
    layout = mask_filling_layout(checkpoint.objective(), spec, vocabulary, spec.max_length)
    tokens = encode_masked_text(text, checkpoint.tokenizer, vocabulary.mask)
    decoder = TextDecoder(checkpoint.tokenizer, vocabulary)
    found = []
    for candidates in mask_candidates(checkpoint.restore(), layout, tokens, n_candidates):
        own = []
        for token, probability in candidates:
            own.append(MaskCandidate(token, token_text(token, decoder), probability))
        found.append(tuple(own))
    return tuple(found)


def encode_masked_text(text: str, tokenizer: Tokenizer, mask: int) -> list[int]:
    """The tokens of a text, with the mask token for each mask that is written in it."""
    joins_space = any(
        len(word) > 1 and word.startswith(_JOINED_SPACES)
        for word in tokenizer.library.get_vocab(with_added_tokens=False)
    )
    pieces = MASK_WORDS.split(text)
    tokens: list[int] = []
    for piece in pieces[:-1]:
        if joins_space:
            piece = piece.removesuffix(" ")
        tokens += [*tokenizer.encode(piece), mask]
    return [*tokens, *tokenizer.encode(pieces[-1])]


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

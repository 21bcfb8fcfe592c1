"""Texts with masks that people write, and the tokens that may stand under them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from paribus.corpus import Tokenizer
from paribus.generate.mask_filling import mask_candidates, mask_filling_layout
from paribus.generate.text_stream import TextDecoder
from paribus.model import Transformer
from paribus.spec.objectives import Objective

MASK_WORDS = re.compile(r"\[MASK\]|<mask>|‹mask›")
_JOINED_SPACES = ("Ġ", "▁")  # how vocabularies write the space that begins a word


@dataclass(frozen=True)
class MaskCandidate:
    """A token that may stand under a mask, and the probability that a model gives it."""

    token: int
    text: str
    probability: float


def text_candidates(
    model: Transformer, objective: Objective, decoder: TextDecoder, text: str, n_candidates: int
) -> tuple[tuple[MaskCandidate, ...], ...]:
    """The most likely tokens for each mask of a text, the likeliest first."""
    vocabulary = decoder.vocabulary
    layout = mask_filling_layout(objective, model.spec, vocabulary, model.spec.max_length)
    tokens = encode_masked_text(text, decoder.tokenizer, vocabulary.mask)
    every = []
    for candidates in mask_candidates(model, layout, tokens, n_candidates):
        own = []
        for token, probability in candidates:
            own.append(MaskCandidate(token, decoder.token_text(token), probability))
        every.append(tuple(own))
    return tuple(every)


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

"""Answers to contexts of tokens: each laid before the model as it is scored, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.nn.utils.rnn import pad_sequence

from paribus.generate.sampling import Sampling, continuation
from paribus.model import Transformer
from paribus.objectives.framing import Ids, ItemLayout, lay_context


@dataclass(frozen=True)
class GeneratedAnswer:
    """The tokens of an answer without what ended it, and how much of its context was not read."""

    tokens: Ids
    is_ended: bool  # by the model itself; else by a limit
    n_truncated: int


def generate_answers(
    model: Transformer,
    layout: ItemLayout,
    contexts: Sequence[Sequence[int]],
    sampling: Sampling,
    is_done: Callable[[Ids], bool] | None = None,
) -> tuple[GeneratedAnswer, ...]:
    """What a model says after each context; a row ends early where `is_done` says so of its
    tokens.
    """
    laid_contexts = []
    for context in contexts:
        laid_contexts.append(lay_context(layout, context, sampling.n_tokens))
    device = model.embedding.weight.device
    rows = [torch.tensor(laid.inputs) for laid in laid_contexts]
    inputs_BT = pad_sequence(rows, batch_first=True, padding_value=layout.vocabulary.pad)
    lengths_B = None
    if len({len(row) for row in rows}) > 1:
        lengths_B = torch.tensor([len(row) for row in rows]).to(device)
    said = continuation(model, layout, inputs_BT.to(device), sampling, lengths_B, is_done)
    answers = []
    for laid, tokens, n_tokens in zip(
        laid_contexts, said.tokens_BT.tolist(), said.lengths_B.tolist(), strict=True
    ):
        answers.append(_answer(layout, tuple(tokens[:n_tokens]), laid.n_truncated))
    return tuple(answers)


def _answer(layout: ItemLayout, tokens: Ids, n_truncated: int) -> GeneratedAnswer:
    is_ended = tokens[-1:] != () and tokens[-1] in layout.end_tokens
    if is_ended:
        tokens = tokens[:-1]
    return GeneratedAnswer(tokens, is_ended, n_truncated)

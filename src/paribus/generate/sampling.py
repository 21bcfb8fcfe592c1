"""Tokens after tokens, greedily or by chance, each from everything before it computed anew."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
import torch
from torch import Tensor

from paribus.batch import Batch, Vocabulary
from paribus.errors import SpecError, UnsupportedError
from paribus.masks import SequenceLayout, find_leak
from paribus.model import Transformer
from paribus.runtime import numpy_generator

MAX_FLOAT = sys.float_info.max


def can_generate(model: Transformer, length: int | None = None, prefix: int = 0) -> bool:
    """Can it be asked for next tokens in a text of this length, or of its own: does no position
    see its answer?
    """
    length = model.spec.max_length if length is None else length
    answers = np.arange(1, length + 1)
    answers[: max(prefix - 1, 0)] = -1  # what is given is not asked for
    answers[-1:] = -1
    return find_leak(model.spec.stack.masks, SequenceLayout(length, prefix), answers) is None


@dataclass(frozen=True)
class Sampling:
    """How many tokens are said, and how they are drawn: the likeliest at temperature 0.

    SpecError unless tokens can be drawn so.
    """

    n_tokens: int = 100
    temperature: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        _require_sampling(self.n_tokens, self.temperature, self.seed)


@torch.no_grad()
def continuation(
    model: Transformer,
    vocabulary: Vocabulary,
    context_BT: Tensor,
    sampling: Sampling,
    lengths_B: Tensor | None = None,
    context_is_prefix: bool = True,
) -> Tensor:
    """What follows each context, [B, n]: the likeliest token at temperature 0, else one drawn
    by (seed, row, place).

    Contexts of several lengths stand at the left of their rows, and `lengths_B` says how long each
    is. After an `end`, or where the model has no more room, a row is padded. An encoder reads the
    context; without one it is the prefix, unless the model was trained without.
    """
    n_tokens, temperature = sampling.n_tokens, float(sampling.temperature)
    _require_lengths(context_BT, lengths_B)
    _require_generation(model, context_BT, n_tokens, lengths_B)
    continuation_BT = context_BT[:, :0]
    is_finished = torch.zeros(len(context_BT), dtype=torch.bool, device=context_BT.device)
    for place in range(n_tokens):
        is_finished = is_finished | (
            _n_positions_read(model, context_BT, lengths_B, place) > model.spec.max_length
        )
        if bool(is_finished.all()):
            break
        logits_BV = _next_logits(
            model, vocabulary, context_BT, lengths_B, continuation_BT, context_is_prefix
        )
        if temperature == 0:
            token_B = logits_BV.argmax(-1)
        else:
            token_B = _sample_tokens(logits_BV, temperature, sampling.seed, place)
        token_B = torch.where(is_finished, vocabulary.pad, token_B)
        is_finished = is_finished | (token_B == vocabulary.eos)
        continuation_BT = torch.cat([continuation_BT, token_B[:, None]], 1)
    return continuation_BT


def _require_sampling(n_tokens: int, temperature: float, seed: int) -> None:
    problems = []
    if not _is_integer(n_tokens) or n_tokens < 1:
        problems.append(f"n_tokens is {n_tokens!r}; use a whole number from 1 up")
    if (
        isinstance(temperature, bool)
        or not isinstance(temperature, Real)
        or not 0 <= temperature <= MAX_FLOAT
    ):
        problems.append(f"temperature is {temperature!r:.40}; use 0 or more, and below infinity")
    if not _is_integer(seed) or seed < 0:
        problems.append(f"seed is {seed!r}; use a whole number from 0 up")
    if problems:
        raise SpecError(problems)


def _is_integer(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _require_generation(
    model: Transformer, context: Tensor, n_tokens: int, lengths: Tensor | None
) -> None:
    """UnsupportedError if a position sees the one after it in any text that is made, with a
    prefix or without.
    """
    context_lengths = {context.shape[1]} if lengths is None else set(lengths.tolist())
    for n_context in (
        sorted(context_lengths) if model.encoder is None else (1,)
    ):  # a decoder is given its start alone
        length = min(n_context + n_tokens, model.spec.max_length)
        prefixes = {0, min(n_context, length)} if model.encoder is None else {0}
        if not all(can_generate(model, length, prefix) for prefix in prefixes):
            raise UnsupportedError(
                f"the mask {model.architecture.mask} lets a position see later tokens, so it"
                " cannot predict them; generate with a causal, prefix or encoder-decoder model"
            )


def _require_lengths(context: Tensor, lengths: Tensor | None) -> None:
    longest = context.shape[1]
    if lengths is None:
        return
    if lengths.shape != context.shape[:1] or bool(((lengths < 1) | (lengths > longest)).any()):
        raise SpecError(
            f"lengths_B is {lengths.tolist()} beside contexts {list(context.shape)}; "
            f"give one of 1 to {longest} for each of {len(context)} rows"
        )


def _n_positions_read(
    model: Transformer, context: Tensor, lengths: Tensor | None, step: int
) -> Tensor:
    """How many positions the main stack reads before it says the token of a place."""
    if model.encoder is not None:
        return torch.full_like(context[:, 0], 1 + step)
    return (torch.full_like(context[:, 0], context.shape[1]) if lengths is None else lengths) + step


def _next_logits(
    model: Transformer,
    vocabulary: Vocabulary,
    context: Tensor,
    lengths: Tensor | None,
    generated: Tensor,
    context_is_prefix: bool,
) -> Tensor:
    """Scores of every token of text, and of the end, for the place after the last."""
    if model.encoder is not None:
        start = torch.full_like(context[:, :1], vocabulary.decoder_start)
        # as in training: all of a source is its prefix
        whole = context.shape[1] if lengths is None else lengths
        source = Batch.of(context, prefix=whole, real_BT=_real_mask(lengths, context.shape[1]))
        batch = Batch.of(torch.cat([start, generated], 1), source=source)
    elif lengths is None:
        batch = Batch.of(
            torch.cat([context, generated], 1), prefix=context.shape[1] if context_is_prefix else 0
        )
    else:
        batch = _ragged_batch(context, lengths, generated, model.spec.max_length, context_is_prefix)
    last_B = (_n_positions_read(model, context, lengths, generated.shape[1]) - 1).clamp(
        max=batch.layout.length - 1
    )
    states_BTD = model.hidden_states(batch).states_BTD
    logits = model.logits(
        states_BTD[torch.arange(len(last_B), device=last_B.device), last_B]
    ).float()
    sayable = torch.arange(logits.shape[-1], device=logits.device)
    return logits.masked_fill(
        (sayable >= vocabulary.n_text) & (sayable != vocabulary.eos), float("-inf")
    )


def _ragged_batch(
    context: Tensor, lengths: Tensor, generated: Tensor, max_length: int, context_is_prefix: bool
) -> Batch:
    """Each context with what was told right after it, padded on the right, cut where no row has
    more room.
    """
    n_told = generated.shape[1]
    whole = torch.cat([context, generated], 1)
    whole = whole.scatter(
        1, lengths[:, None] + torch.arange(n_told, device=generated.device), generated
    )
    longest = min(int(lengths.max()) + n_told, max_length)
    prefix = lengths if context_is_prefix else 0
    return Batch.of(
        whole[:, :longest], prefix=prefix, real_BT=_real_mask(lengths + n_told, longest)
    )


def _real_mask(lengths: Tensor | None, longest: int) -> Tensor | None:
    if lengths is None:
        return None
    return torch.arange(longest, device=lengths.device) < lengths[:, None]


def _sample_tokens(logits_BV: Tensor, temperature: float, seed: int, step: int) -> Tensor:
    """One token a row by its own draw, so that a row says the same in any company."""
    chances = [
        numpy_generator(seed, "generate", row, step).random() for row in range(len(logits_BV))
    ]
    # Below the largest first: however low the temperature, the likeliest stays 0 and nothing
    # overflows.
    below_BV = (logits_BV - logits_BV.amax(-1, keepdim=True)).double() / temperature
    cumulative = below_BV.softmax(-1).cumsum(-1)
    return (
        cumulative < torch.tensor(chances, device=logits_BV.device)[:, None] * cumulative[:, -1:]
    ).sum(-1)

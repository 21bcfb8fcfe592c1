"""Tokens after tokens, greedily or by chance, each from everything before it computed anew."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
import torch
from torch import Tensor

from paribus.batch import Batch
from paribus.errors import SpecError, UnsupportedError
from paribus.masks import SequenceLayout, find_leak
from paribus.model import Transformer
from paribus.objectives.framing import Ids, ItemLayout
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


@dataclass(frozen=True, eq=False)
class GeneratedTokens:
    """Tokens after each context, padded on the right, and how many of them were said."""

    tokens_BT: Tensor
    lengths_B: Tensor


@torch.no_grad()
def continuation(
    model: Transformer,
    layout: ItemLayout,
    inputs_BT: Tensor,
    sampling: Sampling,
    lengths_B: Tensor | None = None,
    is_done: Callable[[Ids], bool] | None = None,
) -> GeneratedTokens:
    """What follows each context: the likeliest token at temperature 0, else one drawn
    by (seed, row, place).

    `inputs_BT` are contexts as `layout` lays them, and `opening` opens each answer without being
    part of it. Contexts of several lengths stand at the left of their rows, and `lengths_B` says
    how long each is. After one of the layout's ends, where `is_done` says so of a row's tokens, or
    where the window has no more room, a row is padded.
    """
    _require_lengths(inputs_BT, lengths_B)
    _require_generation(model, layout, inputs_BT, sampling.n_tokens, lengths_B)
    ends = torch.tensor(layout.end_tokens, device=inputs_BT.device)
    opening = torch.tensor(layout.opening, dtype=inputs_BT.dtype, device=inputs_BT.device)
    answer_BT = opening.expand(len(inputs_BT), -1)
    is_finished = torch.zeros(len(inputs_BT), dtype=torch.bool, device=inputs_BT.device)
    said_B = torch.zeros_like(inputs_BT[:, 0])
    for place in range(sampling.n_tokens):
        n_read_B = _n_positions_read(layout, inputs_BT, lengths_B, answer_BT.shape[1])
        is_finished = is_finished | (n_read_B > layout.window)
        if bool(is_finished.all()):
            break
        logits_BV = next_logits(model, layout, inputs_BT, lengths_B, answer_BT)
        if layout.bars_special_tokens:
            logits_BV = _bar_special_tokens(logits_BV, layout)
        token_B = _choose_tokens(logits_BV, sampling, place)
        token_B = torch.where(is_finished, layout.vocabulary.pad, token_B)
        answer_BT = torch.cat([answer_BT, token_B[:, None]], 1)
        said_B = said_B + ~is_finished
        is_finished = is_finished | torch.isin(token_B, ends)
        if is_done is not None:
            is_finished = is_finished | _rows_done(answer_BT, len(opening), is_finished, is_done)
    return GeneratedTokens(answer_BT[:, len(opening) :], said_B)


def _rows_done(
    answer_BT: Tensor, n_opening: int, is_finished: Tensor, is_done: Callable[[Ids], bool]
) -> Tensor:
    """Which of the rows that are not finished are done now."""
    done_rows = []
    for tokens, was_finished in zip(
        answer_BT[:, n_opening:].tolist(), is_finished.tolist(), strict=True
    ):
        done_rows.append(not was_finished and is_done(tuple(tokens)))
    return torch.tensor(done_rows, device=answer_BT.device)


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
    model: Transformer, layout: ItemLayout, inputs: Tensor, n_tokens: int, lengths: Tensor | None
) -> None:
    """UnsupportedError if a position sees the one after it in any text that is made, with a
    prefix or without.
    """
    input_lengths = {inputs.shape[1]} if lengths is None else set(lengths.tolist())
    if model.encoder is not None:
        input_lengths = {1}  # a decoder is given its start alone
    for n_inputs in sorted(input_lengths):
        length = min(n_inputs + len(layout.opening) + n_tokens, model.spec.max_length)
        prefixes = {0, min(n_inputs, length)} if model.encoder is None else {0}
        if not all(can_generate(model, length, prefix) for prefix in prefixes):
            raise UnsupportedError(
                f"the mask {model.architecture.mask} lets a position see later tokens, so it"
                " cannot predict them; generate with a causal, prefix or encoder-decoder model"
            )


def _require_lengths(inputs: Tensor, lengths: Tensor | None) -> None:
    longest = inputs.shape[1]
    if lengths is None:
        return
    if lengths.shape != inputs.shape[:1] or bool(((lengths < 1) | (lengths > longest)).any()):
        raise SpecError(
            f"lengths_B is {lengths.tolist()} beside contexts {list(inputs.shape)}; "
            f"give one of 1 to {longest} for each of {len(inputs)} rows"
        )


def _n_positions_read(
    layout: ItemLayout, inputs: Tensor, lengths: Tensor | None, n_answer: int
) -> Tensor:
    """How many positions the main stack reads, [B], before it says what follows its answer so
    far.
    """
    match layout.framing:
        case "apart":
            return torch.full_like(inputs[:, 0], 1 + n_answer)
        case "in place":
            n_answer += 1  # the mask that is to be filled
    if lengths is None:
        return torch.full_like(inputs[:, 0], inputs.shape[1] + n_answer)
    return lengths + n_answer


def next_logits(
    model: Transformer,
    layout: ItemLayout,
    inputs: Tensor,
    lengths: Tensor | None,
    answer: Tensor,
) -> Tensor:
    """Logits of each row for the place after its answer so far, [B, V], in float32.

    `answer` begins with what opens it.
    """
    if layout.framing == "apart":
        start = torch.full_like(inputs[:, :1], layout.vocabulary.decoder_start)
        # as in training: all of a source is its prefix
        whole = inputs.shape[1] if lengths is None else lengths
        source = Batch.of(inputs, prefix=whole, real_BT=_real_mask(lengths, inputs.shape[1]))
        batch = Batch.of(torch.cat([start, answer], 1), source=source)
    else:
        batch = _one_sequence_batch(layout, inputs, lengths, answer)
    n_read_B = _n_positions_read(layout, inputs, lengths, answer.shape[1])
    last_B = (n_read_B - 1).clamp(max=batch.layout.length - 1)
    states_BTD = model.hidden_states(batch).states_BTD
    rows_B = torch.arange(len(last_B), device=last_B.device)
    return model.logits(states_BTD[rows_B, last_B]).float()


def _bar_special_tokens(logits_BV: Tensor, layout: ItemLayout) -> Tensor:
    """Logits of text and of what ends an answer; nothing else may be said."""
    ids = torch.arange(logits_BV.shape[-1], device=logits_BV.device)
    ends = torch.tensor(layout.end_tokens, device=logits_BV.device)
    is_special = (ids >= layout.vocabulary.n_text) & ~torch.isin(ids, ends)
    return logits_BV.masked_fill(is_special, float("-inf"))


def _one_sequence_batch(
    layout: ItemLayout, inputs: Tensor, lengths: Tensor | None, answer: Tensor
) -> Batch:
    """Each context with its answer so far right after it, padded on the right, cut where no row
    has more room.
    """
    if layout.framing == "in place":
        answer = torch.cat([answer, torch.full_like(inputs[:, :1], layout.vocabulary.mask)], 1)
    whole = torch.cat([inputs, answer], 1)
    n_answer = answer.shape[1]
    if lengths is None:
        longest, n_inputs, real_BT = whole.shape[1], inputs.shape[1], None
    else:
        whole = whole.scatter(
            1, lengths[:, None] + torch.arange(n_answer, device=answer.device), answer
        )
        longest, n_inputs = min(int(lengths.max()) + n_answer, layout.window), lengths
        real_BT = _real_mask(lengths + n_answer, longest)
    match layout.framing:
        case "in place":  # nothing in sight is an answer that is asked for
            prefix = _at_most(n_inputs + n_answer, longest)
        case "together":
            prefix = n_inputs
        case _:
            prefix = 0
    return Batch.of(whole[:, :longest], prefix=prefix, real_BT=real_BT)


def _at_most(lengths: int | Tensor, longest: int) -> int | Tensor:
    if isinstance(lengths, Tensor):
        return lengths.clamp(max=longest)
    return min(lengths, longest)


def _real_mask(lengths: Tensor | None, longest: int) -> Tensor | None:
    if lengths is None:
        return None
    return torch.arange(longest, device=lengths.device) < lengths[:, None]


def _choose_tokens(logits_BV: Tensor, sampling: Sampling, place: int) -> Tensor:
    temperature = float(sampling.temperature)
    if temperature == 0:
        return logits_BV.argmax(-1)
    return _sample_tokens(logits_BV, temperature, sampling.seed, place)


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

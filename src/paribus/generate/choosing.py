"""Which token comes next, from logits: the likeliest, or one drawn from those that filters leave.

Every function is one of tensors alone and works on any device. A row's token depends on its own
logits, settings and draw, and on nothing else in the batch.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from paribus.generate.settings import Sampling
from paribus.philox import first_uniforms
from paribus.runtime import derive_seed, derive_seed_per_name

N_LIKELIEST = 1024  # tokens that top-p looks at first, where sorting is slow
DRAW_BLOCK, MIN_BLOCKED = 256, 8192  # tokens of a block, and from which on there are blocks
_LEAST_DRAW = sys.float_info.min  # so that a draw of 0 takes no token of probability 0


@dataclass(frozen=True)
class RowStream:
    """Where the draws of a row come from: the seed of its request, and its number there."""

    seed: int
    row: int = 0


def sample_stream(seed: int, row: int, sample: int) -> RowStream:
    """The stream of one of several answers to a context; the first is that of a single answer."""
    if sample == 0:
        return RowStream(seed, row)
    return RowStream(derive_seed(seed, "generate sample", sample), row)


def draw_uniforms(
    streams: Sequence[RowStream], n_places: int, first_place: int = 0
) -> NDArray[np.float64]:
    """Uniform draws for rows and places, [B, T]: each is a function of (seed, row, place) alone,
    so that any block of them can be drawn ahead.
    """
    places, keys = range(first_place, first_place + n_places), []
    for stream in streams:
        keys.append(derive_seed_per_name(stream.seed, "generate", stream.row, last_names=places))
    return first_uniforms(np.stack(keys))


@dataclass(frozen=True, eq=False)
class RowChoices:
    """How the token of each row is chosen, in tensors [B]; None where no row asks for it."""

    temperature_B: Tensor | None  # None: every row takes the likeliest token
    top_k_B: Tensor | None
    top_p_B: Tensor | None
    min_p_B: Tensor | None
    repetition_penalty_B: Tensor | None
    largest_k: int = 0
    has_greedy_rows: bool = True  # may some row take the likeliest token?

    @cached_property
    def divisor_B1(self) -> Tensor | None:
        """What logits are divided by, in float64; None where nobody draws."""
        if self.temperature_B is None:
            return None
        is_greedy_B = self.temperature_B == 0
        return self.temperature_B.double().masked_fill(is_greedy_B, 1.0)[:, None]


def row_choices(samplings: Sequence[Sampling], device: torch.device | str = "cpu") -> RowChoices:
    """How rows are chosen that each have settings of their own."""
    return RowChoices(
        temperature_B=_column([one.temperature for one in samplings], 0, device),
        top_k_B=_column([one.top_k for one in samplings], 0, device),
        top_p_B=_column([one.top_p for one in samplings], 1, device),
        min_p_B=_column([one.min_p for one in samplings], 0, device),
        repetition_penalty_B=_column([one.repetition_penalty for one in samplings], 1, device),
        largest_k=max((int(one.top_k) for one in samplings), default=0),
        has_greedy_rows=any(one.temperature == 0 for one in samplings),
    )


def _column(values: list[float], neutral: float, device: torch.device | str) -> Tensor | None:
    """Values of rows in their own type; None where all are neutral."""
    if all(value == neutral for value in values):
        return None
    if all(isinstance(value, int) for value in values):
        return torch.tensor(values, device=device)
    return torch.tensor([float(value) for value in values], dtype=torch.float64, device=device)


def choose_tokens(
    logits_BV: Tensor,
    choices: RowChoices,
    uniforms_B: Tensor | None = None,
    seen_BV: Tensor | None = None,
) -> Tensor:
    """The next token of each row, [B].

    `uniforms_B` are the draws of this place, needed above temperature 0. `seen_BV` is True for
    tokens that were read or said before, needed with a repetition penalty.
    """
    if choices.repetition_penalty_B is not None:
        assert seen_BV is not None
        logits_BV = penalise_repetition(logits_BV, seen_BV, choices.repetition_penalty_B)
    if choices.temperature_B is None:
        return likeliest_tokens(logits_BV)
    assert uniforms_B is not None
    drawn_B = draw_tokens(filter_scores(logits_BV, choices), uniforms_B)
    if not choices.has_greedy_rows:
        return drawn_B
    return torch.where(choices.temperature_B == 0, likeliest_tokens(logits_BV), drawn_B)


def likeliest_tokens(logits_BV: Tensor) -> Tensor:
    """The likeliest token of each row, the first of equals: [B]."""
    if logits_BV.device.type == "cpu":  # there torch's own takes several times as long
        return torch.from_numpy(logits_BV.numpy().argmax(-1))
    return logits_BV.argmax(-1)


def penalise_repetition(logits_BV: Tensor, seen_BV: Tensor, penalty_B: Tensor) -> Tensor:
    """Logits in which those of tokens that were seen are divided by the penalty, or multiplied
    where they are negative.
    """
    penalty_B1 = penalty_B[:, None].to(logits_BV.dtype)
    penalised_BV = torch.where(logits_BV < 0, logits_BV * penalty_B1, logits_BV / penalty_B1)
    return torch.where(seen_BV, penalised_BV, logits_BV)


def filter_scores(logits_BV: Tensor, choices: RowChoices) -> Tensor:
    """Logits over the temperature, less the largest of their row, in float64; -inf where a filter
    removes a token.
    """
    # Below the largest first: however low the temperature, the likeliest stays 0 and nothing
    # overflows.
    scores_BV = (logits_BV - logits_BV.amax(-1, keepdim=True)).double()
    if choices.divisor_B1 is not None:
        scores_BV = scores_BV / choices.divisor_B1
    if choices.top_k_B is not None:
        scores_BV = keep_top_k(scores_BV, choices.top_k_B, choices.largest_k)
    if choices.top_p_B is not None:
        scores_BV = keep_top_p(scores_BV, choices.top_p_B.double())
    if choices.min_p_B is not None:
        scores_BV = keep_min_p(scores_BV, choices.min_p_B.double())
    return scores_BV


def keep_top_k(scores_BV: Tensor, top_k_B: Tensor, largest_k: int) -> Tensor:
    """Scores of the k highest of each row, and of those that equal the k-th; where k is 0, all."""
    n_kept = min(largest_k, scores_BV.shape[-1])
    highest_BK = scores_BV.topk(n_kept, dim=-1).values
    place_B = (top_k_B.clamp(min=1, max=n_kept) - 1).long()
    least_B = highest_BK.gather(1, place_B[:, None])
    is_below = (scores_BV < least_B) & (top_k_B[:, None] > 0)
    return scores_BV.masked_fill(is_below, float("-inf"))


def keep_top_p(scores_BV: Tensor, top_p_B: Tensor) -> Tensor:
    """Scores of the fewest tokens of each row, the likeliest first, whose probability reaches
    top-p; always of one.
    """
    chances_BV = scores_BV.softmax(-1)
    if scores_BV.device.type != "cpu" or scores_BV.shape[1] <= N_LIKELIEST:
        is_kept_BV = _nucleus(chances_BV, *chances_BV.sort(-1, descending=True), top_p_B)
        return scores_BV.masked_fill(~is_kept_BV, float("-inf"))
    # A sort of a large vocabulary is slow here. Most rows need a few tokens; the others are sorted.
    highest_BK, ids_BK = chances_BV.topk(N_LIKELIEST)
    is_kept_BV = _nucleus(chances_BV, highest_BK, ids_BK, top_p_B)
    long_rows = (highest_BK.sum(-1) < top_p_B).nonzero()[:, 0]
    if len(long_rows):
        chances_RV = chances_BV[long_rows]
        is_kept_BV[long_rows] = _nucleus(
            chances_RV, *chances_RV.sort(-1, descending=True), top_p_B[long_rows]
        )
    return scores_BV.masked_fill(~is_kept_BV, float("-inf"))


def _nucleus(chances_BV: Tensor, highest_BK: Tensor, ids_BK: Tensor, top_p_B: Tensor) -> Tensor:
    """Which tokens are kept: those before which, in the order of their probabilities, less than
    top-p has come.
    """
    before_BK = highest_BK.cumsum(-1) - highest_BK
    is_kept_BK = (before_BK < top_p_B[:, None]) | (top_p_B[:, None] >= 1)
    return torch.zeros_like(chances_BV, dtype=torch.bool).scatter(1, ids_BK, is_kept_BK)


def keep_min_p(scores_BV: Tensor, min_p_B: Tensor) -> Tensor:
    """Scores of the tokens whose probability is at least min-p of the likeliest one's."""
    least_B = scores_BV.amax(-1, keepdim=True) + min_p_B[:, None].log()
    return scores_BV.masked_fill(scores_BV < least_B, float("-inf"))


def draw_tokens(scores_BV: Tensor, uniforms_B: Tensor) -> Tensor:
    """One token a row, by its own draw, with the probabilities that scores have, of which the
    largest is 0.
    """
    weights_BV = scores_BV.exp()
    if scores_BV.device.type == "cuda" and scores_BV.shape[1] >= MIN_BLOCKED:
        return draw_by_blocks(weights_BV, uniforms_B)
    cumulative_BV = weights_BV.cumsum(-1)
    draws_B1 = uniforms_B[:, None] * cumulative_BV[:, -1:]
    return torch.searchsorted(cumulative_BV, draws_B1.clamp(min=_LEAST_DRAW))[:, 0]


def draw_by_blocks(weights_BV: Tensor, uniforms_B: Tensor) -> Tensor:
    """One token a row, by its own draw, in proportion to weights: first a block of tokens, then one
    in it. A device adds up a long row slowly, and many short ones fast.
    """
    blocks_BKW = F.pad(weights_BV, (0, -weights_BV.shape[1] % DRAW_BLOCK)).unflatten(
        1, (-1, DRAW_BLOCK)
    )
    ends_BK = blocks_BKW.sum(-1).cumsum(-1)
    draws_B1 = (uniforms_B[:, None] * ends_BK[:, -1:]).clamp(min=_LEAST_DRAW)
    block_B1 = torch.searchsorted(ends_BK, draws_B1)
    before_B1 = F.pad(ends_BK, (1, 0)).gather(1, block_B1)
    index_B1W = block_B1[:, :, None].expand(-1, -1, DRAW_BLOCK)
    cumulative_BW = blocks_BKW.gather(1, index_B1W)[:, 0].cumsum(-1)
    # Sums of a block in another order may differ in their last digit.
    rest_B1 = (draws_B1 - before_B1).minimum(cumulative_BW[:, -1:])
    return (block_B1 * DRAW_BLOCK + torch.searchsorted(cumulative_BW, rest_B1))[:, 0]


@dataclass(frozen=True, eq=False)
class TokenLogprobs:
    """Natural logarithms of the model's own probabilities: of what was said, and of the likeliest
    tokens at the same place.
    """

    said_B: Tensor
    likeliest_BK: Tensor  # ids
    logprobs_BK: Tensor  # of the likeliest


def token_logprobs(logits_BV: Tensor, token_B: Tensor, n_likeliest: int) -> TokenLogprobs:
    """Log-probabilities from a model's own logits: before any penalty, temperature or filter."""
    logprobs_BV = logits_BV.log_softmax(-1)
    n_likeliest = min(n_likeliest, logits_BV.shape[-1])
    highest_BK, ids_BK = logprobs_BV.topk(n_likeliest, dim=-1)
    return TokenLogprobs(
        said_B=logprobs_BV.gather(1, token_B[:, None])[:, 0],
        likeliest_BK=ids_BK,
        logprobs_BK=highest_BK,
    )

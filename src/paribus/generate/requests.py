"""What each row of a batch is asked, and the choice of its tokens place by place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from paribus.generate.choosing import RowStream, choose_tokens, draw_uniforms, row_choices
from paribus.generate.settings import Sampling
from paribus.objectives.framing import Ids, ItemLayout

DRAWS_AHEAD = 64  # places whose draws are made and moved to the device at once


@dataclass(frozen=True, eq=False)
class RowRequests:
    """What each row of a batch is asked: its settings, the stream of its draws, and who says of
    a row's tokens that it is done.
    """

    samplings: Sequence[Sampling]
    streams: Sequence[RowStream]
    is_done: Callable[[int, Ids], bool] | None = None

    @property
    def n_tokens(self) -> int:
        """How many tokens the longest answer may have."""
        return max(one.n_tokens for one in self.samplings)

    @property
    def n_logprobs(self) -> int | None:
        """How many of the likeliest tokens any row asks for; None where no row asks for
        log-probabilities.
        """
        numbers = [one.n_logprobs for one in self.samplings if one.n_logprobs is not None]
        return max(numbers, default=None)


class TokenChooser:
    """Chooses the tokens of rows, place by place, from draws that are made many places ahead."""

    def __init__(
        self, requests: RowRequests, layout: ItemLayout, n_vocab: int, device: torch.device
    ):
        self.requests, self.layout, self.n_vocab, self.device = requests, layout, n_vocab, device
        self.choices = row_choices(requests.samplings, device)
        self.bar_V = token_bar(layout, n_vocab, device)
        self.uniforms_BT = torch.empty(0)

    def tokens_seen(self, inputs_BT: Tensor, real_BT: Tensor | None) -> Tensor | None:
        """Which tokens the stack that answers reads at first, [B, V]; None where no row asks for
        a repetition penalty.
        """
        if self.choices.repetition_penalty_B is None:
            return None
        return tokens_read(self.layout, inputs_BT, real_BT, self.n_vocab)

    def bar_token(self, token: int) -> None:
        """Never say a token that others may say."""
        self.bar_V = self.bar_V.clone()  # it is shared
        self.bar_V[token] = float("-inf")

    def choose(self, logits_BV: Tensor, place: int, seen_BV: Tensor | None) -> Tensor:
        """The token of each row at a place of its answer."""
        logits_BV = logits_BV + self.bar_V
        if self.choices.temperature_B is None:
            return choose_tokens(logits_BV, self.choices, None, seen_BV)
        column = place % DRAWS_AHEAD
        if column == 0:
            n_places = min(DRAWS_AHEAD, self.requests.n_tokens - place)
            drawn_BT = draw_uniforms(self.requests.streams, n_places, place)
            self.uniforms_BT = torch.from_numpy(drawn_BT).to(self.device)
        return choose_tokens(logits_BV, self.choices, self.uniforms_BT[:, column], seen_BV)


def tokens_read(
    layout: ItemLayout, inputs_BT: Tensor, real_BT: Tensor | None, n_vocab: int
) -> Tensor:
    """Which tokens the stack that answers reads before it says anything, [B, V]: a context, or
    the start of a decoder.
    """
    seen_BV = torch.zeros(len(inputs_BT), n_vocab, dtype=torch.bool, device=inputs_BT.device)
    if layout.framing == "apart":
        seen_BV[:, layout.vocabulary.decoder_start] = True
    else:
        if real_BT is not None:  # padding repeats the first token, which is real
            inputs_BT = torch.where(real_BT, inputs_BT, inputs_BT[:, :1])
        seen_BV = seen_BV.scatter(1, inputs_BT, True)
    seen_BV[:, list(layout.opening)] = True
    return seen_BV


def barred_tokens(layout: ItemLayout, n_vocab: int) -> Tensor:
    """Which tokens may not be said, [V]: all but text and what ends an answer, unless the layout
    bars none.
    """
    return token_bar(layout, n_vocab, torch.device("cpu")).isinf()


def token_bar(layout: ItemLayout, n_vocab: int, device: torch.device) -> Tensor:
    """What is added to logits so that barred tokens are never said, [V]: faster than filling them
    in. Nobody changes it.
    """
    n_text = layout.vocabulary.n_text if layout.bars_special_tokens else n_vocab
    return _token_bar(n_text, layout.end_tokens, n_vocab, device)


@lru_cache(maxsize=64)
def _token_bar(n_text: int, ends: Ids, n_vocab: int, device: torch.device) -> Tensor:
    bar_V = torch.zeros(n_vocab)
    kept = bar_V[list(ends)]
    bar_V[n_text:] = float("-inf")
    bar_V[list(ends)] = kept
    return bar_V.to(device)

"""One state for a whole text: the mean or the greatest of its tokens' states, or the state of its
last or first token.

A single token stands for the text only if everything of the text reaches it, which the masks say.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from paribus.errors import SpecError
from paribus.masks import SequenceLayout, sources_of
from paribus.spec import ResolvedArchitecture, Stack
from paribus.spec.objectives import POOLINGS, Pooling


def pool_states(states_BTD: Tensor, is_text_BT: Tensor, pooling: Pooling) -> Tensor:
    """One state for each text, [B, D], in float32 or wider; each row must have a token of text."""
    states = states_BTD.to(torch.promote_types(states_BTD.dtype, torch.float32))
    match pooling:
        case "mean":
            weights_BT = is_text_BT.to(states.dtype)
            return (states * weights_BT[..., None]).sum(1) / weights_BT.sum(1, keepdim=True)
        case "max":
            return states.masked_fill(~is_text_BT[..., None], -torch.inf).amax(1)
        case "last" | "first":
            places_B = text_position(is_text_BT, pooling)
            return states[torch.arange(len(states), device=states.device), places_B]


def text_position(is_text_BT: Tensor, pooling: Pooling) -> Tensor:
    """Where the last or the first token of each text stands, [B]."""
    positions = torch.arange(is_text_BT.shape[1], device=is_text_BT.device)
    if pooling == "last":
        return torch.where(is_text_BT, positions, -1).amax(1)
    return torch.where(is_text_BT, positions, len(positions)).amin(1)


def require_whole_text(
    pooling: Pooling, spec: ResolvedArchitecture, n_before: int, n_text: int
) -> None:
    """SpecError with the reason where a pooling takes the state of a token that cannot be reached
    by the whole text; `n_before` special tokens stand before it.
    """
    lacking = _unreached_positions(pooling, spec, n_before, n_text)
    if not len(lacking):
        return
    able = [
        name for name in POOLINGS if not len(_unreached_positions(name, spec, n_before, n_text))
    ]
    stack = text_stack(spec)
    masks = ", ".join(dict.fromkeys(map(str, stack.masks)))
    raise SpecError(
        f"pooling is {pooling!r}, but under the mask {masks} the {pooling} token of a text of"
        f" {n_text} tokens cannot see {len(lacking)} of them, such as the one at"
        f" {lacking[0] - n_before}; use {' or '.join(map(repr, able))}"
    )


def text_stack(spec: ResolvedArchitecture) -> Stack:
    """The layers that read a text: the encoder where there is one."""
    return spec.encoder or spec.stack


def _unreached_positions(
    pooling: Pooling, spec: ResolvedArchitecture, n_before: int, n_text: int
) -> np.ndarray:
    """Tokens of a text that do not reach the token whose state is taken."""
    if pooling in ("mean", "max"):  # every token is taken, and reaches itself
        return np.zeros(0, np.int64)
    length = n_before + n_text
    layout = SequenceLayout(length, prefix=length)
    place = length - 1 if pooling == "last" else n_before
    reached = sources_of(text_stack(spec).masks, layout, place)
    return n_before + np.flatnonzero(~reached[n_before:])

"""Dropout whose draws are a function of (seed, step, place, sequence, position, channel) and of nothing else.

A hash instead of a generator: the same on every device, under compilation, in any split of the batch.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from paribus.runtime import key


@dataclass(frozen=True, eq=False)
class Draws:
    """What this step's dropout is drawn from; `rows_B` numbers the sequences within the global batch."""

    seed: int
    step: int | Tensor
    rows_B: Tensor | None = None  # None: as the batch numbers them
    # By place, what they are keyed by; None: hashed here, which a compiler cannot follow: it would cut the model there.
    keys: Mapping[str, Tensor] | None = None


def keys_of(seed: int, places: Iterable[str], device: torch.device) -> dict[str, Tensor]:
    """What the draws of each place are keyed by under a seed, on a device."""
    return {place: torch.tensor(key(seed, "dropout", place), device=device) for place in places}


def dropout(hidden_BTD: Tensor, share: float, draws: Draws | None, place: str) -> Tensor:
    """Each value dropped with probability `share`, the others scaled up; untouched without draws."""
    if draws is None or share == 0.0:
        return hidden_BTD
    kept = drawn(hidden_BTD, draws, place) >= round(share * 2**53)
    return torch.where(kept, hidden_BTD / (1 - share), 0.0)


def drawn(like_BTD: Tensor, draws: Draws, place: str) -> Tensor:
    """A whole number below 2^53 for each element, all equally likely."""
    n_sequences, length, width = like_BTD.shape
    device = like_BTD.device
    rows = torch.arange(n_sequences, device=device) if draws.rows_B is None else draws.rows_B
    step = torch.as_tensor(draws.step, dtype=torch.int64, device=device)
    own = key(draws.seed, "dropout", place) if draws.keys is None else draws.keys[place]
    start = _mixed(_mixed(step + own) + rows)
    inner = torch.arange(length * width, device=device).view(length, width)
    return _mixed(start[:, None, None] + inner) >> 11 & (2**53 - 1)


def _mixed(number: Tensor) -> Tensor:
    """The finaliser of splitmix64 on wrapping 64-bit integers: every input bit moves every output bit."""
    number = number * -7046029254386353131
    number = (number ^ (number >> 30 & (2**34 - 1))) * -4658895280553007687
    number = (number ^ (number >> 27 & (2**37 - 1))) * -7723592293110705685
    return number ^ (number >> 31 & (2**33 - 1))

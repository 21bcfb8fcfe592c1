"""Dropout whose draws are a function of (seed, step, place, sequence, position, channel) and of
nothing else.

A hash instead of a generator: the same on every device, under compilation, in any split of the
batch.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from paribus.runtime import derive_seed


@dataclass(frozen=True, eq=False)
class DropoutKey:
    """What this step's dropout is drawn from; `rows_B` numbers the sequences within the global
    batch.
    """

    seed: int
    step: int | Tensor
    rows_B: Tensor | None = None  # None: as the batch numbers them
    # By place, what they are keyed by; None: hashed here, which a compiler cannot follow: it would
    # cut the model there.
    site_keys: Mapping[str, Tensor] | None = None


def dropout_site_keys(seed: int, sites: Iterable[str], device: torch.device) -> dict[str, Tensor]:
    """What the draws of each place are keyed by under a seed, on a device."""
    return {
        place: torch.tensor(derive_seed(seed, "dropout", place), device=device) for place in sites
    }


def dropout(hidden_BTD: Tensor, p: float, dropout_key: DropoutKey | None, site: str) -> Tensor:
    """Each value dropped with probability `p`, the others scaled up; untouched without a
    key.
    """
    if dropout_key is None or p == 0.0:
        return hidden_BTD
    keep_mask = uniform_integers(hidden_BTD, dropout_key, site) >= round(p * 2**53)
    return torch.where(keep_mask, hidden_BTD / (1 - p), 0.0)


def uniform_integers(like_BTD: Tensor, dropout_key: DropoutKey, site: str) -> Tensor:
    """A whole number below 2^53 for each element, all equally likely."""
    n_sequences, length, width = like_BTD.shape
    device = like_BTD.device
    if dropout_key.rows_B is None:
        rows = torch.arange(n_sequences, device=device)
    else:
        rows = dropout_key.rows_B
    step = torch.as_tensor(dropout_key.step, dtype=torch.int64, device=device)
    if dropout_key.site_keys is None:
        own = derive_seed(dropout_key.seed, "dropout", site)
    else:
        own = dropout_key.site_keys[site]
    start = _splitmix64(_splitmix64(step + own) + rows)
    inner = torch.arange(length * width, device=device).view(length, width)
    return _splitmix64(start[:, None, None] + inner) >> 11 & (2**53 - 1)


def _splitmix64(number: Tensor) -> Tensor:
    """The finaliser of splitmix64 on wrapping 64-bit integers: every input bit moves every
    output bit.
    """
    number = number * -7046029254386353131
    number = (number ^ (number >> 30 & (2**34 - 1))) * -4658895280553007687
    number = (number ^ (number >> 27 & (2**37 - 1))) * -7723592293110705685
    return number ^ (number >> 31 & (2**33 - 1))

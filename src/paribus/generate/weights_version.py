"""A number that changes with the weights of a model, for what is prepared of them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def weights_version(model: nn.Module) -> tuple[int, ...]:
    """Changes with every change of a weight. It takes about as long as half a token on a CPU.

    Torch counts most changes in place, but not those of a fused optimizer. On CUDA it changes when
    a weight lies elsewhere: what is prepared there reads weights where they lie.
    """
    numbers = []
    for module in model.modules():
        for parameter in module._parameters.values():
            if parameter is None:
                continue
            numbers.append(parameter.data_ptr())
            if parameter.device.type != "cuda":
                numbers.append(_bit_sum(parameter.detach()))
    return tuple(numbers)


def _bit_sum(weight: Tensor) -> int:
    """The sum of a weight's bits, taken as whole numbers."""
    octets = weight.contiguous().flatten().view(torch.uint8)
    if len(octets) % 8:
        octets = F.pad(octets, (0, -len(octets) % 8))
    return int(octets.view(torch.int64).sum())

"""Keys less the mean of some: no answer changes, and no query's scores are all far below zero.

An operation of its own to the compiler, which else would cut the result at the prefix, keep the
pieces for the way back and expect them as long as the first ones were (torch 2.11 to 2.13, where
the prefix changes from step to step).
"""

from typing import Any

import torch
from torch import Tensor

from paribus.model.kernels.lazy_compile import lazy_compile

_MEAN_KEYS = 32  # keys to take the mean of: any will do, since the mean score of those is then zero


def centred_keys(key_BHSE: Tensor, n_seen: int) -> Tensor:
    """Keys less the mean of a few of the first ones, which every query sees: all its scores
    shift alike.
    """
    return _centred_keys_op(key_BHSE, n_seen)


@torch.library.custom_op("paribus::centred", mutates_args=())
def _centred_keys_op(key_BHSE: Tensor, n_seen: int) -> Tensor:
    some_BHSE = key_BHSE[:, :, : n_seen : max(1, n_seen // _MEAN_KEYS)]
    if key_BHSE.device.type == "cpu":
        less = _subtract_mean
    else:
        less = lazy_compile(_subtract_mean)
    return less(key_BHSE, some_BHSE.mean(2, keepdim=True))


def _subtract_mean(key_BHSE: Tensor, mean_BH1E: Tensor) -> Tensor:
    return torch.empty_like(key_BHSE).copy_(key_BHSE - mean_BH1E)


@_centred_keys_op.register_fake
def _fake_centred_keys(key_BHSE: Tensor, n_seen: int) -> Tensor:
    return torch.empty_like(key_BHSE)


def _centred_keys_backward(_: Any, grad_BHSE: Tensor) -> tuple[Tensor, None]:
    """The mean's share is left out: it is zero, since softmax does not see the mean."""
    return grad_BHSE, None


_centred_keys_op.register_autograd(_centred_keys_backward)


@_centred_keys_op.register_vmap
def _centred_keys_vmap(
    _: Any, in_dims: tuple[int, None], key: Tensor, n_seen: int
) -> tuple[Tensor, int]:
    """Many models at once are many sequences."""
    key = key.movedim(in_dims[0], 0)
    return centred_keys(key.flatten(0, 1), n_seen).unflatten(0, key.shape[:2]), 0

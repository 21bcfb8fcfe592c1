"""Tensors of which each process holds some rows: torch's DTensor, as FSDP2 makes them.

DTensor is imported only where there is one, for that takes seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


def is_sharded(tensor: Tensor) -> bool:
    """Does this process hold only some rows of a tensor?"""
    return type(tensor) not in (Tensor, nn.Parameter)


def own_rows(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor: a view of its rows, or all of it."""
    if not is_sharded(tensor):
        return tensor
    sharded: Any = tensor
    with torch.no_grad():
        return sharded.to_local()


@torch.no_grad()
def fill_rows(place: Tensor, values: Tensor) -> None:
    """Copy a whole tensor to its place; a process that holds some rows takes only those."""
    if is_sharded(place):
        own_rows(place).copy_(_rows_of(values, place))
    else:
        place.copy_(values)


@torch.no_grad()
def sharded_like(values: Tensor, like: Tensor, device: torch.device) -> Tensor:
    """A whole tensor, cut into rows as another one of its shape is."""
    from torch.distributed.tensor import DTensor

    assert isinstance(like, DTensor)
    assert values.shape == like.shape
    own = _rows_of(values, like).to(device, copy=True)
    return DTensor.from_local(
        own,
        like.device_mesh,
        like.placements,
        run_check=False,
        shape=like.shape,
        stride=like.stride(),
    )


@torch.no_grad()
def gather_tensors(tensors: Mapping[str, Tensor], keeps: bool) -> dict[str, Tensor]:
    """Sharded tensors put together, in the memory of the host of those who keep them. Every process
    calls it; one that keeps nothing holds one tensor at a time, and gets an empty table.
    """
    gathered: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        whole = tensor
        if is_sharded(tensor):
            sharded: Any = tensor
            whole = sharded.full_tensor()
        if keeps:
            gathered[name] = whole.cpu()
    return gathered


def _rows_of(values: Tensor, like: Tensor) -> Tensor:
    """The rows that this process holds: equal numbers of them, and fewer at the end."""
    sharded: Any = like
    mesh, n_rows = sharded.device_mesh, len(values)
    n_each = -(-n_rows // mesh.size())
    first = min(mesh.get_local_rank() * n_each, n_rows)
    return values[first : first + n_each]

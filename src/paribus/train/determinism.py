"""The same run twice, bit for bit: torch's deterministic algorithms on or off, as a run asks, for as long as it trains.

On a CPU they change no number. On CUDA every operation of a step then has a fixed order of summing; where torch knows
none for an operation the run is refused, and never trained as if nothing were.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from paribus.errors import UnsupportedError
from paribus.runtime import WORKSPACE, WORKSPACES, prepare_cuda

_NO_WAY = re.compile(r"(\S+) does not have a deterministic implementation")
_CUBLAS = "uses CuBLAS"
_OTHERWISE = "or write training.deterministic = false"


@contextmanager
def deterministic_algorithms(asked: bool) -> Iterator[None]:
    """Inside, torch's deterministic algorithms are on or off as asked; afterwards they are as they were.

    UnsupportedError names an operation that has no deterministic form.
    """
    before = _mode()
    if before == (asked, False, False):
        with _refusals():
            yield
        return
    _set_mode(asked, warn_only=False, fills=False)
    try:
        with _refusals():
            yield
    finally:
        _set_mode(*before)


def require_determinism(device: torch.device) -> None:
    """UnsupportedError where products on this device cannot repeat: cuBLAS reads its workspace once, at its first."""
    if device.type != "cuda":
        return
    prepare_cuda(device)
    given = os.environ[WORKSPACE]
    if given not in WORKSPACES:
        raise UnsupportedError(
            f"{WORKSPACE} is {given!r}, under which a product on CUDA does not repeat bit for bit; "
            f"set it to {' or '.join(WORKSPACES)} before Python starts, {_OTHERWISE}"
        )
    with deterministic_algorithms(True):
        some = torch.ones(2, 2, device=device)
        _ = some @ some


def _mode() -> tuple[bool, bool, bool]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,  # pyright: ignore[reportAttributeAccessIssue]
    )


def _set_mode(asked: bool, warn_only: bool, fills: bool) -> None:
    """`fills` writes NaN into every new tensor first: it helps to find faults, and costs a pass over memory."""
    torch.use_deterministic_algorithms(asked, warn_only=warn_only)
    torch.utils.deterministic.fill_uninitialized_memory = fills  # pyright: ignore[reportAttributeAccessIssue]


@contextmanager
def _refusals() -> Iterator[None]:
    """Torch's complaint, in our words; a compiler may have wrapped it."""
    try:
        yield
    except RuntimeError as fault:
        operation = _NO_WAY.search(str(fault))
        if operation is not None:
            raise UnsupportedError(
                f"training.deterministic is true, and the operation {operation[1]} has no deterministic form on this "
                f"device; train on another one, {_OTHERWISE}"
            ) from fault
        if _CUBLAS in str(fault):
            raise UnsupportedError(
                f"training.deterministic is true, but the first product on CUDA in this process was made without "
                f"{WORKSPACE}; start Python anew with {WORKSPACE}={WORKSPACES[0]}, {_OTHERWISE}"
            ) from fault
        raise

"""The same run twice, bit for bit: torch's deterministic algorithms on or off, as a run asks,
for as long as it trains.

On a CPU they change no number. On CUDA every operation of a step then has a fixed order of summing;
where torch knows none for an operation the run is refused, and never trained as if nothing were.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from paribus.errors import UnsupportedError
from paribus.runtime import CUBLAS_WORKSPACE_VARIABLE, DETERMINISTIC_WORKSPACES, prepare_cuda

_DETERMINISTIC: Any = torch.utils.deterministic  # its stubs lack what it has
_NO_DETERMINISTIC_FORM = re.compile(r"(\S+) does not have a deterministic implementation")
_CUBLAS_COMPLAINT = "uses CuBLAS"
_ALTERNATIVE = "or write training.deterministic = false"


@contextmanager
def deterministic_algorithms(enabled: bool) -> Iterator[None]:
    """Inside, torch's deterministic algorithms are on or off as asked; afterwards they are as
    they were.

    UnsupportedError names an operation that has no deterministic form.
    """
    before = _mode()
    if before == (enabled, False, False):
        with _explain_torch_errors():
            yield
        return
    _set_mode(enabled, warn_only=False, fill_memory=False)
    try:
        with _explain_torch_errors():
            yield
    finally:
        _set_mode(*before)


def require_determinism(device: torch.device) -> None:
    """UnsupportedError where products on this device cannot repeat: cuBLAS reads its workspace
    once, at its first.
    """
    if device.type != "cuda":
        return
    prepare_cuda(device)
    workspace = os.environ[CUBLAS_WORKSPACE_VARIABLE]
    if workspace not in DETERMINISTIC_WORKSPACES:
        raise UnsupportedError(
            f"{CUBLAS_WORKSPACE_VARIABLE} is {workspace!r}, under which a product on CUDA does not"
            f" repeat bit for bit; set it to {' or '.join(DETERMINISTIC_WORKSPACES)} before Python"
            f" starts, {_ALTERNATIVE}"
        )
    with deterministic_algorithms(True):
        some = torch.ones(2, 2, device=device)
        _ = some @ some


def _mode() -> tuple[bool, bool, bool]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        _DETERMINISTIC.fill_uninitialized_memory,
    )


def _set_mode(enabled: bool, warn_only: bool, fill_memory: bool) -> None:
    """`fill_memory` writes NaN into every new tensor first: it helps to find faults, and costs a
    pass over memory.
    """
    torch.use_deterministic_algorithms(enabled, warn_only=warn_only)
    _DETERMINISTIC.fill_uninitialized_memory = fill_memory


@contextmanager
def _explain_torch_errors() -> Iterator[None]:
    """Torch's complaint, in our words; a compiler may have wrapped it."""
    try:
        yield
    except RuntimeError as fault:
        operation = _NO_DETERMINISTIC_FORM.search(str(fault))
        if operation is not None:
            raise UnsupportedError(
                f"training.deterministic is true, and the operation {operation[1]} has no"
                f" deterministic form on this device; train on another one, {_ALTERNATIVE}"
            ) from fault
        if _CUBLAS_COMPLAINT in str(fault):
            raise UnsupportedError(
                "training.deterministic is true, but the first product on CUDA in this process was"
                f" made without {CUBLAS_WORKSPACE_VARIABLE}; start Python anew with"
                f" {CUBLAS_WORKSPACE_VARIABLE}={DETERMINISTIC_WORKSPACES[0]}, {_ALTERNATIVE}"
            ) from fault
        raise

"""Functions compiled on first use, for tensors that are not inside a compiled model already."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch

# compiled forms kept; beyond its default of 8 dynamo would fall back to the slow form in silence
_RECOMPILE_LIMIT = 256


def lazy_compile(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function fused into as few kernels as it takes; inside a compiled model it is part of
    that.
    """
    if torch.compiler.is_compiling():
        return function
    return _compile_static(function)


@lru_cache(maxsize=16)
def _compile_static(function: Callable[..., Any]) -> Callable[..., Any]:
    fast = torch.compile(function, dynamic=False)

    def call(*inputs: Any) -> Any:
        with torch._dynamo.config.patch(recompile_limit=_RECOMPILE_LIMIT):
            return fast(*inputs)

    return call

"""Signatures that are worked out once."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Forward = TypeVar("Forward", bound=Callable[..., Any])


def keep_signature(forward: Forward) -> Forward:
    """The forward pass of an autograd function that knows its signature; torch asks for it at each
    call, and to work it out takes as long as a small product.
    """
    forward.__signature__ = inspect.signature(forward)  # pyright: ignore[reportFunctionMemberAccess]
    return forward

"""Where the noise of a study comes from: what a design may ask to be measured of it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from paribus.spec.base import Spec

MAX_RUNS = 20


class Variance(Spec):
    """Runs of the baseline at its rate: each start under each order of the text, and the first
    of them made again.
    """

    inits: Annotated[int, Field(ge=2, le=MAX_RUNS)] = 3
    """Number of different initial weights."""
    orders: Annotated[int, Field(ge=2, le=MAX_RUNS)] = 3
    """Number of different orders of the text."""
    reruns: Annotated[int, Field(ge=0, le=MAX_RUNS)] = 2
    """How often the first of these runs is made again."""


def read_variance(value: Any) -> Any:
    """`variance = true` asks for the numbers as they are by default, `false` for none."""
    if value is False:
        return None
    if value is True:
        return {}
    return value

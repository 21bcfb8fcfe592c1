"""What an engine is asked, and what it answers with, token by token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from paribus.errors import SpecError
from paribus.generate.choosing import RowStream
from paribus.generate.settings import Sampling
from paribus.objectives.framing import Ids, ItemLayout

# Why an answer ended: the model or `is_done` said so, a limit was met, its caller left, or a fault.
FinishReason = Literal["stop", "length", "cancelled", "error"]


@dataclass(frozen=True, eq=False)
class TokenRequest:
    """A context to answer: one answer, token by token.

    Several samples are several requests, with a stream each (`sample_stream`). Stop strings are
    text, so whoever has the text says with `is_done` that they are complete. Requests share what
    was read of equal tokens only under the same salt.
    """

    inputs: Ids  # a context as `layout` lays it: see `lay_context`
    layout: ItemLayout
    sampling: Sampling
    stream: RowStream
    salt: bytes = b""
    is_done: Callable[[Ids], bool] | None = None  # asked in the engine's thread, after each token

    def __post_init__(self) -> None:
        problems = []
        for name in ("n_samples", "n_beams"):
            value = getattr(self.sampling, name)
            if value != 1:
                problems.append(f"{name} is {value}, but a request has one answer; use 1")
        if self.sampling.order != "left":
            problems.append(
                f"order is {self.sampling.order!r}, but tokens are said one after another; use left"
            )
        if self.sampling.stop and self.is_done is None:
            problems.append(
                f"stop is {self.sampling.stop!r:.40}, but a request has no text; give is_done"
            )
        problems += _input_problems(self.inputs, self.layout)
        if problems:
            raise SpecError(problems)


def _input_problems(inputs: Ids, layout: ItemLayout) -> list[str]:
    if not inputs:
        return ["a request has no token to go on from; give at least one"]
    n_window, n_read = layout.window, len(inputs)
    if layout.framing != "apart":
        n_read += len(layout.opening)
    if n_read > n_window:
        return [f"a request has {n_read:,} tokens, past its window of {n_window:,}; give fewer"]
    return []


@dataclass(frozen=True)
class SaidToken:
    """One token of an answer, and where they were asked for natural logarithms of the model's own
    probabilities: of the token, and of the likeliest ones at its place.
    """

    token: int
    logprob: float | None = None
    likeliest: tuple[tuple[int, float], ...] = ()

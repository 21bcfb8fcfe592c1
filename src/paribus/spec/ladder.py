"""A ladder: sizes and durations at which every arm is trained, so that a law can be fitted."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from paribus.spec.base import Count, Positive, Spec, as_tuple

Tokens = Annotated[int, Field(ge=1, le=10**15)]
EXPONENT_MARGIN = 0.05
RATE_RULE = "ladder.rate"  # the line of the control table on how rates grow


def _read_numbers(example: str) -> Callable[[Any], Any]:
    """Reads a list of numbers, or one alone; text and tables are refused with an example."""

    def read(value: Any) -> Any:
        if isinstance(value, str | Mapping):
            raise ValueError(f"is {value!r}; use a list of {example}")
        return as_tuple(value)

    return read


Sizes = Annotated[
    tuple[Count, ...], BeforeValidator(_read_numbers("whole numbers, such as [64, 96, 128]"))
]


def _is_usual_margin(margin: float) -> bool:
    return margin == EXPONENT_MARGIN


class Prediction(Spec):
    """One run more of each arm under each seed of the ladder, larger than all others. What the
    laws say of it is written down before it is made.
    """

    size: Count
    """Its `architecture.d_model`, above those of the ladder."""
    tokens: Tokens
    """Tokens that it reads."""


class Ladder(Spec):
    """Every arm at several sizes, each for several durations: the points of a law.

    A rung is a size of the base; its arms are matched there as the design says. Each point is a
    run of its own with the whole schedule.
    """

    sizes: Sizes
    """`architecture.d_model` of each rung, ascending."""
    tokens_per_parameter: Annotated[
        tuple[Positive, ...], BeforeValidator(_read_numbers("numbers, such as [5, 20, 80]"))
    ] = (5, 20, 80)
    """Durations: tokens read for each parameter of the baseline that is in no embedding, ascending.
    All arms of a rung read as many.
    """
    max_tokens: Tokens | None = None
    """Points that would read more are left out. If left out: none is."""
    d_head: Count | None = None
    """Dimensions of each head at every size; the number of heads grows. If left out: those of the
    base.
    """
    depth: Literal["fixed", "proportional"] = "fixed"
    """Whether the layers of every stack stay as many, or grow in proportion to `d_model`."""
    rate_power: Annotated[float, Field(ge=-2, le=2, allow_inf_nan=False)] = 0.0
    """The rate of a rung is the arm's own times (`d_model` of the rung / `d_model` of the base) to
    this power. 0 for `init = "mup"`, which is made for it. With `rate_sizes` the grids of the
    sweeps are centred there.
    """
    rate_sizes: Sizes | None = None
    """Sizes at which the rate of every arm is swept as `tune` says, at least three of `sizes`. The
    rates of all rungs follow a power of the parameters that is fitted to what is found: a level
    for each arm, and one power. If left out: `rate_power` alone gives the rates.
    """
    n_seeds: Annotated[int, Field(ge=2, le=100)] = 3
    """Number of seeds: the first of the design's."""
    prediction: Prediction | None = None
    """A larger run that is predicted before it is made."""
    exponent_margin: Annotated[
        float, Field(gt=0, le=1, allow_inf_nan=False, exclude_if=_is_usual_margin)
    ] = EXPONENT_MARGIN
    """Exponents of two arms that differ by less are the same: two one-sided tests must say so."""
    others: Annotated[bool, Field(exclude_if=operator.not_)] = False
    """Whether every run of the ladder is also measured by the yardsticks under `others` of the
    design. Probes are not among them.
    """

    @property
    def rules(self) -> dict[str, str]:
        """How sizes and rates grow, as lines of the control table."""
        rate = f"× (d_model / base)^{self.rate_power:g}"
        return {
            "ladder.sizes": ", ".join(map(str, self.sizes)),
            "ladder.depth": self.depth,
            "ladder.d_head": "as in the base" if self.d_head is None else str(self.d_head),
            RATE_RULE: "by sweeps" if self.rate_sizes else rate,
        }

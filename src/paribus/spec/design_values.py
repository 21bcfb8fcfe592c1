"""The values of a design's fields as people write them: short forms, and what is refused."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from math import inf
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, ValidationInfo

from paribus.spec.base import Spec

SWEEP_SEED = 1001  # the first seed of a sweep; reported seeds lie below it
MIN_SEEDS = 3  # of which an interval can be made
FEW_SEEDS_REMEDY = (
    f"use {MIN_SEEDS} or more, for fewer give no interval; 5 is a good start, and 10 if you want to"
    " show that arms are equivalent"
)
OPEN_SEEDS: Literal["open"] = "open"  # how many seeds there are is no part of the design
LENGTHS_EXAMPLE = "lengths = [0.25, 0.5, 1]"  # as it is written
MIN_LENGTHS = 3  # from which a margin in compute is priced
MAX_COMPUTE_MARGIN = (
    3.0  # more of it than a margin can be priced in: a curve says little so far beyond its end
)


def _require_words(question: str) -> str:
    if not question.strip():
        raise ValueError(
            f"is {question!r}; write what the comparison is to tell, such as 'Does a prefix mask"
            " help?'"
        )
    return question


Question = Annotated[str, AfterValidator(_require_words)]


def as_tuple(value: Any) -> Any:
    """TOML and JSON have lists, specs tuples; one alone is short for a list of it."""
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, str):
        return (value,)
    return value


def read_seeds(value: Any) -> Any:
    """A number of seeds is short for as many of them, from 1; `open` leaves it to whoever runs
    the design.
    """
    if isinstance(value, str):
        if value != OPEN_SEEDS:
            raise ValueError(
                f"is {value!r}; use how many, a list of them, or 'open' to decide as results come"
            )
        return value
    if isinstance(value, list | tuple):
        if not value:
            raise ValueError(f"is an empty list; {FEW_SEEDS_REMEDY}")
        return tuple(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise ValueError(f"is {value}; {FEW_SEEDS_REMEDY}")
        if value >= SWEEP_SEED:
            raise ValueError(
                f"is {value}; use fewer than {SWEEP_SEED}, where the seeds of sweeps begin"
            )
        return tuple(range(1, value + 1))
    raise ValueError(
        f"is {value!r}; use how many, such as 5, or a list of them, or 'open' to decide as results"
        " come"
    )


def require_names(value: Any, info: ValidationInfo) -> Any:
    """Tables by name; an array of tables has none."""
    if isinstance(value, list | tuple):
        name = info.field_name
        raise ValueError(
            f"is a list of {len(value)}, and each needs a name; write [{name}.NAME], not [[{name}]]"
        )
    return value


def read_margin(value: Any) -> Any:
    """A number above 0, or text that is read later; one complaint, whichever it was meant to be."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < inf:
        raise ValueError(
            f"is {value!r}; use a number of bits per byte above 0, or such as '5 % compute'"
        )
    return value


def compute_margin(margin: str) -> float | None:
    """The share that `x % compute` names; None if the text is something else, or more than can
    be priced.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*compute\s*", margin)
    share = float(match[1]) / 100 if match else 0.0
    if 0 < share <= MAX_COMPUTE_MARGIN:
        return share
    return None


def control_margin(margin: str) -> float | None:
    """The share that `x % of control` names; None if the text is something else, or more than
    all of it.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*of\s+control\s*", margin)
    share = float(match[1]) / 100 if match else 0.0
    if 0 < share <= 1:
        return share
    return None


def read_looks(value: Any) -> Any:
    """Keys of TOML are text; a look is at a number of seeds."""
    if not isinstance(value, Mapping):
        return value
    try:
        return {int(n): share for n, share in value.items()}
    except ValueError as fault:
        raise ValueError(
            f"are at {list(value)}; write numbers of seeds, as in {{ 5 = 0.01, 10 = 0.04 }}"
        ) from fault


def read_lengths(value: Any) -> Any:
    """Ascending shares of the full length; the last is the full length itself, the reported run."""
    if value is None:
        return value
    shares = value if isinstance(value, list | tuple) else ()
    numbers: list[float] = []
    for share in shares:
        if isinstance(share, int | float) and not isinstance(share, bool):
            numbers.append(share)
    ascending = all(one < other for one, other in itertools.pairwise(numbers))
    fits = len(numbers) == len(shares) > 1 and ascending and numbers[0] > 0 and numbers[-1] == 1
    if not fits:
        raise ValueError(
            f"is {value!r}; write ascending shares of the full length that end with 1:"
            f" {LENGTHS_EXAMPLE}"
        )
    return tuple(map(float, numbers))


def read_pairs(value: Any) -> Any:
    """TOML and JSON have lists, specs tuples: an arm, and the arm it is judged against."""
    if value is None:
        return value
    pairs = value if isinstance(value, list | tuple) else ()
    if not isinstance(value, list | tuple) or not all(map(_is_pair, pairs)):
        raise ValueError(
            f"is {value!r}; write pairs of an arm and what it is judged against: [['prefix',"
            " 'causal']]"
        )
    return tuple(map(tuple, pairs))


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) == 2
        and all(isinstance(name, str) for name in value)
    )


def read_control(value: Any) -> Any:
    """An arm's name, or a share of the baseline's training."""
    if value is None or isinstance(value, str | ControlLength):
        return value
    if isinstance(value, Mapping) and set(value) == {"length"}:
        share = value.get("length")
    else:
        share = None
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise ValueError(
            f"is {value!r}; name an arm, or write a share of the training, as {{ length = 0.5 }}"
        )
    return value


def read_match(value: Any) -> Any:
    """`match = "nothing"` is short for a table that says no more."""
    if isinstance(value, str):
        return {"by": value}
    return value


def read_tune(value: Any) -> Any:
    """`tune = false` says that all arms train at the rate as written."""
    if value is False:
        return None
    if value is True:
        return {}
    return value


Seeds = Annotated[
    Annotated[tuple[Annotated[int, Field(ge=0, lt=SWEEP_SEED)], ...], Tag("each")]
    | Annotated[Literal["open"], Tag(OPEN_SEEDS)],
    Discriminator(
        lambda value: OPEN_SEEDS if value == OPEN_SEEDS else "each"
    ),  # a fault is then told of one of them alone
    BeforeValidator(read_seeds),
]


class ControlLength(Spec):
    """The baseline at a share of its training, as a control that needs no arm of its own."""

    length: Annotated[float, Field(gt=0, lt=1)]
    """Share of the baseline's training. `lengths` must have it, too."""


Control = Annotated[
    Annotated[str, Tag("arm")]
    | Annotated[ControlLength, Tag("length")]
    | Annotated[None, Tag("none")],
    Discriminator(
        lambda value: "none" if value is None else "arm" if isinstance(value, str) else "length"
    ),
    BeforeValidator(read_control),
]

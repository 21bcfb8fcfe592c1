"""What is made equal in size between the arms of a comparison, and what may move for it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from paribus.spec.base import Count, Spec
from paribus.spec.spelling import word_advice

MatchBy = Literal[
    "nothing",
    "parameters",
    "non_embedding_parameters",
    "active_parameters",
    "training_flops",
    "inference_flops",
]
SIZES: tuple[MatchBy, ...] = get_args(MatchBy)
Move = Literal["depth", "width", "d_ff"]
MOVES: tuple[Move, ...] = get_args(Move)
MAX_TIMES = 1000  # the baseline's size: nobody compares more
UNEQUAL_FROM = 0.02  # sizes that differ by a larger part are unequal on purpose


def _as_tuple(value: Any) -> Any:
    """One move alone is short for a list of it; TOML and JSON have lists, specs tuples."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list):
        return tuple(value)
    return value


def _as_sizes(value: Any) -> Any:
    """One size, or a tuple of several; a list of one is that one."""
    names = value if isinstance(value, list | tuple) else (value,)
    for name in names:
        if isinstance(name, str) and name not in SIZES:
            advice = word_advice(name, SIZES, "by")
            *most, last = map(repr, SIZES)
            raise ValueError(f"is {name!r}; {advice}use {', '.join(most)} or {last}")
    return names[0] if len(names) == 1 else tuple(names)


class Match(Spec):
    """What is made equal in size, and what may move for it.

    FLOPs are those of one text of n_input input and n_target target tokens, however an architecture
    reads them.
    """

    by: Annotated[MatchBy | tuple[MatchBy, ...], BeforeValidator(_as_sizes)]
    """What is made equal between the arms. Several at once are a list, such as
    `["parameters", "inference_flops"]`; each needs a move of its own.
    """
    moves: Annotated[
        tuple[Move, ...], BeforeValidator(_as_tuple), Field(validate_default=True)
    ] = ()
    """What may change for that, coarse moves first. One alone needs no list."""
    tolerance: Annotated[float, Field(gt=0, lt=1)] = 0.005
    """Relative difference that may remain."""
    times: Annotated[float, Field(gt=0, le=MAX_TIMES, allow_inf_nan=False)] = 1.0
    """How many times the baseline's size. 2.0 is the 2P of T5's Table 2."""
    n_input: Count | None = None
    """Input tokens of the text that FLOPs are counted for. If left out: half of the training's
    length.
    """
    n_target: Count | None = None
    """Target tokens of the text that FLOPs are counted for. If left out: the other half."""

    @property
    def sizes(self) -> tuple[MatchBy, ...]:
        """What is made equal: one size, or several at once; none where nothing is."""
        if self.by == "nothing":
            return ()
        return (self.by,) if isinstance(self.by, str) else self.by

    @field_validator("by")
    @classmethod
    def _require_sizes(cls, value: MatchBy | tuple[MatchBy, ...]) -> MatchBy | tuple[MatchBy, ...]:
        if isinstance(value, str):
            return value
        if not value or "nothing" in value or len(set(value)) < len(value):
            raise ValueError(
                f"is [{', '.join(value)}]; name each size once, or use 'nothing' without a list"
            )
        return value

    @field_validator("moves")
    @classmethod
    def _require_moves(cls, value: tuple[Move, ...], info: ValidationInfo) -> tuple[Move, ...]:
        by = info.data.get("by")
        if by == "nothing" and value:
            raise ValueError(
                f"is {', '.join(value)}, but by is 'nothing'; leave it out, or say what is made"
                " equal"
            )
        if by not in (None, "nothing") and not value:
            raise ValueError(
                f"is empty, but by is {by!r}; say which of {', '.join(MOVES)} may move"
            )
        if len(set(value)) < len(value):
            raise ValueError(f"is {', '.join(value)}; name each once")
        if isinstance(by, tuple) and len(value) < len(by):
            raise ValueError(
                f"is {', '.join(value)}, but by is {', '.join(by)}: {len(by)} sizes need as many"
                f" moves; use {len(by)} or more of {', '.join(MOVES)}"
            )
        return value

    @field_validator("times")
    @classmethod
    def _require_target(cls, value: float, info: ValidationInfo) -> float:
        if info.data.get("by") == "nothing" and value != 1:
            raise ValueError(
                f"is {value}, but by is 'nothing'; leave it out, or say what is made equal"
            )
        return value

    @field_validator("n_input", "n_target")
    @classmethod
    def _require_flops(cls, value: int | None, info: ValidationInfo) -> int | None:
        by = info.data.get("by")
        sizes = (by,) if isinstance(by, str) else by or ()
        if value is not None and sizes and not any(size.endswith("_flops") for size in sizes):
            raise ValueError(
                f"is {value}, but by is {', '.join(map(repr, sizes))}, which has no length; leave"
                " it out, or match FLOPs"
            )
        return value


def match_lengths(match: Match, length: int) -> tuple[int, int]:
    """How many input and target tokens a text of a match has, where training reads sequences of
    this length.
    """
    return match.n_input or length // 2, match.n_target or length - length // 2

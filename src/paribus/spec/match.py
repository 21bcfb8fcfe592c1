"""What is made equal in size between the arms of a comparison, and what may move for it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from paribus.spec.base import Count, Positive, Spec

MatchBy = Literal[
    "nothing",
    "parameters",
    "non_embedding_parameters",
    "active_parameters",
    "training_flops",
    "inference_flops",
]
Move = Literal["depth", "width", "d_ff"]
MOVES: tuple[Move, ...] = get_args(Move)


def _as_tuple(value: Any) -> Any:
    """One move alone is short for a list of it; TOML and JSON have lists, specs tuples."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list):
        return tuple(value)
    return value


class Match(Spec):
    """What is made equal in size, and what may move for it.

    FLOPs are those of one text of n_input input and n_target target tokens, however an architecture
    reads them.
    """

    by: MatchBy
    """What is made equal between the arms."""
    moves: Annotated[
        tuple[Move, ...], BeforeValidator(_as_tuple), Field(validate_default=True)
    ] = ()
    """What may change for that, coarse moves first. One alone needs no list."""
    tolerance: Annotated[float, Field(gt=0, lt=1)] = 0.005
    """Relative difference that may remain."""
    times: Positive = 1.0
    """How many times the baseline's size. 2.0 is the 2P of T5's Table 2."""
    n_input: Count | None = None
    """Input tokens of the text that FLOPs are counted for. If left out: half of the training's
    length.
    """
    n_target: Count | None = None
    """Target tokens of the text that FLOPs are counted for. If left out: the other half."""

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
        if value is not None and by is not None and not by.endswith("_flops"):
            raise ValueError(
                f"is {value}, but by is {by!r}, which has no length; leave it out, or match FLOPs"
            )
        return value


def match_lengths(match: Match, length: int) -> tuple[int, int]:
    """How many input and target tokens a text of a match has, where training reads sequences of
    this length.
    """
    return match.n_input or length // 2, match.n_target or length - length // 2

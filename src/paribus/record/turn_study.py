"""What a conversation cost in each of some architectures, turn by turn: counted by arithmetic and,
where it was held, measured.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

FORMAT = 1


@dataclass(frozen=True)
class MeasuredTurn:
    """What one turn did and how long it took, in each repeat."""

    n_read: int
    n_read_again: int
    cache_bytes: int
    first_token_seconds: tuple[float, ...]
    next_token_seconds: tuple[float, ...]  # of a token after the first; empty: there is none


@dataclass(frozen=True)
class TurnCosts:
    """The costs of one turn; FLOPs are dense or of visible pairs alone."""

    turn: int
    n_prompt: int
    n_read: int
    n_read_again: int
    first_token_flops_dense: float
    first_token_flops_visible: float
    turn_flops_dense: float
    turn_flops_visible: float
    cache_bytes: int
    reused_bytes: int
    measured: MeasuredTurn | None = None


@dataclass(frozen=True)
class ArmTurns:
    """The turns of one architecture under one custom."""

    name: str
    custom: str
    n_parameters: int
    architecture: dict[str, Any]
    moved_fields: dict[str, tuple[Any, Any]]  # for its size: path → (from, to)
    turns: tuple[TurnCosts, ...]


@dataclass(frozen=True)
class TurnStudy:
    """One conversation in several architectures; the first arm is the baseline."""

    question: str
    n_turns: int
    n_user: int
    n_answer: int
    bytes_per_value: int
    match: str  # what was made equal between the arms
    arms: tuple[ArmTurns, ...]
    n_repeats: int = 0  # 0: nothing was measured
    dtype: str | None = None
    environment: dict[str, Any] | None = None

    @property
    def is_measured(self) -> bool:
        """Was any arm measured?"""
        return any(turn.measured is not None for arm in self.arms for turn in arm.turns)


def turn_study_json(study: TurnStudy) -> dict[str, Any]:
    """A study for a file."""
    return {"format": FORMAT, **asdict(study)}


def turn_rows(study: TurnStudy) -> list[dict[str, Any]]:
    """One row for each turn of each arm; times of repeats have a column each."""
    rows = []
    for arm in study.arms:
        for turn in arm.turns:
            row = {"arm": arm.name, "custom": arm.custom, "parameters": arm.n_parameters}
            row |= asdict(turn)
            measured = row.pop("measured") or {}
            for name in ("n_read", "n_read_again", "cache_bytes"):
                if name in measured:
                    row[f"measured_{name}"] = measured[name]
            for name in ("first_token_seconds", "next_token_seconds"):
                for repeat, seconds in enumerate(measured.get(name, ()), 1):
                    row[f"{name}_{repeat}"] = seconds
            rows.append(row)
    return rows

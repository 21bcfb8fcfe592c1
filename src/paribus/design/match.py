"""One architecture brought to the size of another, by moving only what may move; nothing is built."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import Any

from paribus.design.dials import dial, moved
from paribus.design.search import Settings, Weighed, nearest, roundest
from paribus.design.size import size
from paribus.errors import SpecError
from paribus.spec import Architecture
from paribus.spec.match import MOVES, By, Match, Move


@dataclass(frozen=True)
class Matched:
    """An architecture as it now is, how large it is and should be, and what moved for it."""

    architecture: Architecture
    by: By
    value: float
    target: float
    moved: dict[str, tuple[Any, Any]]  # path inside the architecture → (from, to)
    times: float  # how often the baseline's size the target is
    n_input: int  # of the text whose FLOPs are made equal
    n_target: int

    @property
    def error(self) -> float:
        """How far the value lies above the target, as a part of it."""
        return self.value / self.target - 1

    @property
    def agreement(self) -> str:
        """What the size comes to, beside the baseline's, in words: how near, and of how many times it."""
        near = f"agree to {abs(self.error):.2%}"
        return near if self.times == 1 else f"are {self.times:g} × the baseline's, to {abs(self.error):.2%}"


def matched(architecture: Architecture, baseline: Architecture, match: Match, n_input: int, n_target: int) -> Matched:
    """The architecture at the baseline's size, moved as little as will do; SpecError where it cannot get there.

    Moves are made in turn: the first goes as near as it can and the next mends what is left. Where that fails, the
    first tries its other neighbours. What is near enough as written stays as it is.
    """
    target = match.times * size(baseline, match.by, n_input, n_target)
    scale = _Scale(match.by, n_input, n_target, target)
    found = _solved(scale, match.tolerance, (scale.error(architecture), architecture), match.moves)
    if found is None:
        raise SpecError(_refusal(scale, match, architecture))
    value = size(found[1], match.by, n_input, n_target)
    went = moved(architecture, found[1])
    return Matched(found[1], match.by, value, target, went, match.times, n_input, n_target)


@dataclass(frozen=True)
class _Scale:
    """What weighs architectures against the target, and all it has weighed."""

    by: By
    n_input: int
    n_target: int
    target: float
    weighed: list[Weighed] = field(default_factory=list)

    def error(self, architecture: Architecture) -> float:
        error = size(architecture, self.by, self.n_input, self.n_target) / self.target - 1
        self.weighed.append((error, architecture))
        return error


def _solved(scale: _Scale, tolerance: float, here: Weighed, moves: tuple[Move, ...]) -> Weighed | None:
    """The first architecture within the tolerance that these moves lead to from here."""
    if abs(here[0]) <= tolerance:
        return here
    if not moves:
        return None
    settings = Settings(here[1], dial(here[1], moves[0]), scale.error)
    even = roundest(settings, tolerance) if moves[0] == "d_ff" else None
    onward = nearest(settings) if even is None else [even]
    found = (_solved(scale, tolerance, there, moves[1:]) for there in onward)
    return next((one for one in found if one is not None), None)


def _refusal(scale: _Scale, match: Match, before: Architecture) -> str:
    short = max((one for one in scale.weighed if one[0] < 0), default=None, key=lambda one: one[0])
    over = min((one for one in scale.weighed if one[0] > 0), default=None, key=lambda one: one[0])
    sides = f"{_told(scale, short, before) or 'nothing less'} and {_told(scale, over, before) or 'nothing more'}"
    return (
        f"match.moves is {', '.join(match.moves)}, but of the {scale.target:,.0f} {match.by} asked for there are "
        f"{sides}, where {100 * match.tolerance:g} % is near enough; {_advice(scale, match)}"
    )


def _told(scale: _Scale, weighed: Weighed | None, before: Architecture) -> str:
    """What was reached, how, and how far off it is."""
    if weighed is None:
        return ""
    error, after = weighed
    steps = ", ".join(f"{path} {old} → {new}" for path, (old, new) in moved(before, after).items())
    return f"{scale.target * (1 + error):,.0f} ({100 * error:+.2f} %) with {steps or 'nothing moved'}"


def _advice(scale: _Scale, match: Match) -> str:
    others = [move for move in MOVES if move not in match.moves]
    first = f"let {' or '.join(others)} move too" if others else "write the architecture nearer to it"
    enough = ceil(1000 * min(abs(error) for error, _ in scale.weighed)) / 1000
    return f"{first}, or set match.tolerance to {enough}" if enough < 1 else first

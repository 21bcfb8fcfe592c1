"""One architecture brought to the size of another, by moving only what may move; nothing is
built.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from operator import itemgetter
from typing import Any

from paribus.design.matching.dials import make_dial, moved_fields
from paribus.design.matching.search import (
    Candidate,
    DialSettings,
    nearest_candidates,
    roundest_candidate,
)
from paribus.design.matching.size import architecture_size
from paribus.errors import SpecError
from paribus.spec import Architecture
from paribus.spec.match import MOVES, Match, MatchBy, Move


@dataclass(frozen=True)
class SizeMatch:
    """An architecture as it now is, how large it is and should be, and what moved for it."""

    architecture: Architecture
    by: MatchBy
    value: float
    target: float
    moved_fields: dict[str, tuple[Any, Any]]  # path inside the architecture → (from, to)
    times: float  # how often the baseline's size the target is
    n_input: int  # of the text whose FLOPs are made equal
    n_target: int

    @property
    def error(self) -> float:
        """How far the value lies above the target, as a part of it."""
        return self.value / self.target - 1

    @property
    def agreement_description(self) -> str:
        """What the size comes to, beside the baseline's, in words: how near, and of how many
        times it.
        """
        near = f"agree to {abs(self.error):.2%}"
        if self.times == 1:
            return near
        return f"are {self.times:g} × the baseline's, to {abs(self.error):.2%}"


def match_size(
    architecture: Architecture, baseline: Architecture, match: Match, n_input: int, n_target: int
) -> SizeMatch:
    """The architecture at the baseline's size, moved as little as will do; SpecError where it
    cannot get there.

    Moves are made in turn: the first goes as near as it can and the next mends what is left. Where
    that fails, the first tries its other neighbours. What is near enough as written stays as it is.
    """
    target = match.times * architecture_size(baseline, match.by, n_input, n_target)
    scale = _SizeTarget(by=match.by, n_input=n_input, n_target=n_target, target=target)
    candidate = _solve(
        scale, match.tolerance, (scale.error(architecture), architecture), match.moves
    )
    if candidate is None:
        raise SpecError(_refusal(scale, match, architecture))
    value = architecture_size(candidate[1], match.by, n_input, n_target)
    return SizeMatch(
        architecture=candidate[1],
        by=match.by,
        value=value,
        target=target,
        moved_fields=moved_fields(architecture, candidate[1]),
        times=match.times,
        n_input=n_input,
        n_target=n_target,
    )


@dataclass(frozen=True)
class _SizeTarget:
    """What weighs architectures against the target, and all it has weighed."""

    by: MatchBy
    n_input: int
    n_target: int
    target: float
    candidates: list[Candidate] = field(default_factory=list)

    def error(self, architecture: Architecture) -> float:
        error = (
            architecture_size(architecture, self.by, self.n_input, self.n_target) / self.target - 1
        )
        self.candidates.append((error, architecture))
        return error


def _solve(
    size_target: _SizeTarget, tolerance: float, candidate: Candidate, moves: tuple[Move, ...]
) -> Candidate | None:
    """The first architecture within the tolerance that these moves lead to from here."""
    if abs(candidate[0]) <= tolerance:
        return candidate
    if not moves:
        return None
    settings = DialSettings(candidate[1], make_dial(candidate[1], moves[0]), size_target.error)
    if moves[0] == "d_ff":
        even = roundest_candidate(settings, tolerance)
    else:
        even = None
    onward = nearest_candidates(settings) if even is None else [even]
    for there in onward:
        solution = _solve(size_target, tolerance, there, moves[1:])
        if solution is not None:
            return solution
    return None


def _refusal(size_target: _SizeTarget, match: Match, architecture: Architecture) -> str:
    below = [one for one in size_target.candidates if one[0] < 0]
    above = [one for one in size_target.candidates if one[0] > 0]
    short = max(below, default=None, key=itemgetter(0))
    over = min(above, default=None, key=itemgetter(0))
    sides = (
        f"{_describe_candidate(size_target, short, architecture) or 'nothing less'} and"
        f" {_describe_candidate(size_target, over, architecture) or 'nothing more'}"
    )
    return (
        f"match.moves is {', '.join(match.moves)}, but of the {size_target.target:,.0f} {match.by}"
        f" asked for there are {sides}, where {100 * match.tolerance:g} % is near enough;"
        f" {_advice(size_target, match)}"
    )


def _describe_candidate(
    size_target: _SizeTarget, candidate: Candidate | None, architecture: Architecture
) -> str:
    """What was reached, how, and how far off it is."""
    if candidate is None:
        return ""
    error, after = candidate
    moves = moved_fields(architecture, after)
    steps = [f"{path} {old} → {new}" for path, (old, new) in moves.items()]
    return (
        f"{size_target.target * (1 + error):,.0f} ({100 * error:+.2f} %) with"
        f" {', '.join(steps) or 'nothing moved'}"
    )


def _advice(size_target: _SizeTarget, match: Match) -> str:
    others = [move for move in MOVES if move not in match.moves]
    if others:
        first = f"let {' or '.join(others)} move too"
    else:
        first = "write the architecture nearer to it"
    enough = ceil(1000 * min(abs(error) for error, _ in size_target.candidates)) / 1000
    if enough < 1:
        return f"{first}, or set match.tolerance to {enough}"
    return first

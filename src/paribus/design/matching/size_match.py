"""One architecture brought to the size of another, by moving only what may move; nothing is
built.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, log2
from operator import itemgetter
from typing import Any

from paribus.design.matching.dials import make_dial, moved_fields, try_changes
from paribus.design.matching.search import (
    Candidate,
    DialSettings,
    nearest_candidates,
    roundest_candidate,
)
from paribus.errors import SpecError
from paribus.spec import Architecture
from paribus.spec.match import MOVES, UNEQUAL_FROM, Match, MatchBy, Move
from paribus.spec.size import architecture_size

MAX_COARSE_SETTINGS = 512  # in which the last move is tried, where several sizes are met at once
MAX_FACTOR = 4  # by which a coarse move goes up or down for them


@dataclass(frozen=True)
class MatchedSize:
    """A size that an architecture was brought to: what it comes to, and what it should."""

    by: MatchBy
    value: float
    target: float
    times: float  # how often the baseline's size the target is

    @property
    def error(self) -> float:
        """How far the value lies above the target, as a part of it."""
        return self.value / self.target - 1

    @property
    def is_unequal(self) -> bool:
        """Is the size another than the baseline's, on purpose?"""
        return abs(self.value / self.target * self.times - 1) > UNEQUAL_FROM

    @property
    def agreement_description(self) -> str:
        """What the size comes to, beside the baseline's, in words: how near, and of how many
        times it.
        """
        if self.times == 1 and self.is_unequal:
            return f"differ by {abs(self.error):.2%}"
        if self.times == 1:
            return f"agree to {abs(self.error):.2%}"
        return f"are {self.times:g} × the baseline's, to {abs(self.error):.2%}"


@dataclass(frozen=True)
class SizeMatch:
    """An architecture as it now is, the sizes that it was brought to, and what moved for them."""

    written: Architecture
    architecture: Architecture
    sizes: tuple[MatchedSize, ...]
    moved_fields: dict[str, tuple[Any, Any]]  # path inside the architecture → (from, to)
    n_input: int  # of the text whose FLOPs are made equal
    n_target: int

    @property
    def description(self) -> str:
        """Each size and how near it came, such as "parameters agree to 0.02%"."""
        words = []
        for size in self.sizes:
            words.append(f"{size.by.replace('_', ' ')} {size.agreement_description}")
        return " and ".join(words)

    def shift_of(self, by: MatchBy) -> float:
        """By how much of itself what moved has changed a size."""
        before = architecture_size(self.written, by, self.n_input, self.n_target)
        after = architecture_size(self.architecture, by, self.n_input, self.n_target)
        return after / before - 1


def match_size(
    architecture: Architecture, baseline: Architecture, match: Match, n_input: int, n_target: int
) -> SizeMatch:
    """The architecture at the baseline's size, moved as little as will do; SpecError where it
    cannot get there.

    Moves are made in turn: the first goes as near as it can and the next mends what is left. Where
    that fails, the first tries its other neighbours. What is near enough as written stays as it is.
    Several sizes at once are looked for over the settings of all moves but the last, nearest first:
    the last meets the first size, and the others must then agree, too.
    """
    scales: list[_SizeTarget] = []
    for by in match.sizes:
        target = match.times * architecture_size(baseline, by, n_input, n_target)
        scales.append(_SizeTarget(by=by, n_input=n_input, n_target=n_target, target=target))
    found = _find_architecture(architecture, scales, match)
    sizes = []
    for scale in scales:
        value = architecture_size(found, scale.by, n_input, n_target)
        sizes.append(MatchedSize(scale.by, value, scale.target, match.times))
    return SizeMatch(
        written=architecture,
        architecture=found,
        sizes=tuple(sizes),
        moved_fields=moved_fields(architecture, found),
        n_input=n_input,
        n_target=n_target,
    )


def _find_architecture(
    architecture: Architecture, scales: Sequence[_SizeTarget], match: Match
) -> Architecture:
    if not scales:
        return architecture
    if len(scales) > 1:
        return _solve_together(architecture, scales, match)
    scale = scales[0]
    candidate = _solve(
        scale, match.tolerance, (scale.error(architecture), architecture), match.moves
    )
    if candidate is None:
        raise SpecError(_refusal(scale, match, architecture))
    return candidate[1]


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


def _solve_together(
    architecture: Architecture, scales: Sequence[_SizeTarget], match: Match
) -> Architecture:
    """The architecture nearest to the written one in which every size is met; SpecError where no
    setting meets all of them.
    """
    first, *others = scales
    nearest: tuple[float, list[float], Architecture] | None = None
    n_tried = 0
    for coarse in itertools.chain([architecture], _coarse_settings(architecture, match.moves[:-1])):
        settings = DialSettings(coarse, make_dial(coarse, match.moves[-1]), first.error)
        even = roundest_candidate(settings, match.tolerance)
        fine = nearest_candidates(settings)
        written = [(first.error(coarse), coarse)] if coarse is architecture else []
        for error, there in (*written, *([] if even is None else [even]), *fine):
            n_tried += 1
            errors = [error, *(scale.error(there) for scale in others)]
            furthest = max(map(abs, errors))
            if furthest <= match.tolerance:
                return there
            if nearest is None or furthest < nearest[0]:
                nearest = (furthest, errors, there)
    assert nearest is not None, "the architecture as written was tried"
    raise SpecError(_joint_refusal(scales, match, architecture, n_tried, nearest))


def _coarse_settings(architecture: Architecture, moves: tuple[Move, ...]) -> Iterator[Architecture]:
    """The legal settings of some moves together, those that change least first."""
    settings = [_settings_near(make_dial(architecture, move).current) for move in moves]
    together = sorted(itertools.product(*settings), key=lambda one: sum(step for step, _ in one))
    for one in together[:MAX_COARSE_SETTINGS]:
        there: Architecture | None = architecture
        for move, (_, setting) in zip(moves, one, strict=True):
            if there is not None and setting <= make_dial(there, move).maximum:
                there = try_changes(there, make_dial(there, move).changes_for(setting))
            else:
                there = None
        if there is not None:
            yield there


def _settings_near(current: int) -> list[tuple[float, int]]:
    """Settings of a dial up to a factor of 4 away, each after how far it is in octaves."""
    least, most = max(1, current // MAX_FACTOR), current * MAX_FACTOR
    settings = [(abs(log2(setting / current)), setting) for setting in range(least, most + 1)]
    return sorted(settings)[:MAX_COARSE_SETTINGS]


def _joint_refusal(
    scales: Sequence[_SizeTarget],
    match: Match,
    architecture: Architecture,
    n_tried: int,
    nearest: tuple[float, list[float], Architecture],
) -> str:
    """That no setting meets all sizes, and which came nearest."""
    furthest, errors, there = nearest
    steps = _describe_moves(architecture, there)
    reached = []
    for scale, error in zip(scales, errors, strict=True):
        reached.append(f"{scale.by} {100 * error:+.2f} %")
    advice = _first_advice(match)
    enough = ceil(1000 * furthest) / 1000
    if enough < 1:
        advice = f"{advice}, or set match.tolerance to {enough}"
    return (
        f"match.by is {', '.join(match.sizes)} with match.moves {', '.join(match.moves)}, but of"
        f" {n_tried} settings none meets all of them, where {100 * match.tolerance:g} % is near"
        f" enough; nearest is {' and '.join(reached)} with {steps}; {advice}, or match one of them"
    )


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
    return (
        f"{size_target.target * (1 + error):,.0f} ({100 * error:+.2f} %) with"
        f" {_describe_moves(architecture, after)}"
    )


def _describe_moves(before: Architecture, after: Architecture) -> str:
    moves = moved_fields(before, after)
    steps = [f"{path} {old} → {new}" for path, (old, new) in moves.items()]
    return ", ".join(steps) or "nothing moved"


def _first_advice(match: Match) -> str:
    others = [move for move in MOVES if move not in match.moves]
    if others:
        return f"let {' or '.join(others)} move too"
    return "write the architecture nearer to it"


def _advice(size_target: _SizeTarget, match: Match) -> str:
    first = _first_advice(match)
    enough = ceil(1000 * min(abs(error) for error, _ in size_target.candidates)) / 1000
    if enough < 1:
        return f"{first}, or set match.tolerance to {enough}"
    return first

"""The control table: every field of every arm, and whether it is equal, the factor, or a confound.

What a person could have set equal and did not is a confound. What the factor forces follows from it: nobody wrote it,
or writing the baseline's value there is refused. Which is which is tried out on the specs, never listed by hand.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from paribus.design.arms import Arm, valid
from paribus.spec.design import Table, leaves_of

Mark = Literal["✓", "Δ", "≈", "⟳", "→", "✗"]
MEANING: dict[Mark, str] = {
    "✗": "confound", "Δ": "the factor", "≈": "matched", "⟳": "tuned alike", "→": "follows from the factor",
    "✓": "equal",
}  # fmt: skip
ABSENT = "–"


@dataclass(frozen=True)
class Line:
    """One field or quantity of all arms."""

    path: str
    mark: Mark
    values: Mapping[str, Any]  # by arm
    note: str = ""
    allowed: str | None = None  # why a confound is let pass


def under(path: str, paths: Iterable[str]) -> bool:
    """Is a path one of these, inside one, or the empty place of one?"""
    return any(path == p or path.startswith(f"{p}.") or p.startswith(f"{path}.") for p in paths)


def _declared(path: str, values: Mapping[str, Any], declared: Sequence[str]) -> bool:
    """Is a field the factor's? A list is one field: a factor that names a part of it does not free the rest."""
    listed = any(isinstance(value, list) for value in values.values())
    return any(path == own or path.startswith(f"{own}.") for own in declared) if listed else under(path, declared)


def fields(
    arms: Sequence[Arm],
    declared: Sequence[str],
    moved: Mapping[str, Mapping[str, str]],
    tuned: str | None,
    allow: Mapping[str, str],
) -> tuple[Line, ...]:
    """A line for each field of a run.

    `moved` says of each arm which paths a match or a budget moved, and for what; `tuned` is the protocol of the rate.
    """
    baseline, *others = arms
    leaves = {arm.name: arm.leaves for arm in arms}
    paths = list(dict.fromkeys(path for own in leaves.values() for path in own))
    forced = {arm.name: _forced(baseline, arm, declared, set(moved.get(arm.name, ()))) for arm in others}
    alone = {arm.name: _moved_alone(baseline, arm, moved.get(arm.name, {})) for arm in others}
    return tuple(_line(path, leaves, others, declared, moved, tuned, allow, forced, alone) for path in paths)


def _moved_alone(baseline: Arm, arm: Arm, moved: Mapping[str, str]) -> set[str]:
    """The paths at which an arm was written as the baseline is, so that it differs by what moved and nothing else."""
    ours, theirs = leaves_of(arm.written), leaves_of(baseline.written)
    return {path for path in moved if path in baseline.leaves and ours.get(path) == theirs.get(path)}


def by_arm(notes: Mapping[str, str | None]) -> str:
    """What is noted of arms: once where it is the same of all, else each with its arms."""
    found: dict[str, list[str]] = {}
    for arm, note in notes.items():
        if note:
            found.setdefault(note, []).append(arm)
    if len(found) == 1 and all(notes.values()):
        return next(iter(found))
    return "; ".join(f"{', '.join(arms)}: {note}" for note, arms in found.items())


def _line(
    path: str,
    leaves: Mapping[str, Mapping[str, Any]],
    others: Sequence[Arm],
    declared: Sequence[str],
    moved: Mapping[str, Mapping[str, str]],
    tuned: str | None,
    allow: Mapping[str, str],
    forced: Mapping[str, Mapping[str, str]],
    alone: Mapping[str, set[str]],
) -> Line:
    values = {name: own.get(path, ABSENT) for name, own in leaves.items()}
    first = next(iter(values.values()))
    apart = [arm for arm in others if values[arm.name] != first]
    if path == "training.optimizer.rate" and tuned:
        return Line(path, "⟳", values, tuned)
    if not apart:
        return Line(path, "✓", values)
    notes = {arm.name: moved.get(arm.name, {}).get(path) for arm in apart}
    if _declared(path, values, declared):
        return Line(path, "≈" if all(path in alone[arm.name] for arm in apart) else "Δ", values, by_arm(notes))
    if all(notes.values()):
        return Line(path, "≈", values, by_arm(notes))
    reasons = [forced[arm.name].get(path) for arm in apart if not moved.get(arm.name, {}).get(path)]
    if all(reason is not None for reason in reasons):
        return Line(path, "→", values, next((reason for reason in reasons if reason), ""))
    allowed = next((reason for pattern, reason in allow.items() if under(path, [pattern])), None)
    return Line(path, "✗", values, "could have been set equal", allowed)


def _forced(baseline: Arm, arm: Arm, declared: Sequence[str], moved: set[str]) -> dict[str, str]:
    """Why each differing field outside the factor is as it is: path → the refusal it avoids, or no reason at all."""
    ours, theirs = leaves_of(arm.written), leaves_of(baseline.written)
    pairs = {path: {"": ours.get(path, ABSENT), "baseline": theirs.get(path, ABSENT)} for path in {*ours, *theirs}}
    written = [path for path, pair in pairs.items() if pair[""] != pair["baseline"]]
    free = sorted(path for path in written if not _declared(path, pairs[path], declared) and path not in moved)
    differing = {path for path in {*arm.leaves, *baseline.leaves} if arm.leaves.get(path) != baseline.leaves.get(path)}
    found = {path: "" for path in differing if not under(path, free)}
    alike = _alike(arm.written, baseline.written, free)
    for path in (path for path in free if path not in alike):
        reason = valid(_equal(arm.written, baseline.written, [*alike, path]))
        found |= {leaf: reason or "" for leaf in differing if under(leaf, [path])}
    return found


def _alike(table: Table, like: Table, free: Sequence[str]) -> list[str]:
    """As many of these paths as can be set equal together; whoever wrote them otherwise had the choice.

    Fields that are refused one by one may go together, as heads and a width: where single ones fail, pairs are tried,
    then all that are left of one table.
    """

    def fits(paths: Sequence[str]) -> bool:
        return valid(_equal(table, like, paths)) is None

    if fits(free):
        return list(free)
    alike: list[str] = []
    before = -1
    while len(alike) > before:
        before = len(alike)
        for step in _steps([path for path in free if path not in alike]):
            if step and not set(step) & set(alike) and fits([*alike, *step]):
                alike += step
    return alike


def _steps(left: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """What may be set equal at once, from single fields to whole tables."""
    yield from ((path,) for path in left)
    yield from itertools.combinations(left, 2)
    for table in dict.fromkeys(path.rpartition(".")[0] for path in left):
        inside = tuple(path for path in left if under(path, [table]))
        yield from (inside, tuple(path for path in left if path not in inside))


def _equal(table: Table, like: Table, paths: Sequence[str]) -> Table:
    """A table with another's values at some paths."""
    result = copy.deepcopy(table)
    for path in paths:
        _put(result, path.split("."), _at(like, path.split(".")))
    return result


def _at(table: Any, parts: list[str]) -> Any:
    for part in parts:
        if not isinstance(table, Mapping) or part not in table:
            return ABSENT
        table = table[part]
    return table


def _put(table: Table, parts: list[str], value: Any) -> None:
    *outer, last = parts
    for part in outer:
        inner = table.get(part)
        if isinstance(inner, str):  # a kind in short
            inner = {"kind": inner}
        if not isinstance(inner, Mapping):
            if value == ABSENT:
                return
            inner = {}
        table[part] = table = dict(inner)
    if value == ABSENT:
        table.pop(last, None)
    else:
        table[last] = copy.deepcopy(value)


def confounds(lines: Iterable[Line]) -> tuple[str, ...]:
    """Every confound that is not allowed, in three beats."""
    return tuple(
        f"{line.path} is {_told(line.values)}, but it is not the factor and could have been set equal; "
        f"set it equal, name it in factor, or list it under allow with a reason"
        for line in lines
        if line.mark == "✗" and line.allowed is None
    )


def _told(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{value!r} in {name}" for name, value in values.items())

"""Could two arms have been equal in a field? It is tried out on their specs, never listed by
hand.

Each arm is given the other's value. If the arm is then still a run that can be trained, the field
could have been equal: it is a confound. If it is refused, the factor forces the difference, and the
refusal says why.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from paribus.design.arms import Arm
from paribus.masks import divisors
from paribus.record import Mark
from paribus.spec.design import Table, leaves_of

ABSENT = "–"
MAX_VALUES = 2_000  # whole numbers tried in one field
NO_VALUE_STARTS = ("no value", "none of")  # how the note begins where arms cannot be equal
# why a table describes no arm of the design; None if it does
Refusal = Callable[[Table], str | None]


@dataclass(frozen=True)
class FieldFinding:
    """What was found out about one field in which two arms differ."""

    mark: Mark  # the factor, what follows from it, or a confound
    note: str = ""


@dataclass(frozen=True)
class Trial:
    """Fields in which one of two arms takes over the other's values."""

    paths: tuple[str, ...]
    into_first: bool  # the first arm takes the second's; else the second takes the first's


def is_under(path: str, paths: Sequence[str]) -> bool:
    """Is a path one of these, inside one, or the empty place of one?"""
    return any(path == p or path.startswith(f"{p}.") or p.startswith(f"{path}.") for p in paths)


def pair_findings(
    first: Arm, second: Arm, factor_paths: Sequence[str], refusal: Refusal
) -> dict[str, FieldFinding]:
    """Every field in which two arms differ as written: the factor's, forced by it, or a
    confound.
    """
    first, second = _with_sizes(first, second), _with_sizes(second, first)
    fields, dependents = differing_fields(first.table, second.table)
    free = [path for path, values in fields.items() if not _is_factor(path, values, factor_paths)]
    findings = {path: FieldFinding(Mark.FACTOR) for path in fields if path not in free}
    for path, owner in dependents.items():
        note = f"only one of the two has it: they differ in {owner}"
        if is_under(path, factor_paths):
            findings[path] = FieldFinding(Mark.FACTOR)
        else:
            findings[path] = FieldFinding(Mark.FOLLOWS, note)
    return findings | _free_findings(first, second, free, _cache_refusals(refusal))


def _with_sizes(arm: Arm, other: Arm) -> Arm:
    """An arm with the sizes that the other alone writes, as they come out in it: 24 written and
    24 filled in agree.
    """
    own = arm.table["architecture"]
    sizes = {
        name: getattr(arm.run.architecture, name)
        for name in other.table["architecture"]
        if name not in own
    }
    if sizes:
        return replace(arm, table={**arm.table, "architecture": {**own, **sizes}})
    return arm


def differing_fields(
    first: Table, second: Table
) -> tuple[dict[str, tuple[Any, Any]], dict[str, str]]:
    """The fields in which two tables differ, each with both values; and what follows from
    another kind or presence.

    A field that only one of two kinds has is no field of both: it depends on `kind`, or on the
    table being there.
    """
    fields: dict[str, tuple[Any, Any]] = {}
    dependents: dict[str, str] = {}
    _collect_differences("", first, second, fields, dependents)
    return fields, dependents


def _collect_differences(
    path: str, one: Any, other: Any, fields: dict[str, tuple[Any, Any]], dependents: dict[str, str]
) -> None:
    if not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        if one != other:
            fields[path] = (one, other)
            inner = [side for side in (one, other) if isinstance(side, Mapping)]
            dependents.update({leaf: path for side in inner for leaf in leaves_of(side, path)})
        return
    same_kind = one.get("kind") == other.get("kind")
    for key in dict.fromkeys((*one, *other)):
        place = f"{path}.{key}" if path else key
        if (key in one and key in other) or same_kind:
            _collect_differences(
                place, one.get(key, ABSENT), other.get(key, ABSENT), fields, dependents
            )
        else:
            alone = {key: one[key] if key in one else other[key]}
            dependents.update(dict.fromkeys(leaves_of(alone, path), f"{path}.kind"))


def _is_factor(path: str, values: Sequence[Any], factor_paths: Sequence[str]) -> bool:
    """Is a field the factor's? A list is one field: a factor that names a part of it does not
    free the rest.
    """
    if any(isinstance(value, list) for value in values):
        return any(path == own or path.startswith(f"{own}.") for own in factor_paths)
    return is_under(path, factor_paths)


def _cache_refusals(refusal: Refusal) -> Refusal:
    """Refusals by table: one that was tried before is not tried again."""
    known: dict[str, str | None] = {}

    def answer(table: Table) -> str | None:
        key = json.dumps(table, sort_keys=True)
        if key not in known:
            known[key] = refusal(table)
        return known[key]

    return answer


def _free_findings(
    first: Arm, second: Arm, free: Sequence[str], refusal: Refusal
) -> dict[str, FieldFinding]:
    findings: dict[str, FieldFinding] = {}
    for trial in _trials(free):
        if set(trial.paths) <= findings.keys() or _trial_refusal(trial, first, second, refusal):
            continue
        for path in trial.paths:
            findings.setdefault(
                path, FieldFinding(Mark.CONFOUND, _describe_trial(path, trial, first, second))
            )
    for path in free:
        if path not in findings:
            findings[path] = _common_value_finding(path, first, second, refusal)
    return findings


def _trials(free: Sequence[str]) -> Iterator[Trial]:
    """Single fields, pairs, whole tables, all, and all but one; in both directions.

    One value from each arm need not be tried: it is accepted where both single fields are.
    """
    for path in free:
        yield from _both_ways((path,))
    for one, other in itertools.combinations(free, 2):
        yield from _both_ways((one, other))
    for table in dict.fromkeys(table for path in free for table in _tables_around(path)):
        yield from _both_ways(tuple(path for path in free if path.startswith(f"{table}.")))
    for n_fields in range(len(free), max(2, len(free) - 2), -1):  # all of them, and all but one
        for paths in itertools.combinations(free, n_fields):
            yield from _both_ways(paths)


def _both_ways(paths: tuple[str, ...]) -> Iterator[Trial]:
    yield Trial(paths, into_first=True)
    yield Trial(paths, into_first=False)


def _tables_around(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[:depth]) for depth in range(len(parts) - 1, 0, -1)]


def _trial_refusal(trial: Trial, first: Arm, second: Arm, refusal: Refusal) -> str | None:
    """Why the arm cannot take the values; None if it can."""
    taker, giver = (first, second) if trial.into_first else (second, first)
    return refusal(_with_values_of(taker.table, giver.table, trial.paths))


def _with_values_of(table: Table, donor: Table, paths: Sequence[str]) -> Table:
    """A table with a donor's values at some paths; a kind before the fields that it has."""
    result = copy.deepcopy(table)
    for path in sorted(paths, key=lambda path: not path.endswith(".kind")):
        *outer, last = path.split(".")
        here, there = _inner_table(result, outer), _inner_table(donor, outer)
        if last == "kind":
            common = {
                name: value for name, value in here.items() if name in there and name != "kind"
            }
            here.clear()
            here.update(copy.deepcopy(there) | common)
        else:
            here[last] = copy.deepcopy(there[last])
    return result


def _inner_table(table: Table, path: Sequence[str]) -> Table:
    for part in path:
        table = table[part]
    return table


def _describe_trial(path: str, trial: Trial, first: Arm, second: Arm) -> str:
    """What could have been written, such as "a's 384 is accepted in b too, together with that
    of d_ff".
    """
    taker, giver = (first, second) if trial.into_first else (second, first)
    value = _describe_value(giver, path)
    beside = ", ".join(other for other in trial.paths if other != path)
    together = f", together with its {beside}" if beside else ""
    return f"{value} is accepted in {taker.name} too{together}"


def _describe_value(arm: Arm, path: str) -> str:
    *outer, last = path.split(".")
    value = _inner_table(arm.table, outer)[last]
    if isinstance(value, Mapping | list):
        return f"the {'list' if isinstance(value, list) else 'table'} of {arm.name}"
    return f"{arm.name}'s {value!r}"


def _common_value_finding(path: str, first: Arm, second: Arm, refusal: Refusal) -> FieldFinding:
    """Of a field in which neither arm can take the other's value: a whole number that fits
    both, or the refusal.
    """
    *outer, last = path.split(".")
    values = [_inner_table(arm.table, outer).get(last) for arm in (first, second)]
    whole = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    if not whole or not all(value is None or value in whole for value in values):
        reason = _trial_refusal(Trial((path,), into_first=True), first, second, refusal)
        assert reason is not None
        return FieldFinding(Mark.FOLLOWS, reason)
    for value in itertools.islice(_candidate_values(whole, first, second), MAX_VALUES):
        if all(refusal(_with_value(arm.table, path, value)) is None for arm in (first, second)):
            return FieldFinding(
                Mark.CONFOUND, f"{value} is accepted in both {first.name} and {second.name}"
            )
    most = 2 * max(whole)
    if most < MAX_VALUES:
        tried = "no value"
    else:
        tried = f"none of {MAX_VALUES:,} values"
    return FieldFinding(
        Mark.CONFOUND, f"{tried} up to {most:,} is accepted in both {first.name} and {second.name}"
    )


def _candidate_values(values: Sequence[int], first: Arm, second: Arm) -> Iterator[int]:
    """Values up to twice the largest held: divisors first, then common multiples of what
    differs, then the others.
    """
    most = 2 * max(values)
    fields, _ = differing_fields(first.table, second.table)
    steps = [
        math.lcm(*pair)
        for pair in fields.values()
        if all(type(value) is int and value > 0 for value in pair)
    ]
    of_held = (divisor for value in values if value > 0 for divisor in divisors(value))
    multiples = (multiple for step in steps for multiple in range(step, most + 1, step))
    known: set[int] = set()
    for candidate in itertools.chain(of_held, multiples, range(most + 1)):
        if candidate not in known:
            known.add(candidate)
            yield candidate


def _with_value(table: Table, path: str, value: int) -> Table:
    *outer, last = path.split(".")
    result = copy.deepcopy(table)
    _inner_table(result, outer)[last] = value
    return result

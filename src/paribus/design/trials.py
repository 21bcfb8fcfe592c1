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
from paribus.spec.base import Spec
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
    owner: str = ""  # the field that it depends on, where only one of the two arms has it


@dataclass(frozen=True)
class Trial:
    """Fields in which one of two arms takes over the other's values."""

    paths: tuple[str, ...]
    into_first: bool  # the first arm takes the second's; else the second takes the first's


def is_under(path: str, places: Sequence[str]) -> bool:
    """Is a path one of these places, or inside one? A place inside the path frees nothing: a
    factor frees exactly what it names.
    """
    return any(path == place or path.startswith(f"{place}.") for place in places)


def pair_findings(
    first: Arm, second: Arm, factor_paths: Sequence[str], refusal: Refusal
) -> dict[str, FieldFinding]:
    """Every field in which two arms differ as written: the factor's, forced by it, or a
    confound.
    """
    first, second = _with_sizes(first, second), _with_sizes(second, first)
    fields, dependents = differing_fields(first.table, second.table)
    free, findings = [], {}
    for path, values in fields.items():
        inside = _paths_inside(path, values, factor_paths)
        entries = entry_paths(path, *values)
        others = [entry for entry in entries if not is_under(entry, factor_paths)]
        if not others:
            findings[path] = FieldFinding(Mark.FACTOR)
        elif len(others) < len(entries):
            note = f"{' and '.join(others)} could have been equal"
            findings[path] = FieldFinding(Mark.CONFOUND, note)
        elif inside:
            lacking = second.name if isinstance(values[0], Mapping) else first.name
            note = (
                f"{' and '.join(inside)} {'is a field' if len(inside) == 1 else 'are fields'} of a"
                f" table that {lacking} lacks, so {path} would be the honest factor"
            )
            findings[path] = FieldFinding(Mark.CONFOUND, note)
        else:
            free.append(path)
    for path, owner in dependents.items():
        note = f"only one of the two has it: they differ in {owner}"
        if is_under(path, factor_paths):
            findings[path] = FieldFinding(Mark.FACTOR, owner=owner)
        else:
            findings[path] = FieldFinding(Mark.FOLLOWS, note, owner)
    return findings | _free_findings(first, second, free, _cache_refusals(refusal))


def has_path(table: Mapping[str, Any], path: str) -> bool:
    """Does a table have a field of this path?"""
    inner: Any = table
    for key in path.split("."):
        if not isinstance(inner, Mapping) or key not in inner:
            return False
        inner = inner[key]
    return True


def _with_sizes(arm: Arm, other: Arm) -> Arm:
    """An arm with the sizes that the other alone writes, as they come out in it: 24 written and
    24 filled in agree.
    """
    own = arm.table["architecture"]
    sizes = {}
    for name in other.table["architecture"]:
        if name not in own:
            size = getattr(arm.run.architecture, name)
            sizes[name] = size.model_dump(mode="json") if isinstance(size, Spec) else size
    encoders = own.get("encoder"), other.table["architecture"].get("encoder")
    if all(isinstance(encoder, Mapping) for encoder in encoders):
        assert arm.run.architecture.encoder is not None
        n_layers = {"n_layers": arm.run.architecture.encoder.n_layers}
        if "n_layers" in encoders[1] and "n_layers" not in encoders[0]:
            sizes["encoder"] = {**encoders[0], **n_layers}
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


def entry_paths(path: str, one: Any, other: Any) -> list[str]:
    """A field in which two arms differ; of lists of tables, each field of each entry."""
    if not (isinstance(one, list) and isinstance(other, list)):
        return [path]
    if len(one) != len(other):
        short, long = sorted((one, other), key=len)
        changed = [entry for entry in short if entry not in long]
        return [path, *[f"{path}.{short.index(entry)}" for entry in changed]]
    paths = []
    for place, (left, right) in enumerate(zip(one, other, strict=True)):
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            fields, _ = differing_fields(dict(left), dict(right))
            paths += [f"{path}.{place}.{name}" for name in fields]
        elif left != right:
            paths.append(f"{path}.{place}")
    return paths


def _collect_differences(
    path: str, one: Any, other: Any, fields: dict[str, tuple[Any, Any]], dependents: dict[str, str]
) -> None:
    if not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        if one != other:
            fields[path] = (one, other)
            for side in (one, other):
                if isinstance(side, Mapping):
                    dependents.update(dict.fromkeys(leaves_of(side, path), path))
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


def _paths_inside(path: str, values: Sequence[Any], factor_paths: Sequence[str]) -> list[str]:
    """The factor's paths that lie in a table which only one of two arms has."""
    if not any(isinstance(value, Mapping) for value in values):
        return []
    return [own for own in factor_paths if own.startswith(f"{path}.")]


def forced_fields(
    first: Arm, second: Arm, paths: Sequence[str], refusal: Refusal
) -> tuple[str, ...]:
    """Of the factor's fields in which two arms differ, those that the others force: neither arm
    can take the other's value there unless it takes more of them. The first path is kept.
    """
    first, second = _with_sizes(first, second), _with_sizes(second, first)
    refusal, forced = _cache_refusals(refusal), []
    for path in reversed(paths[1:]):
        findings = _free_findings(first, second, [path, *forced], refusal)
        if findings[path].mark == Mark.FOLLOWS:
            forced.append(path)
    return tuple(forced)


def _cache_refusals(refusal: Refusal) -> Refusal:
    """Refusals by table: one that was tried before is not tried again."""
    refusals: dict[str, str | None] = {}

    def answer(table: Table) -> str | None:
        key = json.dumps(table, sort_keys=True)
        if key not in refusals:
            refusals[key] = refusal(table)
        return refusals[key]

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
    tables = itertools.chain.from_iterable(map(_tables_around, free))
    for table in dict.fromkeys(tables):
        yield from _both_ways(tuple([path for path in free if path.startswith(f"{table}.")]))
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
            own = dict(here)
            here.clear()
            here.update(copy.deepcopy(there))
            for name, value in own.items():
                if name in there and name != "kind":
                    here[name] = value
        elif last in there:
            here[last] = copy.deepcopy(there[last])
        else:
            here.pop(last, None)
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
    others = [other for other in trial.paths if other != path]
    together = f", together with its {', '.join(others)}" if others else ""
    return f"{value} is accepted in {taker.name} too{together}"


def _describe_value(arm: Arm, path: str) -> str:
    *outer, last = path.split(".")
    table = _inner_table(arm.table, outer)
    if last not in table:
        return f"the lack of it in {arm.name}"
    value = table[last]
    if isinstance(value, list):
        return f"the list of {arm.name}"
    if isinstance(value, Mapping):
        return f"the table of {arm.name}"
    return f"{arm.name}'s {value!r}"


def _common_value_finding(path: str, first: Arm, second: Arm, refusal: Refusal) -> FieldFinding:
    """Of a field in which neither arm can take the other's value: a whole number that fits
    both, or the refusal.
    """
    *outer, last = path.split(".")
    values = [_inner_table(arm.table, outer).get(last) for arm in (first, second)]
    whole = [value for value in values if type(value) is int]
    if not whole or not all(value is None or value in whole for value in values):
        reason = _trial_refusal(Trial((path,), into_first=True), first, second, refusal)
        assert reason is not None
        return FieldFinding(Mark.FOLLOWS, reason)
    for value in itertools.islice(_candidate_values(whole, first, second), MAX_VALUES):
        if (
            refusal(_with_value(first.table, path, value)) is None
            and refusal(_with_value(second.table, path, value)) is None
        ):
            return FieldFinding(
                Mark.CONFOUND, f"{value} is accepted in both {first.name} and {second.name}"
            )
    most = 2 * max(whole)
    if most < MAX_VALUES:
        values_text = "no value"
    else:
        values_text = f"none of {MAX_VALUES:,} values"
    return FieldFinding(
        Mark.CONFOUND,
        f"{values_text} up to {most:,} is accepted in both {first.name} and {second.name}",
    )


def _candidate_values(values: Sequence[int], first: Arm, second: Arm) -> Iterator[int]:
    """Values up to twice the largest held: divisors first, then common multiples of what
    differs, then the others.
    """
    earlier_values: set[int] = set()
    for candidate in _repeating_candidates(values, first, second):
        if candidate not in earlier_values:
            earlier_values.add(candidate)
            yield candidate


def _repeating_candidates(values: Sequence[int], first: Arm, second: Arm) -> Iterator[int]:
    """Candidate values in order, some of them more than once."""
    most = 2 * max(values)
    for value in values:
        if value > 0:
            yield from divisors(value)
    fields, _ = differing_fields(first.table, second.table)
    for one, other in fields.values():
        if type(one) is int and type(other) is int and one > 0 and other > 0:
            step = math.lcm(one, other)
            yield from range(step, most + 1, step)
    yield from range(most + 1)


def _with_value(table: Table, path: str, value: int) -> Table:
    *outer, last = path.split(".")
    result = copy.deepcopy(table)
    _inner_table(result, outer)[last] = value
    return result

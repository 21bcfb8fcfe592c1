"""Could two arms have been equal in a field? It is tried out on their specs, never listed by
hand.

Each arm is given the other's value. If the arm is then still a run that can be trained, the field
could have been equal: it is a confound. So it is if a third value fits both arms: each kind of a
closed set as it comes by default, each simple mask and each part of their own, each whole number. A
list of tables is tried entry by entry. If everything is refused, the factor forces the difference,
and the refusal says why.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from paribus.design.arms import Arm
from paribus.masks import divisors, parse_rule
from paribus.masks.rules import LEAF_RULES, And, CompositeRule, Nothing, Or, Rule
from paribus.record import Mark
from paribus.spec.base import Spec
from paribus.spec.design import Table, leaves_of
from paribus.spec.fields import choices_at

ABSENT = "–"
WEIGHT = "weight"  # of a source, or of a component of a mixture
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
        if is_under(path, factor_paths) or (entries and not others):
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
    refusal = _cache_refusals(refusal)
    for path, finding in _free_findings(first, second, free, refusal).items():
        findings[path] = finding
        if finding.mark == Mark.FOLLOWS and _is_list_of_tables(*fields[path]):
            findings[path] = _whole_finding(_entry_findings(path, first, second, (), refusal))
    return findings


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
    """A field in which two arms differ; of lists of tables, each field of each entry that both
    have, and each entry that only one has.

    Lists of one length are compared place by place, others by what is equal in them. A weight
    differs where it is another share of what both have.
    """
    if not (isinstance(one, list) and isinstance(other, list)):
        return [path]
    if sorted(map(str, one)) == sorted(map(str, other)):
        return [path]  # another order, which moves the batches
    if not _is_list_of_tables(one, other):
        if len(one) != len(other):
            return [path]
        return [f"{path}.{place}" for place in range(len(one)) if one[place] != other[place]]
    short, long = (other, one) if len(one) > len(other) else (one, other)
    partners = _aligned(short, long)
    uneven, paths = _uneven_weights(short, long, partners), list[str]()
    for place, entry in enumerate(long):
        if place not in partners:
            paths.append(f"{path}.{place}")
            continue
        fields, _ = differing_fields(dict(short[partners[place]]), dict(entry))
        names = [name for name in fields if name != WEIGHT]
        names += [WEIGHT] if place in uneven else []
        paths += [f"{path}.{place}.{name}" for name in names]
    return paths


def _aligned(short: Sequence[Table], long: Sequence[Table]) -> dict[int, int]:
    """The place in the shorter list of each entry of the longer one that both have: what is equal
    but for its weight, then what is of one kind, then what is left, in order.
    """
    if len(short) == len(long):
        return {place: place for place in range(len(long))}
    partners: dict[int, int] = {}
    for is_like in (_is_equal_entry, _is_of_one_kind, _is_any):
        for own, entry in enumerate(short):
            free = [place for place in range(len(long)) if place not in partners]
            like = [place for place in free if is_like(entry, long[place])]
            if own not in partners.values() and like:
                partners[like[0]] = own
    return partners


def entry_partners(own: Sequence[Any], other: Sequence[Any]) -> dict[int, int | None]:
    """Of each entry of a list the place of the other list's that stands for it; None where there is
    none. Lists that differ in their order alone, or in no tables, have no entries to compare.
    """
    if not _is_list_of_tables(own, other) or sorted(map(str, own)) == sorted(map(str, other)):
        return {}
    if len(own) >= len(other):
        partners = _aligned(other, own)
        return {place: partners.get(place) for place in range(len(own))}
    partners = {short: long for long, short in _aligned(own, other).items()}
    return {place: partners[place] for place in range(len(own))}


def _is_equal_entry(one: Table, other: Table) -> bool:
    return {**one, WEIGHT: None} == {**other, WEIGHT: None}


def _is_of_one_kind(one: Table, other: Table) -> bool:
    return _entry_kind(one) == _entry_kind(other)


def _entry_kind(entry: Table) -> str:
    """The kind of a source, or that of the objective of a component."""
    return entry["kind"] if "kind" in entry else entry["objective"]["kind"]


def added_entry(path: str, one: Any, other: Any) -> str:
    """What an entry is that only one of two lists has, and how much of the whole, such as "copy,
    25 % of the weight"; nothing where a path of `entry_paths` is something else.
    """
    place = path.rpartition(".")[2]
    if not (place.isdecimal() and _is_list_of_tables(one, other)) or len(one) == len(other):
        return ""
    entries = max(one, other, key=len)
    entry, total = entries[int(place)], sum(entry.get(WEIGHT, 1.0) for entry in entries)
    return f"{_entry_kind(entry)}, {100 * entry.get(WEIGHT, 1.0) / total:.3g} % of the weight"


def _is_any(one: Table, other: Table) -> bool:
    return True


def _uneven_weights(
    short: Sequence[Table], long: Sequence[Table], partners: Mapping[int, int]
) -> set[int]:
    """The places in the longer list of entries whose weight is another share of what both lists
    have than that of most of them.
    """
    places: dict[float, list[int]] = {}
    for place, own in partners.items():
        if WEIGHT in long[place] and WEIGHT in short[own]:
            ratio = float(f"{long[place][WEIGHT] / short[own][WEIGHT]:.9g}")
            places.setdefault(ratio, []).append(place)
    usual = max(places.items(), key=_size_of_group, default=(1.0, []))[1]
    return {place for own in places.values() for place in own if place not in usual}


def _size_of_group(group: tuple[float, Sequence[int]]) -> tuple[int, bool]:
    ratio, places = group
    return len(places), ratio == 1


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
    if not same_kind:
        one, other = _without_unused_width(one, other), _without_unused_width(other, one)
    for key in dict.fromkeys((*one, *other)):
        place = f"{path}.{key}" if path else key
        if (key in one and key in other) or same_kind:
            _collect_differences(
                place, one.get(key, ABSENT), other.get(key, ABSENT), fields, dependents
            )
        else:
            alone = {key: one[key] if key in one else other[key]}
            owner = f"{path}.kind" if path else "kind"
            dependents.update(dict.fromkeys(leaves_of(alone, path), owner))


def _without_unused_width(one: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any]:
    """A table without the width of dense layers where all of its layers have experts: there is no
    such layer, and whoever writes the width is refused. What the experts are is compared by size.
    """
    has_no_dense_layer = one.get("n_dense_layers") == 0 and one.get("every") == 1
    if one.get("kind") != "experts" or not has_no_dense_layer or other.get("d_ff") is None:
        return one
    return {name: value for name, value in one.items() if name != "d_ff"}


def with_entry(table: Table, path: str, value: Any) -> Table:
    """A table with a value at a path, which may lead through lists; none is left out."""
    result = copy.deepcopy(table)
    *outer, last = path.split(".")
    inner: Any = result
    for key in outer:
        inner = inner[int(key)] if isinstance(inner, list) else inner[key]
    if value is None:
        inner.pop(last, None)
    else:
        inner[last] = value
    return result


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
    fields, _ = differing_fields(first.table, second.table)
    refusal, forced, forced_entries = _cache_refusals(refusal), list[str](), list[str]()
    for path in reversed(paths[1:]):
        findings = _free_findings(first, second, [path, *forced], refusal)
        if findings[path].mark != Mark.FOLLOWS:
            continue
        if path not in fields or not _is_list_of_tables(*fields[path]):
            forced.append(path)
            continue
        entries = _entry_findings(path, first, second, forced, refusal)
        own = [entry for entry, found in entries.items() if found.mark == Mark.FOLLOWS]
        if len(own) == len(entries):
            forced.append(path)
        forced_entries += own
    return (*forced, *forced_entries)


def _is_list_of_tables(*values: Any) -> bool:
    for value in values:
        if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
            return False
    return True


def _entry_findings(
    path: str, first: Arm, second: Arm, together: Sequence[str], refusal: Refusal
) -> dict[str, FieldFinding]:
    """What is found out about each field of each entry of a list of tables, neither of which fits
    the other arm as a whole; `together` are fields that may be taken with it.
    """
    arms = [replace(arm, table=_with_list(arm.table, path, _numbered)) for arm in (first, second)]
    fields, _ = differing_fields(arms[0].table, arms[1].table)
    own = [entry for entry in fields if is_under(entry, [path])]
    trial_refusal = partial(_numbered_refusal, path, refusal)
    findings = _free_findings(arms[0], arms[1], [*own, *together], trial_refusal)
    return {entry: findings[entry] for entry in own}


def _numbered_refusal(path: str, refusal: Refusal, table: Table) -> str | None:
    return refusal(_with_list(table, path, _unnumbered))


def _with_list(table: Table, path: str, change: Callable[[Any], Any]) -> Table:
    """A table in which the list of a path is changed."""
    *outer, last = path.split(".")
    result = copy.deepcopy(table)
    inner = _inner_table(result, outer)
    inner[last] = change(inner[last])
    return result


def _numbered(entries: Sequence[Table]) -> Table:
    """A list as a table by number, so that a path can name an entry."""
    return {str(number): entry for number, entry in enumerate(entries)}


def _unnumbered(entries: Table) -> list[Table]:
    return [entries[number] for number in sorted(entries, key=int)]


def _whole_finding(findings: Mapping[str, FieldFinding]) -> FieldFinding:
    """What is found out about a list: it is forced if each of its entries is."""
    for path, finding in findings.items():
        if finding.mark != Mark.FOLLOWS:
            return replace(finding, note=f"{path}: {finding.note}")
    return next(iter(findings.values()))


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
    """Of a field in which neither arm can take the other's value: another value that fits both, or
    the refusal.
    """
    *outer, last = path.split(".")
    values = [_inner_table(arm.table, outer).get(last) for arm in (first, second)]
    whole = [value for value in values if type(value) is int]
    has_whole = bool(whole) and all(value is None or value in whole for value in values)
    candidates = _closed_candidates(path, values)
    if has_whole:
        candidates = itertools.islice(_candidate_values(whole, first, second), MAX_VALUES)
    common = _common_fields(first, second, outer) if last == "kind" else ()
    _, own = differing_fields(first.table, second.table)
    for value, kept in itertools.product(candidates, {(), common}):
        tables = [_with_value(arm.table, path, value, kept) for arm in (first, second)]
        if all(_is_accepted(table, own, refusal) for table in tables):
            return FieldFinding(
                Mark.CONFOUND, f"{value!r} is accepted in both {first.name} and {second.name}"
            )
    if not has_whole:
        reason = _trial_refusal(Trial((path,), into_first=True), first, second, refusal)
        assert reason is not None
        return FieldFinding(Mark.FOLLOWS, reason)
    most = 2 * max(whole)
    if most < MAX_VALUES:
        values_text = "no value"
    else:
        values_text = f"none of {MAX_VALUES:,} values"
    return FieldFinding(
        Mark.CONFOUND,
        f"{values_text} up to {most:,} is accepted in both {first.name} and {second.name}",
    )


def _is_accepted(table: Table, own: Collection[str], refusal: Refusal) -> bool:
    """Does a table describe an arm, as it is or without what one of its own fields adds to its
    kind: a number that may be 0, such as the rotated channels of latents?
    """
    if refusal(table) is None:
        return True
    for path in own:
        *outer, last = path.split(".")
        is_number = has_path(table, path) and type(_inner_table(table, outer)[last]) is int
        if is_number and refusal(_with_value(table, path, 0, ())) is None:
            return True
    return False


def _closed_candidates(path: str, values: Sequence[Any]) -> Iterator[Any]:
    """What a field may be that neither of two arms has there: a kind or a word of a closed set, a
    mask, or a few numbers.
    """
    if path.split(".")[-1] == "mask":
        candidates = _mask_candidates([value for value in values if isinstance(value, str)])
    elif all(isinstance(value, float) for value in values):
        candidates = (sum(values) / 2, 0.0, 0.5, 1.0, min(values) / 2, 2 * max(values))
    else:
        candidates = choices_at(path)
    for candidate in candidates:
        if candidate not in values:
            yield candidate


def _mask_candidates(masks: Sequence[str]) -> Iterator[str]:
    """The parts of two masks, then the simple ones; not the one that hides everything."""
    parts = itertools.chain.from_iterable(_parts(parse_rule(mask)) for mask in masks)
    simple = [rule() for rule in LEAF_RULES.values()]
    for rule in dict.fromkeys((*parts, *simple)):
        if rule != Nothing():
            yield str(rule)


def _parts(rule: Rule) -> Iterator[Rule]:
    """A rule and the rules that it is made of."""
    yield rule
    inside: tuple[Rule, ...] = ()
    if isinstance(rule, And | Or):
        inside = (rule.left, rule.right)
    elif isinstance(rule, CompositeRule):
        inside = rule.rules
    for part in inside:
        yield from _parts(part)


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


def _common_fields(first: Arm, second: Arm, path: Sequence[str]) -> tuple[str, ...]:
    """The fields that the kinds of two arms both have, so that a third kind may have them too."""
    one, other = [_inner_table(arm.table, path) for arm in (first, second)]
    return tuple([name for name in one if name in other and name != "kind"])


def _with_value(table: Table, path: str, value: Any, kept: Sequence[str]) -> Table:
    """A table with a value at a path; another kind as it comes by default, but for the fields that
    are kept.
    """
    *outer, last = path.split(".")
    result = copy.deepcopy(table)
    inner = _inner_table(result, outer)
    if last == "kind":
        own = {name: inner[name] for name in kept}
        inner.clear()
        inner.update(own)
    inner[last] = value
    return result

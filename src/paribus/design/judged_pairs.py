"""What each judged comparison differs in: one factor, an interaction, or several at once.

A design lists the paths in which its arms may differ. That is no licence for one pair to differ in
three of them: the effect of such a pair is of all three together, and nobody can say of which. So
every pair and every contrast that gets a word is taken apart here.

A pair differs in the listed fields that are not the same in its two arms. Each counts by itself,
also where several lie in one listed table, or in one level of a factorial. These do not count:

- what only one of two kinds has, or only the arm that has the table: it follows from the kind, or
  from the table being there. What both kinds have counts by its value, also one by default;
- what the other listed fields force: neither arm can take the other's value alone;
- learning rates that a sweep finds for each arm alike.

A size that is unequal on purpose counts as one factor more, by the name `match`.

A contrast is taken apart into pairs that differ in one field each. If they all differ in the same
field, and in one direction, it is the effect of that field. If they cancel in two fields or more,
it is their interaction. What cannot be taken apart so is compound.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import log
from typing import Any

from paribus.design.added_tables import added_components, added_factors, describe_usual_stage
from paribus.design.arms import Arm, arm_refusal
from paribus.design.begin_differences import BEGIN_PATH, begin_factors, unknown_histories
from paribus.design.control import FindingsByPair, factor_paths, is_rate_path
from paribus.design.matching.size_match import SizeMatch
from paribus.design.trials import (
    ABSENT,
    added_entry,
    differing_fields,
    entry_paths,
    forced_fields,
)
from paribus.errors import SpecError
from paribus.record import ControlLine, JudgedDifference, Mark
from paribus.spec import Architecture, resolve
from paribus.spec.begin_reading import BeginOpener
from paribus.spec.contrasts import Weights, default_contrasts
from paribus.spec.design import (
    MATCH_PATH,
    ArmPair,
    Design,
    arm_levels,
    declared_contrasts,
    judged_pairs,
    ladder_pairs,
    leaves_of,
)
from paribus.spec.match import UNEQUAL_FROM, Match, MatchBy, match_lengths
from paribus.spec.reading import parse_architecture
from paribus.spec.size import architecture_size

SHORT_TABLES = ("architecture.", "training.")  # left out before the name of a factor
WRITTEN_SIZES: tuple[MatchBy, ...] = ("non_embedding_parameters", "inference_flops")
WRITTEN_FROM = 1.25  # times; what kinds bring with them, such as a router, stays below
TIMES_FROM = 0.005  # sizes that differ by more are another number of times the baseline's
NOT_DECLARED = "sizes that are unequal on purpose are a factor: "


@dataclass(frozen=True)
class UnequalSize:
    """Two arms whose sizes agree in nothing that they are matched by, or compared as written in
    nothing that they could be.
    """

    by: str
    ratio: float  # how often the second's size the first has
    cure: str = ""  # of arms as written: the setting with which sizes would be near

    @property
    def description(self) -> str:
        return f"size ({self.ratio:.3g} × the {self.by.replace('_', ' ')})"


UnequalSizes = Mapping[ArmPair, UnequalSize]
Factors = Mapping[str, str]  # what to say of each beside its name, by path
FactorsByPair = Mapping[ArmPair, Factors]


def judged_differences(
    design: Design,
    arms: Sequence[Arm],
    findings: FindingsByPair,
    unequal_sizes: UnequalSizes,
    open_begin: BeginOpener | None = None,
) -> tuple[JudgedDifference, ...]:
    """Of every judged pair, those of a ladder among them, and of every contrast that is judged or
    shown.
    """
    factors = _factors_by_pair(design, arms, findings, unequal_sizes, open_begin)
    unknown = _unknown_by_pair(arms, findings, open_begin)
    pairs = dict.fromkeys((*judged_pairs(design), *ladder_pairs(design)))
    differences = []
    for pair in pairs:
        own = _pair_difference(design, pair, factors, unequal_sizes)
        differences.append(replace(own, unknown=_unknown_in(pair, unknown)))
    by_name = {arm.name: arm for arm in arms}
    place = partial(_place, factor_paths(design, arms))
    contrasts = default_contrasts(arm_levels(design), design.baseline) | declared_contrasts(design)
    for name, weights in contrasts.items():
        own = _contrast_difference(weights, by_name, factors, place)
        reason = design.compound.get(name) if own.is_compound else None
        in_contrast = _unknown_in([arm for arm, weight in weights.items() if weight], unknown)
        differences.append(replace(own, contrast=name, reason=reason, unknown=in_contrast))
    return tuple(differences)


def _pair_difference(
    design: Design, pair: ArmPair, factors: FactorsByPair, sizes: UnequalSizes
) -> JudgedDifference:
    arm, against = pair
    size = sizes.get(pair)
    if (against, arm) in sizes:
        size = replace(sizes[against, arm], ratio=1 / sizes[against, arm].ratio)
    names = _names(_factors_of(factors, arm, against), size)
    if len(names) > 1:
        reason = design.compound.get(arm)
        return JudgedDifference("compound", names, arm=arm, against=against, reason=reason)
    return JudgedDifference("simple" if names else "none", names, arm=arm, against=against)


def describe_compounds(
    design: Design,
    arms: Sequence[Arm],
    differences: Sequence[JudgedDifference],
    sizes: UnequalSizes,
) -> tuple[str, ...]:
    """Every judged comparison that differs in several factors, and of which the design does not
    say why, in three beats.
    """
    by_name = {arm.name: arm for arm in arms}
    contrasts, problems = declared_contrasts(design), []
    for one in differences:
        if not one.is_compound or one.reason is not None:
            continue
        if one.contrast is None:
            name, subject = one.arm, f"comparisons: {one.arm} against {one.against}"
        elif one.contrast in contrasts:
            name, subject = one.contrast, f"contrasts: {one.contrast}"
        else:
            continue  # an effect of two factors that is shown and not judged
        problems.append(
            f"{subject} {one.description}; judge arms that differ in one, or say why all of them"
            f' are meant: compound = {{ "{name}" = "why" }}{_describe_equal_values(one, by_name)}'
            f"{_describe_near_size(one, sizes)}{_describe_one_tokenizer(one, by_name)}"
        )
    return tuple(problems)


def _describe_one_tokenizer(one: JudgedDifference, arms: Mapping[str, Arm]) -> str:
    """What an arm that begins without weights could write to read with the other's tokenizer."""
    drawn = [arms[name] for name in (one.arm, one.against) if name and not arms[name].run.begin]
    if len(drawn) != 1 or f"{BEGIN_PATH}.tokenizer" not in one.factors:
        return ""
    return (
        '; one tokenizer for both: corpus.tokenizer = { kind = "file", path ='
        f' "…/tokenizer.json" }} in {drawn[0].name}, the file in the folder of the checkpoint'
    )


def _describe_near_size(one: JudgedDifference, sizes: UnequalSizes) -> str:
    """What an arm could write so that both are of about one size."""
    for pair, size in sizes.items():
        if set(pair) == {one.arm, one.against} and size.cure:
            return f"; sizes are near with {size.cure}"
    return ""


def name_allowed(
    differences: Sequence[JudgedDifference],
    design: Design,
    arms: Sequence[Arm],
    lines: Sequence[ControlLine],
) -> tuple[JudgedDifference, ...]:
    """Each with what differs between its arms besides, and is let pass."""
    contrasts = default_contrasts(arm_levels(design), design.baseline) | declared_contrasts(design)
    named = []
    for one in differences:
        own = [one.arm, one.against]
        if one.contrast is not None:
            own = [name for name, weight in contrasts[one.contrast].items() if weight]
        paths = []
        for line in lines:
            values = [line.values.get(str(name)) for name in own]
            if line.allowed is not None and any(value != values[0] for value in values):
                paths.append(line.path)
        named.append(replace(one, allowed=_names(dict.fromkeys(paths, ""))))
    return tuple(named)


def _describe_equal_values(one: JudgedDifference, arms: Mapping[str, Arm]) -> str:
    """What an arm could write so that two kinds agree in the fields that both have."""
    if one.arm is None or one.against is None:
        return ""
    fields, _ = differing_fields(arms[one.against].table, arms[one.arm].table)
    settings = []
    for path, (value, _) in fields.items():
        table, _, name = path.rpartition(".")
        is_named = path in one.factors or _short_name(path) in one.factors
        if name != "kind" and f"{table}.kind" in fields and is_named and value is not None:
            settings.append(f"{path} = {json.dumps(value)}")
    usual = describe_usual_stage(one.factors, arms[one.arm], arms[one.against])
    if not settings:
        return usual
    return f"; kinds that agree in what both have: {' and '.join(settings)} in {one.arm}{usual}"


def unused_reasons(design: Design, differences: Sequence[JudgedDifference]) -> tuple[str, ...]:
    """The entries of `compound` whose comparisons each differ in one factor."""
    used = {one.contrast or one.arm for one in differences if one.is_compound}
    return tuple(name for name in design.compound if name not in used)


def unequal_sizes(
    design: Design,
    arms: Sequence[Arm],
    size_matches: Sequence[SizeMatch | None],
    pairs: Sequence[ArmPair],
) -> dict[ArmPair, UnequalSize]:
    """The pairs whose sizes are unequal on purpose: by a `match` of their own, by `times`, or
    under a tolerance so wide that nothing is matched; as written, by a field of its own that one
    kind has.

    A pair is of equal size if it agrees in one quantity that it is matched by. Arms that are
    compared as written have the sizes that follow from the factor, where no other value of such a
    field brings them near.
    """
    by_name = {arm.name: arm for arm in arms}
    matches = {arm.name: _match_of(arm, design) for arm in arms}
    architectures = {}
    for arm, own in zip(arms, size_matches, strict=True):
        architectures[arm.name] = arm.run.architecture if own is None else own.architecture
    length = arms[0].run.last.training.length
    unequal = {}
    for pair in pairs:
        sizes: list[UnequalSize] = []
        for match in filter(None, (matches[pair[0]], matches[pair[1]], design.match)):
            n_tokens = match_lengths(match, length)
            for by in match.sizes:
                try:
                    first, second = [
                        architecture_size(architectures[name], by, *n_tokens) for name in pair
                    ]
                except SpecError:  # an arm that is not matched so, and has no room for the text
                    continue
                sizes.append(UnequalSize(by=by, ratio=first / second))
        least = UNEQUAL_FROM if _times(matches[pair[0]]) == _times(matches[pair[1]]) else TIMES_FROM
        if sizes and all(abs(size.ratio - 1) > least for size in sizes):
            unequal[pair] = sizes[0]
        if not sizes:
            written = _written_size(by_name[pair[0]], by_name[pair[1]], length)
            unequal |= {} if written is None else {pair: written}
    return unequal


def _times(match: Match | None) -> float:
    """How often the baseline's size a match asks for."""
    return 1.0 if match is None else match.times


def _written_size(first: Arm, second: Arm, length: int) -> UnequalSize | None:
    """What two arms that are compared as written are of unequal size by, if another value of a
    field that only one of their kinds has would bring them near.
    """
    ratios = _size_ratios(first.run.architecture, second.run.architecture, length)
    if not _are_far(ratios):
        return None
    _, dependents = differing_fields(first.table, second.table)
    best: tuple[float, str] | None = None
    for path in dependents:
        arm, other = (first, second) if path in leaves_of(first.table) else (second, first)
        value = _value_at(arm, path)
        if not path.startswith("architecture.") or type(value) is not int or value < 1:
            continue
        for candidate in sorted({max(1, round(value * 2 ** (n / 4))) for n in range(-32, 33)}):
            changed = _with_field(arm.run.architecture, path, candidate)
            if changed is None:
                continue
            own = _size_ratios(changed, other.run.architecture, length)
            if own and not _are_far(own):
                distance = min(abs(log(ratio)) for ratio in own.values())
                best = min(filter(None, (best, (distance, f"{path} = {candidate} in {arm.name}"))))
    if best is None:
        return None
    return UnequalSize(by="inference_flops", ratio=ratios["inference_flops"], cure=best[1])


def _size_ratios(one: Architecture, other: Architecture, length: int) -> dict[str, float]:
    """How often the second's size the first has; nothing where one has no room for the text."""
    n_input = length // 2
    ratios = {}
    for by in WRITTEN_SIZES:
        try:
            sizes = [architecture_size(own, by, n_input, length - n_input) for own in (one, other)]
        except SpecError:
            return {}
        ratios[by] = sizes[0] / sizes[1]
    return ratios


def _are_far(ratios: Mapping[str, float]) -> bool:
    """Are two arms as written of another size in everything that could be equal?"""
    return bool(ratios) and all(abs(log(one)) > log(WRITTEN_FROM) for one in ratios.values())


def _with_field(architecture: Architecture, path: str, value: int) -> Architecture | None:
    """An architecture with another value at a path of a run; None where it is refused."""
    table = architecture.model_dump(mode="json")
    *outer, last = path.split(".")[1:]
    inner = table
    for key in outer:
        inner = inner[key]
    inner[last] = value
    try:
        changed = parse_architecture(table)
        resolve(changed)
    except SpecError:
        return None
    return changed


def _match_of(arm: Arm, design: Design) -> Match | None:
    """What an arm is matched by; None of the baseline, to which the others are brought."""
    if arm.name == design.baseline:
        return None
    return arm.match


def size_lines(design: Design, arms: Sequence[Arm], sizes: UnequalSizes) -> tuple[ControlLine, ...]:
    """A line on what the arms are matched by, where some are of unequal size on purpose."""
    sizes = {pair: size for pair, size in sizes.items() if not size.cure}
    if not sizes:
        return ()
    values = {arm.name: _describe_match(_match_of(arm, design)) for arm in arms}
    notes = []
    for (one, other), size in sizes.items():
        notes.append(f"{one} has {size.ratio:.3g} × the {size.by.replace('_', ' ')} of {other}")
    note = "; ".join(notes)
    if MATCH_PATH in factor_paths(design, arms):
        return (ControlLine(path=MATCH_PATH, mark=Mark.FACTOR, values=values, note=note),)
    return (
        ControlLine(
            path=MATCH_PATH,
            mark=Mark.CONFOUND,
            values=values,
            note=f"{NOT_DECLARED}{note}",
            allowed=design.allow.get(MATCH_PATH),
        ),
    )


def _describe_match(match: Match | None) -> str:
    if match is None or not match.sizes:
        return "as written"
    by = " and ".join(match.sizes).replace("_", " ")
    if match.times == 1:
        return f"{by} to {match.tolerance:.2g}"
    return f"{match.times:g} × {by} to {match.tolerance:.2g}"


def _factors_by_pair(
    design: Design,
    arms: Sequence[Arm],
    findings: FindingsByPair,
    sizes: UnequalSizes,
    open_begin: BeginOpener | None,
) -> dict[ArmPair, Factors]:
    """The factors in which each compared pair differs."""
    by_name = {arm.name: arm for arm in arms}
    refusal = partial(arm_refusal, design, open_begin=open_begin)
    listed = factor_paths(design, arms)
    factors = {}
    for pair, by_path in findings.items():
        first, second = by_name[pair[0]], by_name[pair[1]]
        paths = []
        for path, finding in by_path.items():
            is_own = finding.mark == Mark.FACTOR and not finding.owner
            if is_own and not (design.tune is not None and is_rate_path(path)):
                paths.append(path)
        paths.sort(key=partial(_place, listed))
        forced = forced_fields(first, second, paths, refusal)
        own: dict[str, str] = {}
        for path in paths:
            if path not in forced and path != BEGIN_PATH:
                values = _value_at(first, path), _value_at(second, path)
                for entry in entry_paths(path, *values):
                    if entry not in forced:
                        own[entry] = added_entry(entry, *values)
                own |= added_components(path, first, second)
                own |= added_components(path, second, first)
                for inside in _added_factors(path, first, second):
                    if design.tune is None or not is_rate_path(inside):
                        own[inside] = ""
        if BEGIN_PATH in by_path and by_path[BEGIN_PATH].mark != Mark.FOLLOWS:
            begun = begin_factors(first, second, BEGIN_PATH in listed, open_begin)
            own |= {path: "" for path in begun if path.removeprefix(f"{BEGIN_PATH}.") not in own}
        if pair in sizes and (MATCH_PATH in listed or sizes[pair].cure):
            own[MATCH_PATH] = ""
        factors[pair] = own
    return factors


def _unknown_by_pair(
    arms: Sequence[Arm], findings: FindingsByPair, open_begin: BeginOpener | None
) -> dict[ArmPair, tuple[str, ...]]:
    """What no record says of the weights that each compared pair begins with."""
    by_name = {arm.name: arm for arm in arms}
    unknown = {}
    for pair, by_path in findings.items():
        if BEGIN_PATH in by_path and by_path[BEGIN_PATH].mark != Mark.FOLLOWS:
            unknown[pair] = unknown_histories(by_name[pair[0]], by_name[pair[1]], open_begin)
    return unknown


def _unknown_in(arms: Sequence[str], unknown: Mapping[ArmPair, tuple[str, ...]]) -> tuple[str, ...]:
    """What is not known of any pair of these arms, each once."""
    own: dict[str, None] = {}
    for pair, notes in unknown.items():
        if set(pair) <= set(arms):
            own |= dict.fromkeys(notes)
    return tuple(own)


def _place(listed: Sequence[str], path: str) -> int:
    """The place of a field in the list of factors."""
    for place, own in enumerate(listed):
        if path == own or path.startswith(f"{own}."):
            return place
    return len(listed)


def _added_factors(path: str, first: Arm, second: Arm) -> tuple[str, ...]:
    """What a table that only one of two arms has changes beside being there."""
    has_table = [isinstance(_value_at(arm, path), Mapping) for arm in (first, second)]
    if has_table[0] == has_table[1]:
        return ()
    return added_factors(path, *((first, second) if has_table[0] else (second, first)))


def _value_at(arm: Arm, path: str) -> Any:
    inner: Any = arm.table
    for key in path.split("."):
        if not isinstance(inner, Mapping) or key not in inner:
            return ABSENT
        inner = inner[key]
    return inner


def _names(factors: Factors, size: UnequalSize | None = None) -> tuple[str, ...]:
    """Factors in words: without the table that most of them lie in, where that is unambiguous."""
    short = [_short_name(path) for path in factors]
    names = []
    for (path, note), name in zip(factors.items(), short, strict=True):
        if path == MATCH_PATH:
            names.append("size" if size is None else size.description)
            continue
        name = path if short.count(name) > 1 else name
        names.append(f"{name} ({note})" if note else name)
    return tuple(names)


def _short_name(path: str) -> str:
    if path.startswith(f"{BEGIN_PATH}."):
        return f"{BEGIN_PATH}.{_short_name(path.removeprefix(f'{BEGIN_PATH}.'))}"
    for table in SHORT_TABLES:
        path = path.removeprefix(table)
    table = path.removesuffix(".kind")
    return path if table.rpartition(".")[2].isdecimal() else table  # of a list, an entry's kind


def _factors_of(factors: FactorsByPair, one: str, other: str) -> Factors:
    """The factors of two arms, in whichever order they were compared."""
    if (one, other) in factors:
        return factors[one, other]
    return factors[other, one]


def _contrast_difference(
    weights: Weights,
    arms: Mapping[str, Arm],
    factors: FactorsByPair,
    place: Callable[[str], int],
) -> JudgedDifference:
    """A contrast, taken apart into pairs that differ in one field each.

    It is balanced in a field if its weights add up to 0 among arms that differ in that field alone:
    then it is a sum of such pairs. Balanced in one field, it is the effect of that field; in more,
    their interaction. Where it counts the same levels of these fields once up and once down, other
    fields decide what it says, and it is compound: in the
    fewest fields that it can be taken apart into.
    """
    counted = {name: weight for name, weight in weights.items() if weight}
    edges: dict[ArmPair, Factors] = {}
    for one, weight in counted.items():
        for other, other_weight in counted.items():
            if weight > 0 > other_weight:
                edges[one, other] = _factors_of(factors, one, other)
    notes = {path: note for own in edges.values() for path, note in own.items()}
    fields = sorted(notes, key=place)
    level = partial(_level, arms)
    balanced = [field for field in fields if _is_balanced([field], counted, edges)]
    if not fields:
        return JudgedDifference("none", ())
    if balanced and _has_one_direction(balanced, counted, level):
        kind = "simple" if len(balanced) == 1 else "interaction"
        return JudgedDifference(kind, _names({path: notes[path] for path in balanced}))
    for bundle in sorted(edges.values(), key=len):
        paths = list(bundle)
        if _is_balanced(paths, counted, edges) and _has_one_direction(paths, counted, level):
            return JudgedDifference("compound", _names(bundle))
    return JudgedDifference("compound", _names({path: notes[path] for path in fields}))


def _is_balanced(fields: Sequence[str], weights: Mapping[str, float], edges: FactorsByPair) -> bool:
    """Do weights add up to 0 in every group of arms that differ in these fields alone?"""
    groups = {name: {name} for name in weights}
    for (one, other), own in edges.items():
        if set(own) <= set(fields):
            joined = groups[one] | groups[other]
            for name in joined:
                groups[name] = joined
    largest = max(map(abs, weights.values()))
    sums = [sum(weights[name] for name in group) for group in groups.values()]
    return all(abs(one) < 1e-9 * largest for one in sums)


def _has_one_direction(
    fields: Sequence[str],
    weights: Mapping[str, float],
    level: Callable[[str, str], str],
) -> bool:
    """Does every combination of levels of these fields count either up or down?"""
    signs: dict[tuple[str, ...], set[bool]] = {}
    for name, weight in weights.items():
        cell = tuple([level(name, field) for field in fields])
        signs.setdefault(cell, set()).add(weight > 0)
    return all(len(own) == 1 for own in signs.values())


def _level(arms: Mapping[str, Arm], name: str, field: str) -> str:
    """The level that an arm has of a field, as text."""
    arm = arms[name]
    if field == MATCH_PATH:
        return str(arm.match)
    if field == BEGIN_PATH or field.startswith(f"{BEGIN_PATH}."):
        return arm.leaves.get(BEGIN_PATH, ABSENT)
    value: Any = arm.table
    for key in field.split("."):
        if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        elif isinstance(value, Mapping):
            value = value.get(key, ABSENT)
        else:
            value = ABSENT
    return json.dumps(value, sort_keys=True)

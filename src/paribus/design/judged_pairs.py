"""What each judged comparison differs in: one factor, an interaction, or several at once.

A design lists the paths in which its arms may differ. That is no licence for one pair to differ in
three of them: the effect of such a pair is of all three together, and nobody can say of which. So
every pair and every contrast that gets a word is taken apart here.

A pair differs in the listed fields that are not the same in its two arms. Each counts by itself,
also where several lie in one listed table, or in one level of a factorial. These do not count:

- what only one of two kinds has, or only the arm that has the table, as it comes by default: it
  follows from the kind, or from the table being there. What both kinds have counts by its value,
  also one by default;
- what the other listed fields force: neither arm can take the other's value alone;
- learning rates that a sweep finds for each arm alike.

A size that is unequal, or that a match brings about in another way, counts as one factor more, by
the name `match`: see `pair_sizes`.

A contrast is taken apart into pairs that differ in one field each: see `contrast_parts`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from paribus.design.added_tables import (
    added_components,
    added_factors,
    describe_usual_encoder,
    describe_usual_stage,
    own_fields,
)
from paribus.design.arms import Arm, arm_refusal
from paribus.design.begin_differences import (
    BEGIN_PATH,
    begin_details,
    begin_factors,
    unknown_histories,
)
from paribus.design.contrast_parts import (
    ContrastParts,
    Factors,
    FactorsByPair,
    contrast_parts,
    factors_of,
)
from paribus.design.control import (
    MAX_VALUE_CHARACTERS,
    OWN_TOKENIZERS,
    TOKENIZER_KIND,
    FindingsByPair,
    factor_paths,
    is_rate_path,
)
from paribus.design.pair_sizes import RatiosByPair, UnequalSize, UnequalSizes
from paribus.design.trials import (
    ABSENT,
    added_entry,
    differing_fields,
    entry_paths,
    forced_fields,
    with_entry,
)
from paribus.record import ControlLine, JudgedDifference, Mark
from paribus.spec.begin_reading import BeginOpener
from paribus.spec.contrasts import default_contrasts
from paribus.spec.design import (
    MATCH_PATH,
    ArmPair,
    Design,
    arm_levels,
    declared_contrasts,
    judged_pairs,
    ladder_pairs,
)

RATE_NAME = "optimizer.rate"
SHORT_TABLES = ("architecture.", "training.")  # left out before the name of a factor


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
    contrasts = default_contrasts(arm_levels(design), design.baseline) | declared_contrasts(design)
    for name, parts in _parts_of_contrasts(design, arms, factors).items():
        own = JudgedDifference(parts.kind, _names(parts.factors))
        reason = design.compound.get(name) if own.is_compound else None
        counted = [arm for arm, weight in contrasts[name].items() if weight]
        in_contrast = _unknown_in(counted, unknown)
        differences.append(replace(own, contrast=name, reason=reason, unknown=in_contrast))
    return tuple(differences)


def pairs_of_contrasts(
    design: Design,
    arms: Sequence[Arm],
    findings: FindingsByPair,
    unequal_sizes: UnequalSizes,
    open_begin: BeginOpener | None = None,
) -> dict[str, tuple[ArmPair, ...]]:
    """The pairs that each contrast which is judged or shown is made of."""
    factors = _factors_by_pair(design, arms, findings, unequal_sizes, open_begin)
    contrasts = _parts_of_contrasts(design, arms, factors)
    return {name: parts.pairs for name, parts in contrasts.items()}


def _parts_of_contrasts(
    design: Design, arms: Sequence[Arm], factors: FactorsByPair
) -> dict[str, ContrastParts]:
    by_name = {arm.name: arm for arm in arms}
    place = partial(_place, factor_paths(design, arms))
    contrasts = default_contrasts(arm_levels(design), design.baseline) | declared_contrasts(design)
    parts = {}
    for name, weights in contrasts.items():
        parts[name] = contrast_parts(weights, by_name, factors, place)
    return parts


def _pair_difference(
    design: Design, pair: ArmPair, factors: FactorsByPair, sizes: UnequalSizes
) -> JudgedDifference:
    arm, against = pair
    size = sizes.get(pair)
    if (against, arm) in sizes:
        size = sizes[against, arm].inverse
    names = _names(factors_of(factors, arm, against), size)
    if len(names) > 1:
        reason = design.compound.get(arm)
        return JudgedDifference("compound", names, arm=arm, against=against, reason=reason)
    return JudgedDifference("simple" if names else "none", names, arm=arm, against=against)


def describe_compounds(
    design: Design,
    arms: Sequence[Arm],
    differences: Sequence[JudgedDifference],
    sizes: UnequalSizes,
    open_begin: BeginOpener | None = None,
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
            f"{_describe_usual_fields(one, design, by_name, open_begin)}"
            f"{_describe_tuning(one, design)}{_describe_near_size(one, sizes)}"
            f"{_describe_one_tokenizer(one, by_name)}{_describe_other_baseline(one, by_name)}"
        )
    return tuple(problems)


def _describe_one_tokenizer(one: JudgedDifference, arms: Mapping[str, Arm]) -> str:
    """What arms could write to read with one tokenizer."""
    table = TOKENIZER_KIND.removesuffix(".kind")
    own = [name for name in one.factors if name in (table, f"stages.0.{table}")]
    if own:
        return (
            f"; {OWN_TOKENIZERS}; one tokenizer for both:"
            f' {own[0]} = {{ kind = "file", path = "…/tokenizer.json" }} in every arm, such as the'
            " file in the folder of a checkpoint"
        )
    drawn = [arms[name] for name in (one.arm, one.against) if name and not arms[name].run.begin]
    if len(drawn) != 1 or f"{BEGIN_PATH}.tokenizer" not in one.factors:
        return ""
    return (
        '; one tokenizer for both: corpus.tokenizer = { kind = "file", path ='
        f' "…/tokenizer.json" }} in {drawn[0].name}, the file in the folder of the checkpoint'
    )


def _describe_other_baseline(one: JudgedDifference, arms: Mapping[str, Arm]) -> str:
    """How arms of unequal numbers of stages have equal totals though both train as long before."""
    if one.arm is None or one.against is None:
        return ""
    short, long = sorted([arms[one.arm], arms[one.against]], key=lambda arm: len(arm.run.stages))
    earlier = range(len(short.run.stages))
    is_moved = any(f"stages.{number}.training.n_steps" in one.factors for number in earlier)
    if len(short.run.stages) == len(long.run.stages) or not is_moved:
        return ""
    return (
        f"; with the same n_steps in the stages that both have, baseline = {long.name!r} and a"
        f" budget, the budget moves the steps of {short.name}"
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
    """Each with what differs between its arms besides, and is let pass: confounds, and what would
    count beside a kind or a table.
    """
    by_name = {arm.name: arm for arm in arms}
    contrasts = default_contrasts(arm_levels(design), design.baseline) | declared_contrasts(design)
    named = []
    for one in differences:
        own = [one.arm, one.against]
        if one.contrast is not None:
            own = [name for name, weight in contrasts[one.contrast].items() if weight]
        paths: dict[str, str] = {}
        pairs = [(str(first), str(second)) for first, second in itertools.combinations(own, 2)]
        for line, (first, second) in itertools.product(lines, pairs):
            values = line.values.get(first), line.values.get(second)
            if line.allowed is not None and values[0] != values[1]:
                for path in entry_paths(line.path, *values):
                    paths[path] = added_entry(path, *values)
        for first, second in pairs:
            for field in own_fields(by_name[first], by_name[second]):
                if field.counts and field.path in design.allow:
                    paths.setdefault(field.path, "")
            for path in design.allow:
                for added, note in _added_components(path, by_name[first], by_name[second]).items():
                    if added in design.allow:
                        paths[added] = note
        named.append(replace(one, allowed=_names(paths)))
    return tuple(named)


def is_allowed_beside(path: str, differences: Sequence[JudgedDifference]) -> bool:
    """Does a field stand beside a comparison as one that is let pass?"""
    named = {name.partition(" (")[0] for one in differences for name in one.allowed}
    return path in named or _short_name(path) in named


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
    both = arms[one.arm], arms[one.against]
    usual = describe_usual_stage(one.factors, *both) + describe_usual_encoder(one.factors, *both)
    if not settings:
        return usual
    return f"; kinds that agree in what both have: {' and '.join(settings)} in {one.arm}{usual}"


def _describe_usual_fields(
    one: JudgedDifference, design: Design, arms: Mapping[str, Arm], open_begin: BeginOpener | None
) -> str:
    """That `factor` may name the fields of one kind, and what an arm could write so that its kind
    is as it comes, where the arm can be so.
    """
    if one.arm is None or one.against is None:
        return ""
    named, usual = [], []
    for field in own_fields(arms[one.against], arms[one.arm]):
        if not _is_named(field.path, one):
            continue
        named.append(f'"{field.path}"')
        table = with_entry(arms[field.arm].table, field.path, field.default)
        if arm_refusal(design, table, open_begin) is None:
            usual.append(field.usual)
    texts = []
    if named and design.arms:
        those = "that field" if len(named) == 1 else "those fields"
        texts.append(f"name {those} in factor besides: {', '.join(named)}")
    if usual:
        texts.append(f"kinds as they come: {' and '.join(usual)}")
    return f"; {'; or '.join(texts)}" if texts else ""


def _describe_tuning(one: JudgedDifference, design: Design) -> str:
    """That a sweep finds the rates of arms which differ in them."""
    if design.tune is not None or not any(factor.endswith(RATE_NAME) for factor in one.factors):
        return ""
    return "; rates that a sweep finds for each arm: leave out tune = false"


def unused_reasons(design: Design, differences: Sequence[JudgedDifference]) -> tuple[str, ...]:
    """The entries of `compound` whose comparisons each differ in one factor."""
    used = {one.contrast or one.arm for one in differences if one.is_compound}
    return tuple(name for name in design.compound if name not in used)


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
        paths, tokenizers = [], dict[str, str]()
        for path, finding in by_path.items():
            if finding.note == OWN_TOKENIZERS:
                tokenizers[path] = ""
                continue
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
                own |= _added_components(path, first, second)
                for inside in _added_factors(path, first, second):
                    if design.tune is None or not is_rate_path(inside):
                        own[inside] = ""
        for path, finding in by_path.items():
            if finding.mark == Mark.CONFOUND and path in design.allow:
                for added, note in _added_components(path, first, second).items():
                    if added not in design.allow:
                        own.setdefault(added, note)
                for inside in _added_factors(path, first, second):
                    if design.tune is None or not is_rate_path(inside):
                        own.setdefault(inside, "")
        own |= tokenizers
        tables: list[str] = []  # one choice, with what is in it
        for field in own_fields(first, second):
            is_inside_one = any(field.path.startswith(f"{path}.") for path in tables)
            is_named = field.path in (*design.factor, *design.allow, *own)
            if field.counts and not is_inside_one and not is_named:
                tables.append(field.path)
                own[field.path] = ""
        if BEGIN_PATH in by_path and by_path[BEGIN_PATH].mark != Mark.FOLLOWS:
            begun = begin_factors(first, second, BEGIN_PATH in listed, open_begin)
            own |= {path: "" for path in begun if path.removeprefix(f"{BEGIN_PATH}.") not in own}
        if pair in sizes and (MATCH_PATH in listed or not sizes[pair].is_declared):
            own[MATCH_PATH] = sizes[pair].name
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


def name_details(
    differences: Sequence[JudgedDifference],
    arms: Sequence[Arm],
    ratios: RatiosByPair,
    contrast_pairs: Mapping[str, Sequence[ArmPair]],
    open_begin: BeginOpener | None = None,
) -> tuple[JudgedDifference, ...]:
    """Each with what only one of its kinds has and does not count, and with sizes that are not
    equal; of a contrast, those of the pairs that it is made of.
    """
    by_name = {arm.name: arm for arm in arms}
    named = []
    for one in differences:
        if one.contrast is None:
            assert one.arm is not None
            assert one.against is not None
            pairs, is_pair = [(one.arm, one.against)], True
        else:
            pairs, is_pair = contrast_pairs[one.contrast], False
        details: dict[str, None] = {}
        for arm, against in pairs:
            own = []
            both = by_name[arm], by_name[against]
            for field in (*own_fields(*both), *begin_details(*both, open_begin)):
                is_place = field.path.endswith((".path", ".paths"))  # files count by what they hold
                if not is_place and not _is_named(field.path, one):
                    name = _short_name(field.path)
                    own.append(f"{name} = {_shorten(field.value)} in {field.arm}")
            sizes = ratios[arm, against]
            if not sizes.are_equal and not any(map(_is_size, one.factors)):
                own.append(sizes.description if is_pair else f"{sizes.description} of {against}")
            details |= dict.fromkeys(own)
        named.append(replace(one, details=tuple(details)))
    return tuple(named)


def _is_named(path: str, one: JudgedDifference) -> bool:
    """Is a field among the factors of a pair, with or without a note beside it?"""
    named = [factor.partition(" (")[0] for factor in one.factors]
    return path in named or _short_name(path) in named


def _is_size(factor: str) -> bool:
    """Does a factor say in words how the sizes of its arms differ?"""
    return factor.startswith("size (") and factor.endswith("FLOPs)")


def _shorten(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[: MAX_VALUE_CHARACTERS - 1]}…"


def _place(listed: Sequence[str], path: str) -> int:
    """The place of a field in the list of factors."""
    for place, own in enumerate(listed):
        if path == own or path.startswith(f"{own}."):
            return place
    return len(listed)


def _added_components(path: str, first: Arm, second: Arm) -> dict[str, str]:
    """What a mixture that only one of two arms has changes, with what to say of it."""
    return added_components(path, first, second) | added_components(path, second, first)


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
            name = note or path
            names.append(name if size is None else f"{name} ({size.description})")
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

"""What is wrong with the arms of a design: their names, their tables and which are compared."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from paribus.errors import describe_first
from paribus.spec.contrasts import CONTRAST_EXAMPLE, Contrasts, default_contrasts
from paribus.spec.design import (
    RUN_TABLES,
    Design,
    arm_levels,
    arm_tables,
    control_arm,
    declared_contrasts,
    n_judged,
)
from paribus.spec.factor_faults import written_tables
from paribus.spec.spelling import word_advice
from paribus.spec.unknown_keys import unknown_keys

ARM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+-]{0,79}", re.ASCII)
MAX_ARMS = 64  # each is compared with others; thirty factors of two would be a billion
WEIGHT_TOLERANCE = 1e-9  # of the largest weight: what a sum of decimal weights may be off


def arm_faults(design: Design) -> Iterator[str]:
    arms = arm_tables(design)
    for name in arms:
        if not ARM_NAME.fullmatch(name):
            yield (
                f"arms.{name} cannot be an arm's name; use up to 80 letters, digits, spaces, '.',"
                " '_', '+' or '-'"
            )
    if len(arms) < 2:
        yield (
            f"arms has only {', '.join(arms)}, and a comparison needs two; add the arm that it is"
            " compared with"
        )
    for field, name in (("baseline", design.baseline), ("control", control_arm(design))):
        if name is not None and name not in arms:
            yield (
                f"{field} is {name!r}, which is not an arm; {word_advice(name, arms)}arms are"
                f" {', '.join(arms)}"
            )
    if design.control == design.baseline:
        yield (
            f"control is {design.control!r}, the baseline itself; name an arm that must come out"
            " worse than it"
        )
    yield from unknown_keys("base.", design.base, RUN_TABLES)
    untrained: list[str] = []
    for name, table in arms.items():
        if not {"training", "stages"} & {**design.base, **table}.keys():
            untrained.append(name)
    if untrained:
        yield (
            f"base.training is missing, and {', '.join(untrained)} gives none; say how long to"
            " train, such as base = { architecture = 'gpt2', training = { n_steps = 600 } }: a"
            " preset is an architecture alone"
        )
    table_names = (*RUN_TABLES, "match") if design.arms else RUN_TABLES
    for where, table in written_tables(design):
        yield from unknown_keys(f"{where}.", table, table_names)


def comparison_faults(design: Design) -> Iterator[str]:
    if design.comparisons is None:
        return
    arms, earlier_pairs = arm_tables(design), set()
    if not design.comparisons:
        yield (
            "comparisons is an empty list; name at least one pair, or leave it out: every arm"
            " against the baseline"
        )
    names = itertools.chain.from_iterable(design.comparisons)
    yield from unknown_arm_faults([("comparisons", name) for name in names], arms)
    for name, against in design.comparisons:
        if name == against:
            yield f"comparisons has {name!r} against itself; name the arm it is judged against"
        elif {name, against} in earlier_pairs:
            yield (
                f"comparisons has {name!r} and {against!r} twice; one of them is judged against the"
                " other, once"
            )
        earlier_pairs.add(frozenset((name, against)))


def family_faults(design: Design) -> Iterator[str]:
    """A design in which nothing would get a word."""
    is_silent = design.comparisons is None and design.contrasts is None and not n_judged(design)
    if is_silent and control_arm(design) is not None:
        yield (
            f"control is {design.control!r}, the only arm beside the baseline, and a control is not"
            " among what is judged; add an arm, or name the pair: comparisons ="
            f" [[{design.control!r}, {design.baseline!r}]]"
        )


def contrast_faults(design: Design) -> Iterator[str]:
    if design.contrasts is None:
        return
    if isinstance(design.contrasts, str):
        if not declared_contrasts(design):
            yield (
                "contrasts is 'default', the two main effects and the interaction of two factors"
                f" of two levels, and this design has {_describe_shape(design)}; write the"
                f" contrasts out, as in {CONTRAST_EXAMPLE}"
            )
        return
    arms, earlier_names = arm_tables(design), set()
    effects = {_plain_name(name) for name in default_contrasts(arm_levels(design), design.baseline)}
    yield from unknown_arm_faults(_weighted_arms(design.contrasts), arms)
    for name, weights in design.contrasts.items():
        yield from _weight_faults(f"contrasts.{name}", weights)
        key = _plain_name(name)
        if not ARM_NAME.fullmatch(name):
            allowed = "up to 80 letters, digits, spaces, '.', '_', '+' or '-'"
            yield f"contrasts has {name!r}, which cannot be a name; use {allowed}"
        elif name in arms:
            yield f"contrasts.{name} has the name of an arm; call it something else"
        elif (pair := _pair_in_name(name, arms)) is not None:
            yield (
                f"contrasts.{name} reads like the pair {pair[0]} against {pair[1]}; call it"
                f" something else, or judge that pair: comparisons = [{json.dumps(pair)}]"
            )
        elif key in effects:
            yield (
                f"contrasts.{name} has the name of an effect that every 2 × 2 shows; call it"
                " something else, or write contrasts = 'default'"
            )
        elif key in earlier_names:
            yield (
                f"contrasts.{name} is there twice, but for capitals and spaces; call one of them"
                " something else"
            )
        earlier_names.add(key)


def _plain_name(name: str) -> str:
    """A name without capitals and further spaces."""
    return " ".join(name.casefold().split())


def _pair_in_name(name: str, arms: Iterable[str]) -> tuple[str, str] | None:
    """The two arms that a name reads like a pair of: it begins with one and ends with the other."""
    key, keys = _plain_name(name), {arm: _plain_name(arm) for arm in arms}
    for one, first in keys.items():
        for other, last in keys.items():
            is_pair = key.startswith(f"{first} ") and key.endswith(f" {last}")
            if one != other and is_pair and len(key) > len(first) + len(last) + 2:
                return one, other
    return None


def _weighted_arms(contrasts: Contrasts) -> Iterator[tuple[str, str]]:
    """Every arm that a contrast weighs, after the place of the contrast."""
    for name, weights in contrasts.items():
        for arm in weights:
            yield f"contrasts.{name}", arm


def _describe_shape(design: Design) -> str:
    if design.arms:
        return f"{len(design.arms)} arms and no factors"
    n_levels = [str(len(factor.levels)) for factor in design.factors.values()]
    return f"{' × '.join(n_levels)} levels"


def unknown_arm_faults(names: Iterable[tuple[str, str]], arms: Mapping[str, Any]) -> Iterator[str]:
    """The names, and where each stands, that no arm has; the first few are told one by one."""
    arm_names = ", ".join(arms)

    def say(where_name: tuple[str, str]) -> str:
        where, name = where_name
        advice = word_advice(name, arms)
        return f"{where} has {name!r}, which is not an arm; {advice}arms are {arm_names}"

    unknown: dict[tuple[str, str], None] = {}
    for where, name in names:
        if name not in arms:
            unknown[where, name] = None
    yield from describe_first(list(unknown), say, "names that no arm has")


def _weight_faults(where: str, weights: Mapping[str, float]) -> Iterator[str]:
    for arm, weight in weights.items():
        if weight == 0:
            yield f"{where} gives {arm!r} the weight 0; leave it out"
    total = sum(weights.values())
    if len(weights) < 2:
        yield (
            f"{where} has only {len(weights)} of the arms; weigh two or more against each other, as"
            f" in {CONTRAST_EXAMPLE}"
        )
    elif abs(total) > WEIGHT_TOLERANCE * max(map(abs, weights.values())):
        yield (
            f"{where} has weights that add up to {total:g}; let them add up to 0, as in"
            f" {CONTRAST_EXAMPLE}"
        )

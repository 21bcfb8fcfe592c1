"""A contrast, taken apart into pairs that differ in one field each.

A contrast is balanced in a field if its weights add up to 0 among arms that differ in that field
alone: then it is a sum of such pairs. Arms that are joined by such pairs are one *place*, such as
one size of model. Balanced in one field, it is the effect of that field; in more, their
interaction. Balanced in one field and in all others together, it is the interaction of that field
with the others together: nobody can say with which of them.

It must also count in one direction. What is a difference of effects between two places would pass
as an effect, if the levels of the two were a little different. So levels have an order where they
are numbers, or masks of which one shows all that the other shows, and in every place those that
count up lie on the same side of those that count down. Levels without an order are the same in
every place, or one of them is compared with all others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from paribus.design.arms import Arm
from paribus.design.begin_differences import BEGIN_PATH
from paribus.design.trials import ABSENT
from paribus.errors import SpecError
from paribus.masks import SequenceLayout, dense_mask, head_rules, parse_rule, rule_at_layer
from paribus.record import JudgedDifference
from paribus.spec.contrasts import Contrasts, opposed_arms
from paribus.spec.design import MATCH_PATH, ArmPair

Kind = Literal["simple", "interaction", "compound interaction", "compound", "none"]
Factors = Mapping[str, str]  # what to say of each beside its name, by path
FactorsByPair = Mapping[ArmPair, Factors]
MASK_FIELDS = ("mask", "cross")
MOST_DRAWN = 512  # tokens of a row in which masks are compared


# What weights above 0 add up to. Of an effect, whose gain and margin are then those of two arms; of
# an interaction, or a compound contrast, which may be one, at least (halves of effects) and at most
# (three factors of two levels), and in a 2 × 2.
EFFECT_WEIGHT = 1.0
INTERACTION_WEIGHTS, USUAL_INTERACTION_WEIGHT = (1.0, 4.0), 2.0
WEIGHT_TOLERANCE = 0.01  # of what weights add up to, for decimals that are cut


@dataclass(frozen=True)
class ContrastParts:
    """What a contrast is of, and the pairs that it is made of."""

    kind: Kind
    factors: Factors  # of a compound interaction, first the one that differs alone
    pairs: tuple[ArmPair, ...]  # an arm that counts up, and one that counts down


def contrast_parts(
    weights: Mapping[str, float],
    arms: Mapping[str, Arm],
    factors: FactorsByPair,
    place: Callable[[str], int],
) -> ContrastParts:
    """A contrast, taken apart: what cannot be is compound, in the fewest fields that it can be
    taken apart into, and is made of all of its pairs.
    """
    counted = {name: weight for name, weight in weights.items() if weight}
    edges = {}
    for one, other in opposed_arms(counted):
        edges[one, other] = factors_of(factors, one, other)
    notes = {path: note for own in edges.values() for path, note in own.items()}
    fields = sorted(notes, key=place)
    if not fields:
        return ContrastParts("none", {}, tuple(edges))

    def is_made_of(axes: Sequence[Sequence[str]]) -> bool:
        is_balanced = all(_is_balanced(axis, counted, edges) for axis in axes)
        return is_balanced and _has_one_direction(axes, counted, edges, arms)

    def parts(kind: Kind, paths: Sequence[str], alone: Iterable[str]) -> ContrastParts:
        pairs = [pair for pair, own in edges.items() if len(own) <= 1 and set(own) <= set(alone)]
        return ContrastParts(kind, {path: notes[path] for path in paths}, tuple(pairs))

    balanced = [field for field in fields if _is_balanced([field], counted, edges)]
    if balanced and is_made_of([[field] for field in balanced]):
        return parts("simple" if len(balanced) == 1 else "interaction", balanced, balanced)
    for field in balanced:
        others = [own for own in fields if own != field]
        if others and is_made_of([[field], others]):
            return parts("compound interaction", [field, *others], [field])
    for bundle in sorted(edges.values(), key=len):
        if bundle and is_made_of([list(bundle)]):
            return ContrastParts("compound", bundle, tuple(edges))
    return ContrastParts("compound", {path: notes[path] for path in fields}, tuple(edges))


def require_usual_weights(contrasts: Contrasts, differences: Iterable[JudgedDifference]) -> None:
    """SpecError where weights make gains larger or smaller than those that a margin is for."""
    problems = []
    for one in differences:
        if one.contrast is None or one.contrast not in contrasts:
            continue
        weights = contrasts[one.contrast]
        total = sum(weight for weight in weights.values() if weight > 0)
        least, most, usual = EFFECT_WEIGHT, EFFECT_WEIGHT, EFFECT_WEIGHT
        wanted = "1, and those below to -1"
        if one.kind not in ("simple", "none"):
            (least, most), usual = INTERACTION_WEIGHTS, USUAL_INTERACTION_WEIGHT
            wanted = f"{usual:g}, as in a 2 × 2, or from {least:g} to {most:g}"
        if least * (1 - WEIGHT_TOLERANCE) <= total <= most * (1 + WEIGHT_TOLERANCE):
            continue
        scaled = {name: f"{weight * usual / total:.4g}" for name, weight in weights.items()}
        table = ", ".join([f'"{name}" = {weight}' for name, weight in scaled.items()])
        problems.append(
            f"contrasts.{one.contrast} has weights above 0 that add up to {total:g}, so that its"
            f" gain is {total / usual:.4g} × what the margin is for; let them add up to {wanted},"
            f" such as {{ {table} }}"
        )
    if problems:
        raise SpecError(problems)


def factors_of(factors: FactorsByPair, one: str, other: str) -> Factors:
    """The factors of two arms, in whichever order they were compared."""
    if (one, other) in factors:
        return factors[one, other]
    return factors[other, one]


def _is_balanced(fields: Sequence[str], weights: Mapping[str, float], edges: FactorsByPair) -> bool:
    """Do weights add up to 0 in every place, the arms that differ in these fields alone?"""
    largest = max(map(abs, weights.values()))
    sums = [sum(weights[name] for name in own) for own in _places(fields, weights, edges)]
    return all(abs(one) < 1e-9 * largest for one in sums)


def _places(
    fields: Iterable[str], weights: Mapping[str, float], edges: FactorsByPair
) -> list[set[str]]:
    """Arms that are joined by pairs which differ in these fields alone."""
    groups = {name: {name} for name in weights}
    for (one, other), own in edges.items():
        if set(own) <= set(fields):
            joined = groups[one] | groups[other]
            for name in joined:
                groups[name] = joined
    return list({id(group): group for group in groups.values()}.values())


def _has_one_direction(
    axes: Sequence[Sequence[str]],
    weights: Mapping[str, float],
    edges: FactorsByPair,
    arms: Mapping[str, Arm],
) -> bool:
    """Does every combination of levels count either up or down, and in an order?

    Each axis is a field, or several that count as one.
    """
    levels = {name: [_Level.of(arms[name], axis) for axis in axes] for name in weights}
    cells = {name: tuple(level.label for level in own) for name, own in levels.items()}
    up = {cells[name] for name, weight in weights.items() if weight > 0}
    down = {cells[name] for name, weight in weights.items() if weight < 0}
    if up & down:
        return False
    places = _places([field for axis in axes for field in axis], weights, edges)
    has_equal_places = len({frozenset(cells[name] for name in place) for place in places}) == 1
    if len(axes) > 1 and not has_equal_places:
        return False
    for number in range(len(axes)):
        orders: dict[Any, set[int]] = {}  # of one axis in all places, of several in each by itself
        for one, other in edges:
            rest = [cells[name][:number] + cells[name][number + 1 :] for name in (one, other)]
            is_one_place = any({one, other} <= place for place in places)
            if is_one_place and rest[0] == rest[1]:
                order = levels[one][number].order(levels[other][number])
                orders.setdefault(rest[0], set()).add(order)
        for own in orders.values():
            if {1, -1} <= own:
                return False
            if 0 in own and not has_equal_places and min(len(up), len(down)) > 1:
                return False
    return True


@dataclass(frozen=True, eq=False)
class _Level:
    """What an arm has of one field, or of several that count as one."""

    label: tuple[Any, ...]  # equal where two levels are the same
    values: tuple[Any, ...]  # of each field a number, the picture of a mask, or None

    @staticmethod
    def of(arm: Arm, fields: Sequence[str]) -> _Level:
        labels, values = [], []
        for field in fields:
            value = _value_of(arm, field)
            label, own = json.dumps(value, sort_keys=True), None
            if isinstance(value, int | float) and not isinstance(value, bool):
                label = own = float(value)
            elif isinstance(value, str) and field.rpartition(".")[2] in MASK_FIELDS:
                own = _mask_picture(value, _n_layers(arm, field), _drawn_length(arm))
                if own is not None and arm.run.last.training.length <= MOST_DRAWN:
                    label = (own.shape, own.tobytes())
            labels.append(label)
            values.append(own)
        return _Level(tuple(labels), tuple(values))

    def order(self, other: _Level) -> int:
        """1 where it lies above another level, -1 below, 0 where they have no order."""
        orders = set()
        for place, (own, beside) in enumerate(zip(self.values, other.values, strict=True)):
            if self.label[place] != other.label[place]:
                orders.add(_order(own, beside))
        return orders.pop() if len(orders) == 1 else 0


def _order(one: Any, other: Any) -> int:
    if isinstance(one, float) and isinstance(other, float):
        return (one > other) - (one < other)
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return 0
    sides = zip(one.shape, other.shape, strict=True)
    if one.shape[-1] != other.shape[-1] or any(1 < min(pair) < max(pair) for pair in sides):
        return 0
    return int(np.all(one >= other)) - int(np.all(one <= other))


@cache
def _mask_picture(text: str, n_layers: int, length: int) -> NDArray[np.bool_] | None:
    """What a mask shows by layer and group of heads, in a row of two documents that is half a
    prefix; once where it is the same in all. None where it has no such picture.
    """
    documents = (np.arange(length) >= 3 * length // 4).astype(int)
    layout = SequenceLayout(length, length // 2, documents)
    try:
        rule = parse_rule(text)
        stack = [head_rules(rule_at_layer(rule, layer, n_layers)) for layer in range(n_layers)]
    except SpecError:
        return None
    if len({len(groups) for groups in stack}) > 1:
        return None
    drawn = {part: dense_mask(part, layout) for groups in stack for part in groups}
    picture = np.stack([np.stack([drawn[part] for part in groups]) for groups in stack])
    return picture[:1, :1] if np.all(picture == picture[:1, :1]) else picture


def _n_layers(arm: Arm, field: str) -> int:
    """The layers of the stack that has a mask."""
    architecture = arm.run.architecture
    if ".encoder." in field and architecture.encoder is not None:
        return architecture.encoder.n_layers or architecture.n_layers
    return architecture.n_layers


def _drawn_length(arm: Arm) -> int:
    return min(arm.run.last.training.length, MOST_DRAWN)


def _value_of(arm: Arm, field: str) -> Any:
    """What an arm has at a path of its table."""
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
    return value

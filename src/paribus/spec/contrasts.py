"""Contrasts: sums of arms' gains whose weights add up to 0, and the family they share with the
pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized
from itertools import product
from typing import Any, Literal

ArmPair = tuple[str, str]  # an arm, and the arm it is judged against
Weights = dict[str, float]  # by arm
Contrasts = dict[str, Weights]  # by name
DEFAULT: Literal["default"] = (
    "default"  # the two main effects and the interaction of two factors of two levels
)
Levels = Mapping[str, Mapping[str, str]]  # arm → factor → level
MAX_WEIGHT = 1000  # of weights
CONTRAST_EXAMPLE = "{ gap = { prefix = 1, causal = -1 } }"


def read_contrasts(value: Any) -> Any:
    """Tables of weights by name, or `default`; ValueError of anything else."""
    if value is None or value == DEFAULT:
        return value
    if not isinstance(value, Mapping):
        raise ValueError(
            f"is {value!r}; write weights by arm that add up to 0, as in {CONTRAST_EXAMPLE}, or"
            " 'default'"
        )
    if not value:
        raise ValueError(
            f"is an empty table; name at least one, as in {CONTRAST_EXAMPLE}, or leave it out"
        )
    for name, weights in value.items():
        if not isinstance(weights, Mapping):
            raise ValueError(
                f"has {name} = {weights!r}; write weights by arm that add up to 0, as in"
                f" {CONTRAST_EXAMPLE}"
            )
        for arm, weight in weights.items():
            if (
                isinstance(weight, bool)
                or not isinstance(weight, int | float)
                or not abs(weight) <= MAX_WEIGHT
            ):
                raise ValueError(
                    f"has {name}.{arm} = {weight!r}; write a number up to {MAX_WEIGHT}, as 1 or"
                    " -0.5"
                )
    return {
        str(name): {str(arm): float(one) for arm, one in weights.items()}
        for name, weights in value.items()
    }


def two_by_two_levels(levels: Levels, baseline: str) -> dict[str, tuple[str, str]] | None:
    """Each factor with its two levels, the baseline's first; None where it is no 2 × 2 of all
    four arms.
    """
    if baseline not in levels:
        return None
    factors = sorted(levels[baseline])  # as they are in a plan on disk
    if len(factors) != 2 or len(levels) != 4:
        return None
    levels_by_factor = {}
    for factor in factors:
        in_arms = [own[factor] for own in levels.values()]
        names = list(dict.fromkeys([levels[baseline][factor], *in_arms]))
        if len(names) != 2:
            return None
        levels_by_factor[factor] = (names[0], names[1])
    whole = {tuple(own[factor] for factor in factors) for own in levels.values()}
    if whole == set(product(*levels_by_factor.values())):
        return levels_by_factor
    return None


def interaction_name(factors: Mapping[str, tuple[str, str]]) -> str:
    return f"interaction of {' and '.join(factors)}"


def main_effect_name(factor: str, levels: tuple[str, str]) -> str:
    return f"{factor} from {levels[0]} to {levels[1]}"


def default_contrasts(levels: Levels, baseline: str) -> Contrasts:
    """The main effects and the interaction of a 2 × 2; nothing of another design."""
    factors = two_by_two_levels(levels, baseline)
    if factors is None:
        return {}
    (first, one), (second, other) = factors.items()
    first_effect: Weights = {}
    second_effect: Weights = {}
    interaction: Weights = {}
    for arm, own in levels.items():
        a, b = _sign(own[first] == one[1]), _sign(own[second] == other[1])
        first_effect[arm], second_effect[arm], interaction[arm] = a / 2, b / 2, float(a * b)
    return {
        main_effect_name(first, one): first_effect,
        main_effect_name(second, other): second_effect,
        interaction_name(factors): interaction,
    }


def _sign(is_positive: bool) -> int:
    if is_positive:
        return 1
    return -1


def opposed_arms(weights: Mapping[str, float]) -> Iterator[ArmPair]:
    """Every arm that a contrast counts for, beside every arm that it counts against."""
    for name, weight in weights.items():
        for other, other_weight in weights.items():
            if weight > 0 > other_weight:
                yield name, other


def resolve_contrasts(declared: Contrasts | str | None, levels: Levels, baseline: str) -> Contrasts:
    """The contrasts that a design declares, each with its weights."""
    if declared is None:
        return {}
    if isinstance(declared, str):
        return default_contrasts(levels, baseline)
    return declared


def judged_family(
    pairs: Sequence[ArmPair] | None,
    contrasts: Contrasts | str | None,
    levels: Levels,
    baseline: str,
    control: str | None,
) -> tuple[list[ArmPair], Contrasts]:
    """Everything that gets a word: the pairs and contrasts that are written, and nothing else.

    Where neither is written: of a 2 × 2 its main effects and interaction; else each arm but the
    control, against the baseline.
    """
    if pairs is not None or contrasts is not None:
        return list(pairs or ()), resolve_contrasts(contrasts, levels, baseline)
    default = default_contrasts(levels, baseline)
    each = [(name, baseline) for name in levels if name not in (baseline, control)]
    return ([] if default else each), default


def family_size(pairs: Sized, contrasts: Sized) -> int:
    """How many words share the 5 %: judged pairs and declared contrasts together."""
    return len(pairs) + len(contrasts)

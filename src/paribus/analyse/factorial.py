"""Two factors of two levels, and contrasts in general."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from paribus.analyse.compare import Comparison, compare, describe_amount, describe_interval
from paribus.analyse.criterion import Criterion
from paribus.errors import SpecError
from paribus.spec.measure import Measure

FactorLevels = tuple[int, int]  # the level, 0 or 1, of the first and of the second factor
ContrastName = Literal["first", "second", "interaction"]
CONTRASTS: tuple[ContrastName, ...] = ("first", "second", "interaction")
UNNAMED_FACTORS: Mapping[str, Sequence[str]] = {
    "first factor": ("0", "1"),
    "second factor": ("0", "1"),
}
_CELLS: tuple[FactorLevels, ...] = ((0, 0), (0, 1), (1, 0), (1, 1))
_WEIGHTS: Mapping[ContrastName, Sequence[float]] = {
    "first": (-0.5, -0.5, 0.5, 0.5),
    "second": (-0.5, 0.5, -0.5, 0.5),
    "interaction": (1, -1, -1, 1),
}
_SIMPLE_WEIGHTS: Mapping[ContrastName, tuple[Sequence[float], Sequence[float]]] = {
    "first": ((-1, 0, 1, 0), (0, -1, 0, 1)),
    "second": ((-1, 1, 0, 0), (0, 0, -1, 1)),
}


def describe_effect(comparison: Comparison) -> str:
    """Effect and interval without a word."""
    return (
        f"gain {describe_amount(comparison)}, {describe_interval(comparison)}, {comparison.n} seeds"
    )


@dataclass(frozen=True)
class Factorial:
    """Declared contrasts by name, simple effects of the factors whose main effect was withheld,
    and the scale.

    Simple effects are not counted in the family, so they get no word.

    A main effect is the mean of its two simple effects; where these have opposite signs and the
    interaction's interval excludes zero, that mean describes neither and is not given.
    """

    contrasts: Mapping[str, Comparison]
    simple_effects: Mapping[str, tuple[Comparison, Comparison]]
    scale: str
    # each with its two levels
    factors: Mapping[str, Sequence[str]] = field(default_factory=lambda: UNNAMED_FACTORS)

    @property
    def description(self) -> str:
        """Each contrast in a sentence, and what the scale means for the interaction."""
        sentences = []
        for name, comparison in self.contrasts.items():
            sentences.append(f"{self._contrast_label(name)}: {comparison.description}")
        for name, (at_0, at_1) in self.simple_effects.items():
            other, (level_0, level_1) = list(self.factors.items())[1 if name == "first" else 0]
            sentences.append(
                f"{self._contrast_label(name)}: no main effect, for it turns with {other}. At"
                f" {other} {level_0}, {describe_effect(at_0)}. At {other} {level_1},"
                f" {describe_effect(at_1)}."
            )
        return "\n".join(
            [*sentences, f"Effects add in {self.scale}; what holds there need not hold in ratios."]
        )

    def _contrast_label(self, contrast: str) -> str:
        """A factor with its change of level, or both factors."""
        if contrast == "interaction":
            return f"interaction of {' and '.join(self.factors)}"
        name, (level_0, level_1) = list(self.factors.items())[0 if contrast == "first" else 1]
        return f"{name}, from {level_0} to {level_1}"


def contrast_by_seed(
    cells: Mapping[str, Mapping[int, float]], weights: Mapping[str, float], measure: Measure
) -> list[float]:
    """Σ weight · score for each seed, oriented so that positive is better; the weights add up
    to zero.
    """
    unknown_names = [name for name in weights if name not in cells]
    if unknown_names:
        raise SpecError(
            f"contrast: {', '.join(unknown_names)} is not a cell; use {', '.join(cells)}"
        )
    if abs(sum(weights.values())) > 1e-9 or not any(weights.values()):
        raise SpecError(
            f"contrast: weights add up to {sum(weights.values()):g}; use weights that add up to 0,"
            " not all 0"
        )
    seeds = _common_seeds({name: cells[name] for name in weights})
    sign = -1.0 if measure.lower_is_better else 1.0
    gains = []
    for seed in seeds:
        weighted_scores = [weight * cells[name][seed] for name, weight in weights.items()]
        gains.append(sign * sum(weighted_scores))
    return gains


def factorial_effects(
    cells: Mapping[FactorLevels, Mapping[int, float]],
    measure: Measure,
    criterion: Criterion | None = None,
    *,
    contrasts: Sequence[ContrastName] = CONTRASTS,
    factors: Mapping[str, Sequence[str]] = UNNAMED_FACTORS,
) -> Factorial:
    """Main effects and interaction of a 2 × 2 design, seed by seed; m is the number of
    contrasts declared, unless the criterion has a larger family.

    `factors` names both factors and the two levels of each.

    first = ((y₁₀ − y₀₀) + (y₁₁ − y₀₁))/2, second likewise, interaction = (y₁₁ − y₀₁) − (y₁₀ − y₀₀),
    oriented.
    """
    _require_cells(cells, contrasts)
    scores_by_name = {_cell_name(cell): cells[cell] for cell in _CELLS}
    seeds = _common_seeds(scores_by_name)
    own = (criterion or Criterion()).for_seeds(seeds).for_family(len(contrasts))

    def compare_by_weights(weights: Sequence[float]) -> Comparison:
        each = dict(zip(scores_by_name, weights, strict=True))
        return compare(contrast_by_seed(scores_by_name, each, measure), own, unit=measure.unit)

    interaction = compare_by_weights(_WEIGHTS["interaction"])
    simple_effects: dict[str, tuple[Comparison, Comparison]] = {}
    for name, (at_0, at_1) in _SIMPLE_WEIGHTS.items():
        if name in contrasts:
            simple = compare_by_weights(at_0), compare_by_weights(at_1)
            if _changes_sign(interaction, *simple):
                simple_effects[name] = simple
    effects = {}
    for name in contrasts:
        if name not in simple_effects:
            effects[name] = compare_by_weights(_WEIGHTS[name])
    return Factorial(effects, simple_effects, measure.unit, factors)


def _changes_sign(interaction: Comparison, at_0: Comparison, at_1: Comparison) -> bool:
    excludes_zero = interaction.low > 0 or interaction.high < 0
    return excludes_zero and at_0.effect * at_1.effect < 0


def _cell_name(cell: FactorLevels) -> str:
    return f"{cell[0]}{cell[1]}"


def _require_cells(
    cells: Mapping[FactorLevels, Mapping[int, float]], contrasts: Sequence[ContrastName]
) -> None:
    if set(cells) != set(_CELLS):
        raise SpecError(
            f"cells: {sorted(cells)} given; give the four of {list(_CELLS)}, or declare a contrast"
        )
    if (
        not contrasts
        or len(set(contrasts)) < len(contrasts)
        or not set(contrasts) <= set(CONTRASTS)
    ):
        raise SpecError(
            f"contrasts: {list(contrasts)} given; use some of {list(CONTRASTS)}, each once"
        )


def _common_seeds(cells: Mapping[str, Mapping[int, float]]) -> list[int]:
    seeds = set().union(*cells.values())
    short = [name for name, scores in cells.items() if scores.keys() != seeds]
    if short:
        raise SpecError(
            f"contrast: cells {', '.join(short)} lack seeds that others have; run every seed in"
            " every cell"
        )
    return sorted(seeds)

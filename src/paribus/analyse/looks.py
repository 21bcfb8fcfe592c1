"""When may a verdict be read? At numbers of seeds that were declared, each with its share of
the 5 %.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from paribus.analyse.interval import MIN_SEEDS
from paribus.errors import SpecError

FAMILY_ALPHA = 0.05
SUGGESTED_LOOKS: Mapping[int, float] = {5: 0.01, 10: 0.04}
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Look:
    """Which of the declared looks a verdict is read at, how many seeds the last has, and the
    share of the 5 %.
    """

    number: int
    n_looks: int
    n_seeds: int
    n_planned_seeds: int
    family_alpha: float

    @property
    def description(self) -> str:
        place = (
            f"Look {self.number} of {self.n_looks}: the verdict is read at {self.n_seeds} of"
            f" {self.n_planned_seeds} seeds"
        )
        return (
            f"{place}, and spends {100 * self.family_alpha:.3g} % of false alarms out of"
            f" {100 * FAMILY_ALPHA:.3g} % for all looks"
        )


def validate_looks(looks: Mapping[int, float]) -> dict[int, float]:
    """The declared looks, by number of seeds; refused where they could together mislead more
    often than 5 %.
    """
    problems = []
    for n in looks:
        if not _is_seed_count(n):
            problems.append(
                f"looks: {n!r} is not a number of seeds to look at; use {MIN_SEEDS} or more"
            )
    for n, share in looks.items():
        if not share > 0:
            problems.append(
                f"looks.{n} is {share:g}, which is not a share; use above 0, up to {FAMILY_ALPHA:g}"
            )
    if not looks:
        problems.append(
            f"looks: none declared, so there is no verdict to read; use {{5: {FAMILY_ALPHA:g}}}"
        )
    if sum(looks.values()) > FAMILY_ALPHA + _ROUNDING:
        total = sum(looks.values())
        problems.append(
            f"looks: the shares add up to {total:g}, above {FAMILY_ALPHA:g}; lower them, as in"
            f" {dict(SUGGESTED_LOOKS)}"
        )
    if problems:
        raise SpecError(problems)
    return dict(sorted(looks.items()))


def alpha_at_look(looks: Mapping[int, float], n: int) -> float:
    """The share that the look at n seeds may spend; an undeclared n is refused."""
    shares = validate_looks(looks)
    if n not in shares:
        seed_counts = ", ".join(map(str, shares))
        raise SpecError(
            f"looks: {n} seeds are not a declared look; read verdicts at {seed_counts}, or declare"
            " a new design"
        )
    return shares[n]


def look_at(looks: Mapping[int, float], n: int) -> Look:
    """The look at n seeds among those declared, the last of which is at all of them."""
    share, at = alpha_at_look(looks, n), sorted(looks)
    return Look(
        number=at.index(n) + 1,
        n_looks=len(at),
        n_seeds=n,
        n_planned_seeds=at[-1],
        family_alpha=share,
    )


def _is_seed_count(n: object) -> bool:
    return isinstance(n, int) and not isinstance(n, bool) and n >= MIN_SEEDS

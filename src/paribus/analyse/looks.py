"""When may a verdict be read? At numbers of seeds that were declared, each with its share of the 5 %."""

from collections.abc import Mapping
from dataclasses import dataclass

from paribus.analyse.interval import MIN_SEEDS
from paribus.errors import SpecError

SHARE = 0.05
SUGGESTED: Mapping[int, float] = {5: 0.01, 10: 0.04}
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Look:
    """Which of the declared looks a verdict is read at, how many seeds the last has, and the share of the 5 %."""

    number: int
    of: int
    n_seeds: int
    planned: int
    share: float

    @property
    def words(self) -> str:
        said = f"Look {self.number} of {self.of}: the verdict is read at {self.n_seeds} of {self.planned} seeds"
        return f"{said}, and spends {100 * self.share:.3g} % of false alarms out of {100 * SHARE:.3g} % for all looks"


def looks(declared: Mapping[int, float]) -> dict[int, float]:
    """The declared looks, by number of seeds; refused where they could together mislead more often than 5 %."""
    problems = [
        *(f"looks: {n!r} is no number of seeds to look at; use {MIN_SEEDS} or more" for n in declared if not _seeds(n)),
        *(f"looks.{n} is {s:g}, no share; use above 0, up to {SHARE:g}" for n, s in declared.items() if not s > 0),
    ]
    if not declared:
        problems.append(f"looks: none declared, so there is no verdict to read; use {{5: {SHARE:g}}}")
    if sum(declared.values()) > SHARE + _ROUNDING:
        total = sum(declared.values())
        problems.append(f"looks: the shares add up to {total:g}, above {SHARE:g}; lower them, as in {dict(SUGGESTED)}")
    if problems:
        raise SpecError(problems)
    return dict(sorted(declared.items()))


def share_at(declared: Mapping[int, float], n: int) -> float:
    """The share that the look at n seeds may spend; an undeclared n is refused."""
    found = looks(declared)
    if n not in found:
        listed = ", ".join(map(str, found))
        raise SpecError(f"looks: {n} seeds are no declared look; read verdicts at {listed}, or declare a new design")
    return found[n]


def look_at(declared: Mapping[int, float], n: int) -> Look:
    """The look at n seeds among those declared, the last of which is at all of them."""
    share, at = share_at(declared, n), sorted(declared)
    return Look(at.index(n) + 1, len(at), n, at[-1], share)


def _seeds(n: object) -> bool:
    return isinstance(n, int) and not isinstance(n, bool) and n >= MIN_SEEDS

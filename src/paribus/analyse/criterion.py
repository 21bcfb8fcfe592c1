"""What a verdict is read by: its share of false alarms, its margin, its family, its test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from paribus.analyse.looks import FAMILY_ALPHA, alpha_at_look
from paribus.analyse.verdict import Test
from paribus.errors import SpecError

SeedMargin = float | Mapping[int, float]  # one number, or one by seed
# one number, one for each gain in their order, or one by seed
GivenMargin = float | Sequence[float] | Mapping[int, float]
_MAX_LISTED_SEEDS = 5


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """What gains are judged by; a plain one asks for a difference at 5 %.

    `margin` is one number, one for each gain in order, or one by seed. `margin_against` holds the
    margins of a family by the arm that a pair is judged against, where these differ.
    `n_comparisons` is the size of the family; None means as many as are judged. `family_alpha` is
    the share of false alarms. Where `looks` are declared, the share is theirs at the number of
    `seeds`. `seeds` are those declared; None means those that were run. `remarks` say how the runs
    were made, and are carried into the words.
    """

    margin: GivenMargin | None = None
    margin_against: Mapping[str, SeedMargin | None] | None = None
    n_comparisons: int | None = None
    family_alpha: float = FAMILY_ALPHA
    looks: Mapping[int, float] | None = None
    seeds: tuple[int, ...] | None = None
    open_ended: bool = False
    test: Test = "two-sided"
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        problems = []
        if isinstance(self.margin, int | float) and not (isfinite(self.margin) and self.margin > 0):
            problems.append(
                f"margin is {self.margin:g}; use a difference above 0, or none for no 'equivalent'"
            )
        if self.n_comparisons is not None and self.n_comparisons < 1:
            problems.append(
                f"n_comparisons is {self.n_comparisons}; use the size of the family, 1 or more"
            )
        if not 0 < self.family_alpha <= FAMILY_ALPHA:
            problems.append(f"share is {self.family_alpha:g}; use above 0, up to {FAMILY_ALPHA:g}")
        if problems:
            raise SpecError(problems)

    @property
    def family_size(self) -> int:
        """The number of comparisons that share the false alarms."""
        return self.n_comparisons or 1

    @property
    def alpha(self) -> float:
        """The false alarms of one comparison: the share of this look over the family."""
        return self.family_alpha / self.family_size

    @property
    def next_look(self) -> int | None:
        """The number of seeds of the next declared look; None where this one is the last."""
        n_seeds = len(self.seeds or ())
        for n in sorted(self.looks or ()):
            if n > n_seeds:
                return n
        return None

    def for_family(self, n_comparisons: int) -> Criterion:
        """The criterion of one of so many comparisons, where the family is not larger than them."""
        if self.n_comparisons is not None:
            return self
        return replace(self, n_comparisons=n_comparisons)

    def for_seeds(self, seeds: Sequence[int]) -> Criterion:
        """The criterion of these seeds, in this order, at the look of those declared."""
        if self.looks is None:
            return replace(self, seeds=tuple(seeds))
        declared = self.seeds or seeds
        share = alpha_at_look(self.looks, len(declared))
        return replace(self, seeds=tuple(seeds), looks=None, family_alpha=share)

    def against(self, arm: str) -> Criterion:
        """The criterion of a pair that is judged against this arm."""
        if self.margin_against is None:
            return self
        return replace(self, margin=self.margin_against[arm], margin_against=None)

    def for_gains(self, n_gains: int) -> Criterion:
        """The criterion of so many gains, with a margin for each of them or one for all."""
        if self.margin_against is not None:
            raise SpecError(
                f"margin is given against {', '.join(self.margin_against)}; give the margin of one"
                " comparison, as `against` does"
            )
        if self.seeds is not None and len(self.seeds) != n_gains:
            raise SpecError(
                f"seeds: {len(self.seeds)} are named for {n_gains} gains; name the seed of each"
            )
        found = self
        if self.looks is not None:
            found = replace(self, looks=None, family_alpha=alpha_at_look(self.looks, n_gains))
        if not isinstance(self.margin, Mapping):
            return found
        if self.seeds is None:
            raise SpecError(
                "margin is by seed, and the seeds of the gains are not named; name them as `seeds`,"
                " or give one number for each gain"
            )
        return replace(found, margin=margins_for_seeds(self.margin, self.seeds))


def margins_for_seeds(margin: Mapping[int, float], seeds: Sequence[int]) -> list[float] | None:
    """The margins of these seeds in order.

    None where they are not above 0 on average, as in the few seeds that are left after failures
    they may not be.
    """
    missing = [seed for seed in seeds if seed not in margin]
    if missing:
        raise SpecError(
            f"margin has none for seeds {list_seeds(missing)}; give one for each seed, or no margin"
        )
    own = [margin[seed] for seed in seeds]
    if sum(own) > 0:
        return own
    return None


def list_seeds(seeds: Sequence[int]) -> str:
    """The first few seeds, and how many more there are."""
    listed = ", ".join(map(str, seeds[:_MAX_LISTED_SEEDS]))
    if len(seeds) > _MAX_LISTED_SEEDS:
        return f"{listed} and {len(seeds) - _MAX_LISTED_SEEDS} more"
    return listed

"""The settings by which gains are judged: alpha, margin, family, looks and test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from paribus.analyse.looks import FAMILY_ALPHA, alpha_at_look
from paribus.analyse.score_bounds import ScoreBounds
from paribus.analyse.verdict import Test
from paribus.errors import SpecError

SeedMargin = float | Mapping[int, float]  # one number, or one by seed
# one for all gains, a list parallel to the gains, or one per seed
Margin = float | Sequence[float] | Mapping[int, float]
_MAX_LISTED_SEEDS = 5


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """The settings by which gains are judged. The default tests for a difference at 5 %.

    A gain is the difference in score to the reference arm, for one seed. A look is an interim
    analysis: a declared number of seeds at which a verdict is read.

    `margin` is one for all gains, a list parallel to the gains, or one per seed.
    `margin_by_reference_arm` replaces `margin` if pairs are judged against different arms.
    `n_comparisons` is the size of the family. None means that it is not known yet, see
    `for_family`; it counts as 1 until then. `family_alpha` is the false-alarm rate (alpha) of the
    whole family. `looks` maps a number of seeds to the alpha of that look, which replaces
    `family_alpha`. `seeds` are those declared; None means those that were run. `open_ended` means
    that seeds may be added until the verdict is clear, so the intervals hold at every number of
    seeds. `test` asks for any difference, or only whether an arm is not worse. `remarks` say how
    the runs were made, and are printed with the verdict. `bounds` are where the scores of a task
    end. `margin_is_refused` says that one was declared and does not count.
    """

    margin: Margin | None = None
    margin_by_reference_arm: Mapping[str, SeedMargin | None] | None = None
    n_comparisons: int | None = None
    family_alpha: float = FAMILY_ALPHA
    looks: Mapping[int, float] | None = None
    seeds: tuple[int, ...] | None = None
    open_ended: bool = False
    test: Test = "two-sided"
    remarks: tuple[str, ...] = ()
    bounds: ScoreBounds | None = None
    margin_is_refused: bool = False

    def __post_init__(self) -> None:
        problems = []
        if isinstance(self.margin, int | float) and not (isfinite(self.margin) and self.margin > 0):
            problems.append(
                f"margin is {self.margin:g}; use a difference above 0, or None if 'equivalent' is"
                " not wanted"
            )
        if self.n_comparisons is not None and self.n_comparisons < 1:
            problems.append(
                f"n_comparisons is {self.n_comparisons}; use the size of the family, 1 or more"
            )
        if not 0 < self.family_alpha <= FAMILY_ALPHA:
            problems.append(
                f"family_alpha is {self.family_alpha:g}; use above 0, up to {FAMILY_ALPHA:g}"
            )
        if problems:
            raise SpecError(problems)

    @property
    def family_size(self) -> int:
        """The number of comparisons that share `family_alpha`; 1 if it is not known yet."""
        return self.n_comparisons or 1

    @property
    def alpha(self) -> float:
        """The false-alarm rate of one comparison: family_alpha / family_size."""
        return self.family_alpha / self.family_size

    @property
    def next_look(self) -> int | None:
        """The number of seeds of the next declared look; None if this one is the last.

        Ask before `for_seeds` and `for_gains`: they resolve the looks, and it is None after them.
        """
        n_seeds = len(self.seeds or ())
        for n in sorted(self.looks or ()):
            if n > n_seeds:
                return n
        return None

    def for_family(self, n_comparisons: int) -> Criterion:
        """Sets the family size, unless one was declared."""
        if self.n_comparisons is not None:
            return self
        return replace(self, n_comparisons=n_comparisons)

    def for_seeds(self, seeds: Sequence[int]) -> Criterion:
        """Sets the seeds that were run; the alpha comes from the look at the declared number of
        seeds.
        """
        if self.looks is None:
            return replace(self, seeds=tuple(seeds))
        declared_seeds = self.seeds or seeds
        alpha = alpha_at_look(self.looks, len(declared_seeds))
        return replace(self, seeds=tuple(seeds), looks=None, family_alpha=alpha)

    def for_reference_arm(self, arm: str) -> Criterion:
        """Sets the margin to that of pairs which are judged against this arm."""
        if self.margin_by_reference_arm is None:
            return self
        return replace(self, margin=self.margin_by_reference_arm[arm], margin_by_reference_arm=None)

    def for_gains(self, n_gains: int) -> Criterion:
        """Resolves looks and per-seed margins for this many gains."""
        if self.margin_by_reference_arm is not None:
            arms = ", ".join(self.margin_by_reference_arm)
            raise SpecError(
                f"margin is given against {arms}; give the margin of one comparison, as"
                " `for_reference_arm` does"
            )
        if self.seeds is not None and len(self.seeds) != n_gains:
            raise SpecError(
                f"seeds: {len(self.seeds)} are named for {n_gains} gains; name the seed of each"
            )
        criterion = self
        if self.looks is not None:
            alpha = alpha_at_look(self.looks, n_gains)
            criterion = replace(self, looks=None, family_alpha=alpha)
        if not isinstance(self.margin, Mapping):
            return criterion
        if self.seeds is None:
            raise SpecError(
                "margin is by seed, and the seeds of the gains are not named; name them as `seeds`,"
                " or give one number for each gain"
            )
        return replace(criterion, margin=margins_for_seeds(self.margin, self.seeds))


def margins_for_seeds(margin: Mapping[int, float], seeds: Sequence[int]) -> list[float] | None:
    """The margins of these seeds in order.

    None if their sum is not above 0; this can happen when failed runs leave only a few seeds.
    """
    missing = [seed for seed in seeds if seed not in margin]
    if missing:
        raise SpecError(
            f"margin has none for seeds {format_seeds(missing)}; give one for each seed, or no"
            " margin"
        )
    margins = [margin[seed] for seed in seeds]
    if sum(margins) > 0:
        return margins
    return None


def format_seeds(seeds: Sequence[int]) -> str:
    """The first few seeds, and how many more there are."""
    first_seeds = ", ".join(map(str, seeds[:_MAX_LISTED_SEEDS]))
    if len(seeds) > _MAX_LISTED_SEEDS:
        return f"{first_seeds} and {len(seeds) - _MAX_LISTED_SEEDS} more"
    return first_seeds

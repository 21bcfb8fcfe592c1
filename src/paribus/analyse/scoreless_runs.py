"""Runs of a ladder that have no score: laws and gains are without them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from paribus.analyse.run_table import Row, column_of, select_rows
from paribus.record.plan import PlanRecord

_WORDS = {"open": "not made yet", "finished": "not measured"}


@dataclass(frozen=True)
class ScorelessRuns:
    """The runs of a ladder that have no score, which laws and gains are without."""

    n_runs: int  # of the ladder
    outcomes: tuple[tuple[str, int], ...]  # how they ended, and how many of them
    sizes: tuple[tuple[int, int], ...]  # d_model, and how many of them

    @property
    def n_scoreless(self) -> int:
        return sum(n for _, n in self.outcomes)

    @property
    def description(self) -> str:
        """How many, how they ended, and at which sizes; nothing where every run has a score."""
        if not self.n_scoreless:
            return ""
        ends = ", ".join(f"{n} {outcome}" for outcome, n in self.outcomes)
        sizes = ", ".join(f"{n} at d_model {size}" for size, n in self.sizes)
        share = f"{self.n_scoreless} of {self.n_runs} runs of the ladder"
        return f"{share} have no score: {ends}; {sizes}"


def scoreless_runs(plan: PlanRecord, rows: Sequence[Row]) -> ScorelessRuns:
    """The runs of the ladder that no law is fitted to."""
    column = column_of(plan.design.primary.measure.table)
    outcomes, sizes = Counter[str](), Counter[int]()
    ladder_rows = select_rows(rows, purposes=["ladder"])
    for row in ladder_rows:
        if row["outcome"] != "finished" or row.get(column) is None:
            outcomes[_outcome_word(row["outcome"])] += 1
            sizes[row["size"]] += 1
    return ScorelessRuns(len(ladder_rows), tuple(outcomes.items()), tuple(sorted(sizes.items())))


def _outcome_word(outcome: str) -> str:
    return _WORDS.get(outcome, outcome)

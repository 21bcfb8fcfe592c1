"""What an inconclusive comparison would take: a matter of the margin and the noise, never of
the effect seen.
"""

from dataclasses import dataclass

from paribus.analyse.power import MAX_SEEDS, seeds_needed
from paribus.analyse.verdict import Verdict

MARGIN_MULTIPLES = (
    2,
    5,
    10,
    20,
    50,
    100,
)  # of the margin: effects that are asked for where the margin is out of reach
MAX_SUGGESTIONS = 2  # of these, so many that are within reach are told
_AT_POWER = "with 80 % power, if the noise is as large as {n} seeds allow"
ALTERNATIVES = "longer runs, another yardstick or a wider margin"


@dataclass(frozen=True)
class Advice:
    """A sentence without its full stop, and the same in short for a table; `needs_fresh_seeds`
    where it asks for new seeds.
    """

    description: str
    brief: str
    needs_fresh_seeds: bool = False

    def __str__(self) -> str:
        return self.description


WITHOUT_MARGIN = Advice(
    "Without a margin no number of seeds can be advised: longer runs, another yardstick or a"
    " margin",
    "longer runs, another yardstick or a margin",
)

REFUSED_MARGIN = Advice(
    "The margin does not count: longer runs, another yardstick, a narrower margin or a control that"
    " works",
    "longer runs, another yardstick, a narrower margin or a control that works",
)


def advice_on_verdict(
    verdict: Verdict,
    margin: float | None,
    sd: float,
    n: int,
    alpha: float,
    open_ended: bool = False,
) -> Advice | None:
    """What an inconclusive comparison of n seeds would take; None of another.

    A study of fixed seeds is not carried on, for that would be a second look: fresh seeds are
    judged alone.
    """
    if verdict.word != "inconclusive":
        return None
    if margin is None:
        return WITHOUT_MARGIN
    n_needed = seeds_needed(margin, sd, n, alpha, open_ended=open_ended)
    if n_needed is not None:
        seeds = _describe_seeds(n_needed, n, open_ended)
        return Advice(
            f"To see a difference of the margin, {margin:.4g}, {_AT_POWER.format(n=n)}: {seeds}",
            seeds,
            not open_ended,
        )
    return _advice_out_of_reach(margin, sd, n, alpha, open_ended)


def _advice_out_of_reach(
    margin: float, sd: float, n: int, alpha: float, open_ended: bool
) -> Advice:
    """What to do where no number of seeds shows a difference of the margin."""
    out = (
        f"A difference of the margin, {margin:.4g}, is not within reach of"
        f" {_describe_seeds(MAX_SEEDS, 0, open_ended)}"
    )
    suggestions = []
    for times in MARGIN_MULTIPLES:
        n_needed = seeds_needed(times * margin, sd, n, alpha, open_ended=open_ended)
        if n_needed is not None:
            seeds = _describe_seeds(n_needed, n, open_ended)
            suggestions.append(f"{seeds}, for {times} margins ({times * margin:.4g})")
    if not suggestions:
        return Advice(
            f"{out}, nor is one of {MARGIN_MULTIPLES[-1]} margins: it takes {ALTERNATIVES}",
            ALTERNATIVES,
        )
    larger = "; ".join(suggestions[:MAX_SUGGESTIONS])
    at_power = _AT_POWER.format(n=n)
    return Advice(
        f"{out}: it takes {ALTERNATIVES}. To see a larger difference {at_power}: {larger}",
        f"{larger}; for the margin itself {ALTERNATIVES}",
        not open_ended,
    )


def next_look_advice(n_seeds: int) -> Advice:
    """What to do between declared looks: go on to the next one."""
    words = f"The design reads the verdict again at {n_seeds} seeds; `paribus run` adds them"
    return Advice(words, f"the next look, at {n_seeds} seeds")


def _describe_seeds(n_needed: int, n: int, open_ended: bool) -> str:
    """So many seeds in words: new ones that are judged alone, or further ones of an open number."""
    if open_ended:
        return f"{max(n_needed, n + 1)} seeds of this open number"
    return f"{n_needed} fresh seeds, judged alone"

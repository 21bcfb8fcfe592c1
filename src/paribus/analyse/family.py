"""All comparisons of a design as one family: every arm against the baseline, or the pairs it
names.
"""

from collections.abc import Iterable, Mapping, Sequence

from paribus.analyse.gain import Scale
from paribus.analyse.judgement import BASELINE, Judgement, Scores, SeedMargin, judge_arm
from paribus.analyse.looks import FAMILY_ALPHA, alpha_at_look
from paribus.analyse.undertrained import (
    UndertrainedScores,
    describe_undertrained,
    with_undertrained_scores,
    without_verdict,
    worse_control_judgement,
)
from paribus.analyse.verdict import Test
from paribus.errors import SpecError
from paribus.spec.measure import Measure

ArmPair = tuple[str, str]  # an arm, and the arm it is judged against


def judge_family(
    arms: Mapping[str, Scores],
    baseline: str,
    measure: Measure,
    *,
    margin: SeedMargin | None = None,
    looks: Mapping[int, float] | None = None,
    comparisons: Iterable[ArmPair] | None = None,
    seeds: Iterable[int] | None = None,
    scale: Scale = "difference",
    remarks: Sequence[str] = (),
    open_ended: bool = False,
    n_comparisons: int | None = None,
    undertrained: UndertrainedScores | None = None,
    control: str | None = None,
    margins: Mapping[str, SeedMargin | None] | None = None,
    test: Test = "two-sided",
) -> dict[ArmPair, Judgement]:
    """A judgement for each pair; by default of every arm and the baseline, so that m = arms − 1.

    All are read at one look: the share of the number of seeds, failures included. Bonferroni over
    the family, which has `n_comparisons` where more than these pairs share it. A pair with a run
    that was not trained long enough gets no word, but for a declared control that is worse; the
    family is not shrunk. `margins` holds those of pairs by the arm they are judged against, where
    these differ.
    """
    if comparisons is None:
        pairs = [(name, baseline) for name in arms if name != baseline]
    else:
        pairs = list(comparisons)
    _require_pairs(arms, baseline, pairs)
    wanted = sorted(
        set(seeds)
        if seeds is not None
        else set().union(*(scores.keys() for scores in arms.values()))
    )
    share = alpha_at_look({len(wanted): FAMILY_ALPHA} if looks is None else looks, len(wanted))
    reached = undertrained or {}

    def judge(name: str, against: str, baseline_scores: Scores, arm_scores: Scores) -> Judgement:
        return judge_arm(
            baseline_scores,
            arm_scores,
            measure,
            margin=margin if margins is None else margins[against],
            test=test,
            n_comparisons=n_comparisons or len(pairs),
            family_alpha=share,
            seeds=wanted,
            scale=scale,
            remarks=remarks,
            open_ended=open_ended,
            against=BASELINE if against == baseline else against,
        )

    found = {}
    for name, against in pairs:
        own, said = (
            judge(name, against, arms[against], arms[name]),
            describe_undertrained((name, against), reached, wanted),
        )
        if said:
            both = [
                with_undertrained_scores(arms[one], reached.get(one, {})) for one in (against, name)
            ]
            if name == control:
                worse = worse_control_judgement(own, judge(name, against, *both), said)
            else:
                worse = None
            own = worse or without_verdict(own, said)
        found[name, against] = own
    return found


def _require_pairs(arms: Mapping[str, Scores], baseline: str, pairs: Sequence[ArmPair]) -> None:
    unknown = dict.fromkeys(
        name for name in (baseline, *(name for pair in pairs for name in pair)) if name not in arms
    )
    if unknown:
        raise SpecError(f"comparisons: {', '.join(unknown)} is no arm; use {', '.join(arms)}")
    told = ", ".join(f"{name} against {against}" for name, against in pairs) or "none"
    if (
        not pairs
        or any(len(set(pair)) < 2 for pair in pairs)
        or len(set(map(frozenset, pairs))) < len(pairs)
    ):
        raise SpecError(f"comparisons: {told}; name one or more pairs of different arms, each once")

"""The contrasts of a study: those its design declares, and the interaction of two factors of
two levels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import starmap

from paribus.analyse.advice import next_look_advice
from paribus.analyse.bound_verdict import compare_scores, comparison_at_bounds
from paribus.analyse.compare import Comparison
from paribus.analyse.criterion import Criterion, Margin
from paribus.analyse.factorial import (
    Factorial,
    contrast_by_seed,
    describe_effect,
    factorial_effects,
)
from paribus.analyse.judgement import Scores, trained_scores
from paribus.analyse.plan_family import judges_factorial_effects, plan_levels
from paribus.analyse.plan_rules import plan_measure
from paribus.analyse.undertrained import UndertrainedScores
from paribus.analyse.verdict import Verdict, is_decided_before
from paribus.errors import SpecError
from paribus.record.plan import PlanRecord
from paribus.spec.contrasts import (
    default_contrasts,
    interaction_name,
    main_effect_name,
    two_by_two_levels,
)
from paribus.spec.measure import Measure

NOT_DECLARED = "the design does not declare it, so it gets no verdict"


@dataclass(frozen=True, eq=False)
class ContrastFinding:
    """One contrast: its interval, and a word where it is in the family; else `reason` says why
    it cannot be given.

    `simple_effects` stand in place of a main effect that turns with the other factor; they get no
    word. `verdict` is a word that was decided before those of t: there is no interval then.
    """

    name: str
    weights: Mapping[str, float]
    comparison: Comparison | None
    is_judged: bool
    reason: str = ""
    meaning: str = ""  # of a value above zero
    simple_effects: tuple[tuple[str, Comparison], ...] = ()
    verdict: Verdict | None = None

    @property
    def word(self) -> str | None:
        if self.is_judged and self.verdict is not None:
            return self.verdict.word
        if self.is_judged and self.comparison is not None:
            return self.comparison.verdict.word
        return None

    @property
    def description(self) -> str:
        """The contrast as a sentence, with a word where it has earned one."""
        if self.comparison is None:
            sentences = [f"{self.name} cannot be given: {self.reason}."]
            for place, one in self.simple_effects:
                sentences.append(f"{place[0].upper()}{place[1:]}, {describe_effect(one)}.")
            return " ".join(sentences)
        if self.is_judged:
            return f"{self.name}: {self.comparison.description}"
        return f"{self.name}: {describe_effect(self.comparison)}; {NOT_DECLARED}."


def contrast_with_word(contrast: ContrastFinding, verdict: Verdict) -> ContrastFinding:
    """The contrast with a word that is decided before those of t, and without an interval; as it
    is where its own word is decided before this one.
    """
    own = contrast.verdict
    if contrast.comparison is not None:
        own = contrast.comparison.verdict
    elif own is None and not contrast.simple_effects:
        return contrast
    if own is not None and not is_decided_before(verdict.word, own.word):
        return contrast
    return replace(
        contrast, comparison=None, reason=str(verdict), simple_effects=(), verdict=verdict
    )


def contrast_findings(
    plan: PlanRecord,
    scores: Mapping[str, Scores],
    undertrained_scores: UndertrainedScores,
    criterion: Criterion,
    factorial: Factorial | str | None,
) -> tuple[ContrastFinding, ...]:
    """What `factorial` holds of a 2 × 2, the interaction first, for it is what a factorial
    asks; then what is written.

    The effects of two factors get a word only where they are in the family.
    """
    if factorial is None:
        factorial_findings = ()
    else:
        factorial_findings = tuple(
            _at_bounds(one, scores, plan_measure(plan), criterion)
            for one in _factorial_findings(plan, factorial, criterion)
        )
    contrasts = plan.design.contrasts
    if not isinstance(contrasts, Mapping):
        return factorial_findings
    declared_findings = []
    for name, weights in contrasts.items():
        reason = _missing_reason(weights, scores, undertrained_scores)
        if reason:
            declared_findings.append(
                ContrastFinding(
                    name=name, weights=weights, comparison=None, is_judged=True, reason=reason
                )
            )
        else:
            declared_findings.append(
                _declared_contrast(name, weights, scores, plan_measure(plan), criterion)
            )
    return (*factorial_findings, *declared_findings)


def _at_bounds(
    finding: ContrastFinding,
    scores: Mapping[str, Scores],
    measure: Measure,
    criterion: Criterion,
) -> ContrastFinding:
    """An effect of two factors, `at floor` or `at ceiling` where all of its arms are."""
    if finding.comparison is None:
        return finding
    arms = [
        list(trained_scores(scores[arm]).values())
        for arm in finding.weights
        if finding.weights[arm]
    ]
    comparison = comparison_at_bounds(finding.comparison, arms, measure, criterion.bounds)
    return replace(finding, comparison=comparison)


def _declared_contrast(
    name: str,
    weights: Mapping[str, float],
    scores: Mapping[str, Scores],
    measure: Measure,
    criterion: Criterion,
) -> ContrastFinding:
    seeds = sorted(scores[next(iter(weights))])
    margin = _scaled_margin(criterion.margin, weights)
    try:
        complete = {arm: trained_scores(scores[arm]) for arm in weights}
        gains = contrast_by_seed(complete, weights, measure)
        own = replace(criterion, margin=margin).for_seeds(seeds)
        arms = [list(one.values()) for arm, one in complete.items() if weights[arm]]
        comparison = compare_scores(arms, gains, measure, own)
    except SpecError as fault:
        return ContrastFinding(
            name=name, weights=weights, comparison=None, is_judged=True, reason=str(fault)
        )
    return ContrastFinding(
        name=name,
        weights=weights,
        comparison=_with_next_look(comparison, criterion),
        is_judged=True,
    )


def _scaled_margin(margin: Margin | None, weights: Mapping[str, float]) -> Margin | None:
    """The margin, or less of it under weights so small that any difference would lie inside."""
    part = min(1.0, sum(one for one in weights.values() if one > 0))
    if margin is None:
        return None
    if isinstance(margin, Mapping):
        return {seed: own * part for seed, own in margin.items()}
    if isinstance(margin, int | float):
        return margin * part
    return [own * part for own in margin]


def _with_next_look(comparison: Comparison, criterion: Criterion) -> Comparison:
    """A comparison whose advice is the next declared look where there is one."""
    if comparison.advice is None or criterion.next_look is None:
        return comparison
    return replace(comparison, advice=next_look_advice(criterion.next_look))


def plan_factorial(
    plan: PlanRecord,
    scores: Mapping[str, Scores],
    undertrained_scores: UndertrainedScores,
    criterion: Criterion,
) -> Factorial | str | None:
    """Main effects and interaction of a 2 × 2, or why they cannot be given; None of another
    design.
    """
    factors = two_by_two_levels(plan_levels(plan), plan.baseline)
    if factors is None:
        return None
    reason = _missing_reason(plan.order, scores, undertrained_scores)
    if reason:
        return reason
    one, other = factors
    cells = {}
    for arm, own in plan_levels(plan).items():
        cells[factors[one].index(own[one]), factors[other].index(own[other])] = trained_scores(
            scores[arm]
        )
    level_names = {name: list(levels) for name, levels in factors.items()}
    if not judges_factorial_effects(plan):
        criterion = replace(criterion, n_comparisons=None, remarks=())
    try:
        return factorial_effects(cells, plan_measure(plan), criterion, factors=level_names)
    except SpecError as fault:
        return str(fault)


def _factorial_findings(
    plan: PlanRecord, factorial: Factorial | str, criterion: Criterion
) -> tuple[ContrastFinding, ...]:
    factors, is_judged = (
        two_by_two_levels(plan_levels(plan), plan.baseline),
        judges_factorial_effects(plan),
    )
    assert factors is not None
    weights = default_contrasts(plan_levels(plan), plan.baseline)
    first, second = starmap(main_effect_name, factors.items())
    names = {"interaction": interaction_name(factors), "first": first, "second": second}
    findings = []
    for key, name in names.items():
        if isinstance(factorial, str):
            own = ContrastFinding(
                name=name,
                weights=weights[name],
                comparison=None,
                is_judged=is_judged,
                reason=factorial,
            )
        else:
            own = _factorial_finding(factorial, key, name, weights[name], criterion, is_judged)
        findings.append(own)
    return tuple(findings)


def _factorial_finding(
    factorial: Factorial,
    key: str,
    name: str,
    weights: Mapping[str, float],
    criterion: Criterion,
    is_judged: bool,
) -> ContrastFinding:
    if key in factorial.contrasts:
        if key == "interaction":
            meaning = _interaction_meaning(factorial.factors)
        else:
            meaning = ""
        return ContrastFinding(
            name=name,
            weights=weights,
            comparison=_with_next_look(factorial.contrasts[key], criterion),
            is_judged=is_judged,
            meaning=meaning,
        )
    other, levels = list(factorial.factors.items())[1 if key == "first" else 0]
    (level_0, level_1), (at_0, at_1) = levels, factorial.simple_effects[key]
    return ContrastFinding(
        name=name,
        weights=weights,
        comparison=None,
        is_judged=is_judged,
        reason=f"it turns with {other}, so its mean over the levels of {other} describes neither",
        simple_effects=((f"at {other} {level_0}", at_0), (f"at {other} {level_1}", at_1)),
    )


def _interaction_meaning(factors: Mapping[str, Sequence[str]]) -> str:
    """What an interaction above zero says."""
    (one, levels), (other, others) = factors.items()
    return (
        f"{one} from {levels[0]} to {levels[1]} gains more at {other} {others[1]} than at {other}"
        f" {others[0]}"
    )


def _missing_reason(
    arms: Iterable[str], scores: Mapping[str, Scores], undertrained_scores: UndertrainedScores
) -> str:
    """Why a contrast cannot be given: which of its arms did not train in every seed; empty
    where all did.
    """
    failed_arms: dict[str, list[str]] = {}  # in how many seeds → the arms
    short_arms: dict[str, list[str]] = {}
    for arm in arms:
        missing = scores[arm].keys() - trained_scores(scores[arm]).keys()
        n_short = len(missing & undertrained_scores.get(arm, {}).keys())
        n_failed = len(missing) - n_short
        if n_failed:
            failed_arms.setdefault(f"{n_failed} of {len(scores[arm])} seeds", []).append(arm)
        if n_short:
            short_arms.setdefault(f"{n_short} of {len(scores[arm])} seeds", []).append(arm)
    reasons = []
    for seeds, own in failed_arms.items():
        reasons.append(f"{_join_names(own)} did not train in {seeds}")
    for seeds, own in short_arms.items():
        reasons.append(f"{_join_names(own)} {_was_or_were(own)} not trained long enough in {seeds}")
    return "; ".join(reasons)


def _join_names(arms: Sequence[str]) -> str:
    """a; a and b; a, b and c."""
    return " and ".join(filter(None, (", ".join(arms[:-1]), arms[-1])))


def _was_or_were(arms: Sequence[str]) -> str:
    if len(arms) == 1:
        return "was"
    return "were each"

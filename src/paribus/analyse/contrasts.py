"""The contrasts of a study: those its design declares, and the interaction of two factors of two levels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from paribus.analyse.advice import at_next_look
from paribus.analyse.compare import Comparison, compare
from paribus.analyse.factorial import Factorial, contrast, numbers_of, two_factors
from paribus.analyse.failures import Scores, SeedMargin, margins_at
from paribus.analyse.undertrained import Reached
from paribus.analyse.verdict import Test
from paribus.errors import SpecError
from paribus.record.plan import PlanRecord
from paribus.spec.contrasts import (
    Contrasts,
    Pair,
    contrasts_of,
    default_contrasts,
    family_of,
    family_size,
    interaction_name,
    main_effect_name,
    two_by_two,
)

SECOND = 2  # the edition of the verdict from which on a report has one family
OUTSIDE = "the design does not declare it, so it gets no verdict"


@dataclass(frozen=True)
class Setting:
    """What every contrast of a study is judged with."""

    margin: SeedMargin | None
    share: float
    unit: str
    open_ended: bool
    remarks: tuple[str, ...]
    n_comparisons: int  # the size of the family
    next_look: int | None = None
    test: Test = "two-sided"


@dataclass(frozen=True, eq=False)
class ContrastFinding:
    """One contrast: its interval, and a word where it is in the family; else `reason` says why it cannot be given.

    `simple` are the simple effects in place of a main effect that turns with the other factor; they get no word.
    """

    name: str
    weights: Mapping[str, float]
    comparison: Comparison | None
    is_judged: bool
    reason: str = ""
    meaning: str = ""  # of a value above zero
    simple: tuple[tuple[str, Comparison], ...] = ()

    @property
    def word(self) -> str | None:
        return self.comparison.verdict.word if self.is_judged and self.comparison is not None else None

    @property
    def words(self) -> str:
        """The contrast as a sentence, with a word where it has earned one."""
        if self.comparison is None:
            instead = "".join(f" {place[0].upper()}{place[1:]}, {numbers_of(one)}." for place, one in self.simple)
            return f"{self.name} cannot be given: {self.reason}.{instead}"
        if self.is_judged:
            return f"{self.name}: {self.comparison.words}"
        return f"{self.name}: {numbers_of(self.comparison)}; {OUTSIDE}."


def plan_levels(plan: PlanRecord) -> dict[str, Mapping[str, str]]:
    """The levels of each arm of a plan, in its order."""
    return {arm: plan.arms[arm].levels for arm in plan.order}


def plan_family(plan: PlanRecord) -> tuple[list[Pair], Contrasts]:
    """The pairs and the contrasts that get a word, by the rule that the plan was made with.

    Before the second edition a control was judged as any arm, and a 2 × 2 had no contrasts unless it declared them.
    """
    design, levels, baseline = plan.design, plan_levels(plan), plan.baseline
    pairs, contrasts = None, design.contrasts
    if design.comparisons is not None:
        pairs = [(name, against) for name, against in design.comparisons]
    if is_second(plan):
        return family_of(pairs, contrasts, levels, baseline, design.control_arm)
    each = [(name, baseline) for name in plan.order[1:]]
    return (each if pairs is None else pairs), contrasts_of(contrasts, levels, baseline)


def is_second(plan: PlanRecord) -> bool:
    """Was a plan made by the second edition of the verdict?"""
    return plan.edition >= SECOND


def plan_family_size(plan: PlanRecord) -> int:
    """How many words of a plan share the 5 %."""
    return family_size(*plan_family(plan))


def contrast_findings(
    plan: PlanRecord,
    scores: Mapping[str, Scores],
    reached: Reached,
    setting: Setting,
    factorial: Factorial | str | None,
) -> tuple[ContrastFinding, ...]:
    """What `factorial` holds of a 2 × 2, the interaction first, for it is what a factorial asks; then what is written.

    The effects of two factors get a word only where they are in the family.
    """
    found = () if factorial is None else _of_two_factors(plan, factorial, setting)
    declared = plan.design.contrasts
    if not isinstance(declared, Mapping):
        return found
    written = tuple(_one(name, weights, scores, reached, setting) for name, weights in declared.items())
    return (*found, *written)


def _one(
    name: str, weights: Mapping[str, float], scores: Mapping[str, Scores], reached: Reached, setting: Setting
) -> ContrastFinding:
    reason = _reason(weights, scores, reached)
    if reason:
        return ContrastFinding(name, weights, None, True, reason)
    try:
        gains = contrast({arm: _whole(scores[arm]) for arm in weights}, weights, lower_is_better=True)
        made = compare(
            gains, margin=margins_at(_margin(setting.margin, weights), _seeds(scores, weights)),
            n_comparisons=setting.n_comparisons, share=setting.share, open_ended=setting.open_ended,
            unit=setting.unit, remarks=setting.remarks, test=setting.test,
        )  # fmt: skip
    except SpecError as fault:
        return ContrastFinding(name, weights, None, True, str(fault))
    return ContrastFinding(name, weights, _advised(made, setting), True)


def _margin(margin: SeedMargin | None, weights: Mapping[str, float]) -> SeedMargin | None:
    """The margin, or less of it under weights so small that any difference would lie inside."""
    part = min(1.0, sum(one for one in weights.values() if one > 0))
    if isinstance(margin, Mapping):
        return {seed: own * part for seed, own in margin.items()}
    return None if margin is None else margin * part


def _seeds(scores: Mapping[str, Scores], weights: Mapping[str, float]) -> list[int]:
    """The seeds of a contrast's gains, in their order."""
    return sorted(next(iter(scores[arm] for arm in weights)))


def _advised(made: Comparison, setting: Setting) -> Comparison:
    """The same comparison; its advice is the next declared look where there is one."""
    if made.advice is None or setting.next_look is None:
        return made
    return replace(made, advice=at_next_look(setting.next_look))


def plan_factorial(
    plan: PlanRecord, scores: Mapping[str, Scores], reached: Reached, setting: Setting
) -> Factorial | str | None:
    """Main effects and interaction of a 2 × 2, or why they cannot be given; None of another design."""
    factors = two_by_two(plan_levels(plan), plan.baseline)
    if factors is None:
        return None
    reason = _reason(plan.order, scores, reached)
    if reason:
        return reason
    one, other = factors
    cells = {}
    for arm, own in plan_levels(plan).items():
        cells[factors[one].index(own[one]), factors[other].index(own[other])] = _whole(scores[arm])
    is_judged = _is_default(plan)
    try:
        return two_factors(
            cells, lower_is_better=True, scale=setting.unit, margin=setting.margin, share=setting.share,
            factors={name: list(levels) for name, levels in factors.items()}, open_ended=setting.open_ended,
            n_comparisons=setting.n_comparisons if is_judged else None, remarks=setting.remarks if is_judged else (),
            test=setting.test,
        )  # fmt: skip
    except SpecError as fault:
        return str(fault)


def _is_default(plan: PlanRecord) -> bool:
    """Are the three effects of a 2 × 2 in the family?"""
    factors = two_by_two(plan_levels(plan), plan.baseline)
    return factors is not None and interaction_name(factors) in plan_family(plan)[1]


def _of_two_factors(plan: PlanRecord, made: Factorial | str, setting: Setting) -> tuple[ContrastFinding, ...]:
    factors, is_judged = two_by_two(plan_levels(plan), plan.baseline), _is_default(plan)
    assert factors is not None
    weights = default_contrasts(plan_levels(plan), plan.baseline)
    first, second = (main_effect_name(*one) for one in factors.items())
    named = {"interaction": interaction_name(factors), "first": first, "second": second}
    if isinstance(made, str):
        return tuple(ContrastFinding(name, weights[name], None, is_judged, made) for name in named.values())
    return tuple(_effect(made, key, name, weights[name], setting, is_judged) for key, name in named.items())


def _effect(
    made: Factorial, key: str, name: str, weights: Mapping[str, float], setting: Setting, is_judged: bool
) -> ContrastFinding:
    if key in made.contrasts:
        meaning = _meaning(made.factors) if key == "interaction" else ""
        return ContrastFinding(name, weights, _advised(made.contrasts[key], setting), is_judged, "", meaning)
    other, levels = list(made.factors.items())[1 if key == "first" else 0]
    simple = tuple((f"at {other} {level}", one) for level, one in zip(levels, made.simple[key], strict=True))
    reason = f"it turns with {other}, so its mean over the levels of {other} describes neither"
    return ContrastFinding(name, weights, None, is_judged, reason, "", simple)


def _meaning(factors: Mapping[str, Sequence[str]]) -> str:
    """What an interaction above zero says."""
    (one, levels), (other, others) = factors.items()
    return f"{one} from {levels[0]} to {levels[1]} gains more at {other} {others[1]} than at {other} {others[0]}"


def _whole(scores: Scores) -> dict[int, float]:
    return {seed: value for seed, value in scores.items() if value is not None}


def _reason(arms: Iterable[str], scores: Mapping[str, Scores], reached: Reached) -> str:
    """Why a contrast cannot be given: which of its arms did not train in every seed; empty where all did."""
    failed: dict[str, list[str]] = {}  # in how many seeds → the arms
    short: dict[str, list[str]] = {}
    for arm in arms:
        missing = [seed for seed, value in scores[arm].items() if value is None]
        n_short = sum(seed in reached.get(arm, {}) for seed in missing)
        n_failed = len(missing) - n_short
        if n_failed:
            failed.setdefault(f"{n_failed} of {len(scores[arm])} seeds", []).append(arm)
        if n_short:
            short.setdefault(f"{n_short} of {len(scores[arm])} seeds", []).append(arm)
    said = [f"{_and(own)} did not train in {seeds}" for seeds, own in failed.items()]
    said += [f"{_and(own)} {_was(own)} not trained long enough in {seeds}" for seeds, own in short.items()]
    return "; ".join(said)


def _and(arms: Sequence[str]) -> str:
    """a; a and b; a, b and c."""
    return " and ".join(filter(None, (", ".join(arms[:-1]), arms[-1])))


def _was(arms: Sequence[str]) -> str:
    return "was" if len(arms) == 1 else "were each"

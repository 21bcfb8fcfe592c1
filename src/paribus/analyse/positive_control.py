"""The positive control: does the yardstick react to what must make it worse? It is outside the
family.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt
from statistics import fmean
from typing import Any, Literal

from paribus.analyse.interval import MIN_SEEDS, lower_end_after_test, moments, t_test_p
from paribus.analyse.looks import FAMILY_ALPHA
from paribus.analyse.margins import NO_EQUIVALENT, Margins
from paribus.analyse.plan_family import is_fourth_edition
from paribus.analyse.plan_rules import plan_measure
from paribus.analyse.power import one_sided_t
from paribus.analyse.run_table import select_rows
from paribus.analyse.score_bounds import row_bounds
from paribus.analyse.undertrained import UNDERTRAINED
from paribus.record.plan import PlanRecord
from paribus.record.plan_design import ControlLengthRecord
from paribus.spec.design import control_margin
from paribus.spec.measure import Measure
from paribus.spec.training import steps_of_share

Row = Mapping[str, Any]
ControlKind = Literal["input", "arm", "length"]
SCORED_OUTCOMES = ("finished", UNDERTRAINED)  # outcomes that have a score
CUT_RULE = "nothing"  # what the cross-attention of a decoder sees that is cut off from its source
INPUT_HIDING_RULE = "same_side"  # what a mask says that hides the input from the output
WEAK_MARGIN_SHARE = 0.5  # a margin above this part of what the input is worth is told with the word
_ROUNDING = 1e-12  # a spread below this part of the mean is rounding, not noise


@dataclass(frozen=True)
class ControlFinding:
    """What the control loses against the baseline, and whether it works: one-sided, at the
    share of this look.

    `losses` are by seed, above zero where the control is worse. `low` is the one-sided bound of
    their mean, at `level`; `reason` says why there is no bound. `sure_loss` is the same bound among
    the studies whose control works: the one that a margin may be a share of, 0 where there is none.
    """

    name: str
    kind: ControlKind
    losses: Mapping[int, float]
    n_seeds: int  # declared
    effect: float
    low: float
    p: float
    level: float
    works: bool
    sure_loss: float = 0.0
    reason: str = ""
    counts_seeds: bool = False  # is it said in how many seeds, where runs failed?
    is_trained: bool = True  # an untrained control does not work, whatever it loses

    @property
    def word(self) -> str:
        """Whether it works; with the seeds that have a score, where not all do."""
        word = "works" if self.works else "did not work"
        if self.counts_seeds and not self.reason and len(self.losses) < self.n_seeds:
            return f"{word} in {len(self.losses)} of {self.n_seeds} seeds"
        return word

    @property
    def description(self) -> str:
        """The control as a sentence, with its one-sided bound."""
        if self.reason:
            return f"The control {self.name} {self.word}: {self.reason}."
        bound = f"at least {self.low:.4g}, one-sided at {100 * self.level:.4g} %"
        return (
            f"The control {self.name} {self.word}: loss {self.effect:.4g}, {bound},"
            f" {len(self.losses)} seeds."
        )

    @property
    def effect_description(self) -> str:
        """What the control's effect is, in words."""
        if self.kind == "input":
            return "what the input is worth here"
        return f"what {self.name} costs here"


def judge_control(
    name: str,
    kind: ControlKind,
    losses: Mapping[int, float],
    n_seeds: int,
    *,
    family_alpha: float = FAMILY_ALPHA,
    open_ended: bool = False,
    resolution: float = 0.0,
) -> ControlFinding:
    """Does a control work, by its losses in the seeds where both it and the baseline have a
    score?

    mean − t·s/√n above zero, t at 1 − share with n − 1 df; where the number of seeds is open,
    `always_valid_t`. Of scores that count items, losses that are all the same have the spread of
    one item, `resolution`.
    """
    n = len(losses)
    finding = ControlFinding(
        name=name,
        kind=kind,
        losses=losses,
        n_seeds=n_seeds,
        effect=0.0,
        low=-inf,
        p=1.0,
        level=1 - family_alpha,
        works=False,
    )
    if n < MIN_SEEDS:
        effect = sum(losses.values()) / n if n else 0.0
        reason = f"{n} of {n_seeds} seeds have a score in both, and {MIN_SEEDS} are needed"
        return replace(finding, effect=effect, reason=reason)
    own = moments([losses[seed] for seed in sorted(losses)])
    effect, error = float(own.mean), float(own.standard_error)
    is_constant = float(own.sd) <= _ROUNDING * abs(effect)
    if is_constant and resolution and effect:
        error = resolution / sqrt(n)
    elif is_constant and resolution:
        return replace(finding, reason="it scores exactly what the baseline does in every seed")
    elif is_constant:
        reason = "it loses the same in every seed, so the seed does not reach its runs"
        return replace(finding, effect=effect, reason=reason)
    least_t = one_sided_t(n, family_alpha, open_ended=open_ended)
    low = effect - least_t * error
    p = float(t_test_p(effect, error, n - 1)) / 2
    if not effect > 0:
        p = 1 - p
    if not low > 0:
        return replace(finding, effect=effect, low=low, p=p)
    sure_loss = lower_end_after_test(own, error, least_t)
    return replace(finding, effect=effect, low=low, p=p, works=True, sure_loss=sure_loss)


def control_finding(
    plan: PlanRecord,
    table: Iterable[Row],
    seeds: Sequence[int],
    column: str,
    family_alpha: float,
    open_ended: bool,
) -> ControlFinding | None:
    """The control of a plan, by its arm or by a length of the baseline; None where the design
    has none.
    """
    control, baseline, own = plan.design.control, plan.baseline, list(table)
    if control is None:
        return None
    reported_rows = select_rows(own, purposes=["reported"], arm=baseline)
    before = _scores_by_seed(reported_rows, column)
    after = _scores_by_seed(_control_rows(plan, own), column)
    measure, losses = plan_measure(plan), {}
    bounds = row_bounds(reported_rows, measure)
    for seed in seeds:
        if seed in before and seed in after:
            # what the control loses is what the baseline gains on it
            losses[seed] = measure.gain(after[seed], before[seed])
    name, kind = control_name_and_kind(plan)
    finding = judge_control(
        name,
        kind,
        losses,
        len(seeds),
        family_alpha=family_alpha,
        open_ended=open_ended,
        resolution=0.0 if bounds is None else bounds.resolution,
    )
    if not is_fourth_edition(plan):
        return finding
    finding = replace(finding, counts_seeds=True)
    untrained = _untrained_reason(_control_rows(plan, own), seeds, column, measure)
    if untrained:
        return replace(
            finding,
            low=-inf,
            p=1.0,
            works=False,
            sure_loss=0.0,
            reason=untrained,
            is_trained=False,
        )
    return finding


def _untrained_reason(
    rows: Iterable[Row], seeds: Sequence[int], column: str, measure: Measure
) -> str:
    """How many runs of the control have learnt no more than the unigram model; empty where none
    has, and of a task, where a control may score what chance does. A run that diverged is a lost
    seed, as it is of any arm.
    """
    n_untrained = 0
    for row in rows:
        if row["seed"] not in seeds or row.get(column) is None:
            continue
        is_trained = row["outcome"] != UNDERTRAINED
        if is_trained and measure.is_likelihood and row.get("unigram") is not None:
            is_trained = measure.gain(row["unigram"], row[column]) > 0
        n_untrained += not is_trained
    if not n_untrained:
        return ""
    return f"{n_untrained} of its {len(seeds)} runs learnt no more than the unigram model"


def control_name_and_kind(plan: PlanRecord) -> tuple[str, ControlKind]:
    """What a control is called, and what it is: the input hidden, another arm, or less training."""
    control, baseline = plan.design.control, plan.baseline
    if isinstance(control, ControlLengthRecord):
        share = control.length
        part = "half" if share == 0.5 else f"{share:.3g}"
        kinds = [stage.get("kind") for stage in plan.arms[baseline].run.table["stages"]]
        return f"{baseline} at {part} of {describe_shortened(kinds)}", "length"
    assert control is not None
    hides = _hides_input(plan, control) and not _hides_input(plan, baseline)
    return control, "input" if hides else "arm"


def describe_shortened(kinds: Sequence[str | None]) -> str:
    """What a control by length has a share of: of a chain its last stage, after the others whole.

    `kinds` are those of the stages.
    """
    if len(kinds) == 1:
        return "its training"
    return f"its last stage ({kinds[-1]}; the earlier stages in full)"


def control_margins(control: ControlFinding, share: float) -> dict[int, float] | None:
    """A margin for each seed, so much of what the control loses in it; None unless the control
    works.
    """
    if control.works:
        return {seed: share * loss for seed, loss in control.losses.items()}
    return None


def margins_by_control(plan: PlanRecord, control: ControlFinding | None) -> Margins | None:
    """The margin where a design gives it as a share of the control; None of any other margin.

    It is a share of what the control loses for sure, given that it works: there is no such margin
    in a study whose control does not work, so the lower end is that of studies whose control does.
    Before the fourth edition it was a share of what the control lost in each seed.
    """
    margin = plan.design.primary.margin
    share = control_margin(margin) if isinstance(margin, str) else None
    if share is None:
        return None
    margins = None if control is None else control_margins(control, share)
    if control is not None and not control.is_trained:
        said = f"{margin}, and the control did not work: {control.reason}"
        return Margins(dict.fromkeys(plan.order), f"{said}, {NO_EQUIVALENT}")
    if control is None or margins is None:
        return Margins(
            dict.fromkeys(plan.order), f"{margin}, and the control did not work, {NO_EQUIVALENT}"
        )
    if len(margins) < control.n_seeds:
        shortfall = f"the control has a score in {len(margins)} of {control.n_seeds} seeds"
        return Margins(dict.fromkeys(plan.order), f"{margin}, and {shortfall}, {NO_EQUIVALENT}")
    unit = plan_measure(plan).unit
    if is_fourth_edition(plan) and not control.sure_loss:
        refusal = (
            f"the control {control.name} works, with a p of {control.p:.2g}, by too little to say"
            f" what it loses for sure, {NO_EQUIVALENT}; more seeds would do, or a margin in {unit}"
        )
        return Margins(dict.fromkeys(plan.order), f"{margin}; {refusal}", refusal)
    if is_fourth_edition(plan):
        own, level = share * control.sure_loss, 100 * control.level
        return Margins(
            dict.fromkeys(plan.order, own),
            f"{margin}: {own:.4g} {unit}, of what the control loses for sure"
            f" ({control.sure_loss:.4g}, one-sided at {level:.4g} %, given that it works)",
            is_control_share=True,
        )
    each = margins.values()
    margin_range = f"{min(each):.3g} to {max(each):.3g} over seeds".replace("-", "−")
    return Margins(
        dict.fromkeys(plan.order, margins),
        f"{margin}: {fmean(each):.4g} {unit} on average ({margin_range})",
    )


def margin_share_of_control(control: ControlFinding | None, margin: float | None) -> float | None:
    """What part of the control's effect a margin is; None where either is not to be had, or
    there is no effect.
    """
    if control is None or margin is None or control.effect <= 0:
        return None
    return margin / control.effect


def _control_rows(plan: PlanRecord, table: Iterable[Row]) -> list[Row]:
    """The runs of the control: an arm's reported ones, or the baseline's of a length."""
    control, baseline = plan.design.control, plan.baseline
    if not isinstance(control, ControlLengthRecord):
        return select_rows(table, purposes=["reported"], arm=control)
    n_steps = steps_of_share(plan.arms[baseline].n_steps, control.length)
    lengths = select_rows(table, purposes=["length"], arm=baseline)
    return [row for row in lengths if row["n_steps"] == n_steps]


def _scores_by_seed(rows: Iterable[Row], column: str) -> dict[int, float]:
    """Seed → score, where a run has one; also what one had reached that was not trained long
    enough.
    """
    scores = {}
    for row in rows:
        if row["outcome"] in SCORED_OUTCOMES and row.get(column) is not None:
            scores[row["seed"]] = row[column]
    return scores


def _hides_input(plan: PlanRecord, arm: str) -> bool:
    """Does the mask of an arm keep the output from its input? An encoder would show it all the
    same, unless its cross-attention is cut off.
    """
    architecture = plan.arms[arm].run.architecture
    encoder = architecture.get("encoder")
    if encoder is None:
        return INPUT_HIDING_RULE in str(architecture.get("mask"))
    return encoder.get("cross") == CUT_RULE

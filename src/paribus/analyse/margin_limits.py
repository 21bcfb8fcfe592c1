"""How wide a margin may be: half of what the control costs for sure, and a tenth of what the
baseline learnt.

A wider one calls equal what is not: an arm that loses a fifth of all that was learnt would be
`equivalent`. It is no margin, and the report says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from paribus.analyse.heaps import learnt_gain
from paribus.analyse.length_curves import LengthCurves
from paribus.analyse.margins import NO_EQUIVALENT, Margins, margins_in_compute
from paribus.analyse.plan_rules import plan_measure
from paribus.analyse.positive_control import ControlFinding
from paribus.analyse.run_answers import column_of
from paribus.analyse.run_table import Row
from paribus.record.plan import PlanRecord
from paribus.spec.design import compute_margin, control_margin
from paribus.spec.measure import Measure, with_unit

MAX_CONTROL_SHARE = 0.5  # of the lower end of what the control loses
MAX_LEARNT_SHARE = 0.1  # of what the baseline gained on what needs no model
_DIGITS = 4


@dataclass(frozen=True)
class MarginLimits:
    """What no margin may exceed: `learnt` is what the baseline gained, None where that is not on
    record; `control` is None where the design has none.
    """

    control: ControlFinding | None
    learnt: float | None
    measure: Measure

    def excess(self, margin: float, *, is_control_share: bool = False) -> str:
        """Why a margin is too wide, as the end of a sentence; empty where it is not.

        A share of what the control loses for sure is held against that, and any other margin
        against the plain lower end, which owes nothing to the margin.
        """
        reasons: list[str] = []
        value, control = self._number(margin), self.control
        if control is not None and not control.works:
            return (
                f"nothing says that {value} is little, for the control {control.name} did not work"
            )
        if control is not None:
            least_loss = control.sure_loss if is_control_share else control.low
            if margin > MAX_CONTROL_SHARE * least_loss:
                reasons.append(
                    f"half of what the control {control.name} loses for sure"
                    f" ({self._number(least_loss)})"
                )
        if self.learnt is not None and margin > MAX_LEARNT_SHARE * self.learnt:
            reference = "the unigram model" if self.measure.is_likelihood else "chance"
            reasons.append(
                f"a tenth of what the baseline gained on {reference} ({self._number(self.learnt)})"
            )
        if reasons:
            return f"{value} is more than {' and more than '.join(reasons)}"
        return ""

    def _number(self, value: float) -> str:
        return with_unit(f"{value:.{_DIGITS}g}".replace("-", "−"), self.measure.unit)


def margin_limits(
    plan: PlanRecord, control: ControlFinding | None, rows: Sequence[Row]
) -> MarginLimits:
    """The limits by the runs of a study: `rows` are of its reported ones."""
    measure, column = plan_measure(plan), column_of(plan.design.primary.measure.table)
    own_rows = [row for row in rows if row["arm"] == plan.baseline]
    return MarginLimits(control, learnt_gain(own_rows, column, measure), measure)


def limited_margins(
    margins: Margins, limits: MarginLimits, reference_arms: Sequence[str]
) -> Margins:
    """The margins without those that are too wide; `refusal` says why, of the arms that something
    is judged against.
    """
    against, reasons = dict(margins.against), dict[str, None]()
    for arm in margins.against:
        margin = margins.mean(arm)
        excess = ""
        if margin is not None:
            excess = limits.excess(margin, is_control_share=margins.is_control_share)
        if excess:
            against[arm] = None
            if arm in reference_arms:
                reasons[excess] = None
    if not reasons:
        return replace(margins, against=against)
    refusal = f"{'; '.join(reasons)}, {NO_EQUIVALENT}"
    description = f"{margins.description}; {refusal}"
    return Margins(against, description, refusal)


def expected_margin(
    margin: float | str | None, limits: MarginLimits, lengths: LengthCurves | None
) -> float | None:
    """What the margin of a design would come to in a study with these limits and lengths; None
    where they do not say.
    """
    if not isinstance(margin, str):
        return margin
    share = control_margin(margin)
    if share is not None:
        if limits.control is None or not limits.control.works:
            return None
        return share * limits.control.sure_loss or None
    share = compute_margin(margin)
    if share is None or lengths is None:
        return None
    by_seed = margins_in_compute(share, lengths)
    if isinstance(by_seed, str):
        return None
    return fmean(by_seed.values())

"""The margin of a study: one number, or one a seed from the annealed lengths of the arm a pair
is judged against.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import fmean

from paribus.analyse.criterion import SeedMargin
from paribus.analyse.length_curves import LengthCurves, is_improving
from paribus.analyse.plan_rules import plan_measure
from paribus.errors import RecordError
from paribus.record.file_names import PLAN_FILE
from paribus.record.plan import PlanRecord
from paribus.spec.design import compute_margin
from paribus.spec.measure import with_unit

NO_EQUIVALENT = "so nothing is called equivalent"
NO_LENGTHS = "which this study cannot price: it has no runs of other lengths"


@dataclass(frozen=True)
class Margins:
    """The margin against each arm: a number, one by seed, or None with the reason in
    `description`. `refusal` is that reason where there is a margin and it does not count.
    `is_control_share` says whether it is a share of what the control loses.
    """

    against: Mapping[str, SeedMargin | None]
    description: str
    refusal: str = ""
    is_control_share: bool = False

    def mean(self, arm: str) -> float | None:
        """The margin against an arm as one number."""
        own = self.against[arm]
        if isinstance(own, Mapping):
            return fmean(own.values())
        return own


def margins_in_compute(share: float, curves: LengthCurves) -> dict[int, float] | str:
    """By seed, what a share more tokens buy at full length: m = ln(1 + x) × slope; or why that
    cannot be said.

    Negative ones are used as they are. If the mean slope is not above 0 at one-sided .05, there is
    no margin.
    """
    if curves.reason:
        return curves.reason
    slopes = curves.slopes_S.tolist()
    if not is_improving(slopes):
        return (
            f"does not clearly improve with more tokens (mean slope {fmean(slopes):.3g})".replace(
                "-", "−"
            )
        )
    margins = [log(1 + share) * slope for slope in slopes]
    return dict(zip(sorted(curves.by_seed), margins, strict=True))


def study_margins(
    plan: PlanRecord, curves: Mapping[str, LengthCurves], reference_arms: Sequence[str]
) -> Margins:
    """What the design's margin comes to against every arm; the words are of those that
    something is judged against.
    """
    margin, unit = plan.design.primary.margin, plan_measure(plan).unit
    if margin is None:
        return Margins(dict.fromkeys(curves), f"none was declared, {NO_EQUIVALENT}")
    if not isinstance(margin, str):
        return Margins(dict.fromkeys(curves, float(margin)), with_unit(f"{margin:g}", unit))
    share = compute_margin(margin)
    if share is None:
        raise RecordError(
            f"the plan's margin is {margin!r}; restore its {PLAN_FILE}, or begin under another name"
        )
    if not plan.design.lengths:
        return Margins(dict.fromkeys(curves), f"{margin}, {NO_LENGTHS}, {NO_EQUIVALENT}")
    margins: dict[str, SeedMargin | None] = {}
    descriptions = {}
    for arm, own in curves.items():
        by_seed = margins_in_compute(share, own)
        descriptions[arm] = _describe_margin(arm, by_seed, unit)
        if isinstance(by_seed, str):
            margins[arm] = None
        else:
            margins[arm] = by_seed
    reference_margins = "; ".join(descriptions[arm] for arm in reference_arms)
    return Margins(margins, f"{margin}: {reference_margins}")


def _describe_margin(arm: str, margins: Mapping[int, float] | str, unit: str) -> str:
    if isinstance(margins, str):
        return f'none against "{arm}", which {margins}, {NO_EQUIVALENT} there'
    each = margins.values()
    margin_range = f"{min(each):.3g} to {max(each):.3g} over seeds".replace("-", "−")
    mean = f"{fmean(each):.4g} {unit} on average ({margin_range})"
    return f'{mean}, from runs of "{arm}" at several lengths'

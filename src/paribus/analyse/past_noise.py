"""What studies that are done say of the noise to come."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from paribus.analyse.length_curves import LengthCurves
from paribus.analyse.margin_limits import MarginLimits, expected_margin, margin_limits
from paribus.analyse.power import upper_sd
from paribus.analyse.study_findings import study_findings
from paribus.errors import ParibusError
from paribus.record import existing_study
from paribus.record.file_names import PLAN_FILE, STUDIES
from paribus.record.plan_file import read_plan
from paribus.spec.design import control_margin


class PastNoise(NamedTuple):
    """A standard deviation of paired differences, the study it was seen in, and in how many
    seeds; and how wide a margin might be there.
    """

    sd: float
    study: str
    n: int
    limits: MarginLimits | None = None
    lengths: LengthCurves | None = None  # of its baseline

    def excess(self, margin: float | str | None) -> str:
        """Why the margin of a design would have been too wide in that study; empty where it would
        not, or where that study does not say.
        """
        if self.limits is None:
            return ""
        expected = expected_margin(margin, self.limits, self.lengths)
        if expected is None:
            return ""
        is_share = isinstance(margin, str) and control_margin(margin) is not None
        return self.limits.excess(expected, is_control_share=is_share)

    @property
    def upper_sd(self) -> float:
        """Up to where so many seeds allow the noise: what a plan reckons with."""
        return upper_sd(self.sd, self.n)


class PastStudies(NamedTuple):
    """What the studies beside one say of its yardstick; None where they say nothing."""

    noise: PastNoise | None
    control_effect: float | None  # the largest that a control which works was worth


def past_studies(root: Path, measure: Mapping[str, Any]) -> PastStudies:
    """The largest noise that a study beside this one allows under the same yardstick, and the
    largest effect of a control there.
    """
    noises: list[PastNoise] = []
    controls: list[float] = []
    for path in sorted(Path(root).glob(f"{STUDIES}/*/{PLAN_FILE}")):
        name = path.parent.name
        try:
            study = existing_study(Path(root), name)
            if read_plan(study).design.primary.measure.table != measure:
                continue
            findings = study_findings(study)
        except (ParibusError, KeyError):  # not done, or of another version: it tells nothing
            continue
        limits = margin_limits(findings.plan, findings.control, findings.reported_rows)
        lengths = findings.lengths.get(findings.baseline)
        for arm in findings.arms:
            one = arm.judgement.comparison
            if one is not None and one.sd > 0:
                noises.append(PastNoise(one.sd, name, one.n, limits, lengths))
        if findings.control is not None and findings.control.works:
            controls.append(findings.control.effect)
    noise = max(noises, key=lambda one: one.upper_sd, default=None)
    return PastStudies(noise, max(controls, default=None))

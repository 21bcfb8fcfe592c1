"""What studies that are done say of the noise to come."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from paribus.analyse.power import upper_sd
from paribus.analyse.study_findings import study_findings
from paribus.errors import ParibusError
from paribus.record import existing_study
from paribus.record.file_names import PLAN_FILE, STUDIES
from paribus.record.plan_file import read_plan


class PastNoise(NamedTuple):
    """A standard deviation of paired differences, the study it was seen in, and in how many
    seeds.
    """

    sd: float
    study: str
    n: int

    @property
    def upper_sd(self) -> float:
        """Up to where so many seeds allow the noise: what a plan reckons with."""
        return upper_sd(self.sd, self.n)


def largest_past_noise(root: Path, measure: Mapping[str, Any]) -> PastNoise | None:
    """The largest noise that a study beside this one allows under the same yardstick; None
    where there is none.
    """
    noises: list[PastNoise] = []
    for path in sorted(Path(root).glob(f"{STUDIES}/*/{PLAN_FILE}")):
        name = path.parent.name
        try:
            study = existing_study(Path(root), name)
            if read_plan(study).design.primary.measure.table != measure:
                continue
            arms = study_findings(study).arms
        except (ParibusError, KeyError):  # not done, or of another version: it tells nothing
            continue
        for arm in arms:
            one = arm.judgement.comparison
            if one is not None and one.sd > 0:
                noises.append(PastNoise(one.sd, name, one.n))
    return max(noises, key=lambda one: one.upper_sd, default=None)

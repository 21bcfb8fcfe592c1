"""What studies that are done say of the noise to come."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from paribus.analyse.findings import findings
from paribus.analyse.shapes import readable_plan
from paribus.errors import ParibusError
from paribus.record import existing_study
from paribus.record.folder import STUDIES
from paribus.record.study import PLAN_FILE


class Spread(NamedTuple):
    """A standard deviation of paired differences, and the study it was seen in."""

    sd: float
    study: str


def earlier_spread(root: Path, measure: Mapping[str, Any]) -> Spread | None:
    """The largest spread that a study beside this one had under the same yardstick; None where there is none."""
    seen: list[Spread] = []
    for path in sorted(Path(root).glob(f"{STUDIES}/*/{PLAN_FILE}")):
        name = path.parent.name
        try:
            study = existing_study(Path(root), name)
            if readable_plan(study)["design"]["primary"]["measure"] != measure:
                continue
            compared = [arm.judgement.comparison for arm in findings(study).arms]
        except (ParibusError, KeyError):  # not done, or of another version: it tells nothing
            continue
        seen += [Spread(one.sd, name) for one in compared if one is not None and one.sd > 0]
    return max(seen, default=None)

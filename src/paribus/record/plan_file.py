"""plan.json of a study, read through its types."""

from __future__ import annotations

from paribus.record.file_names import PLAN_FILE
from paribus.record.plan import PlanRecord, parse_plan
from paribus.record.study import Study


def read_plan(study: Study) -> PlanRecord:
    """The plan of a study, converted where it is of an older format; RecordError where it
    cannot be read.
    """
    return parse_plan(study.read_plan(), study.folder / PLAN_FILE)

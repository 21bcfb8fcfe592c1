"""The studies of a series beside each other: NAME, NAME-2, NAME-3, …"""

from __future__ import annotations

from paribus.record.file_names import PLAN_FILE
from paribus.record.plan_file import read_plan
from paribus.record.study import Study


def later_studies(study: Study) -> tuple[str, ...]:
    """The later studies of a study's series that lie beside it, in order."""
    series = read_plan(study).series
    if series is None:
        first, number = (study.folder.name, 1)
    else:
        first, number = (series.first, series.number)
    names: list[str] = []
    while _is_member(
        later := Study(study.root, study.folder.parent / f"{first}-{number + 1}"), first
    ):
        names.append(later.folder.name)
        number += 1
    return tuple(names)


def _is_member(study: Study, first: str) -> bool:
    """Is there a study here, of the series of `first`?"""
    if not (study.folder / PLAN_FILE).is_file():
        return False
    series = read_plan(study).series
    return series is not None and series.first == first

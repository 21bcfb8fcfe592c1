"""All that a report is made of, read from a study's folder and nowhere else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from pydantic import ValidationError

from paribus.analyse import Findings, findings
from paribus.analyse.rows import Row
from paribus.errors import RecordError, SpecError
from paribus.record import Study, differences, environments_of
from paribus.record.shown import ItemText, Sample, items_of, samples_of
from paribus.spec import Architecture, Resolved, resolve

PERSONAL = (  # of an environment: what tells of a place
    "processor", "machine", "system", "cpu_capability", "device", "n_threads", "omp_num_threads", "aten_cpu_capability",
)  # fmt: skip
PERSONAL_LINES = ("threads", "device")  # of the control table
ABREAST = 4  # columns of arms
_ABSOLUTE = re.compile(r"(/|~|[A-Za-z]:\\|\\\\)")
_PATHS = ("path", "paths")  # where a spec names files


@dataclass(frozen=True, eq=False)
class Material:
    """What was found, and what is shown beside it."""

    found: Findings
    samples: tuple[Sample, ...]
    items: Mapping[str, ItemText]
    environments: tuple[dict[str, Any], ...]  # under which the reported runs were made, each once
    apart: tuple[str, ...]  # in what these differ
    anonymous: bool = False

    @property
    def plan(self) -> dict[str, Any]:
        return self.found.plan

    @property
    def order(self) -> list[str]:
        return self.plan["order"]

    @property
    def many(self) -> bool:
        """Are there more arms, or comparisons with what they are judged against, than a table has room for abreast?"""
        return max(len(self.order), len(self.found.arms) + 1) > ABREAST

    @property
    def control(self) -> str | None:
        """The arm that must come out worse."""
        return self.plan["design"]["control"]

    def spec(self, arm: str) -> Resolved:
        """What an arm's architecture comes to."""
        try:
            return resolve(Architecture.model_validate_json(_json(self.plan["arms"][arm]["run"]["architecture"])))
        except (ValidationError, SpecError) as fault:
            said = " ".join(str(fault).split())
            raise RecordError(
                f"plan.json: arms.{arm}.run.architecture is none that this version knows: {said}; "
                f"use the version that the study was made with, or `paribus run DESIGN`, which writes the plan again"
            ) from fault

    def stage(self, arm: str) -> dict[str, Any]:
        return self.plan["arms"][arm]["run"]["stages"][-1]

    def rate(self, arm: str) -> float:
        """The learning rate as it was written for an arm."""
        return self.stage(arm)["training"]["optimizer"]["rate"]

    @property
    def one_rate(self) -> bool:
        return len({self.rate(arm) for arm in self.order}) == 1

    @property
    def rows(self) -> list[Row]:
        """The rows of sweeps, and of the runs the verdict is read from."""
        return [row for row in self.found.table if row["purpose"] == "sweep"] + self.found.reported

    def asked_alike(self, arm: str, against: str | None = None) -> bool:
        """Is an arm trained on the baseline's, or another's, question and text? Only then are curves comparable."""
        own, other = self.stage(arm), self.stage(against or self.found.baseline)
        return own["objective"] == other["objective"] and own["corpus"] == other["corpus"]


def gathered(study: Study, anonymous: bool = False) -> Material:
    """The material of a study whose runs are done; anonymous, without paths, machine and dates."""
    found = findings(study)
    names = dict.fromkeys(row["run"] for row in found.reported)
    each = [one for name in names for one in environments_of(study.root / name)]
    environments = tuple({_json(one): one for one in each}.values())
    apart = dict.fromkeys(name for other in environments for name in differences(environments[0], other))
    if anonymous:
        found = replace(found, plan=without_places(found.plan), lock=found.lock and found.lock.without_values)
        environments = tuple({_json(one): one for one in map(_impersonal, environments)}.values())
    return Material(found, samples_of(study), items_of(study), environments, tuple(sorted(apart)), anonymous)


def without_places(value: Any) -> Any:
    """The same table with every path cut to its last part, and no word of the machine."""
    match value:
        case {"path": str(path), "values": dict(values), **rest}:  # a line of the control table
            cut = without_places({path.rpartition(".")[-1]: list(values.values())})
            return {"path": path, "values": dict(zip(values, *cut.values(), strict=True)), **without_places(rest)}
        case dict():
            kept = _impersonal(value).items()
            return {key: _last(inner) if key in _PATHS else without_places(inner) for key, inner in kept}
        case list():
            return [without_places(inner) for inner in value if not _of_machine(inner)]
        case str() if _ABSOLUTE.match(value):
            return _last(value)
        case _:
            return value


def _last(value: Any) -> Any:
    """The last part of a path, or of each of some."""
    match value:
        case list():
            return [_last(inner) for inner in value]
        case str():
            return PurePath(value.replace("\\", "/")).name
        case _:
            return without_places(value)


def _of_machine(value: Any) -> bool:
    """Is it a line of the control table that tells of the machine?"""
    return isinstance(value, dict) and "mark" in value and value.get("path") in PERSONAL_LINES


def _impersonal(table: Mapping[str, Any]) -> dict[str, Any]:
    """An environment without what tells of a place; any other table as it is."""
    return {key: value for key, value in table.items() if key not in PERSONAL or "torch" not in table}


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)

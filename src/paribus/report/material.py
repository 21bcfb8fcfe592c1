"""All that a report is made of, read from a study's folder and nowhere else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from paribus.analyse import Findings, findings
from paribus.record import Study, environments_of
from paribus.record.shown import ItemText, Sample, items_of, samples_of
from paribus.spec import Architecture, Resolved, resolve

PERSONAL = ("processor", "machine", "system", "cpu_capability")  # of an environment: what tells of a place
_PATH = re.compile(r"(/|~|[A-Za-z]:\\|\\\\)")


@dataclass(frozen=True, eq=False)
class Material:
    """What was found, and what is shown beside it."""

    found: Findings
    samples: tuple[Sample, ...]
    items: Mapping[str, ItemText]
    environments: tuple[dict[str, Any], ...]  # under which the reported runs were made, each once
    anonymous: bool = False

    @property
    def plan(self) -> dict[str, Any]:
        return self.found.plan

    @property
    def order(self) -> list[str]:
        return self.plan["order"]

    @property
    def control(self) -> str | None:
        """The arm that must come out worse."""
        return self.plan["design"]["control"]

    def spec(self, arm: str) -> Resolved:
        """What an arm's architecture comes to."""
        return resolve(Architecture.model_validate_json(_json(self.plan["arms"][arm]["run"]["architecture"])))

    def stage(self, arm: str) -> dict[str, Any]:
        return self.plan["arms"][arm]["run"]["stages"][-1]

    def asked_alike(self, arm: str) -> bool:
        """Is an arm trained on the baseline's question about the baseline's text? Only then are curves comparable."""
        own, other = self.stage(arm), self.stage(self.found.baseline)
        return own["objective"] == other["objective"] and own["corpus"] == other["corpus"]


def gathered(study: Study, anonymous: bool = False) -> Material:
    """The material of a study whose runs are done; anonymous, without paths, machine and dates."""
    found = findings(study)
    names = dict.fromkeys(row["run"] for row in found.table if row["purpose"] == "reported")
    each = [one for name in names for one in environments_of(study.root / name)]
    environments = tuple({_json(one): one for one in each}.values())
    if anonymous:
        found = replace(found, plan=without_places(found.plan))
        environments = tuple({_json(one): one for one in map(_impersonal, environments)}.values())
    return Material(found, samples_of(study), items_of(study), environments, anonymous)


def without_places(value: Any) -> Any:
    """The same table with every absolute path cut to its last part, and no word of the machine."""
    match value:
        case dict():
            return {key: without_places(inner) for key, inner in _impersonal(value).items()}
        case list():
            return [without_places(inner) for inner in value]
        case str() if _PATH.match(value):
            return PurePath(value.replace("\\", "/")).name
        case _:
            return value


def _impersonal(table: Mapping[str, Any]) -> dict[str, Any]:
    """An environment without what tells of a place; any other table as it is."""
    return {key: value for key, value in table.items() if key not in PERSONAL or "torch" not in table}


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)

"""All that a report is made of, read from a study's folder and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from paribus.analyse import Findings, findings
from paribus.analyse.rows import Row, Table
from paribus.errors import RecordError, SpecError
from paribus.record import Study, differences, environments_of
from paribus.record.file_names import PLAN_FILE
from paribus.record.plan import PlanRecord, StageRecord, parse_plan
from paribus.record.series import later_studies
from paribus.record.shown import ItemText, Sample, items_of, samples_of
from paribus.report.anonymity import Hidden, anonymous_row, hidden, without_places
from paribus.spec import Architecture, Resolved, resolve

SAID = (
    "baseline",
    "arms",
    "margins",
    "lengths",
    "rates",
    "factorial",
    "contrasts",
    "remarks",
    "pooled",
    "control",
    "noise",
)  # of findings
ABREAST = 4  # columns of arms


@dataclass(frozen=True, eq=False)
class Material:
    """What was found, and what is shown beside it."""

    found: Findings
    samples: tuple[Sample, ...]
    items: Mapping[str, ItemText]
    environments: tuple[dict[str, Any], ...]  # under which the reported runs were made, each once
    apart: tuple[str, ...]  # in what these differ
    anonymous: bool = False
    later: tuple[str, ...] = ()  # studies of its series that came after it

    @property
    def plan(self) -> PlanRecord:
        return self.found.plan

    @property
    def order(self) -> list[str]:
        return self.plan.order

    @property
    def many(self) -> bool:
        """Are there more arms, or comparisons with what they are judged against, than a table has room for abreast?"""
        return max(len(self.order), len(self.found.arms) + 1) > ABREAST

    @property
    def control(self) -> str | None:
        """The arm that must come out worse and was judged as any arm, as in plans of the first edition."""
        return None if self.found.is_second else self.plan.design.control_arm

    def spec(self, arm: str) -> Resolved:
        """What an arm's architecture comes to."""
        try:
            return resolve(Architecture.model_validate_json(_json(self.plan.arms[arm].run.architecture)))
        except (ValidationError, SpecError) as fault:
            said = " ".join(str(fault).split())
            raise RecordError(
                f"{PLAN_FILE}: arms.{arm}.run.architecture is none that this version knows: {said}; "
                f"use the version that the study was made with, or `paribus run DESIGN`, which writes the plan again"
            ) from fault

    def stage(self, arm: str) -> StageRecord:
        return self.plan.arms[arm].stage

    def rate(self, arm: str) -> float:
        """The learning rate as it was written for an arm."""
        return self.stage(arm).training.optimizer.rate

    @property
    def one_rate(self) -> bool:
        return len({self.rate(arm) for arm in self.order}) == 1

    @property
    def rows(self) -> list[Row]:
        """The rows of sweeps, of the runs the verdict is read from, and of the other runs under their seeds."""
        table, seeds = self.found.table, self.found.seeds
        sweeps = [row for row in table if row["purpose"] == "sweep"]
        beside = [row for row in table if row["purpose"] not in ("sweep", "reported") and row["seed"] in seeds]
        return sweeps + self.found.reported + beside

    def asked_alike(self, arm: str, against: str | None = None) -> bool:
        """Is an arm trained on the baseline's, or another's, question and text? Only then are curves comparable."""
        own, other = self.stage(arm), self.stage(against or self.found.baseline)
        return own.objective == other.objective and own.corpus.table == other.corpus.table


def gathered(study: Study, anonymous: bool = False) -> Material:
    """The material of a study whose runs are done; anonymous, without paths, machine and dates."""
    found = findings(study)
    names = dict.fromkeys(row["run"] for row in found.reported)
    each = [one for name in names for one in environments_of(study.root / name)]
    environments = tuple({_json(one): one for one in each}.values())
    apart = dict.fromkeys(name for other in environments for name in differences(environments[0], other))
    whole = Material(
        found, samples_of(study), items_of(study), environments, tuple(sorted(apart)), later=later_studies(study)
    )
    return _anonymous(whole, study) if anonymous else whole


def _anonymous(whole: Material, study: Study) -> Material:
    """The same material without places, files, machine, people and dates: all formats are made of this."""
    private, found = hidden(whole.plan, study.root), whole.found
    table = Table(tuple(anonymous_row(row, private) for row in found.table))
    names = {arm: private.text(arm) for arm in whole.order}
    found = replace(
        found,
        plan=parse_plan(without_places(whole.plan.table, private), study.folder / PLAN_FILE),
        table=table,
        lock=found.lock and found.lock.without_values,
        runs={names[arm]: own for arm, own in found.runs.items()},
        answers={names[arm]: own for arm, own in found.answers.items()},
        **{name: without_places(getattr(found, name), private) for name in SAID},
    )
    environments = [without_places(one, private) for one in whole.environments]
    return replace(
        whole,
        found=found,
        samples=tuple(_anonymous_sample(one, private) for one in whole.samples),
        items={
            name: ItemText(private.words(one.context), private.words(one.target)) for name, one in whole.items.items()
        },
        environments=tuple({_json(one): one for one in environments}.values()),
        anonymous=True,
    )


def _anonymous_sample(sample: Sample, private: Hidden) -> Sample:
    said = {private.text(arm): private.words(text) for arm, text in sample.said.items()}
    refused = {private.text(arm): private.text(text, is_free=True) for arm, text in sample.refused.items()}
    return Sample(private.words(sample.prompt), said, refused)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)

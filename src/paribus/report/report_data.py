"""All that a report is made of, read from a study's folder and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from paribus.analyse import Findings, study_findings
from paribus.analyse.plan_rules import plan_measure
from paribus.analyse.run_table import Row, RowTable
from paribus.errors import RecordError, SpecError
from paribus.record import Study, environment_differences, read_environments
from paribus.record.file_names import PLAN_FILE
from paribus.record.plan import PlanRecord, StageRecord, parse_plan
from paribus.record.samples import ItemText, PromptSample, read_item_texts, read_samples
from paribus.record.series import later_studies
from paribus.report.anonymity import Redactions, find_redactions, redact_row, redact_value
from paribus.spec import Architecture, ResolvedArchitecture, resolve
from paribus.spec.measure import Measure

ANONYMISED_FIELDS = (
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
MAX_ARM_COLUMNS = 4  # columns of arms


@dataclass(frozen=True, eq=False)
class ReportData:
    """What was found, and what is shown beside it."""

    findings: Findings
    samples: tuple[PromptSample, ...]
    items: Mapping[str, ItemText]
    environments: tuple[dict[str, Any], ...]  # under which the reported runs were made, each once
    environment_differences: tuple[str, ...]  # in what these differ
    anonymous: bool = False
    later_studies: tuple[str, ...] = ()  # studies of its series that came after it

    @property
    def plan(self) -> PlanRecord:
        return self.findings.plan

    @property
    def order(self) -> list[str]:
        return self.plan.order

    @property
    def measure(self) -> Measure:
        """What the scores of the primary yardstick are."""
        return plan_measure(self.plan)

    @property
    def has_many_columns(self) -> bool:
        """Are there more arms, or comparisons with what they are judged against, than a table
        has room for abreast?
        """
        return max(len(self.order), len(self.findings.arms) + 1) > MAX_ARM_COLUMNS

    @property
    def control(self) -> str | None:
        """The arm that must come out worse and was judged as any arm, as in plans of the first
        edition.
        """
        if self.findings.is_second_edition:
            return None
        return self.plan.design.control_arm

    def spec(self, arm: str) -> ResolvedArchitecture:
        """What an arm's architecture comes to."""
        try:
            return resolve(
                Architecture.model_validate_json(_json(self.plan.arms[arm].run.architecture))
            )
        except (ValidationError, SpecError) as fault:
            said = " ".join(str(fault).split())
            raise RecordError(
                f"{PLAN_FILE}: arms.{arm}.run.architecture is none that this version knows: {said};"
                " use the version that the study was made with, or `paribus run DESIGN`, which"
                " writes the plan again"
            ) from fault

    def stage(self, arm: str) -> StageRecord:
        return self.plan.arms[arm].stage

    def rate(self, arm: str) -> float:
        """The learning rate as it was written for an arm."""
        return self.stage(arm).training.optimizer.rate

    @property
    def has_one_rate(self) -> bool:
        return len({self.rate(arm) for arm in self.order}) == 1

    @property
    def rows(self) -> list[Row]:
        """The rows of sweeps, of the runs the verdict is read from, and of the other runs under
        their seeds.
        """
        table, seeds = self.findings.table, self.findings.seeds
        sweeps = [row for row in table if row["purpose"] == "sweep"]
        beside = [
            row
            for row in table
            if row["purpose"] not in ("sweep", "reported") and row["seed"] in seeds
        ]
        return sweeps + self.findings.reported_rows + beside

    def has_same_task(self, arm: str, against: str | None = None) -> bool:
        """Is an arm trained on the baseline's, or another's, question and text? Only then are
        curves comparable.
        """
        own, other = self.stage(arm), self.stage(against or self.findings.baseline)
        return own.objective == other.objective and own.corpus.table == other.corpus.table


def gather_report_data(study: Study, anonymous: bool = False) -> ReportData:
    """The material of a study whose runs are done; anonymous, without paths, machine and dates."""
    found = study_findings(study)
    names = dict.fromkeys(row["run"] for row in found.reported_rows)
    each = [one for name in names for one in read_environments(study.root / name)]
    environments = tuple({_json(one): one for one in each}.values())
    apart = dict.fromkeys(
        name for other in environments for name in environment_differences(environments[0], other)
    )
    whole = ReportData(
        findings=found,
        samples=read_samples(study),
        items=read_item_texts(study),
        environments=environments,
        environment_differences=tuple(sorted(apart)),
        later_studies=later_studies(study),
    )
    if anonymous:
        return _anonymise(whole, study)
    return whole


def _anonymise(report: ReportData, study: Study) -> ReportData:
    """Report data without places, files, machine, people and dates: all formats are made of
    this.
    """
    private, found = find_redactions(report.plan, study.root), report.findings
    table = RowTable(tuple(redact_row(row, private) for row in found.table))
    names = {arm: private.redact_text(arm) for arm in report.order}
    found = replace(
        found,
        plan=parse_plan(redact_value(report.plan.table, private), study.folder / PLAN_FILE),
        table=table,
        lock=found.lock and found.lock.without_field_values,
        runs={names[arm]: own for arm, own in found.runs.items()},
        evaluations={names[arm]: own for arm, own in found.evaluations.items()},
        **{name: redact_value(getattr(found, name), private) for name in ANONYMISED_FIELDS},
    )
    environments = [redact_value(one, private) for one in report.environments]
    return replace(
        report,
        findings=found,
        samples=tuple(_anonymise_sample(one, private) for one in report.samples),
        items={
            name: ItemText(private.redact_names(one.context), private.redact_names(one.target))
            for name, one in report.items.items()
        },
        environments=tuple({_json(one): one for one in environments}.values()),
        anonymous=True,
    )


def _anonymise_sample(sample: PromptSample, redactions: Redactions) -> PromptSample:
    said = {
        redactions.redact_text(arm): redactions.redact_names(text)
        for arm, text in sample.continuations.items()
    }
    refused = {
        redactions.redact_text(arm): redactions.redact_text(text, is_free=True)
        for arm, text in sample.refusals.items()
    }
    return PromptSample(redactions.redact_names(sample.prompt), said, refused)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)

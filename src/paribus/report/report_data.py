"""The data of a report, read from a study's folder and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from pydantic import ValidationError

from paribus.analyse import Findings, study_findings
from paribus.analyse.law_sensitivity import OtherReading
from paribus.analyse.plan_rules import plan_measure
from paribus.analyse.run_table import Row, RowTable
from paribus.analyse.size_trends import StudyTrends, study_trends
from paribus.analyse.study_laws import StudyLaws, study_laws, study_readings
from paribus.analyse.study_probes import StudyProbe, study_probes
from paribus.errors import RecordError, SpecError
from paribus.record import Study, environment_differences, read_environments
from paribus.record.file_names import PLAN_FILE
from paribus.record.plan import PlanRecord, StageRecord, parse_plan
from paribus.record.probe_rows import ProbeRow
from paribus.record.samples import ItemText, PromptSample, read_item_texts, read_samples
from paribus.record.series import later_studies
from paribus.report.anonymity import redact_row, redact_value
from paribus.report.redactions import Redactions, find_redactions
from paribus.spec import Architecture, ResolvedArchitecture, resolve
from paribus.spec.measure import Measure

Environment = dict[str, Any]
Value = TypeVar("Value")

# Fields of Findings that pass through redact_value. The rest are handled in _anonymise_findings,
# or hold only numbers (`seeds`, `look`).
ANONYMISED_FIELDS = (
    "baseline",
    "arms",
    "margins",
    "lengths",
    "rates",
    "stage_rates",
    "factorial",
    "contrasts",
    "remarks",
    "pooled_noise",
    "control",
    "checks",
    "noise",
    "agreement",
)
EXPERT = "expert"  # the x of rows about experts
MAX_ARM_COLUMNS = 4  # more arms than this are listed as rows


@dataclass(frozen=True, eq=False)
class ReportData:
    """The findings of a study and what the report shows with them."""

    findings: Findings
    samples: tuple[PromptSample, ...]
    items: Mapping[str, ItemText]
    environments: tuple[Environment, ...]  # distinct environments of the reported runs
    environment_differences: tuple[str, ...]  # names of the fields that differ
    anonymous: bool = False
    later_studies: tuple[str, ...] = ()  # names of the later studies of its series
    probes: tuple[StudyProbe, ...] = ()  # those of which runs keep rows
    # what laws said of the largest run of a ladder before it was made
    predictions: tuple[Mapping[str, Any], ...] = ()
    # what sweeps at sizes of a ladder found, and the rates that follow
    ladder_rates: Mapping[str, Any] | None = None

    @property
    def plan(self) -> PlanRecord:
        return self.findings.plan

    @cached_property
    def laws(self) -> StudyLaws | str | None:
        """The laws; why there are none, in words; None where the study has no ladder."""
        try:
            return study_laws(self.plan, self.findings.table.rows)
        except SpecError as fault:
            return str(fault)

    @cached_property
    def law_readings(self) -> list[OtherReading]:
        """The laws under other readings; none where there are no laws."""
        if self.laws is None or isinstance(self.laws, str):
            return []
        return study_readings(self.plan, self.findings.table.rows, self.laws)

    @cached_property
    def trends(self) -> StudyTrends:
        """How the other yardsticks of a ladder change with size; none where it has none."""
        return study_trends(self.plan, self.findings.table.rows)

    @property
    def order(self) -> list[str]:
        """The names of the arms, in the order in which the plan lists them."""
        return self.plan.order

    @property
    def measure(self) -> Measure:
        """What the scores of the primary yardstick are."""
        return plan_measure(self.plan)

    @property
    def has_many_columns(self) -> bool:
        """True if the arms, or the comparisons and their baseline, need more columns than a table
        has.
        """
        return max(len(self.order), len(self.findings.arms) + 1) > MAX_ARM_COLUMNS

    @property
    def first_edition_control_arm(self) -> str | None:
        """The control arm of a first-edition plan, which is judged like any other arm; else None.

        An edition is a version of the rules of judgement, written in the plan. From the second
        on, the control has a test of its own, see `findings.control`.
        """
        if self.findings.is_second_edition:
            return None
        return self.plan.design.control_arm

    def resolved_architecture(self, arm: str) -> ResolvedArchitecture:
        """An arm's architecture in its last stage, with every default filled in."""
        table = _sorted_json(self.plan.arms[arm].run.last_architecture)
        try:
            return resolve(Architecture.model_validate_json(table))
        except (ValidationError, SpecError) as fault:
            message = " ".join(str(fault).split())
            raise RecordError(
                f"{PLAN_FILE}: arms.{arm}.run.architecture cannot be read by this version:"
                f" {message}; use the version that the study was made with, or `paribus run"
                " DESIGN`, which writes the plan again"
            ) from fault

    def stage(self, arm: str) -> StageRecord:
        return self.plan.arms[arm].stage

    def written_learning_rate(self, arm: str) -> float:
        """The learning rate of an arm as in the plan, before tuning."""
        return self.stage(arm).training.optimizer.rate

    @property
    def has_one_learning_rate(self) -> bool:
        """True if all arms are written with the same learning rate."""
        return len(set(map(self.written_learning_rate, self.order))) == 1

    @property
    def rows(self) -> list[Row]:
        """Sweep rows, then the rows the verdict uses, then other rows with the same seeds."""
        sweeps: list[Row] = []
        other_rows: list[Row] = []
        for row in self.findings.table:
            if row["purpose"] in ("stage_sweep", "sweep", "ladder_sweep"):
                sweeps.append(row)
            elif row["purpose"] != "reported" and row["seed"] in self.findings.seeds:
                other_rows.append(row)
        return sweeps + self.findings.reported_rows + other_rows

    def has_same_task(self, arm: str, against: str | None = None) -> bool:
        """True if both arms have the same objective and corpus; only then are their training
        curves comparable. Without `against`, the other arm is the baseline.
        """
        own = self.stage(arm)
        other = self.stage(against or self.findings.baseline)
        return own.objective == other.objective and own.corpus.table == other.corpus.table


def gather_report_data(study: Study, anonymous: bool = False) -> ReportData:
    """The report data of a study whose runs are done; if anonymous, without paths, machine and
    dates.
    """
    findings = study_findings(study)
    environments = _reported_environments(study, findings)
    report = ReportData(
        findings=findings,
        samples=read_samples(study),
        items=read_item_texts(study),
        environments=environments,
        environment_differences=_differing_names(environments),
        later_studies=later_studies(study),
        probes=study_probes(study, findings),
        predictions=tuple(study.read_predictions()),
        ladder_rates=study.read_ladder_rates(),
    )
    if anonymous:
        return _anonymise(report, study)
    return report


def _reported_environments(study: Study, findings: Findings) -> tuple[Environment, ...]:
    """The distinct environments of the runs that the verdict uses."""
    all_environments: list[Environment] = []
    for run in dict.fromkeys(row["run"] for row in findings.reported_rows):
        all_environments.extend(read_environments(study.root / run))
    return _distinct(all_environments)


def _distinct(environments: Iterable[Environment]) -> tuple[Environment, ...]:
    by_content: dict[str, Environment] = {}
    for environment in environments:
        by_content[_sorted_json(environment)] = environment
    return tuple(by_content.values())


def _differing_names(environments: Sequence[Environment]) -> tuple[str, ...]:
    """The names of the fields in which any environment differs from the first."""
    differing_names: set[str] = set()
    for environment in environments:
        differing_names.update(environment_differences(environments[0], environment))
    return tuple(sorted(differing_names))


def _anonymise(report: ReportData, study: Study) -> ReportData:
    """Report data without paths, files, machine, people and dates; every report format is built
    from it.

    `environment_differences` stay: they are names of fields, without values.
    """
    redactions = find_redactions(report.plan, study.root)
    environments = [redact_value(environment, redactions) for environment in report.environments]
    return replace(
        report,
        findings=_anonymise_findings(report.findings, redactions, study),
        samples=tuple(_anonymise_sample(sample, redactions) for sample in report.samples),
        items=_anonymise_items(report.items, redactions),
        environments=_distinct(environments),
        later_studies=redact_value(report.later_studies, redactions),
        probes=_anonymise_probes(report.probes, redactions),
        predictions=tuple(redact_value(dict(one), redactions) for one in report.predictions),
        ladder_rates=redact_value(report.ladder_rates, redactions),
        anonymous=True,
    )


def _anonymise_findings(findings: Findings, redactions: Redactions, study: Study) -> Findings:
    plan_table = redact_value(findings.plan.table, redactions)
    lock = findings.lock
    if lock is not None:
        lock = lock.without_field_values
    redacted = {}
    for name in ANONYMISED_FIELDS:
        redacted[name] = redact_value(getattr(findings, name), redactions)
    return replace(
        findings,
        plan=parse_plan(plan_table, study.folder / PLAN_FILE),
        table=RowTable(tuple(redact_row(row, redactions) for row in findings.table)),
        lock=lock,
        runs=_with_redacted_arms(findings.runs, redactions),
        evaluations=_with_redacted_arms(findings.evaluations, redactions),
        **redacted,
    )


def _with_redacted_arms(by_arm: Mapping[str, Value], redactions: Redactions) -> dict[str, Value]:
    """The mapping under redacted names of arms; its values hold nothing private."""
    return {redactions.redact_text(arm): values for arm, values in by_arm.items()}


def _anonymise_items(items: Mapping[str, ItemText], redactions: Redactions) -> dict[str, ItemText]:
    redacted = {}
    for name, item in items.items():
        redacted[name] = ItemText(
            redactions.redact_names(item.context), redactions.redact_names(item.target)
        )
    return redacted


def _anonymise_probes(
    probes: Iterable[StudyProbe], redactions: Redactions
) -> tuple[StudyProbe, ...]:
    """Rows under redacted names of arms. Where a row is about an expert, its variant is the name
    of a text or a token of it, so it gets a number.
    """
    numbers: dict[str, str] = {}
    redacted = []
    for probe in probes:
        by_arm: dict[str, tuple[ProbeRow, ...]] = {}
        for arm, rows in probe.rows.items():
            by_arm[redactions.redact_text(arm)] = _anonymise_probe_rows(rows, numbers)
        by_seed: dict[str, dict[int, tuple[ProbeRow, ...]]] = {}
        for arm, found in probe.rows_by_seed.items():
            by_seed[redactions.redact_text(arm)] = {
                seed: _anonymise_probe_rows(rows, numbers) for seed, rows in found.items()
            }
        redacted.append(replace(probe, rows=by_arm, rows_by_seed=by_seed))
    return tuple(redacted)


def _anonymise_probe_rows(
    rows: Iterable[ProbeRow], numbers: dict[str, str]
) -> tuple[ProbeRow, ...]:
    return tuple(_anonymise_probe_row(row, numbers) for row in rows)


def _anonymise_probe_row(row: ProbeRow, numbers: dict[str, str]) -> ProbeRow:
    if row.x_name != EXPERT or not row.variant:
        return row
    return replace(row, variant=numbers.setdefault(row.variant, f"text {len(numbers) + 1}"))


def _anonymise_sample(sample: PromptSample, redactions: Redactions) -> PromptSample:
    continuations = {
        redactions.redact_text(arm): redactions.redact_names(text)
        for arm, text in sample.continuations.items()
    }
    refusals = {
        redactions.redact_text(arm): redactions.redact_text(text, is_free=True)
        for arm, text in sample.refusals.items()
    }
    return PromptSample(redactions.redact_names(sample.prompt), continuations, refusals)


def _sorted_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)

"""The findings of a study, made from its plan and the rows of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paribus.analyse.arm_findings import PairData, arm_findings
from paribus.analyse.bracket import bracket_rows
from paribus.analyse.findings import Findings
from paribus.analyse.length_curves import LengthCurves, length_curves
from paribus.analyse.manipulation import CheckFinding, check_findings
from paribus.analyse.margin_limits import limited_margins, margin_limits
from paribus.analyse.margins import Margins, study_margins
from paribus.analyse.plan_family import is_fourth_edition, is_second_edition, plan_family
from paribus.analyse.plan_rules import has_open_seeds, look_of, plan_alpha, verdict_seeds
from paribus.analyse.plan_verdicts import (
    PlanVerdicts,
    contrasts_across_bracket,
    judge_plan,
    scores_by_arm,
)
from paribus.analyse.positive_control import ControlFinding, control_finding, margins_by_control
from paribus.analyse.remarks import environment_remarks, padding_remarks, plan_remarks
from paribus.analyse.run_answers import column_of, read_answers
from paribus.analyse.run_scores import Answers
from paribus.analyse.run_table import Row, RowTable, select_rows, study_rows
from paribus.analyse.schemas import read_rates, read_stage_rates
from paribus.analyse.variance import NoiseSources, noise_sources
from paribus.analyse.withholding import withhold_if_changed
from paribus.record import Study, read_rows
from paribus.record.file_names import ROWS_FILE
from paribus.record.plan import PlanRecord
from paribus.record.plan_file import read_plan


def study_findings(study: Study) -> Findings:
    """The verdicts of a study whose reported runs are all there; SpecError says which are not."""
    plan, table = read_plan(study), study_rows(study)
    seeds = verdict_seeds(plan, select_rows(table, purposes=["reported"]))
    reported_rows = select_rows(table, purposes=["reported"], seeds=seeds)
    other_rows = select_rows(table, purposes=["length", "bracket"], seeds=seeds)
    environment = environment_remarks(study, [*reported_rows, *other_rows])
    remarks = (*plan_remarks(plan, seeds), *environment, *padding_remarks(plan, reported_rows))
    column = column_of(plan.design.primary.measure.table)
    scores = scores_by_arm(plan, reported_rows, seeds, column)
    runs = {arm: _finished_runs(study, reported_rows, arm) for arm in plan.order}
    checks = check_findings(study, plan, reported_rows, seeds)
    judged = judge_table(plan, table, seeds, remarks, checks)
    lengths, margins, tuned_verdicts = judged.lengths, judged.margins, judged.verdicts
    rates = read_rates(study, plan.order)
    sides = {}
    for side, own in bracket_rows(plan, table, seeds).items():
        sides[side] = judge_plan(plan, own, seeds, margins, remarks, checks)
    pair_data = PairData(
        plan=plan,
        scores=scores,
        runs=runs,
        evaluations=primary_evaluations(study, reported_rows),
        rates=rates,
        lengths=lengths,
    )
    findings = Findings(
        plan=plan,
        lock=study.read_lock(),
        table=table,
        baseline=plan.baseline,
        arms=arm_findings(tuned_verdicts, sides, pair_data),
        margins=margins,
        lengths=lengths,
        rates=rates,
        stage_rates=read_stage_rates(study, plan.order),
        factorial=tuned_verdicts.factorial,
        contrasts=contrasts_across_bracket(tuned_verdicts, sides, rates),
        remarks=remarks,
        runs=runs,
        evaluations=pair_data.evaluations,
        seeds=tuple(seeds),
        look=look_of(plan, seeds),
        pooled_noise=tuned_verdicts.pooled_noise,
        noise=_baseline_noise(table, plan.baseline, column),
        control=judged.control,
        checks=checks,
    )
    return withhold_if_changed(findings, study)


@dataclass(frozen=True, eq=False)
class TableVerdicts:
    """What the rows of a study say: its control, its margins, and every pair and contrast."""

    lengths: Mapping[str, LengthCurves]
    control: ControlFinding | None
    margins: Margins
    verdicts: PlanVerdicts


def judge_table(
    plan: PlanRecord,
    table: Sequence[Row],
    seeds: Sequence[int],
    remarks: Sequence[str] = (),
    checks: Sequence[CheckFinding] = (),
) -> TableVerdicts:
    """The verdicts on the reported runs of a plan, by the rows of all of its runs.

    From the fourth edition on a margin that is too wide is none.
    """
    reported_rows = select_rows(table, purposes=["reported"], seeds=seeds)
    column = column_of(plan.design.primary.measure.table)
    lengths = length_curves(plan, table, seeds)
    control = _positive_control(plan, table, seeds, column)
    reference_arms = _reference_arms(plan)
    margins = margins_by_control(plan, control) or study_margins(plan, lengths, reference_arms)
    if is_fourth_edition(plan):
        limits = margin_limits(plan, control, reported_rows)
        margins = limited_margins(margins, limits, reference_arms)
    verdicts = judge_plan(plan, reported_rows, seeds, margins, remarks, checks)
    return TableVerdicts(lengths, control, margins, verdicts)


def _finished_runs(study: Study, reported_rows: Sequence[Row], arm: str) -> dict[int, list[Row]]:
    runs = {}
    for row in reported_rows:
        if row["arm"] == arm and row["outcome"] == "finished":
            runs[row["seed"]] = read_rows(study.root / row["run"] / ROWS_FILE).rows
    return runs


def _positive_control(
    plan: PlanRecord, table: Sequence[Row], seeds: Sequence[int], column: str
) -> ControlFinding | None:
    """The positive control, outside the family; None where there is none, or it was judged as
    any arm.
    """
    if not is_second_edition(plan):
        return None
    return control_finding(
        plan, table, seeds, column, plan_alpha(plan, len(seeds)), has_open_seeds(plan)
    )


def _reference_arms(plan: PlanRecord) -> list[str]:
    """The arms that gains are set against: those of pairs, and the baseline where contrasts are
    judged.
    """
    pairs, contrasts = plan_family(plan)
    names = {against for _, against in pairs} | ({plan.baseline} if contrasts else set())
    return [arm for arm in plan.order if arm in names]


def _baseline_noise(table: RowTable, baseline: str, column: str) -> NoiseSources | None:
    """Where the baseline's noise comes from, by the runs that were made for it."""
    scores = {}
    for row in select_rows(table, purposes=["variance"]):
        if row["outcome"] in ("open", "failed"):
            return NoiseSources(
                arm=baseline,
                n_inits=0,
                n_orders=0,
                components=(),
                rerun=None,
                why="not all of its runs are there yet",
            )
        scores[row["start"], row["order"], row["rerun"]] = row.get(column)
    return noise_sources(baseline, scores)


def primary_evaluations(study: Study, table: Sequence[Row]) -> dict[str, dict[int, Answers]]:
    """Arm → seed → what a reported run that finished said to the primary yardstick's items."""
    plan = read_plan(study)
    yardstick = plan.design.primary.measure.table
    column = column_of(yardstick)
    evaluations: dict[str, dict[int, Answers]] = {arm: {} for arm in plan.order}
    for row in select_rows(table, purposes=["reported"]):
        if row["outcome"] == "finished":
            folder, text = study.root / row["run"], plan.arms[row["arm"]].text
            answers = read_answers(folder, [yardstick], text, row["n_steps"], plan.items)
            if column in answers:
                evaluations[row["arm"]][row["seed"]] = answers[column]
    return evaluations

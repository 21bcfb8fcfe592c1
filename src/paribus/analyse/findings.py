"""What a study found: every comparison it declared, with what the verdict rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from paribus.analyse.bracket import bracket_rows
from paribus.analyse.contrasts import (
    ContrastFinding,
    is_second_edition,
    plan_family,
    plan_family_size,
)
from paribus.analyse.criterion import Criterion
from paribus.analyse.curves import GainAtStep
from paribus.analyse.factorial import Factorial
from paribus.analyse.family import ArmPair
from paribus.analyse.judgement import Judgement, Scores
from paribus.analyse.length_curves import LengthCurves, length_curves
from paribus.analyse.looks import FAMILY_ALPHA, Look
from paribus.analyse.margins import Margins, study_margins
from paribus.analyse.multiplier import Multiplier, compute_multiplier
from paribus.analyse.new_documents import NO_STATEMENT, NewDocumentFinding
from paribus.analyse.pair_details import gain_curve, gains_at_rates, pair_new_documents, pairing_of
from paribus.analyse.pairing import Pairing
from paribus.analyse.plan_rules import (
    declares_pooled_noise,
    has_open_seeds,
    look_of,
    plan_alpha,
    plan_measure,
    verdict_seeds,
)
from paribus.analyse.plan_verdicts import (
    PlanVerdicts,
    contrasts_across_bracket,
    judge_plan,
    pairs_across_bracket,
    plan_criterion,
    scores_by_arm,
)
from paribus.analyse.pooled_noise import PooledNoise
from paribus.analyse.positive_control import ControlFinding, control_finding, margins_by_control
from paribus.analyse.remarks import environment_remarks, padding_remarks, plan_remarks
from paribus.analyse.run_table import (
    ENDED_OUTCOMES,
    Row,
    RowTable,
    column_of,
    is_evaluation_of,
    select_rows,
    study_rows,
)
from paribus.analyse.schemas import read_rates
from paribus.analyse.tuning import pair_tuning_uncertainty
from paribus.analyse.variance import NoiseSources, noise_sources
from paribus.analyse.verdict import Verdict
from paribus.record import (
    Evaluation,
    IntegrityCheck,
    PlanLock,
    Study,
    check_integrity,
    read_evaluations,
    read_rows,
)
from paribus.record.file_names import ROWS_FILE
from paribus.record.plan import PlanRecord
from paribus.record.plan_file import read_plan
from paribus.spec.measure import Measure

NO_STATEMENT_WHEN_OPEN = (
    f"{NO_STATEMENT}: the number of seeds is open, and its interval would hold at one number alone."
)


@dataclass(frozen=True, eq=False)
class ArmFinding:
    """One comparison: an arm against the baseline, or against the arm that the design names."""

    name: str
    against: str
    judgement: Judgement
    multiplier: Multiplier | None
    new_documents: NewDocumentFinding | None
    pairing: Pairing | None
    gain_curve: tuple[GainAtStep, ...]  # the gain along training
    gains_by_rate: Mapping[float, float | None]  # the gain at every rate of the common grid
    tuning_uncertainty: float | None = (
        None  # what tuning could move of the gain; None where it is not known
    )
    # the same pair half an octave below and above
    brackets: Mapping[str, Judgement] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Findings:
    """What a study found; `margins` are in the unit of its measure, by the arm that a pair is
    judged against.
    """

    plan: PlanRecord
    lock: PlanLock | None
    table: RowTable
    baseline: str
    arms: tuple[ArmFinding, ...]
    margins: Margins
    # of each arm: what its annealed lengths scored, or why there are none
    lengths: Mapping[str, LengthCurves]
    rates: dict[str, Any] | None
    factorial: Factorial | None
    contrasts: tuple[ContrastFinding, ...]  # declared ones; of a 2 × 2 also those that are not
    remarks: tuple[str, ...]
    runs: Mapping[str, Mapping[int, list[Row]]]  # arm → seed → the rows of a run that finished
    # arm → seed → what it said to the primary yardstick's items
    evaluations: Mapping[str, Mapping[int, Evaluation]]
    seeds: tuple[int, ...]  # those the verdict is read from: all, or those of a look
    look: Look | None  # where the design declares any
    # where it declares one noise for all arms, and enough of them trained
    pooled_noise: PooledNoise | None
    # of the files with what was written
    agreement: IntegrityCheck = field(default_factory=IntegrityCheck)
    control: ControlFinding | None = (
        None  # of the second edition on; before it the control was judged as any arm
    )
    noise: NoiseSources | None = None  # where the design asks for it, or a seed does not fix a run

    @property
    def measure(self) -> Measure:
        """What the scores of the primary yardstick are: unit and direction."""
        return plan_measure(self.plan)

    @property
    def margin(self) -> float | None:
        """The margin against the baseline, on average over seeds; None where there is none."""
        return self.margins.mean(self.baseline)

    @property
    def margin_description(self) -> str:
        return self.margins.description

    @property
    def open_ended(self) -> bool:
        """Is the number of seeds no part of the design?"""
        return has_open_seeds(self.plan)

    @property
    def declares_pooled_noise(self) -> bool:
        """Did the design declare one noise for all arms?"""
        return declares_pooled_noise(self.plan)

    @property
    def look_description(self) -> str:
        """At which seeds the verdict is read, where the design says more than how many there
        are.
        """
        if self.open_ended:
            return (
                f"The number of seeds is open: the verdict is read at {len(self.seeds)}, and may be"
                " at any number"
            )
        if self.look is None:
            return ""
        return self.look.description

    @property
    def is_second_edition(self) -> bool:
        """Are its words given by the second edition: one family, and the control outside it?"""
        return is_second_edition(self.plan)

    @property
    def reported_rows(self) -> list[Row]:
        """The rows of the runs the verdict is read from."""
        return select_rows(self.table, purposes=["reported"], seeds=self.seeds)

    @property
    def family_alpha(self) -> float:
        """Of false alarms, what this verdict may spend."""
        if self.look is None:
            return FAMILY_ALPHA
        return self.look.family_alpha

    @property
    def n_comparisons(self) -> int:
        """The size of the family: pairs and declared contrasts."""
        return plan_family_size(self.plan)

    def criterion_against(self, arm: str) -> Criterion:
        """What a pair is judged by against this arm."""
        return plan_criterion(self.plan, self.seeds, self.margins, ()).for_reference_arm(arm)

    def arm(self, name: str) -> ArmFinding:
        """An arm against the baseline, or where it is not, in the first pair that judges it."""
        own = [arm for arm in self.arms if arm.name == name]
        for arm in own:
            if arm.against == self.baseline:
                return arm
        return own[0]

    def label(self, arm: ArmFinding) -> str:
        """What a comparison is called: its arm, and what it is judged against where that is not
        the baseline.
        """
        if arm.against == self.baseline:
            return arm.name
        return f"{arm.name} against {arm.against}"

    @property
    def control_worked(self) -> bool | None:
        """Did the positive control come out worse? None where there is none."""
        if self.control is not None:
            return self.control.works
        name = self.plan.design.control_arm
        if name is None or self.is_second_edition:
            return None
        return self.arm(name).judgement.verdict.word == "worse"


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
    lengths = length_curves(plan, table, seeds)
    control = _positive_control(plan, table, seeds, column)
    margins = margins_by_control(plan, control) or study_margins(
        plan, lengths, _reference_arms(plan)
    )
    rates = read_rates(study, plan.order)
    tuned_verdicts = judge_plan(plan, reported_rows, seeds, margins, remarks)
    sides = {}
    for side, own in bracket_rows(plan, table, seeds).items():
        sides[side] = judge_plan(plan, own, seeds, margins, remarks)
    material = _PairMaterial(
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
        arms=_arm_findings(tuned_verdicts, sides, material),
        margins=margins,
        lengths=lengths,
        rates=rates,
        factorial=tuned_verdicts.factorial,
        contrasts=contrasts_across_bracket(tuned_verdicts, sides, rates),
        remarks=remarks,
        runs=runs,
        evaluations=material.evaluations,
        seeds=tuple(seeds),
        look=look_of(plan, seeds),
        pooled_noise=tuned_verdicts.pooled_noise,
        noise=_baseline_noise(table, plan.baseline, column),
        control=control,
    )
    return _withhold_if_changed(findings, study)


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


def _withhold_if_changed(findings: Findings, study: Study) -> Findings:
    """The findings without any verdict, where a file they rest on is not what was written."""
    ended_runs, other_runs = [], []
    for row in findings.table:
        if row["outcome"] in ENDED_OUTCOMES:
            ended_runs.append(row["run"])
        else:
            other_runs.append(row["run"])
    integrity = check_integrity(study, findings.plan, ended_runs, other_runs)
    findings = replace(findings, agreement=integrity)
    if not integrity.faults:
        return findings
    arms = tuple(_withhold_verdict(arm, integrity.description) for arm in findings.arms)
    margins = replace(findings.margins, against=dict.fromkeys(findings.margins.against))
    return replace(
        findings,
        arms=arms,
        margins=margins,
        factorial=None,
        contrasts=(),
        pooled_noise=None,
        control=None,
        noise=None,
    )


def _withhold_verdict(arm: ArmFinding, why: str) -> ArmFinding:
    judgement = arm.judgement
    seeds = tuple(replace(one, gain=None) for one in judgement.seeds)
    silent = replace(
        judgement, seeds=seeds, mcnemar=None, comparison=None, verdict=Verdict("withheld", why)
    )
    return replace(
        arm,
        judgement=silent,
        multiplier=None,
        new_documents=None,
        pairing=None,
        gain_curve=(),
        gains_by_rate={},
        tuning_uncertainty=None,
        brackets={},
    )


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


def _finished_runs(study: Study, reported_rows: Sequence[Row], arm: str) -> dict[int, list[Row]]:
    runs = {}
    for row in reported_rows:
        if row["arm"] == arm and row["outcome"] == "finished":
            runs[row["seed"]] = read_rows(study.root / row["run"] / ROWS_FILE).rows
    return runs


def _reference_arms(plan: PlanRecord) -> list[str]:
    """The arms that gains are set against: those of pairs, and the baseline where contrasts are
    judged.
    """
    pairs, contrasts = plan_family(plan)
    names = {against for _, against in pairs} | ({plan.baseline} if contrasts else set())
    return [arm for arm in plan.order if arm in names]


def primary_evaluations(study: Study, table: Sequence[Row]) -> dict[str, dict[int, Evaluation]]:
    """Arm → seed → what a reported run that finished said to the primary yardstick's items."""
    plan = read_plan(study)
    measure_table = plan.design.primary.measure.table
    evaluations: dict[str, dict[int, Evaluation]] = {arm: {} for arm in plan.order}
    for row in select_rows(table, purposes=["reported"]):
        if row["outcome"] == "finished":
            run_evaluations = list(read_evaluations(study.root / row["run"]))
            text = plan.arms[row["arm"]].text
            for one in run_evaluations:
                if is_evaluation_of(one, measure_table, text, row["n_steps"]):
                    evaluations[row["arm"]][row["seed"]] = one
                    break
    return evaluations


def _arm_findings(
    tuned_verdicts: PlanVerdicts, sides: Mapping[str, PlanVerdicts], material: _PairMaterial
) -> tuple[ArmFinding, ...]:
    """Every pair, with what was found of it at the rates to either side."""
    arms = []
    for pair, judgement in pairs_across_bracket(tuned_verdicts, sides, material.rates).items():
        brackets = {side: at.pairs[pair] for side, at in sides.items()}
        arms.append(replace(_arm_finding(pair, judgement, material), brackets=brackets))
    return tuple(arms)


@dataclass(frozen=True)
class _PairMaterial:
    """What the pairs of a study are described from, by arm."""

    plan: PlanRecord
    scores: Mapping[str, Scores]
    runs: Mapping[str, Mapping[int, list[Row]]]
    evaluations: Mapping[str, Mapping[int, Evaluation]]
    rates: dict[str, Any] | None
    lengths: Mapping[str, LengthCurves]


def _arm_finding(pair: ArmPair, judgement: Judgement, material: _PairMaterial) -> ArmFinding:
    name, against = pair
    runs, scores, measure = material.runs, material.scores, plan_measure(material.plan)
    both = sorted(runs[against].keys() & runs[name].keys())
    return ArmFinding(
        name=name,
        against=against,
        judgement=judgement,
        multiplier=_multiplier(judgement, material.lengths[against]),
        new_documents=_new_documents(pair, judgement, both, material),
        pairing=pairing_of(scores[against], scores[name], both),
        gain_curve=gain_curve(runs, against, name, both),
        gains_by_rate=gains_at_rates(material.rates, against, name, measure),
        tuning_uncertainty=pair_tuning_uncertainty(name, against, material.rates),
    )


def _multiplier(judgement: Judgement, lengths: LengthCurves) -> Multiplier | None:
    if judgement.comparison is None:
        return None
    gains = {one.seed: one.gain for one in judgement.seeds if one.gain is not None}
    return compute_multiplier(judgement.comparison, gains, lengths)


def _new_documents(
    pair: ArmPair, judgement: Judgement, seeds: Sequence[int], material: _PairMaterial
) -> NewDocumentFinding | None:
    """What may be said of documents that were not read; nothing of an open number of seeds."""
    if judgement.comparison is None:
        level = 1 - FAMILY_ALPHA
    else:
        level = judgement.comparison.level
    before, after = material.evaluations[pair[1]], material.evaluations[pair[0]]
    finding = pair_new_documents(before, after, seeds, level, plan_measure(material.plan))
    if finding is not None and has_open_seeds(material.plan):
        return NewDocumentFinding(None, NO_STATEMENT_WHEN_OPEN)
    return finding

"""What a study found: every comparison it declared, with what the verdict rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from paribus.analyse.bracket import bracket_rows
from paribus.analyse.contrasts import ContrastFinding, is_second, plan_family, plan_family_size
from paribus.analyse.control import ControlFinding, control_finding, margins_by_control
from paribus.analyse.curves import Step
from paribus.analyse.equal_noise import Pooled
from paribus.analyse.factorial import Factorial
from paribus.analyse.failures import Judgement, Scores
from paribus.analyse.items import NO_STATEMENT, OtherText
from paribus.analyse.lengths import LengthCurves, length_curves
from paribus.analyse.looks import SHARE, Look
from paribus.analyse.margins import Margins, study_margins
from paribus.analyse.multiplier import Multiplier, multiplier
from paribus.analyse.pair_details import gain_curve, gains_at_rates, other_text, pairing_of
from paribus.analyse.pairing import Pairing
from paribus.analyse.plan_rules import UNIT as UNIT
from paribus.analyse.plan_rules import declares_one_noise, is_open, look_of, seeds_read, share_of
from paribus.analyse.plan_verdicts import held_contrasts, held_pairs, scores_by_arm, verdicts_at
from paribus.analyse.remarks import environment_remarks, padding_remarks, plan_remarks
from paribus.analyse.rows import ENDED, Row, Table, answers_to, name_of, rows
from paribus.analyse.shapes import readable_rates
from paribus.analyse.tuning import movable_pair
from paribus.analyse.variance import NoiseSources, noise_sources
from paribus.analyse.verdict import Verdict
from paribus.record import Agreement, Evaluation, Lock, Study, agreement, evaluations, read_rows
from paribus.record.file_names import ROWS_FILE
from paribus.record.plan import PlanRecord
from paribus.record.plan_file import read_plan

NOT_AT_ANY = f"{NO_STATEMENT}: the number of seeds is open, and its interval would hold at one number alone."


@dataclass(frozen=True, eq=False)
class Arm:
    """One comparison: an arm against the baseline, or against the arm that the design names."""

    name: str
    against: str
    judgement: Judgement
    multiplier: Multiplier | None
    other_text: OtherText | None
    pairing: Pairing | None
    curve: tuple[Step, ...]  # the gain along training
    by_rate: Mapping[float, float | None]  # the gain at every rate of the common grid
    movable: float | None = None  # what tuning could move of the gain; None where it is not known
    brackets: Mapping[str, Judgement] = field(default_factory=dict)  # the same pair half an octave below and above


@dataclass(frozen=True, eq=False)
class Findings:
    """All of it; `margins` are in bits per byte, by the arm that a pair is judged against."""

    plan: PlanRecord
    lock: Lock | None
    table: Table
    baseline: str
    arms: tuple[Arm, ...]
    margins: Margins
    lengths: Mapping[str, LengthCurves]  # of each arm: what its annealed lengths scored, or why there are none
    rates: dict[str, Any] | None
    factorial: Factorial | None
    contrasts: tuple[ContrastFinding, ...]  # declared ones; of a 2 × 2 also those that are not
    remarks: tuple[str, ...]
    runs: Mapping[str, Mapping[int, list[Row]]]  # arm → seed → the rows of a run that finished
    answers: Mapping[str, Mapping[int, Evaluation]]  # arm → seed → what it said to the primary yardstick's items
    seeds: tuple[int, ...]  # those the verdict is read from: all, or those of a look
    look: Look | None  # where the design declares any
    pooled: Pooled | None  # where it declares one noise for all arms, and enough of them trained
    agreement: Agreement = field(default_factory=Agreement)  # of the files with what was written
    control: ControlFinding | None = None  # of the second edition on; before it the control was judged as any arm
    noise: NoiseSources | None = None  # where the design asks for it, or a seed does not fix a run

    @property
    def margin(self) -> float | None:
        """The margin against the baseline, on average over seeds; None where there is none."""
        return self.margins.mean(self.baseline)

    @property
    def margin_words(self) -> str:
        return self.margins.words

    @property
    def open_ended(self) -> bool:
        """Is the number of seeds no part of the design?"""
        return is_open(self.plan)

    @property
    def equal_noise(self) -> bool:
        """Did the design declare one noise for all arms?"""
        return declares_one_noise(self.plan)

    @property
    def reading(self) -> str:
        """At which seeds the verdict is read, where the design says more than how many there are."""
        if self.open_ended:
            return f"The number of seeds is open: the verdict is read at {len(self.seeds)}, and may be at any number"
        return "" if self.look is None else self.look.words

    @property
    def is_second(self) -> bool:
        """Are its words given by the second edition: one family, and the control outside it?"""
        return is_second(self.plan)

    @property
    def reported(self) -> list[Row]:
        """The rows of the runs the verdict is read from."""
        return [row for row in self.table if row["purpose"] == "reported" and row["seed"] in self.seeds]

    @property
    def share(self) -> float:
        """Of false alarms, what this verdict may spend."""
        return SHARE if self.look is None else self.look.share

    @property
    def n_comparisons(self) -> int:
        """The size of the family: pairs and declared contrasts."""
        return plan_family_size(self.plan)

    def arm(self, name: str) -> Arm:
        """An arm against the baseline, or where it is not, in the first pair that judges it."""
        own = [arm for arm in self.arms if arm.name == name]
        return next((arm for arm in own if arm.against == self.baseline), own[0])

    def label(self, arm: Arm) -> str:
        """What a comparison is called: its arm, and what it is judged against where that is not the baseline."""
        return arm.name if arm.against == self.baseline else f"{arm.name} against {arm.against}"

    @property
    def control_found(self) -> bool | None:
        """Did the positive control come out worse? None where there is none."""
        if self.control is not None:
            return self.control.works
        name = self.plan.design.control_arm
        return None if name is None or self.is_second else self.arm(name).judgement.verdict.word == "worse"


def findings(study: Study) -> Findings:
    """The verdicts of a study whose reported runs are all there; SpecError says which are not."""
    plan, table = read_plan(study), rows(study)
    reported = [row for row in table if row["purpose"] == "reported"]
    seeds = seeds_read(plan, reported)
    reported = [row for row in reported if row["seed"] in seeds]
    others = [row for row in table if row["purpose"] in ("length", "bracket") and row["seed"] in seeds]
    made_under = environment_remarks(study, [*reported, *others])
    remarks = (*plan_remarks(plan, seeds), *made_under, *padding_remarks(plan, reported))
    column = name_of(plan.design.primary.measure.table)
    scores = scores_by_arm(plan, reported, seeds, column)
    runs = {arm: _runs(study, reported, arm) for arm in plan.order}
    baseline = plan.baseline
    lengths = length_curves(plan, table, seeds)
    control = _control(plan, table, seeds, column)
    margins = margins_by_control(plan, control, UNIT) or study_margins(plan, lengths, _judged_against(plan), UNIT)
    rates = readable_rates(study, plan.order)
    tuned = verdicts_at(plan, reported, seeds, margins, remarks)
    sides = {
        side: verdicts_at(plan, own, seeds, margins, remarks) for side, own in bracket_rows(plan, table, seeds).items()
    }
    answers = answers_of(study, reported)
    arms = tuple(
        replace(
            _arm(name, judgement, against, scores, runs, answers, rates, is_open(plan), lengths[against]),
            brackets={side: at.pairs[name, against] for side, at in sides.items()},
        )
        for (name, against), judgement in held_pairs(tuned, sides, rates).items()
    )
    found = Findings(
        plan, study.lock(), table, baseline, arms, margins, lengths, rates,
        tuned.factorial, held_contrasts(tuned, sides, rates), remarks,
        runs, answers, tuple(seeds), look_of(plan, seeds), tuned.pooled, noise=_noise(table, baseline, column),
        control=control,
    )  # fmt: skip
    return _held_to_files(found, study)


def _noise(table: Table, baseline: str, column: str) -> NoiseSources | None:
    """Where the baseline's noise comes from, by the runs that were made for it."""
    made = [row for row in table if row["purpose"] == "variance"]
    if any(row["outcome"] in ("open", "failed") for row in made):
        return NoiseSources(baseline, 0, 0, (), None, "not all of its runs are there yet")
    scores = {(row["start"], row["order"], row["rerun"]): row.get(column) for row in made}
    return noise_sources(baseline, scores)


def _held_to_files(found: Findings, study: Study) -> Findings:
    """The findings without any verdict, where a file they rest on is not what was written."""
    ended = [row["run"] for row in found.table if row["outcome"] in ENDED]
    others = [row["run"] for row in found.table if row["outcome"] not in ENDED]
    compared = agreement(study, found.plan, ended, others)
    found = replace(found, agreement=compared)
    if not compared.changed:
        return found
    arms = tuple(_withheld(arm, compared.words) for arm in found.arms)
    margins = replace(found.margins, against=dict.fromkeys(found.margins.against))
    return replace(
        found, arms=arms, margins=margins, factorial=None, contrasts=(), pooled=None, control=None, noise=None
    )


def _withheld(arm: Arm, why: str) -> Arm:
    judgement = arm.judgement
    seeds = tuple(replace(one, gain=None) for one in judgement.seeds)
    silent = replace(judgement, seeds=seeds, mcnemar=None, comparison=None, verdict=Verdict("withheld", why))
    return replace(
        arm, judgement=silent, multiplier=None, other_text=None, pairing=None, curve=(), by_rate={}, movable=None,
        brackets={},
    )  # fmt: skip


def _control(plan: PlanRecord, table: Sequence[Row], seeds: Sequence[int], column: str) -> ControlFinding | None:
    """The positive control, outside the family; None where there is none, or it was judged as any arm."""
    if not is_second(plan):
        return None
    return control_finding(plan, table, seeds, column, share_of(plan, len(seeds)), is_open(plan))


def _runs(study: Study, reported: Sequence[Row], arm: str) -> dict[int, list[Row]]:
    return {
        row["seed"]: read_rows(study.root / row["run"] / ROWS_FILE).rows
        for row in reported if row["arm"] == arm and row["outcome"] == "finished"
    }  # fmt: skip


def _judged_against(plan: PlanRecord) -> list[str]:
    """The arms that gains are set against: those of pairs, and the baseline where contrasts are judged."""
    pairs, contrasts = plan_family(plan)
    names = {against for _, against in pairs} | ({plan.baseline} if contrasts else set())
    return [arm for arm in plan.order if arm in names]


def answers_of(study: Study, table: Sequence[Row]) -> dict[str, dict[int, Evaluation]]:
    """Arm → seed → what a reported run that finished said to the primary yardstick's items."""
    plan = read_plan(study)
    wanted = plan.design.primary.measure.table
    found: dict[str, dict[int, Evaluation]] = {arm: {} for arm in plan.order}
    for row in table:
        if row["purpose"] == "reported" and row["outcome"] == "finished":
            there, text = evaluations(study.root / row["run"]), plan.arms[row["arm"]].text
            own = [one for one in there if answers_to(one, wanted, text, row["n_steps"])]
            found[row["arm"]] |= {row["seed"]: own[0]} if own else {}
    return found


def _arm(
    name: str,
    judgement: Judgement,
    against: str,
    scores: Mapping[str, Scores],
    runs: Mapping[str, Mapping[int, list[Row]]],
    answers: Mapping[str, Mapping[int, Evaluation]],
    rates: Mapping[str, Any] | None,
    open_ended: bool,
    lengths: LengthCurves,
) -> Arm:
    both = sorted(runs[against].keys() & runs[name].keys())
    made = judgement.comparison
    gains = {one.seed: one.gain for one in judgement.seeds if one.gain is not None}
    times = None if made is None else multiplier(made, gains, lengths)
    level = 1 - SHARE if made is None else made.level
    text = other_text(answers[against], answers[name], both, level)
    return Arm(
        name,
        against,
        judgement,
        times,
        OtherText(None, NOT_AT_ANY) if open_ended and text is not None else text,
        pairing_of(scores[against], scores[name], both),
        gain_curve(runs, against, name, both),
        gains_at_rates(rates, against, name),
        movable_pair(name, against, rates),
    )

"""What a study found: every comparison it declared, with what the verdict rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from paribus.analyse.contrasts import ContrastFinding
from paribus.analyse.criterion import Criterion
from paribus.analyse.curves import GainAtStep
from paribus.analyse.factorial import Factorial
from paribus.analyse.judgement import Judgement
from paribus.analyse.length_curves import LengthCurves
from paribus.analyse.looks import FAMILY_ALPHA, Look
from paribus.analyse.manipulation import CheckFinding
from paribus.analyse.margins import Margins
from paribus.analyse.multiplier import Multiplier
from paribus.analyse.new_documents import NewDocumentFinding
from paribus.analyse.pairing import Pairing
from paribus.analyse.plan_family import is_fourth_edition, is_second_edition, plan_family_size
from paribus.analyse.plan_rules import declares_pooled_noise, has_open_seeds, plan_measure
from paribus.analyse.plan_verdicts import plan_criterion
from paribus.analyse.pooled_noise import PooledNoise
from paribus.analyse.positive_control import ControlFinding
from paribus.analyse.run_scores import Answers
from paribus.analyse.run_table import Row, RowTable, select_rows
from paribus.analyse.score_bounds import ScoreBounds, row_bounds
from paribus.analyse.variance import NoiseSources
from paribus.record import IntegrityCheck, PlanLock
from paribus.record.plan import PlanRecord
from paribus.spec.measure import Measure


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
    evaluations: Mapping[str, Mapping[int, Answers]]
    seeds: tuple[int, ...]  # those the verdict is read from: all, or those of a look
    look: Look | None  # where the design declares any
    # where it declares one noise for all arms, and enough of them trained
    pooled_noise: PooledNoise | None
    # of the files with what was written
    agreement: IntegrityCheck = field(default_factory=IntegrityCheck)
    control: ControlFinding | None = (
        None  # of the second edition on; before it the control was judged as any arm
    )
    # what the design says must hold, in its order
    checks: tuple[CheckFinding, ...] = ()
    # of each stage before the last: what the sweep of each arm found; empty where none was tuned
    stage_rates: Sequence[Mapping[str, Any]] = ()
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
    def is_fourth_edition(self) -> bool:
        """Are words that need no t decided before those of t?"""
        return is_fourth_edition(self.plan)

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
        criterion = plan_criterion(self.plan, self.seeds, self.margins, ()).for_reference_arm(arm)
        return replace(criterion, bounds=self.bounds)

    @property
    def bounds(self) -> ScoreBounds | None:
        """Where the scores of the primary yardstick end; None of a likelihood."""
        return row_bounds(self.reported_rows, self.measure)

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

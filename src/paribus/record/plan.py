"""A plan: what a design decided before anything was run, as it is written, and read by analyse
and report.

One that was written in an older format is converted where it is read, and nowhere else
(`plan_formats`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from paribus.errors import RecordError
from paribus.record.control_table import ControlLine, JudgedDifference
from paribus.record.plan_design import DesignRecord
from paribus.record.plan_formats import LISTED_FORMAT, REPAIR, convert_plan, plan_format
from paribus.record.shape import Number, Shape, WholeShape, parse_table

# what a step reads and computes
WorkQuantity = Literal[
    "tokens_read", "bytes_read", "training_flops", "tokens_scored", "positions_computed"
]
# Of the rules of judgement: from the second on a report has one family, from the third on arms of
# a ladder are asked together how far they are off their laws, from the fourth on words that need no
# t are decided before those of t (`verdict.WORDS_BEFORE_T`).
EDITION = 4


class GainRecord(Shape):
    """The gain of one comparison in an earlier study of a series, without a word."""

    of: str
    gain: Number | None
    low: Number | None
    high: Number | None
    level: Number | None


class EarlierRecord(Shape):
    """An earlier study of a series: its numbers, which are shown and not judged."""

    study: str
    number: int
    seeds: list[int] = Field(min_length=1)
    gains: list[GainRecord]


class SeriesRecord(Shape):
    """Which study of a series a plan is."""

    first: str
    number: int = Field(ge=2)
    earlier: list[EarlierRecord] = Field(min_length=1)


class OptimizerRecord(Shape):
    """The learning rate, as it was written."""

    rate: Number


class TrainingRecord(Shape):
    """How long an arm is trained, and on how much text a step."""

    n_steps: int = Field(ge=1)
    n_sequences: int
    length: int
    optimizer: OptimizerRecord


class SourceRecord(WholeShape):
    """One source of text."""

    kind: str


class CorpusRecord(WholeShape):
    """The text of a stage."""

    sources: list[SourceRecord]


class StageRecord(Shape):
    """One stage of a run."""

    training: TrainingRecord
    objective: dict[str, Any]
    corpus: CorpusRecord


class BeginRecord(Shape):
    """A checkpoint that a run begins with."""

    name: str
    weights: str  # the sha256 of its weights


class RunRecord(WholeShape):
    """The run of an arm: its architecture and its stages."""

    architecture: dict[str, Any]  # of the first stage
    stages: list[StageRecord] = Field(min_length=1)
    begin: BeginRecord | None = None  # None: initial weights

    @property
    def last_architecture(self) -> dict[str, Any]:
        """The architecture that the run ends with, as its stages have changed it."""
        return self.architecture_after(len(self.stages))

    def architecture_after(self, n_stages: int) -> dict[str, Any]:
        """The architecture as its first stages have changed it."""
        architecture = dict(self.architecture)
        for stage in self.table["stages"][:n_stages]:
            changes = dict(stage.get("architecture", {}))
            if "encoder" in changes:
                changes["encoder"] = {**architecture["encoder"], **changes["encoder"]}
            architecture |= changes
        return architecture


class FlopsRecord(Shape):
    """FLOPs by arithmetic."""

    dense: Number


class PriceRecord(Shape):
    """What an architecture costs, by arithmetic."""

    parameters: int = Field(ge=1)
    non_embedding_parameters: int
    visible_share: Number
    kv_bytes_per_token: Number
    kv_bytes_per_source_token: Number
    prefill: FlopsRecord
    decode: FlopsRecord


class WorkRecord(Shape):
    """What a step of an arm reads and computes."""

    tokens_read: Number = Field(gt=0)
    bytes_read: Number
    training_flops: Number


class EarlierWorkRecord(WorkRecord):
    """What a step of a stage before the last reads and computes."""

    tokens_scored: Number
    positions_computed: Number


class ArmRecord(Shape):
    """One arm: its levels, what is run, what that costs, and the fingerprint of its text."""

    levels: dict[str, str]  # of each factor
    run: RunRecord
    price: PriceRecord
    work: WorkRecord  # of a step of the last stage
    text: str  # of the last stage
    # of the stages before the last, in order
    earlier_work: list[EarlierWorkRecord] = Field(default_factory=list)
    earlier_texts: list[str] = Field(default_factory=list)

    def total(self, quantity: Literal["tokens_read", "bytes_read", "training_flops"]) -> float:
        """A quantity over all steps of all stages."""
        return self.earlier_total(quantity) + getattr(self.work, quantity) * self.n_steps

    def earlier_total(self, quantity: WorkQuantity) -> float:
        """A quantity over all steps of the stages before the last."""
        total = 0.0
        for stage, work in zip(self.run.stages[:-1], self.earlier_work, strict=True):
            total += getattr(work, quantity) * stage.training.n_steps
        return total

    @property
    def texts(self) -> list[str]:
        """The fingerprint of each stage's text."""
        return [*self.earlier_texts, self.text]

    @property
    def stage(self) -> StageRecord:
        """The last stage, which is measured."""
        return self.run.stages[-1]

    @property
    def n_steps(self) -> int:
        """The steps of the last stage."""
        return self.stage.training.n_steps


class RungRecord(Shape):
    """A rung of a ladder: every arm at one size, and how many tokens its runs read."""

    size: int = Field(ge=1)
    tokens: list[int]
    is_predicted: bool
    arms: dict[str, ArmRecord]


class PlanRecord(Shape):
    """All that a report needs of a plan; `table` is the plan in the present format.

    `written` is the plan as the file holds it: its fingerprints are of that.
    """

    name: str
    question: str
    reference: str | None
    scale: str | None
    format: int
    edition: int
    fingerprint: str
    design_fingerprint: str | None = None  # a plan of before designs had one of their own has none
    design: DesignRecord
    declared: list[str]
    series: SeriesRecord | None = None
    order: list[str] = Field(min_length=1)
    arms: dict[str, ArmRecord]
    # of each task, by its column: the fingerprint of the items that every arm is asked
    items: dict[str, str] = Field(default_factory=dict)
    rungs: list[RungRecord] = Field(default_factory=list)  # of the ladder, ascending
    control: list[ControlLine]
    # of each judged pair and each contrast; a plan of before they were counted has none
    judged: list[JudgedDifference] = Field(default_factory=list)
    environment: dict[str, Any]
    rule: str
    table: dict[str, Any] = Field(repr=False)
    written: dict[str, Any] = Field(repr=False)

    @model_validator(mode="after")
    def _require_known_arms(self) -> Self:
        names = list(self.order)
        for pair in self.design.comparisons or ():
            names += pair
        if self.design.control_arm is not None:
            names.append(self.design.control_arm)
        for name in names:
            if name not in self.arms:
                raise ValueError(f"{name!r} is named, but is not an arm")
        if len(set(self.order)) < len(self.order):
            raise ValueError("order has an arm twice")
        return self

    @property
    def baseline(self) -> str:
        """The arm that the others are judged against, unless the design names another."""
        return self.order[0]

    def arm_at(self, arm: str, size: int | None) -> ArmRecord:
        """An arm as the design has it, or at the size of a rung."""
        if size is None:
            return self.arms[arm]
        for rung in self.rungs:
            if rung.size == size and arm in rung.arms:
                return rung.arms[arm]
        raise RecordError(
            f"{self.name}: the plan has no rung of {arm!r} at d_model {size}; {REPAIR}"
        )

    def difference_of(
        self, arm: str | None, against: str | None = None, *, contrast: str | None = None
    ) -> JudgedDifference | None:
        """What a judged pair, or a contrast, differs in; None where the plan does not say so."""
        for one in self.judged:
            if (one.arm, one.against, one.contrast) == (arm, against, contrast):
                return one
        return None

    @property
    def is_listed(self) -> bool:
        """Was it written when the files of a study were listed with their sha256?"""
        return self.written.get("format", 1) >= LISTED_FORMAT


def parse_plan(table: Any, path: Path) -> PlanRecord:
    """A plan as the file at `path` holds it; RecordError where it is damaged, or of a newer
    format.
    """
    if not isinstance(table, Mapping):
        raise RecordError(f"{path} holds a {type(table).__name__}, not a table; {REPAIR}")
    present_table = convert_plan(table, plan_format(table, path))
    return parse_table(
        PlanRecord, {**present_table, "table": present_table, "written": dict(table)}, path, REPAIR
    )

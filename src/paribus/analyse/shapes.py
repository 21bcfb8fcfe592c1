"""The shapes of a study's files: what is read of them, held to types once, where a file is read.

A plan of an earlier version has fewer fields, one of a later version more: what is not read is not judged.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, RootModel, ValidationError, model_validator

from paribus.errors import RecordError
from paribus.record import Study
from paribus.record.file_names import PLAN_FILE, RATES_FILE
from paribus.record.study import REPAIR

Number = int | FiniteFloat
MAX_NAMED = 3  # faults of one file


class Shape(BaseModel):
    """A table of which some fields are read."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)


class MeasureShape(Shape):
    kind: str
    split: str


class PrimaryShape(Shape):
    measure: MeasureShape
    margin: Number | str | None
    test: Literal["two-sided", "not worse"] = "two-sided"


class TuneShape(Shape):
    share: Number
    split: str
    n_seeds: int
    n_rates: int
    bracket: bool = False


class ControlShape(Shape):
    length: Number = Field(gt=0, lt=1)


class DesignShape(Shape):
    seeds: list[int] | Literal["open"]
    looks: dict[str, Number] | None
    primary: PrimaryShape
    others: list[MeasureShape]
    tune: TuneShape | None
    control: str | ControlShape | None
    comparisons: list[list[str]] | None = None
    equal_noise: bool = False
    lengths: list[Number] | None = None

    @model_validator(mode="after")
    def _is_meant(self) -> Self:
        if self.seeds != "open" and (not self.seeds or len(set(self.seeds)) < len(self.seeds)):
            raise ValueError("seeds are none, or some of them twice")
        if self.looks is not None and not all(n.isascii() and n.isdigit() for n in self.looks):
            raise ValueError("looks are not at numbers of seeds")
        if self.lengths is not None and not all(0 < share <= 1 for share in self.lengths):
            raise ValueError("lengths are not shares of the full length")
        if self.comparisons is not None and not self.comparisons:
            raise ValueError("comparisons are none")
        if any(len(pair) != 2 for pair in self.comparisons or ()):
            raise ValueError("comparisons are not of two arms each")
        return self


class EarlierGainShape(Shape):
    of: str
    gain: Number | None
    low: Number | None
    high: Number | None
    level: Number | None


class EarlierShape(Shape):
    study: str
    number: int
    seeds: list[int] = Field(min_length=1)
    gains: list[EarlierGainShape]


class SeriesShape(Shape):
    """Which study of a series a plan is."""

    first: str
    number: int = Field(ge=2)
    earlier: list[EarlierShape] = Field(min_length=1)


class OptimizerShape(Shape):
    rate: Number


class TrainingShape(Shape):
    n_steps: int = Field(ge=1)
    n_sequences: int
    length: int
    optimizer: OptimizerShape


class SourceShape(Shape):
    kind: str


class CorpusShape(Shape):
    sources: list[SourceShape]


class StageShape(Shape):
    training: TrainingShape
    objective: dict[str, Any]
    corpus: CorpusShape


class RunShape(Shape):
    architecture: dict[str, Any]
    stages: list[StageShape] = Field(min_length=1)


class FlopsShape(Shape):
    dense: Number


class PriceShape(Shape):
    parameters: int = Field(ge=1)
    non_embedding_parameters: int
    visible_share: Number
    kv_bytes_per_token: Number
    kv_bytes_per_source_token: Number
    prefill: FlopsShape
    decode: FlopsShape


class WorkShape(Shape):
    tokens_read: Number = Field(gt=0)
    training_flops: Number


class ArmShape(Shape):
    levels: dict[str, str | Number | bool | None]
    run: RunShape
    price: PriceShape
    work: WorkShape
    text: str


class LineShape(Shape):
    """One line of the control table."""

    path: str
    mark: Literal["✓", "Δ", "≈", "⟳", "→", "✗"]
    values: dict[str, Any]
    note: str
    allowed: str | None


class PlanShape(Shape):
    name: str
    question: str
    fingerprint: str
    design_fingerprint: str | None = None
    design: DesignShape
    declared: list[str]
    edition: int = 1
    series: SeriesShape | None = None
    order: list[str] = Field(min_length=1)
    arms: dict[str, ArmShape]
    control: list[LineShape]
    environment: dict[str, Any]
    rule: str

    @model_validator(mode="after")
    def _names_its_arms(self) -> Self:
        pairs = [name for pair in self.design.comparisons or () for name in pair]
        control = [self.design.control] if isinstance(self.design.control, str) else []
        named = [*self.order, *pairs, *control]
        unknown = [name for name in named if name not in self.arms]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is named, and no arm")
        if len(set(self.order)) < len(self.order):
            raise ValueError("order has an arm twice")
        return self


class OptimumShape(Shape):
    """The fit of a sweep; one of before the second fit has neither an interval nor the rates it was made over."""

    inside: bool
    remark: str = ""
    coefficients: list[Number] | None
    left_out: list[Number]
    fitted: list[Number] | None = None
    interval: list[Number] | None = None
    excess: Number | None = None


class SweptShape(Shape):
    """What one arm's sweep found."""

    rate: FiniteFloat = Field(gt=0)
    points: list[Annotated[tuple[Number, Number | None], Field(strict=False)]]
    grid: list[Number] | None = None  # rates that every arm was swept at; of before there were others, all
    unigram: Number | None = None
    optimum: OptimumShape


class RatesShape(RootModel[dict[str, SweptShape]]):
    """What each arm's sweep found."""


def readable_plan(study: Study) -> dict[str, Any]:
    """The plan of a study, of a shape that can be reported on; RecordError says where it is not."""
    plan = study.plan()
    _require_shape(plan, PlanShape, study.folder / PLAN_FILE)
    return plan


def readable_rates(study: Study, arms: Iterable[str]) -> dict[str, Any] | None:
    """What the sweep of each of these arms found; None where there was none, RecordError where it is not to be read."""
    rates = study.rates()
    if rates is None:
        return None
    path = study.folder / RATES_FILE
    _require_shape(rates, RatesShape, path)
    missing = [arm for arm in arms if arm not in rates]
    if missing:
        raise RecordError(f"{path} has no sweep of {missing[0]}; {REPAIR}")
    return rates


def _require_shape(table: Any, shape: type[BaseModel], path: Path) -> None:
    try:
        shape.model_validate(table)
    except (ValidationError, RecursionError) as fault:
        raise RecordError(f"{path} is of another shape: {_faults(fault)}; {REPAIR}") from fault


def _faults(fault: ValidationError | RecursionError) -> str:
    """What is not of its shape, in words: the first few faults."""
    if isinstance(fault, RecursionError):
        return "tables inside tables without end"
    faults = fault.errors(include_url=False, include_context=False)
    told = [f"{'.'.join(map(str, one['loc'])) or 'it'}: {one['msg']}" for one in faults[:MAX_NAMED]]
    more = len(faults) - MAX_NAMED
    return "; ".join(told) + (f", and {more} more" if more > 0 else "")

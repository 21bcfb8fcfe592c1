"""The shape of what sweeps found: what is read of rates.json, held to types once, where the
file is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import Field, FiniteFloat, RootModel

from paribus.errors import RecordError
from paribus.record import Study
from paribus.record.file_names import RATES_FILE, STAGE_RATES_FILE
from paribus.record.plan_formats import REPAIR
from paribus.record.shape import Number, Shape, parse_table


class OptimumSchema(Shape):
    """The fit of a sweep; one of before the second fit has neither an interval nor the rates it
    was made over.
    """

    inside: bool
    remark: str = ""
    coefficients: list[Number] | None
    left_out: list[Number]
    fitted: list[Number] | None = None
    interval: list[Number] | None = None
    excess: Number | None = None


class SweepSchema(Shape):
    """What one arm's sweep found."""

    rate: FiniteFloat = Field(gt=0)
    points: list[Annotated[tuple[Number, Number | None], Field(strict=False)]]
    grid: list[Number] | None = (
        None  # rates that every arm was swept at; of before there were others, all
    )
    unigram: Number | None = None
    own_loss: bool = False  # are the points the held-out loss of the stage's own objective?
    optimum: OptimumSchema


class RatesSchema(RootModel[dict[str, SweepSchema]]):
    """What each arm's sweep found."""


def read_rates(study: Study, arms: Iterable[str]) -> dict[str, Any] | None:
    """What the sweep of each of these arms found; None where there was none, RecordError where
    it is not to be read.
    """
    rates = study.read_rates()
    if rates is None:
        return None
    path = study.folder / RATES_FILE
    parse_table(RatesSchema, rates, path, REPAIR)
    for arm in arms:
        if arm not in rates:
            raise RecordError(f"{path} has no sweep of {arm}; {REPAIR}")
    return rates


def read_stage_rates(study: Study, arms: Iterable[str]) -> list[dict[str, Any]]:
    """What the sweeps of the stages before the last found, stage by stage; RecordError where it is
    not to be read.
    """
    path, known = study.folder / STAGE_RATES_FILE, set(arms)
    stages = study.read_stage_rates()
    for rates in stages:
        parse_table(RatesSchema, rates, path, REPAIR)
        if not set(rates) <= known:
            raise RecordError(f"{path} has sweeps of other arms; {REPAIR}")
    return stages

"""The design of a plan, as the verdict and the report read it."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from paribus.record.shape import Number, Shape, WholeShape


class MeasureRecord(WholeShape):
    """A yardstick, on which split of the text."""

    kind: str
    split: str


class PrimaryRecord(Shape):
    """The yardstick a verdict is read from, its margin and its test."""

    measure: MeasureRecord
    margin: Number | str | None
    test: Literal["two-sided", "not worse"]


class TuneRecord(Shape):
    """How the learning rate of each arm is searched."""

    share: Number
    last_share: Number | None = None  # of the last stage; None: as the others
    split: str
    n_seeds: int
    n_rates: int
    bracket: bool
    rates: list[str] = Field(default_factory=list)  # finished sweeps that rates are read from


class ControlLengthRecord(Shape):
    """A positive control that is the baseline at a share of its training."""

    length: Number = Field(gt=0, lt=1)


class LadderRecord(Shape):
    """What is read of a ladder; its rungs stand in the plan."""

    exponent_margin: Number | None = Field(default=None, gt=0)  # None: the usual one


class MustRecord(Shape):
    """A manipulation check: what must hold, the column that shows it, and what hangs on it."""

    that: str
    on: str | None = None  # None: the primary yardstick
    # names of arms or contrasts, and pairs; None: all that is judged
    scope: list[str | list[str]] | None = Field(default=None, alias="for")


class DesignRecord(WholeShape):
    """The fields of a design that are read; `table` holds all of them."""

    seeds: list[int] | Literal["open"]
    looks: dict[str, Number] | None
    primary: PrimaryRecord
    others: list[MeasureRecord]
    tune: TuneRecord | None
    control: str | ControlLengthRecord | None
    comparisons: list[list[str]] | None
    equal_noise: bool
    budget: str | None
    # Left out of the file where they are not used.
    contrasts: dict[str, dict[str, Number]] | str | None = None
    lengths: list[Number] | None = None
    ladder: LadderRecord | None = None
    must: list[MustRecord] = Field(default_factory=list)

    @model_validator(mode="after")
    def _require_sense(self) -> Self:
        if self.seeds != "open" and (not self.seeds or len(set(self.seeds)) < len(self.seeds)):
            raise ValueError("seeds are missing, or some are there twice")
        if self.looks is not None and not all(n.isascii() and n.isdigit() for n in self.looks):
            raise ValueError("a look is not at a number of seeds")
        if self.lengths is not None and not all(0 < share <= 1 for share in self.lengths):
            raise ValueError("a length is not a share of the full length")
        if self.comparisons is not None and not self.comparisons:
            raise ValueError("there are no comparisons")
        if any(len(pair) != 2 for pair in self.comparisons or ()):
            raise ValueError("a comparison does not have two arms")
        return self

    @property
    def is_open(self) -> bool:
        """Is the number of seeds no part of the design?"""
        return self.seeds == "open"

    @property
    def declared_seeds(self) -> list[int]:
        """The seeds that the design names; none where their number is open."""
        if isinstance(self.seeds, list):
            return self.seeds
        return []

    @property
    def control_arm(self) -> str | None:
        """The arm that must come out worse; None where there is no control, or where it is by
        length.
        """
        if isinstance(self.control, str):
            return self.control
        return None

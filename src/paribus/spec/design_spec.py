"""A design: which factor differs, what is held equal, how it is measured, and how sure one
wants to be.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from paribus.spec.base import Positive, Spec
from paribus.spec.contrasts import ArmPair, Contrasts, read_contrasts
from paribus.spec.design_values import (
    Control,
    Question,
    Seeds,
    as_tuple,
    read_lengths,
    read_looks,
    read_margin,
    read_match,
    read_pairs,
    read_tune,
    require_names,
)
from paribus.spec.factor import Factor, Table
from paribus.spec.ladder import Ladder
from paribus.spec.match import Match
from paribus.spec.must import Must, read_must
from paribus.spec.variance import Variance, read_variance
from paribus.spec.yardstick import DesignYardstickKind, DocumentHalves, OtherYardstickKind

Budget = Literal["tokens_read", "tokens_scored", "bytes_read", "training_flops"]
DesignScale = Literal["smoke", "laptop", "hour", "paper"]
SCALES: tuple[DesignScale, ...] = ("smoke", "laptop", "hour", "paper")
MATCH_PATH = "match"  # the size, as a factor
RUN_TABLES = ("architecture", "corpus", "objective", "training", "stages", "begin")


class Tune(Spec):
    """How every arm's learning rate is tuned: a grid a factor 2 apart around the rate as
    written.
    """

    n_rates: Annotated[int, Field(ge=5, le=15)] = 5
    """Number of rates in the grid."""
    n_seeds: Annotated[int, Field(ge=2, le=20)] = 2
    """Number of seeds of the sweep. They are never reported."""
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of a run's steps that a sweep run takes."""
    last_share: Annotated[
        float | None, Field(gt=0, le=1, exclude_if=lambda share: share is None)
    ] = None
    """That share in the sweep of the last stage of several. If left out: `share`."""
    split: Literal["valid", "test"] = "valid"
    """The text that rates are judged on. It may not be the split of the primary yardstick."""
    rates: Annotated[
        tuple[str, ...], Field(exclude_if=lambda rates: not rates), BeforeValidator(as_tuple)
    ] = ()
    """Folders of finished sweeps, such as those of kept studies, from which each arm takes its rate
    instead of being swept: its own rates there, by a line in the logarithms of size and text.
    """
    bracket: bool = False
    """Whether reported seeds also run half an octave to either side. The verdict must hold there
    too.
    """

    def share_of(self, is_last: bool) -> float:
        """The share of the steps that a sweep of a stage takes."""
        if is_last and self.last_share is not None:
            return self.last_share
        return self.share


class Primary(Spec):
    """The one yardstick a verdict is read from."""

    measure: DesignYardstickKind = DocumentHalves()
    """The yardstick that the verdict is read from."""
    margin: Annotated[Positive | str | None, BeforeValidator(read_margin)] = None
    """The smallest difference that matters: a number in the unit of the measure (bits per byte, or
    points of a task), `5 % compute` or `25 % of control`. If left out: nothing is called
    equivalent.
    """
    test: Literal["two-sided", "not worse"] = "two-sided"
    """`not worse` asks only whether a loss of the margin is ruled out."""


class Design(Spec):
    """A comparison as it is written: what differs, what is held equal, how it is measured and
    how often.
    """

    question: Question
    """The question, in words."""
    reference: str | None = None
    """The source that it was taken from, as in designs/claims.toml."""
    base: Table
    """The run that all arms stand on: a table, a file that describes a run, or a preset. A file
    is relative to the design.
    """
    baseline: str
    """The arm that the others are compared with."""
    factor: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    """The paths in which arms may differ, such as `architecture.mask`; `match` for their size. One
    alone needs no list. Two arms that are compared should differ in one of them.
    """
    arms: Annotated[dict[str, Table], BeforeValidator(require_names)] = Field(default_factory=dict)
    """Arms by name, each a table of a run that is laid over the base. An arm may have a `match`
    of its own.
    """
    factors: Annotated[dict[str, Factor], BeforeValidator(require_names)] = Field(
        default_factory=dict
    )
    """Factors by name, instead of `arms`: every combination of their levels is an arm."""
    comparisons: Annotated[tuple[ArmPair, ...] | None, BeforeValidator(read_pairs)] = None
    """Pairs of an arm and the arm it is judged against. If left out: each arm against the
    baseline.
    """
    contrasts: Annotated[Contrasts | Literal["default"] | None, BeforeValidator(read_contrasts)] = (
        None
    )
    """By name, weights by arm that add up to 0. `default`: the three effects of two factors with
    two levels.
    """
    control: Control = None
    """What must come out worse than the baseline: an arm's name, or `{ length = 0.5 }`, the
    baseline at half its training.
    """
    must: Annotated[
        tuple[Must, ...], Field(exclude_if=lambda must: not must), BeforeValidator(read_must)
    ] = ()
    """What must hold before pairs get a word. Where it is not shown, the word of the pairs that
    hang on it is `manipulation not shown`.
    """
    match: Annotated[Match | None, BeforeValidator(read_match)] = None
    """What is made equal in size. `match = "nothing"` compares the arms as written."""
    budget: Budget | None = None
    """What is made equal in training, by the number of steps. If left out: the steps as written."""
    tune: Annotated[Tune | None, BeforeValidator(read_tune)] = Tune()
    """The search of the learning rate, the same for every arm. `false`: all arms use the rate as
    written.
    """
    variance: Annotated[Variance | None, BeforeValidator(read_variance)] = None
    """Runs that show where the noise comes from. `true` takes the defaults."""
    seeds: Seeds = (1, 2, 3, 4, 5)
    """How many, or a list of them; at least 3. `open`: `paribus run --seeds N` says how many."""
    looks: Annotated[dict[int, float] | None, BeforeValidator(read_looks)] = None
    """Numbers of seeds at which a verdict may be read, each with its share of 0.05: `{ 5 = 0.01,
    10 = 0.04 }`.
    """
    lengths: Annotated[tuple[float, ...] | None, BeforeValidator(read_lengths)] = None
    """Ascending shares of the full length that end with 1. Arms that others are judged against
    are trained at each of them, the whole recipe scaled.
    """
    ladder: Annotated[Ladder | None, Field(exclude_if=lambda ladder: ladder is None)] = None
    """Sizes and durations at which every arm is also trained, so that a law is fitted for each."""
    equal_noise: bool = False
    """No longer offered: `true` is refused. Older studies were judged so."""
    primary: Primary = Primary()
    """The one yardstick that a verdict is read from, its margin and its test."""
    others: Annotated[tuple[OtherYardstickKind, ...], BeforeValidator(as_tuple)] = ()
    """Further yardsticks and probes, which are shown and never judged."""
    report: Literal["last"] = "last"
    """Which checkpoint is measured."""
    allow: dict[str, str] = Field(default_factory=dict)
    """By path, the reason why it may differ all the same."""
    compound: Annotated[dict[str, str], Field(exclude_if=lambda reasons: not reasons)] = Field(
        default_factory=dict
    )
    """By arm or contrast, the reason why it is judged though it differs in several factors at
    once.
    """
    prompts: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    """Texts that every arm continues, for the report."""

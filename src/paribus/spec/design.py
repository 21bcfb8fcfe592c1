"""A design: which factor differs, what is held equal, how it is measured, and how sure one
wants to be.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from math import inf
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationInfo, field_validator

from paribus.spec.architecture import Positive, Spec
from paribus.spec.contrasts import (
    ArmPair,
    Contrasts,
    default_contrasts,
    family_size,
    judged_family,
    read_contrasts,
)
from paribus.spec.match import Match
from paribus.spec.reading import merge_tables
from paribus.spec.variance import Variance, read_variance
from paribus.spec.yardstick import DocumentHalves, YardstickKind

Table = dict[str, Any]
Budget = Literal["tokens_read", "tokens_scored", "bytes_read", "training_flops"]
DesignScale = Literal["smoke", "laptop", "hour", "paper"]
SCALES: tuple[DesignScale, ...] = ("smoke", "laptop", "hour", "paper")
RUN_TABLES = ("architecture", "corpus", "objective", "training")
LEVEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,39}", re.ASCII)  # an arm's joins them by '+'
SWEEP_SEED = 1001  # the first seed of a sweep; reported seeds lie below it
MIN_SEEDS = 3
FEW_SEEDS_REMEDY = (
    f"no interval can be had from fewer than {MIN_SEEDS}: use 5, or 6 for a sign-flip; equivalence"
    " at a margin of one spread takes about 10"
)
OPEN_SEEDS: Literal["open"] = "open"  # how many seeds there are is no part of the design
LENGTHS_EXAMPLE = "lengths = [0.25, 0.5, 1]"  # as it is written
MIN_LENGTHS = 3  # from which a margin in compute is priced
MAX_COMPUTE_MARGIN = (
    3.0  # more of it than a margin can be priced in: a curve says little so far beyond its end
)


def _as_tuple(value: Any) -> Any:
    """TOML and JSON have lists, specs tuples; one alone is short for a list of it."""
    if isinstance(value, list) and not value:
        raise ValueError("is an empty list; give at least one")
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, str):
        return (value,)
    return value


def _read_seeds(value: Any) -> Any:
    """A number of seeds is short for as many of them, from 1; `open` leaves it to whoever runs
    the design.
    """
    if isinstance(value, str):
        if value != OPEN_SEEDS:
            raise ValueError(
                f"is {value!r}; use how many, a list of them, or 'open' to decide as results come"
            )
        return value
    if isinstance(value, list | tuple):
        if not value:
            raise ValueError(f"is an empty list; {FEW_SEEDS_REMEDY}")
        return tuple(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise ValueError(f"is {value}; {FEW_SEEDS_REMEDY}")
        if value >= SWEEP_SEED:
            raise ValueError(
                f"is {value}; use fewer than {SWEEP_SEED}, where the seeds of sweeps begin"
            )
        return tuple(range(1, value + 1))
    raise ValueError(
        f"is {value!r}; use how many, such as 5, or a list of them, or 'open' to decide as results"
        " come"
    )


def _require_names(value: Any, info: ValidationInfo) -> Any:
    """Tables by name; an array of tables has none."""
    if isinstance(value, list | tuple):
        name = info.field_name
        raise ValueError(
            f"is a list of {len(value)}, and each needs a name; write [{name}.NAME], not [[{name}]]"
        )
    return value


def _read_margin(value: Any) -> Any:
    """A number above 0, or text that is read later; one complaint, whichever it was meant to be."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < inf:
        raise ValueError(
            f"is {value!r}; use a number of bits per byte above 0, or such as '5 % compute'"
        )
    return value


def _read_looks(value: Any) -> Any:
    """Keys of TOML are text; a look is at a number of seeds."""
    if not isinstance(value, Mapping):
        return value
    try:
        return {int(n): share for n, share in value.items()}
    except ValueError as fault:
        raise ValueError(
            f"are at {list(value)}; write numbers of seeds, as in {{ 5 = 0.01, 10 = 0.04 }}"
        ) from fault


def _read_lengths(value: Any) -> Any:
    """Ascending shares of the full length; the last is the full length itself, the reported run."""
    if value is None:
        return value
    shares = value if isinstance(value, list | tuple) else ()
    numbers = [
        share for share in shares if isinstance(share, int | float) and not isinstance(share, bool)
    ]
    ascending = all(one < other for one, other in itertools.pairwise(numbers))
    fits = len(numbers) == len(shares) > 1 and ascending and numbers[0] > 0 and numbers[-1] == 1
    if not fits:
        raise ValueError(
            f"is {value!r}; write ascending shares of the full length that end with 1:"
            f" {LENGTHS_EXAMPLE}"
        )
    return tuple(float(share) for share in numbers)


def _read_pairs(value: Any) -> Any:
    """TOML and JSON have lists, specs tuples: an arm, and the arm it is judged against."""
    if value is None:
        return value
    pairs = value if isinstance(value, list | tuple) else ()
    if not isinstance(value, list | tuple) or not all(_is_pair(pair) for pair in pairs):
        raise ValueError(
            f"is {value!r}; write pairs of an arm and what it is judged against: [['prefix',"
            " 'causal']]"
        )
    return tuple(tuple(pair) for pair in pairs)


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) == 2
        and all(isinstance(name, str) for name in value)
    )


def _read_control(value: Any) -> Any:
    """An arm's name, or a share of the baseline's training."""
    if value is None or isinstance(value, str | ControlLength):
        return value
    if isinstance(value, Mapping) and set(value) == {"length"}:
        share = value.get("length")
    else:
        share = None
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise ValueError(
            f"is {value!r}; name an arm, or write a share of the training, as {{ length = 0.5 }}"
        )
    return value


def _read_match(value: Any) -> Any:
    """`match = "nothing"` is short for a table that says no more."""
    if isinstance(value, str):
        return {"by": value}
    return value


def _read_tune(value: Any) -> Any:
    """`tune = false` says that all arms train at the rate as written."""
    if value is False:
        return None
    if value is True:
        return {}
    return value


Seeds = Annotated[
    Annotated[tuple[Annotated[int, Field(ge=0, lt=SWEEP_SEED)], ...], Tag("each")]
    | Annotated[Literal["open"], Tag(OPEN_SEEDS)],
    Discriminator(
        lambda given: OPEN_SEEDS if given == OPEN_SEEDS else "each"
    ),  # a fault is then told of one of them alone
    BeforeValidator(_read_seeds),
]


class ControlLength(Spec):
    """The baseline at a share of its training, as a control that needs no arm of its own."""

    length: Annotated[float, Field(gt=0, lt=1)]
    """Share of the baseline's training. `lengths` must have it, too."""


Control = Annotated[
    Annotated[str, Tag("arm")]
    | Annotated[ControlLength, Tag("length")]
    | Annotated[None, Tag("none")],
    Discriminator(
        lambda given: "none" if given is None else "arm" if isinstance(given, str) else "length"
    ),
    BeforeValidator(_read_control),
]


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
    split: Literal["valid", "test"] = "valid"
    """The text that rates are judged on. It may not be the split of the primary yardstick."""
    bracket: bool = False
    """Whether reported seeds also run half an octave to either side. The verdict must hold there
    too.
    """


def _require_level_tables(levels: Mapping[str, Any], path: str | None) -> None:
    """ValueError unless levels by name are tables of a run, and no path says otherwise."""
    if path is not None:
        raise ValueError(
            f"is a table of levels beside the path {path!r}; leave the path out, or list the values"
            " at it"
        )
    for name, table in levels.items():
        if not LEVEL_NAME.fullmatch(str(name)):
            raise ValueError(
                f"has a level {name!r}; use up to 40 letters, digits, spaces, '.', '_' or '-'"
            )
        if not isinstance(table, Mapping):
            raise ValueError(
                f"has {name} = {table!r}; write a table, as {{ architecture = {{ mask = 'causal'"
                " } }"
            )


def level_name(value: Any) -> str:
    """What a level is called that is a value: its kind or its text, in letters that an arm's
    name may have.
    """
    if isinstance(value, Mapping):
        name = value.get("kind", str(value))
    else:
        name = str(value)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", str(name)).strip("-._") or "level"


class Factor(Spec):
    """One factor of a factorial: levels by name, each a table laid over the base, or the values
    of one path.
    """

    path: str | None = None
    """The path whose values `levels` lists. Leave it out where levels are tables by name."""
    levels: Annotated[Any, Field()]
    """At least two levels: a list of values at `path`, or tables by name, each laid over the
    base.
    """

    @field_validator("levels")
    @classmethod
    def _require_levels(cls, levels: Any, info: ValidationInfo) -> Any:
        path = info.data.get("path")
        if not isinstance(levels, list | tuple | Mapping) or len(levels) < 2:
            raise ValueError(
                f"is {levels!r}; give at least two levels: a list beside a path, or a table of"
                " tables"
            )
        if isinstance(levels, Mapping):
            _require_level_tables(levels, path)
            return levels
        if path is None:
            raise ValueError(
                "is a list without a path; say at which path these are the values, or name each a"
                " table"
            )
        names = [level_name(value) for value in levels]
        if len(set(names)) < len(names):
            raise ValueError(
                f"has values that would be called alike: {', '.join(names)}; name each in a table"
            )
        return levels


class Primary(Spec):
    """The one yardstick a verdict is read from."""

    measure: YardstickKind = DocumentHalves()
    """The yardstick that the verdict is read from."""
    margin: Annotated[Positive | str | None, BeforeValidator(_read_margin)] = None
    """The smallest difference that matters: a number of bits per byte, `5 % compute` or `25 % of
    control`. If left out: nothing is called equivalent.
    """
    test: Literal["two-sided", "not worse"] = "two-sided"
    """`not worse` asks only whether a loss of the margin is ruled out."""


class Design(Spec):
    """A comparison as it is written: what differs, what is held equal, how it is measured and
    how often.
    """

    question: str
    """The question, in words."""
    reference: str | None = None
    """The source that it was taken from, as in designs/claims.toml."""
    base: Table
    """The run that all arms stand on: a table, a file that describes a run, or a preset. A file
    is relative to the design.
    """
    baseline: str
    """The arm that the others are compared with."""
    factor: Annotated[tuple[str, ...], BeforeValidator(_as_tuple)] = ()
    """The paths in which arms may differ, such as `architecture.mask`. One alone needs no list."""
    arms: Annotated[dict[str, Table], BeforeValidator(_require_names)] = Field(default_factory=dict)
    """Arms by name, each a table of a run that is laid over the base. An arm may have a `match`
    of its own.
    """
    factors: Annotated[dict[str, Factor], BeforeValidator(_require_names)] = Field(
        default_factory=dict
    )
    """Factors by name, instead of `arms`: every combination of their levels is an arm."""
    comparisons: Annotated[tuple[ArmPair, ...] | None, BeforeValidator(_read_pairs)] = None
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
    match: Annotated[Match | None, BeforeValidator(_read_match)] = None
    """What is made equal in size. `match = "nothing"` compares the arms as written."""
    budget: Budget | None = None
    """What is made equal in training, by the number of steps. If left out: the steps as written."""
    tune: Annotated[Tune | None, BeforeValidator(_read_tune)] = Tune()
    """The search of the learning rate, the same for every arm. `false`: all arms use the rate as
    written.
    """
    variance: Annotated[Variance | None, BeforeValidator(read_variance)] = None
    """Runs that show where the noise comes from. `true` takes the defaults."""
    seeds: Seeds = (1, 2, 3, 4, 5)
    """How many, or a list of them; at least 3. `open`: `paribus run --seeds N` says how many."""
    looks: Annotated[dict[int, float] | None, BeforeValidator(_read_looks)] = None
    """Numbers of seeds at which a verdict may be read, each with its share of 0.05: `{ 5 = 0.01,
    10 = 0.04 }`.
    """
    lengths: Annotated[tuple[float, ...] | None, BeforeValidator(_read_lengths)] = None
    """Ascending shares of the full length that end with 1. Arms that others are judged against
    are trained at each of them, the whole recipe scaled.
    """
    equal_noise: bool = False
    """No longer offered: `true` is refused. Older studies were judged so."""
    primary: Primary = Primary()
    """The one yardstick that a verdict is read from, its margin and its test."""
    others: Annotated[tuple[YardstickKind, ...], BeforeValidator(_as_tuple)] = ()
    """Further yardsticks, which are shown and never judged."""
    report: Literal["last"] = "last"
    """Which checkpoint is measured."""
    allow: dict[str, str] = Field(default_factory=dict)
    """By path, the reason why it may differ all the same."""
    prompts: Annotated[tuple[str, ...], BeforeValidator(_as_tuple)] = ()
    """Texts that every arm continues, for the report."""


def compute_margin(margin: str) -> float | None:
    """The share that `x % compute` names; None if the text is something else, or more than can
    be priced.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*compute\s*", margin)
    share = float(found[1]) / 100 if found else 0.0
    if 0 < share <= MAX_COMPUTE_MARGIN:
        return share
    return None


def control_margin(margin: str) -> float | None:
    """The share that `x % of control` names; None if the text is something else, or more than
    all of it.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*of\s+control\s*", margin)
    share = float(found[1]) / 100 if found else 0.0
    if 0 < share <= 1:
        return share
    return None


def arm_tables(design: Design) -> dict[str, Table]:
    """What each arm lays over the base, by name; of a factorial, every combination of levels."""
    if design.arms:
        return dict(design.arms)
    named = [_level_tables(factor) for factor in design.factors.values()]
    arms: dict[str, Table] = {}
    for levels in itertools.product(*(table.items() for table in named)):
        table: Table = {}
        for _, level in levels:
            table = merge_tables(table, level)
        arms["+".join(name for name, _ in levels)] = table
    return arms


def control_arm(design: Design) -> str | None:
    """The arm that must come out worse; None where there is no control, or where it is by
    length.
    """
    if isinstance(design.control, str):
        return design.control
    return None


def control_length(design: Design) -> float | None:
    """The share of its training at which the baseline must come out worse; None where there is
    no such control.
    """
    if isinstance(design.control, ControlLength):
        return design.control.length
    return None


def judged_pairs(design: Design) -> tuple[ArmPair, ...]:
    """Every pair of the family; there may be none, where contrasts are judged."""
    return tuple(_judged_family(design)[0])


def _judged_family(design: Design) -> tuple[list[ArmPair], Contrasts]:
    levels, control = arm_levels(design), control_arm(design)
    return judged_family(design.comparisons, design.contrasts, levels, design.baseline, control)


def length_arms(design: Design) -> tuple[str, ...]:
    """The arms that are trained at each of the design's lengths: those that a gain is priced by.

    Every arm that a judged pair is against; and the baseline where a contrast is judged, or the
    control is a length.
    """
    if design.lengths is None:
        return ()
    wanted = {against for _, against in judged_pairs(design)}
    if declared_contrasts(design) or control_length(design) is not None:
        wanted.add(design.baseline)
    return tuple(name for name in arm_tables(design) if name in wanted)


def compared_pairs(design: Design) -> tuple[ArmPair, ...]:
    """Every pair of arms whose difference enters something reported: pairs, the control,
    contrasts, a 2 × 2.
    """
    levels, control = arm_levels(design), control_arm(design)
    pairs = [*judged_pairs(design), *([] if control is None else [(control, design.baseline)])]
    for weights in {
        **default_contrasts(levels, design.baseline),
        **declared_contrasts(design),
    }.values():
        gains = [name for name, weight in weights.items() if weight > 0]
        losses = [name for name, weight in weights.items() if weight < 0]
        pairs += itertools.product(gains, losses)
    once: dict[frozenset[str], ArmPair] = {}
    for pair in pairs:
        once.setdefault(frozenset(pair), pair)
    return tuple(once.values())


def declared_contrasts(design: Design) -> Contrasts:
    """Every contrast of the family; there may be none, where pairs are judged."""
    return _judged_family(design)[1]


def n_judged(design: Design) -> int:
    """The size of the family: how many words share the 5 %."""
    return family_size(judged_pairs(design), declared_contrasts(design))


def arm_levels(design: Design) -> dict[str, dict[str, str]]:
    """Which level of each factor an arm has; of a list of arms, the arm itself."""
    if design.arms:
        return {name: {"arm": name} for name in design.arms}
    named = [_level_tables(factor) for factor in design.factors.values()]
    return {
        "+".join(levels): dict(zip(design.factors, levels, strict=True))
        for levels in itertools.product(*named)
    }


def declared_paths(design: Design) -> tuple[str, ...]:
    """The paths that may differ."""
    if design.arms:
        return design.factor
    return tuple(
        dict.fromkeys(path for factor in design.factors.values() for path in level_paths(factor))
    )


def level_paths(factor: Factor) -> list[str]:
    """The paths that a factor's levels write."""
    if factor.path is not None:
        return [factor.path]
    return list(
        dict.fromkeys(path for table in _level_tables(factor).values() for path in leaves_of(table))
    )


def _level_tables(factor: Factor) -> dict[str, Table]:
    if isinstance(factor.levels, Mapping):
        return {name: dict(table) for name, table in factor.levels.items()}
    assert factor.path is not None
    levels: dict[str, Table] = {}
    for value in factor.levels:
        table: Any = value
        for part in reversed(factor.path.split(".")):
            table = {part: table}
        levels[level_name(value)] = table
    return levels


def leaves_of(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Every leaf of a nested table by its dotted path; lists and empty tables are leaves."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(value, Mapping) and value:
            found |= leaves_of(value, path)
        else:
            found[path] = value
    return found

"""A design as it is read, from a file or a mapping at one of its scales, and whether it can be
meant as written.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from paribus.errors import SpecError, describe_first
from paribus.spec.contrasts import CONTRAST_EXAMPLE
from paribus.spec.design import (
    FEW_SEEDS_REMEDY,
    LENGTHS_EXAMPLE,
    MIN_LENGTHS,
    MIN_SEEDS,
    OPEN_SEEDS,
    RUN_TABLES,
    SCALES,
    Design,
    Table,
    arm_tables,
    compute_margin,
    control_arm,
    control_length,
    control_margin,
    declared_contrasts,
    declared_paths,
    leaves_of,
    level_paths,
    n_judged,
)
from paribus.spec.design_base import with_base
from paribus.spec.places import place_design
from paribus.spec.reading import (
    assign,
    describe_faults,
    fill_kinds,
    merge_tables,
    read_table,
    require_effect,
    require_shallow,
)
from paribus.spec.spelling import key_advice, word_advice
from paribus.spec.yardstick import Yardstick

ARM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+-]{0,79}", re.ASCII)
MAX_ALPHA = 0.05  # of false alarms, over all looks
WEIGHT_TOLERANCE = 1e-9  # of the largest weight: what a sum of decimal weights may be off
DESIGN_KEYS = (*Design.model_fields, "scales")
# set by the design's seeds, whatever a run says
SEED_PATHS = (
    "training.seed",
    "training.data_seed",
)
MAX_COMBINATIONS = 1_000  # of levels: thirty factors of two would be a billion arms
RATE_PATH, STEPS_PATH = "training.optimizer.rate", "training.n_steps"


def load_design(
    source: str | Path | Mapping[str, Any],
    scale: str | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Design:
    """A design from a TOML or JSON file or a mapping, at one of the scales it has, with changes
    by path.
    """
    if isinstance(source, Mapping):
        require_shallow(source, "the table")
    if isinstance(source, Mapping):
        table = copy.deepcopy(dict(source))
    else:
        table = _read_design_file(Path(source))
    folder = Path() if isinstance(source, Mapping) else Path(source).parent
    problems = list(_unknown_key_faults(table))
    table = _apply_scale(
        with_base({key: value for key, value in table.items() if key in DESIGN_KEYS}, folder),
        scale,
        folder,
    )
    # Whole tables before their parts and a kind before its fields, or a later one would wipe out an
    # earlier.
    for path in sorted(
        changes or {}, key=lambda path: (path.count("."), not path.endswith(".kind"))
    ):
        assign(table, path, (changes or {})[path])
        table = with_base(table, Path())
    try:
        design = Design.model_validate(fill_kinds(table, Design))
    except ValidationError as fault:
        raise SpecError([*problems, *describe_faults(fault, table, Design)]) from None
    problems.extend(_design_faults(design))
    if problems:
        raise SpecError(problems)
    return design


def require_valid_design(design: Design) -> None:
    """SpecError lists what is wrong with a design, however it was made."""
    problems = list(_design_faults(design))
    if problems:
        raise SpecError(problems)


def _read_design_file(path: Path) -> Table:
    if path.suffix not in (".toml", ".json"):
        raise SpecError(f"{path} is no .toml or .json file; give one that describes a design")
    return place_design(read_table(path, "give a file that describes a design"), path.parent)


def _unknown_key_faults(table: Table) -> Iterator[str]:
    yield from _unknown_keys("", table, DESIGN_KEYS)


def _apply_scale(table: Table, scale: str | None, folder: Path) -> Table:
    """The scale's own table laid over the rest."""
    scales = table.pop("scales", {})
    if not isinstance(scales, Mapping):
        raise SpecError(f"scales is {scales!r}; write tables {', '.join(SCALES)}")
    for name, own in scales.items():
        if name not in SCALES:
            raise SpecError(
                f"scales.{name} is not a key here; {word_advice(name, SCALES)}scales are"
                f" {', '.join(SCALES)}"
            )
        if not isinstance(own, Mapping):
            raise SpecError(f"scales.{name} is {own!r}; write a table that is laid over the rest")
    if scale is None:
        return table
    if scale not in scales:
        if scales:
            there = f"this design has {', '.join(scales)}"
        else:
            there = "this design has none: leave it out"
        raise SpecError(f"scale is {scale!r}; {there}")
    problems = [f"scales.{scale}.{problem}" for problem in _unknown_key_faults(dict(scales[scale]))]
    if problems:
        raise SpecError(problems)
    own = dict(scales[scale])
    if isinstance(own.get("base"), str):  # one that is named stands in the other's place
        table.pop("base", None)
    own = with_base(own, folder)
    changed = merge_tables(table, own)
    require_effect(changed, own, f"scales.{scale}.")
    return changed


def _design_faults(design: Design) -> Iterator[str]:
    yield from _seed_faults(design)
    yield from _look_faults(design)
    yield from _variance_faults(design)
    yield from _measure_faults(design)
    if bool(design.arms) == bool(design.factors):
        yield (
            "arms and factors: give one of them, either a table of arms or the factors of a"
            " factorial"
        )
    elif design.arms and not design.factor:
        yield (
            "factor is missing; name the paths in which the arms may differ, such as"
            " 'architecture.mask'"
        )
    elif (n_arms := _n_combinations(design)) > MAX_COMBINATIONS:
        yield (
            f"factors have {n_arms:,} combinations of levels; use at most {MAX_COMBINATIONS:,}, or"
            " list the arms"
        )
    else:
        yield from _arm_faults(design)
        yield from _comparison_faults(design)
        yield from _contrast_faults(design)
        yield from _family_faults(design)
        yield from _noise_faults(design)
        yield from _factor_faults(design)
        yield from _overruled_faults(design)


def _n_combinations(design: Design) -> int:
    """How many arms a factorial has, none of them made; 1 of a design that lists its arms."""
    return math.prod(len(factor.levels) for factor in design.factors.values())


def _seed_faults(design: Design) -> Iterator[str]:
    if design.seeds == OPEN_SEEDS:
        return
    different = len(set(design.seeds))
    if different < MIN_SEEDS:
        yield f"seeds has {different}; {FEW_SEEDS_REMEDY}"
    if different < len(design.seeds):
        yield (
            f"seeds are {list(design.seeds)}, one of them twice; a seed is one replicate, name it"
            " once"
        )


def _look_faults(design: Design) -> Iterator[str]:
    if design.looks is None:
        return
    if design.seeds == OPEN_SEEDS:
        yield (
            "looks are given beside seeds = 'open', whose verdict may be read at any number of"
            " them; leave one out"
        )
        return
    at, shares, n = sorted(design.looks), list(design.looks.values()), len(design.seeds)
    if not shares or min(shares) <= 0 or sum(shares) > MAX_ALPHA + 1e-12:
        yield (
            f"looks has shares {shares}, {sum(shares):g} in all; let them be above 0 and add up to"
            f" {MAX_ALPHA:g}"
        )
    elif at[0] < MIN_SEEDS or at[-1] != n:
        yield (
            f"looks are at {at} of {n} seeds; look at {MIN_SEEDS} or more, the last time at all {n}"
        )


def _variance_faults(design: Design) -> Iterator[str]:
    """Starts and orders are those of the reported seeds, so that the runs of the diagonal are
    there anyhow.
    """
    if design.variance is None or design.seeds == OPEN_SEEDS:
        return
    n_seeds = len(set(design.seeds))
    for name in ("inits", "orders"):
        asked = getattr(design.variance, name)
        if asked > n_seeds:
            yield (
                f"variance.{name} is {asked}, and the design has {n_seeds} seeds; use {n_seeds} or"
                " fewer"
            )


def _measure_faults(design: Design) -> Iterator[str]:
    if design.tune is not None and design.tune.split == design.primary.measure.split:
        yield (
            f"tune.split is {design.tune.split!r}, on which the primary yardstick reports; rates"
            " must be chosen on text that no verdict is read from: use 'valid' for one and 'test'"
            " for the other"
        )
    names = [_yardstick_name(measure) for measure in (design.primary.measure, *design.others)]
    if len(set(names)) < len(names):
        yield (
            f"others: the yardsticks are {', '.join(names)}; use each kind once on a split, the"
            " primary's included"
        )
    yield from _margin_faults(design)
    yield from _length_faults(design)
    if design.primary.test == "not worse" and design.primary.margin is None:
        yield (
            "primary.test is 'not worse', and there is no margin to lose; give primary.margin, such"
            " as 0.02"
        )


def _margin_faults(design: Design) -> Iterator[str]:
    margin = design.primary.margin
    if not isinstance(margin, str):
        return
    if compute_margin(margin) is None and control_margin(margin) is None:
        yield (
            f"primary.margin is {margin!r}; use a number, or such as '5 % compute', up to 300 %, or"
            " '25 % of control', up to 100 %"
        )
    elif control_margin(margin) is not None and design.control is None:
        yield (
            f"primary.margin is {margin!r}, and the design has no control; name an arm that must"
            " come out worse, such as control = 'input hidden', or write control = { length ="
            " 0.5 }"
        )


def _length_faults(design: Design) -> Iterator[str]:
    """A margin in compute is priced from annealed lengths: three or more; a control by length
    needs its own.
    """
    margin, lengths = design.primary.margin, design.lengths or ()
    length = control_length(design)
    if length is not None and length not in lengths:
        given = f"are {list(lengths)}" if lengths else "are missing"
        yield (
            f"control is at the length {length:g}, and lengths {given}; write it there, as"
            f" {LENGTHS_EXAMPLE}"
        )
    if not isinstance(margin, str) or compute_margin(margin) is None or len(lengths) >= MIN_LENGTHS:
        return
    given = f"is {list(lengths)}" if lengths else "is missing"
    yield (
        f"primary.margin is {margin!r}, which is priced from runs of {MIN_LENGTHS} lengths or more,"
        f" and lengths {given}; write {LENGTHS_EXAMPLE}, or a margin in bits per byte"
    )


def _yardstick_name(measure: Yardstick) -> str:
    return f"{measure.kind} on {measure.split}"


def _arm_faults(design: Design) -> Iterator[str]:
    arms = arm_tables(design)
    for name in arms:
        if not ARM_NAME.fullmatch(name):
            yield (
                f"arms.{name} cannot be an arm's name; use up to 80 letters, digits, spaces, '.',"
                " '_', '+' or '-'"
            )
    if len(arms) < 2:
        yield f"arms has {len(arms)}; a comparison needs two"
    for field, name in (("baseline", design.baseline), ("control", control_arm(design))):
        if name is not None and name not in arms:
            yield (
                f"{field} is {name!r}, which is no arm; {word_advice(name, arms)}arms are"
                f" {', '.join(arms)}"
            )
    if design.control == design.baseline:
        yield (
            f"control is {design.control!r}, the baseline itself; name an arm that must come out"
            " worse than it"
        )
    yield from _unknown_tables("base", design.base, RUN_TABLES)
    untrained = [name for name, table in arms.items() if "training" not in {**design.base, **table}]
    if untrained:
        yield (
            f"base.training is missing, and {', '.join(untrained)} gives none; say how long to"
            " train, such as base = { architecture = 'gpt2', training = { n_steps = 600 } }: a"
            " preset is an architecture alone"
        )
    for where, table in _written_tables(design):
        yield from _unknown_tables(
            where, table, (*RUN_TABLES, "match") if design.arms else RUN_TABLES
        )


def _written_tables(design: Design) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every table that is laid over the base, and where it stands."""
    for name, table in design.arms.items():
        yield f"arms.{name}", table
    for name, factor in design.factors.items():
        if isinstance(factor.levels, Mapping):
            for level, table in factor.levels.items():
                yield f"factors.{name}.levels.{level}", table


def _comparison_faults(design: Design) -> Iterator[str]:
    if design.comparisons is None:
        return
    arms, seen = arm_tables(design), set()
    if not design.comparisons:
        yield (
            "comparisons is an empty list; name at least one pair, or leave it out: every arm"
            " against the baseline"
        )
    yield from _unknown_arm_faults(
        [("comparisons", name) for pair in design.comparisons for name in pair], arms
    )
    for name, against in design.comparisons:
        if name == against:
            yield f"comparisons has {name!r} against itself; name the arm it is judged against"
        elif {name, against} in seen:
            yield (
                f"comparisons has {name!r} and {against!r} twice; one of them is judged against the"
                " other, once"
            )
        seen.add(frozenset((name, against)))


def _family_faults(design: Design) -> Iterator[str]:
    """A design in which nothing would get a word."""
    if design.comparisons is None and design.contrasts is None and not n_judged(design):
        yield (
            f"control is {design.control!r}, the only arm beside the baseline, and a control is not"
            " among what is judged; add an arm, or name the pair: comparisons ="
            f" [[{design.control!r}, {design.baseline!r}]]"
        )


def _contrast_faults(design: Design) -> Iterator[str]:
    if design.contrasts is None:
        return
    if isinstance(design.contrasts, str):
        if not declared_contrasts(design):
            yield (
                "contrasts is 'default', the two main effects and the interaction of two factors"
                f" of two levels, and this design has {_describe_shape(design)}; write the"
                f" contrasts out, as in {CONTRAST_EXAMPLE}"
            )
        return
    arms, seen = arm_tables(design), set()
    yield from _unknown_arm_faults(
        [(f"contrasts.{name}", one) for name, own in design.contrasts.items() for one in own], arms
    )
    for name, weights in design.contrasts.items():
        yield from _weight_faults(f"contrasts.{name}", weights)
        key = " ".join(name.casefold().split())
        if not ARM_NAME.fullmatch(name):
            allowed = "up to 80 letters, digits, spaces, '.', '_', '+' or '-'"
            yield f"contrasts has {name!r}, which cannot be a name; use {allowed}"
        elif name in arms:
            yield f"contrasts.{name} has the name of an arm; call it something else"
        elif key in seen:
            yield (
                f"contrasts.{name} is there twice, but for capitals and spaces; call one of them"
                " something else"
            )
        seen.add(key)


def _describe_shape(design: Design) -> str:
    if design.arms:
        return f"{len(design.arms)} arms and no factors"
    return f"{' × '.join(str(len(factor.levels)) for factor in design.factors.values())} levels"


def _unknown_arm_faults(names: Iterable[tuple[str, str]], arms: Mapping[str, Any]) -> Iterator[str]:
    """The names, and where each stands, that no arm has; the first few are told one by one."""
    listed = ", ".join(arms)

    def say(where_name: tuple[str, str]) -> str:
        where, name = where_name
        return f"{where} has {name!r}, which is no arm; {word_advice(name, arms)}arms are {listed}"

    unknown = dict.fromkeys(one for one in names if one[1] not in arms)
    yield from describe_first(list(unknown), say, "names that no arm has")


def _weight_faults(where: str, weights: Mapping[str, float]) -> Iterator[str]:
    for arm in (one for one, weight in weights.items() if weight == 0):
        yield f"{where} gives {arm!r} the weight 0; leave it out"
    total = sum(weights.values())
    if len(weights) < 2:
        yield (
            f"{where} has only {len(weights)} of the arms; weigh two or more against each other, as"
            f" in {CONTRAST_EXAMPLE}"
        )
    elif abs(total) > WEIGHT_TOLERANCE * max(map(abs, weights.values())):
        yield (
            f"{where} has weights that add up to {total:g}; let them add up to 0, as in"
            f" {CONTRAST_EXAMPLE}"
        )


def _noise_faults(design: Design) -> Iterator[str]:
    if design.equal_noise:
        yield (
            "equal_noise is true, and one noise for all arms is no longer offered: where the"
            " baseline is three times as noisy, 8 to 17 % of such studies say something false, and"
            " 5 seeds cannot show it; leave it out, and every pair is judged by its own noise"
        )


def _unknown_tables(where: str, table: Mapping[str, Any], known: tuple[str, ...]) -> Iterator[str]:
    yield from _unknown_keys(f"{where}.", table, known)


def _unknown_keys(prefix: str, table: Mapping[str, Any], known: Sequence[str]) -> Iterator[str]:
    listed = ", ".join(known)
    table_name, root = ("", "") if prefix else ("design", "design")

    def say(key: str) -> str:
        return (
            f"{prefix}{key} is not a key here; {key_advice(key, table_name, known, root=root)}keys"
            f" are {listed}"
        )

    yield from describe_first(
        [key for key in table if key not in known], say, "keys that are not known"
    )


def _factor_faults(design: Design) -> Iterator[str]:
    for path in declared_paths(design):
        if path.split(".")[0] not in RUN_TABLES:
            yield f"factor {path!r} is no path of a run; begin with {', '.join(RUN_TABLES)}"
    if design.factors and design.factor:
        yield "factor is given beside factors, whose paths are the ones that differ; leave it out"
    for path, reason in design.allow.items():
        if not reason.strip():
            yield f"allow.{path} has no reason; say why it may differ all the same"
    named = [
        (name, path) for name, factor in design.factors.items() for path in level_paths(factor)
    ]
    for place, (name, path) in enumerate(named):
        for other, its in named[:place]:
            if name != other and _paths_overlap(path, its):
                yield (
                    f"factors.{other} and factors.{name} both write {path}; let each level write"
                    " paths of its own"
                )


def _paths_overlap(one: str, other: str) -> bool:
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def _overruled_faults(design: Design) -> Iterator[str]:
    """What is written, but something else of the design decides: obeyed or refused, never
    dropped.
    """
    for path in SEED_PATHS:
        if path in leaves_of(design.base):
            yield f"base.{path} is set by seeds, one run for each; leave it out"
        if _is_compared(design, path):
            yield f"factor: arms differ in {path}, which seeds sets; compare them in something else"
        else:
            yield from _seeded_arm_faults(design, path)
    if design.tune is not None and _is_compared(design, RATE_PATH):
        yield (
            f"factor: arms differ in {RATE_PATH}, which the sweep finds; set tune = false to"
            " compare rates as written"
        )
    if design.budget is not None and _is_compared(design, STEPS_PATH):
        yield (
            f"factor: arms differ in {STEPS_PATH}, which budget = {design.budget!r} moves; leave"
            " the budget out"
        )


def _seeded_arm_faults(design: Design, path: str) -> Iterator[str]:
    """Arms that write a seed outside the factor, one by one or all of them."""
    for where, table in _written_tables(design):
        if path in leaves_of(table):
            yield (
                f"{where}.{path} is {leaves_of(table)[path]!r}, but seeds sets it, one run for"
                " each; leave it out"
            )


def _is_compared(design: Design, path: str) -> bool:
    """Is a path of the factor, and does an arm write it?"""
    inside = any(_paths_overlap(path, own) for own in declared_paths(design))
    return inside and any(path in leaves_of(table) for table in arm_tables(design).values())

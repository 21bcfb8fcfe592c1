"""What is wrong with the factors of a design, and with what it writes but another field decides."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paribus.spec.design import (
    MATCH_PATH,
    RUN_TABLES,
    Design,
    arm_levels,
    arm_tables,
    declared_contrasts,
    declared_paths,
    leaves_of,
    level_paths,
)
from paribus.spec.left_out_stages import without_left_out_stages
from paribus.spec.merging import merge_tables
from paribus.spec.stages import indexed_stages

# set by the design's seeds, whatever a run says
SEED_PATHS = (
    "training.seed",
    "training.data_seed",
)
RATE_PATH, STEPS_PATH = "training.optimizer.rate", "training.n_steps"
STAGE_PATH = re.compile(r"stages\.\d+\.")  # what a path of one stage begins with


def written_tables(design: Design) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every table that is laid over the base, and where it stands."""
    for name, table in design.arms.items():
        yield f"arms.{name}", table
    for name, factor in design.factors.items():
        if isinstance(factor.levels, Mapping):
            for level, table in factor.levels.items():
                yield f"factors.{name}.levels.{level}", table


def factor_faults(design: Design) -> Iterator[str]:
    for path in declared_paths(design):
        if path.split(".")[0] not in (*RUN_TABLES, MATCH_PATH):
            yield (
                f"factor {path!r} is no path of a run; begin with {', '.join(RUN_TABLES)}, or name"
                f" {MATCH_PATH}, the size"
            )
    if design.factors and design.factor:
        yield "factor is given beside factors, whose paths are the ones that differ; leave it out"
    for path, reason in design.allow.items():
        if not reason.strip():
            yield f"allow.{path} has no reason; say why it may differ all the same"
    yield from _compound_faults(design)
    written_paths: list[tuple[str, str]] = []
    for name, factor in design.factors.items():
        written_paths += [(name, path) for path in level_paths(factor)]
    for place, (name, path) in enumerate(written_paths):
        for other, its in written_paths[:place]:
            if name != other and _paths_overlap(path, its):
                yield (
                    f"factors.{other} and factors.{name} both write {path}; let each level write"
                    " paths of its own"
                )


def _compound_faults(design: Design) -> Iterator[str]:
    names = [*arm_levels(design), *declared_contrasts(design)]
    for name, reason in design.compound.items():
        if name not in names:
            yield (
                f"compound has {name!r}, which is neither an arm nor a contrast; use one of"
                f" {', '.join(names)}"
            )
        if not reason.strip():
            yield f"compound.{name} has no reason; say why it differs in several factors at once"


def _paths_overlap(one: str, other: str) -> bool:
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def overruled_faults(design: Design) -> Iterator[str]:
    """What is written, but something else of the design decides: obeyed or refused, never
    dropped.
    """
    base = leaves_of(indexed_stages(design.base))
    for path in _stage_paths(design, SEED_PATHS):
        if path in base:
            yield f"base.{path} is set by seeds, one run for each; leave it out"
        if _is_compared(design, path):
            yield f"factor: arms differ in {path}, which seeds sets; compare them in something else"
        else:
            yield from _seeded_arm_faults(design, path)
    if design.tune is not None:
        for path in _stage_paths(design, (RATE_PATH,)):
            if _is_compared(design, path):
                yield (
                    f"factor: arms differ in {path}, which the sweep finds; set tune = false to"
                    " compare rates as written"
                )
    if design.budget is not None:
        earlier = _earlier_steps(design)
        for path in _stage_paths(design, (STEPS_PATH,)):
            if path not in earlier and _is_compared(design, path):
                yield (
                    f"factor: arms differ in {path}, which budget = {design.budget!r} moves; write"
                    " the same in every arm, or leave the budget out"
                )


def _stage_paths(design: Design, paths: Sequence[str]) -> tuple[str, ...]:
    """Paths of a run of one stage, and of every stage that the design writes something of."""
    prefixes = {"": None}
    tables = [design.base, *[table for _, table in written_tables(design)]]
    for table in tables:
        for path in leaves_of(indexed_stages(table)):
            match = STAGE_PATH.match(path)
            if match is not None:
                prefixes[match.group()] = None
    return tuple([f"{prefix}{path}" for prefix in prefixes for path in paths])


def _earlier_steps(design: Design) -> tuple[str, ...]:
    """The steps of the base's stages before the last, which a budget leaves as they are; none
    where an arm adds a stage or leaves one out, for such a stage may be the last of an arm.
    """
    numbers = list(indexed_stages(design.base).get("stages", {}))
    for _, table in written_tables(design):
        for number, stage in indexed_stages(table).get("stages", {}).items():
            if stage is False or number not in numbers:
                return ()
    return tuple([f"stages.{number}.{STEPS_PATH}" for number in numbers[:-1]])


def _seeded_arm_faults(design: Design, path: str) -> Iterator[str]:
    """Arms that write a seed outside the factor, one by one or all of them."""
    for where, table in written_tables(design):
        leaves = leaves_of(indexed_stages(table))
        if path in leaves:
            yield (
                f"{where}.{path} is {leaves[path]!r}, but seeds sets it, one run for"
                " each; leave it out"
            )


def _is_compared(design: Design, path: str) -> bool:
    """Is a path of the factor, and does an arm write it? Where a whole table is the factor, do
    arms with as many stages differ in it, as they are written?
    """
    declared = declared_paths(design)
    if not any(_paths_overlap(path, own) for own in declared):
        return False
    tables = [indexed_stages(table) for table in arm_tables(design).values()]
    if not any(path in leaves_of(table) for table in tables):
        return False
    values_by_size: dict[int, list[Any]] = {}
    for table in tables:
        merged = without_left_out_stages(merge_tables(indexed_stages(design.base), table))
        size = len(merged.get("stages", ()))
        values_by_size.setdefault(size, []).append(leaves_of(merged).get(path))
    if len(values_by_size) == 1 and path in declared:
        return True
    return any(value != values[0] for values in values_by_size.values() for value in values)

"""Arms: what a design's tables come to, each a run spec of its own."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from paribus.errors import SpecError
from paribus.evaluate import answering_component
from paribus.objectives import require_permitted
from paribus.spec import resolve
from paribus.spec.base import Spec
from paribus.spec.design import Design, Table, arm_levels, arm_tables, leaves_of
from paribus.spec.match import Match
from paribus.spec.merging import merge_tables
from paribus.spec.objectives import TextLabels, WordTags
from paribus.spec.reading import describe_faults
from paribus.spec.run import RunSpec, Stage, derived_sizes, load_run
from paribus.spec.stages import ArchitectureChange, indexed_stages, stage_architectures
from paribus.spec.widths import width_note
from paribus.spec.yardstick import DesignYardstick, HeadYardstick, TaskYardstick


@dataclass(frozen=True, eq=False)
class Arm:
    """One arm: every field of it as written or by default, and the run it describes."""

    name: str
    levels: Mapping[str, str]  # of each factor
    table: Table  # without the sizes that follow from text and training
    run: RunSpec
    match: Match | None
    numbers_stages: bool  # some arm of the design has several, so paths name a stage in all of them

    @cached_property
    def leaves(self) -> dict[str, Any]:
        """Every field of the run by its path."""
        return leaves_of(run_table(self.run, self.numbers_stages))


def arms_of(design: Design) -> tuple[Arm, ...]:
    """All arms, the baseline first; SpecError lists what is wrong with any of them."""
    levels, tables = arm_levels(design), arm_tables(design)
    numbers_stages = any("stages" in table for table in (design.base, *tables.values()))
    problems: dict[str, list[str]] = {}
    arms: list[Arm] = []
    for name, table in tables.items():
        try:
            arms.append(_load_arm(design, name, levels[name], dict(table), numbers_stages))
        except SpecError as fault:
            for problem in dict.fromkeys(fault.problems):
                problems.setdefault(problem, []).append(name)
    if problems:
        lines = []
        for problem, names in problems.items():
            lines.append(_describe_problem(problem, names, len(tables)))
        raise SpecError(lines)
    return tuple(sorted(arms, key=lambda arm: arm.name != design.baseline))


def _describe_problem(problem: str, names: Sequence[str], n_arms: int) -> str:
    """A problem and the arms that have it; what all have is most likely the base's."""
    if len(names) == n_arms:
        return f"in every arm, {problem}"
    places = [f"arms.{name}" for name in names]
    return f"{', '.join(places)}: {problem}"


def _load_arm(
    design: Design, name: str, levels: Mapping[str, str], table: Table, numbers_stages: bool
) -> Arm:
    match = _read_match(table.pop("match", None)) or design.match
    table = merge_tables(_expand_preset(design.base), _expand_preset(table))
    run = load_run(table)
    require_usable(design, run)
    return Arm(
        name=name,
        levels=levels,
        table=chosen_fields(run, table["architecture"], numbers_stages),
        run=run,
        match=match,
        numbers_stages=numbers_stages,
    )


def width_notes(design: Design) -> list[str]:
    """Which widths of presets stay as they are though arms change d_model, with the arms where
    not all do.
    """
    tables = arm_tables(design)
    arms_by_note: dict[str, list[str]] = {}
    for name, table in tables.items():
        run_table = merge_tables(_expand_preset(design.base), _expand_preset(table))
        architecture = run_table.get("architecture")
        if not isinstance(architecture, Mapping):
            continue
        note = width_note(architecture)
        if note is not None:
            arms_by_note.setdefault(note, []).append(name)
    notes = []
    for note, names in arms_by_note.items():
        if len(names) == len(tables):
            notes.append(note)
        else:
            notes.append(f"{', '.join(names)}: {note}")
    return notes


class _ArmMatch(Spec):
    match: Match


def _read_match(value: Any) -> Match | None:
    """What an arm says of its own size, as a table or by its one word; refused as a design's is."""
    if value is None or isinstance(value, Match):
        return value
    table = {"match": {"by": value} if isinstance(value, str) else value}
    try:
        return _ArmMatch.model_validate(table).match
    except ValidationError as fault:
        raise SpecError(list(describe_faults(fault, table, _ArmMatch))) from None


def _expand_preset(table: Mapping[str, Any]) -> Table:
    """A preset alone is short for a table that stands on it; stages lie by their number."""
    table = indexed_stages(copy.deepcopy(dict(table)))
    if isinstance(table.get("architecture"), str):
        table["architecture"] = {"preset": table["architecture"]}
    return table


def chosen_fields(
    run: RunSpec, architecture_table: Mapping[str, Any], numbers_stages: bool
) -> Table:
    """Every field of a run that somebody or a default chose; not the sizes that follow from
    text and training.

    `written` is the table of its architecture. Whether the base, an arm or a change wrote a field
    makes no difference.
    """
    table = run_table(run, numbers_stages)
    for name in derived_sizes(run.stages):
        if name not in architecture_table:
            del table["architecture"][name]
    return table


def require_usable(design: Design, run: RunSpec) -> None:
    """SpecError where a run cannot be trained, or cannot be measured as the design asks."""
    require_permitted_objectives(run)
    _require_measurable(design, run)


def require_permitted_objectives(run: RunSpec) -> None:
    """SpecError where an objective cannot be posed to its architecture, or could see the answer."""
    for stage, architecture in zip(run.stages, stage_architectures(run), strict=True):
        require_permitted(stage.objective, resolve(architecture), stage.training.length)


def _require_measurable(design: Design, run: RunSpec) -> None:
    """SpecError where an arm cannot answer a yardstick: likelihoods and pseudo-likelihoods are
    never compared.
    """
    problems = []
    for measure in (design.primary.measure, *design.others):
        try:
            _require_answers(measure, run)
        except SpecError as fault:
            for problem in fault.problems:
                problems.append(f"the yardstick {measure.kind!r} cannot be used: {problem}")
    if problems:
        raise SpecError(problems)


def _require_answers(measure: DesignYardstick, run: RunSpec) -> None:
    objective = run.last.objective
    has_head = isinstance(objective, TextLabels | WordTags)
    if isinstance(measure, HeadYardstick):
        if not has_head:
            raise SpecError(
                f"objective.kind is {objective.kind!r}, which trains no head; end with a stage"
                " whose objective is 'labels' or 'tags'"
            )
    elif isinstance(measure, TaskYardstick):
        if has_head:
            raise SpecError(
                f"objective.kind is {objective.kind!r}, and a head is not asked in words; use the"
                " yardstick 'head'"
            )
    else:
        answering_component(objective, measure.label)


def run_table(run: RunSpec, numbers_stages: bool) -> Table:
    """Every field of a run, in the tables a person would write it in: its only stage, or stages by
    their number.
    """
    architecture = {"architecture": run.architecture.model_dump(mode="json")}
    if numbers_stages:
        stages = {str(number): _stage_table(stage) for number, stage in enumerate(run.stages)}
        return {**architecture, "stages": stages}
    tables = {**architecture, **run.last.model_dump(mode="json")}
    tables.pop("kind", None)
    return tables


def _stage_table(stage: Stage) -> Table:
    """Every field of a stage; what it leaves as it was of the architecture is None."""
    table = stage.model_dump(mode="json")
    changes = dict.fromkeys(ArchitectureChange.model_fields)
    return {**table, "architecture": {**changes, **table.get("architecture", {})}}


def arm_refusal(design: Design, table: Table) -> str | None:
    """Why a table describes no arm of a design; None if it does."""
    try:
        require_usable(design, load_run(table))
    except SpecError as fault:
        return fault.problems[0]
    return None

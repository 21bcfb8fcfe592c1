"""Arms: what a design's tables come to, each a run spec of its own."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from pydantic import ValidationError

from paribus.design.probed_run import require_probeable
from paribus.errors import SpecError
from paribus.evaluate import answering_component
from paribus.objectives import require_permitted
from paribus.spec import resolve
from paribus.spec.base import Spec
from paribus.spec.begin import BeginFrom
from paribus.spec.begin_reading import BeginOpener, take_begin
from paribus.spec.design import Design, Table, arm_levels, arm_tables, leaves_of
from paribus.spec.left_out_stages import require_last_left_out, without_left_out_stages
from paribus.spec.match import Match
from paribus.spec.merging import fill_default_kinds, merge_tables
from paribus.spec.mup import uses_mup
from paribus.spec.objectives import TextLabels, WordTags
from paribus.spec.reading import describe_faults
from paribus.spec.run import RunSpec, Stage, derived_sizes, load_run
from paribus.spec.stages import ArchitectureChange, indexed_stages, stage_architectures
from paribus.spec.training import Training
from paribus.spec.widths import width_note
from paribus.spec.yardstick import (
    HeadYardstick,
    OtherYardstick,
    ProbeYardstick,
    TaskYardstick,
)


@dataclass(frozen=True, eq=False)
class Arm:
    """One arm: every field of it as written or by default, and the run it describes."""

    name: str
    levels: Mapping[str, str]  # of each factor
    table: Table  # without the sizes that follow from text and training
    run: RunSpec
    match: Match | None
    numbers_stages: bool  # some arm of the design has several, so paths name a stage in all of them
    preset: str | None  # that its architecture stands on

    @cached_property
    def leaves(self) -> dict[str, Any]:
        """Every field of the run by its path."""
        return leaves_of(run_table(self.run, self.numbers_stages))


def arms_of(design: Design, open_begin: BeginOpener | None = None) -> tuple[Arm, ...]:
    """All arms, the baseline first; SpecError lists what is wrong with any of them. `open_begin`
    opens what an arm begins from.
    """
    levels, tables = arm_levels(design), arm_tables(design)
    problems: dict[str, list[str]] = {}
    loaded_arms: dict[str, _LoadedArm] = {}
    for name, table in tables.items():
        try:
            if name == design.baseline:
                _require_own_size(_read_match(table.get("match")))
            loaded_arms[name] = _load_arm(design, dict(table), open_begin)
        except SpecError as fault:
            for problem in dict.fromkeys(fault.problems):
                problems.setdefault(problem, []).append(name)
    if problems:
        raise SpecError(describe_problems(problems, len(tables)))
    numbers_stages = any(loaded.has_stages for loaded in loaded_arms.values())
    arms: list[Arm] = []
    for name, loaded in loaded_arms.items():
        arm = Arm(
            name=name,
            levels=levels[name],
            table=loaded.fields(numbers_stages),
            run=loaded.run,
            match=loaded.match,
            numbers_stages=numbers_stages,
            preset=loaded.preset,
        )
        arms.append(arm)
    _require_different_levels(design, arms)
    return tuple(sorted(arms, key=lambda arm: arm.name != design.baseline))


def _require_own_size(match: Match | None) -> None:
    """SpecError where the baseline is said to be several times its own size."""
    if match is not None and match.times != 1:
        raise SpecError(
            f"match.times is {match.times:g}, but this is the baseline, to whose size the others"
            " are brought; leave times out here, or name another baseline"
        )


def _require_different_levels(design: Design, arms: Sequence[Arm]) -> None:
    """SpecError where two levels of a factor come to the same runs."""
    if not design.factors:
        return
    problems: dict[str, None] = {}
    for one, other in itertools.combinations(arms, 2):
        if one.table != other.table or one.match != other.match:
            continue
        for factor, level in one.levels.items():
            if level != other.levels[factor]:
                problems[
                    f"factors.{factor}: the levels {level!r} and {other.levels[factor]!r} are"
                    " equal: their arms are the same runs; change one of them, or leave it out"
                ] = None
    if problems:
        raise SpecError(list(problems))


def describe_problems(problems: Mapping[str, Sequence[str]], n_arms: int) -> list[str]:
    """A line for each problem, with the arms that have it; what all have is likely the base's."""
    lines: list[str] = []
    for problem, names in problems.items():
        if len(names) == n_arms:
            lines.append(f"in every arm, {problem}")
        else:
            places = [f"arms.{name}" for name in names]
            lines.append(f"{', '.join(places)}: {problem}")
    return lines


class _LoadedArm(NamedTuple):
    """An arm whose run is read, before it is known whether paths name stages."""

    table: Table
    run: RunSpec
    match: Match | None

    @property
    def has_stages(self) -> bool:
        return "stages" in self.table or len(self.run.stages) > 1

    @property
    def preset(self) -> str | None:
        architecture = self.table.get("architecture")
        return architecture.get("preset") if isinstance(architecture, Mapping) else None

    def fields(self, numbers_stages: bool) -> Table:
        begin = take_begin(dict(self.table), [])
        if begin is None:
            return chosen_fields(self.run, self.table["architecture"], numbers_stages)
        return begun_fields(self.run, begin, numbers_stages)


def _load_arm(design: Design, table: Table, open_begin: BeginOpener | None) -> _LoadedArm:
    match = _read_match(table.pop("match", None)) or design.match
    require_last_left_out(table, design.base)
    merged = merge_tables(_expand_base(design), _expand_preset(table))
    table = without_left_out_stages(merged)
    run = load_run(table, open_begin=open_begin)
    require_usable(design, run)
    if match is not None and "depth" in match.moves and uses_mup(run.architecture):
        raise SpecError(
            "match.moves has depth with architecture.init 'mup', which transfers rates over width"
            " alone; move width or d_ff, or use another init"
        )
    if run.begin is not None and run.inherited_folders:
        raise SpecError(
            f"begin is a run that itself began from {run.begin.name!r}; name one of its checkpoints"
        )
    return _LoadedArm(table, run, match)


def begun_fields(run: RunSpec, begin: BeginFrom, numbers_stages: bool) -> Table:
    """Every field that somebody could write in a run that begins from a checkpoint: not what it
    takes over from there. One that begins from another run is the chain written out.
    """
    table = run_table(run, numbers_stages)
    if run.begin is None:
        return table
    architecture = table["architecture"]
    changeable = {name: architecture[name] for name in ("mask", "dropout", "max_length")}
    if architecture["encoder"] is not None:
        changeable["encoder"] = {"mask": architecture["encoder"]["mask"]}
    for stage in table.get("stages", {"0": table}).values():
        stage["corpus"].pop("tokenizer")
    return {**table, "begin": begin.name, "architecture": changeable}


def width_notes(design: Design) -> list[str]:
    """Which widths of presets stay as they are though arms change d_model, with the arms where
    not all do.
    """
    tables = arm_tables(design)
    arms_by_note: dict[str, list[str]] = {}
    for name, table in tables.items():
        run_table = merge_tables(_expand_base(design), _expand_preset(table))
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


def _expand_base(design: Design) -> Table:
    """The base, with the kinds that its training has by default: an arm that names one of them
    keeps what the base says of it.
    """
    table = _expand_preset(design.base)
    if isinstance(table.get("training"), Mapping):
        table["training"] = fill_default_kinds(table["training"], Training)
    return table


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
    text and training, nor the layers of an encoder that follow the main stack.

    `architecture_table` is the table of its architecture. Whether the base, an arm or a change
    wrote a field makes no difference.
    """
    table = run_table(run, numbers_stages)
    for name in derived_sizes(run.stages):
        if name not in architecture_table:
            del table["architecture"][name]
    own, written = table["architecture"]["encoder"], architecture_table.get("encoder") or {}
    if own is not None and "n_layers" not in written:
        del own["n_layers"]
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


def _require_answers(measure: OtherYardstick, run: RunSpec) -> None:
    objective = run.last.objective
    if isinstance(measure, ProbeYardstick):
        require_probeable(measure, run)
        return
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
        if measure.minus_parent:
            _require_parent(run)
    else:
        answering_component(objective, measure.label)


def _require_parent(run: RunSpec) -> None:
    """SpecError where there is no score of a parent to take off."""
    if run.parent is None:
        raise SpecError(
            "minus_parent is true, but the run has one stage, and so no parent; add a stage, or"
            " leave minus_parent out"
        )
    objective = run.parent.last.objective
    if isinstance(objective, TextLabels | WordTags):
        raise SpecError(
            f"minus_parent is true, but the stage before the last has the objective"
            f" {objective.kind!r}, and a head is not asked in words; leave minus_parent out"
        )


def run_table(run: RunSpec, numbers_stages: bool) -> Table:
    """Every field of a run, in the tables a person would write it in: its only stage, or stages by
    their number.
    """
    tables: Table = {}
    stages = list(run.stages)
    architecture = run.architecture
    if run.begin is not None:
        tables["begin"] = run.begin.label
        architecture = stage_architectures(run)[0]
        stages[0] = stages[0].model_copy(update={"architecture": ArchitectureChange()})
    tables["architecture"] = architecture.model_dump(mode="json")
    if numbers_stages:
        by_number = {str(number): _stage_table(stage) for number, stage in enumerate(stages)}
        return {**tables, "stages": by_number}
    tables |= _stage_fields(stages[0])
    if run.begin is None:
        tables.pop("kind", None)
    return tables


def _stage_table(stage: Stage) -> Table:
    """Every field of a stage; what it leaves as it was of the architecture is None."""
    table = _stage_fields(stage)
    changes = dict.fromkeys(ArchitectureChange.model_fields)
    return {**table, "architecture": {**changes, **table.get("architecture", {})}}


def _stage_fields(stage: Stage) -> Table:
    """Every field of a stage, with the kind of the optimizer, which records leave out where it is
    AdamW.
    """
    table = stage.model_dump(mode="json")
    kind = {"kind": stage.training.optimizer.kind}
    optimizer = {**kind, **table["training"]["optimizer"]}
    return {**table, "training": {**table["training"], "optimizer": optimizer}}


def arm_refusal(design: Design, table: Table, open_begin: BeginOpener | None = None) -> str | None:
    """Why a table describes no arm of a design; None if it does."""
    try:
        require_usable(design, load_run(table, open_begin=open_begin))
    except SpecError as fault:
        return fault.problems[0]
    return None

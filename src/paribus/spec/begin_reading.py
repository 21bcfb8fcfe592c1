"""A run that begins from another run or a checkpoint: what it takes over, and what it may write
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from paribus.errors import SpecError
from paribus.spec.architecture import Architecture
from paribus.spec.begin import Begin, BeginFrom
from paribus.spec.corpus import BPETokenizer, ByteTokenizer, TokenizerFile
from paribus.spec.merging import merge_tables
from paribus.spec.objectives import Objective
from paribus.spec.reading import describe_faults, merged_table, parse_architecture
from paribus.spec.stages import CHANGEABLE_FIELDS, ArchitectureChange, Stage, changed_fields

DERIVED_SIZES = ("n_vocab", "max_length")  # from text and training, where nobody writes them
LATER_KIND = "adapt"  # of a first stage that begins with weights, where nobody says
Tokenizer = ByteTokenizer | BPETokenizer | TokenizerFile


@dataclass(frozen=True)
class TrainedStage:
    """A stage that trained a checkpoint, as its record has it."""

    stage: Stage  # the last one as far as the checkpoint's step
    architecture: Architecture
    text: str  # the fingerprint of what it read
    n_planned_steps: int  # of the whole stage, over which its schedule goes


@dataclass(frozen=True)
class History:
    """What trained the weights that a run begins with, stage by stage, as far as records say."""

    stages: tuple[TrainedStage, ...] = ()
    # the sha256 of the weights before these stages, and why nothing more is known of them; nothing
    # came before where both are empty
    earliest: str = ""
    unknown: str = ""


@dataclass(frozen=True)
class BeginPoint:
    """What a run begins with, as whoever opens it finds it."""

    name: str
    architecture: Architecture  # of a run, that of its first stage
    last_architecture: Architecture
    tokenizer: Tokenizer
    objective: Objective | None  # None where nobody knows what it was trained to predict
    begin: Begin | None = None  # a checkpoint; of a run, the one that it began with, if any
    stages: tuple[Stage, ...] = ()  # of a run: they come first
    folders: tuple[str, ...] = ()  # the names of their folders
    rerun: int = 0
    open_history: Callable[[], History] = History


# by its name or folder; the weights must have the sha256, if there is one
BeginOpener = Callable[[BeginFrom], BeginPoint]


def take_begin(table: dict[str, Any], problems: list[str]) -> BeginFrom | None:
    """What a run's table says it begins from, beside its stages or in the first; it is taken out
    of the table.
    """
    values: dict[str, Any] = {}
    if "begin" in table:
        values["begin"] = table.pop("begin")
    stages = table.get("stages")
    if isinstance(stages, Mapping):
        own_stages: dict[str, Any] = {}
        for number, stage in stages.items():
            own_stages[number] = stage
            if isinstance(stage, Mapping) and "begin" in stage:
                own_stages[number] = {key: stage[key] for key in stage if key != "begin"}
                values[f"stages.{number}.begin"] = stage["begin"]
        table["stages"] = own_stages
    for path in values:
        if path not in ("begin", "stages.0.begin"):
            problems.append(
                f"{path} is {values[path]!r}, but a later stage begins from the stage before it;"
                " leave it out"
            )
    if len(values) > 1:
        problems.append(f"{' and '.join(values)} are both given; write one of them")
    if not values or problems:
        return None
    return _read_begin(*values.popitem(), problems)


def _read_begin(path: str, value: Any, problems: list[str]) -> BeginFrom | None:
    table = {"name": value} if isinstance(value, str) else value
    if not isinstance(table, Mapping):
        problems.append(
            f"{path} is {value!r}; name a run or the folder of a checkpoint, such as 'gpt2-small'"
        )
        return None
    try:
        return BeginFrom.model_validate(dict(table))
    except ValidationError as fault:
        faults = describe_faults(fault, dict(table), BeginFrom)
        problems.extend(f"{path}.{problem}" for problem in faults)
        return None


def with_begin_defaults(table: dict[str, Any], point: BeginPoint) -> dict[str, Any]:
    """A run's table with what follows from where it begins: its first stage adapts, and its
    objective is what the model was trained with, where nobody says otherwise.
    """
    result = dict(table)
    if point.objective is not None and "objective" not in result:
        objective = point.objective.model_dump(mode="json")
        stages = result.get("stages")
        if isinstance(stages, Mapping):
            result["stages"] = {
                number: _with_default(stage, "objective", objective)
                for number, stage in stages.items()
            }
        else:
            result["objective"] = objective
    stages = result.get("stages")
    if "stages" not in result:
        result.setdefault("kind", LATER_KIND)
    elif isinstance(stages, Mapping) and "0" in stages:
        first = _with_default(stages["0"], "kind", LATER_KIND)
        result["stages"] = {**stages, "0": first}
    return result


def _with_default(table: Any, key: str, value: Any) -> Any:
    if isinstance(table, Mapping):
        return {key: value, **table}
    return table


def begin_change(
    point: BeginPoint, table: Any, stage: Stage, problems: list[str]
) -> ArchitectureChange:
    """What a run that begins from `point` changes of the architecture there; what it writes under
    `architecture` must be that architecture but for what a stage may change.
    """
    if table is None:
        return stage.architecture
    before = point.last_architecture
    try:
        written = merge_tables(before.model_dump(mode="json"), _written_fields(table))
        after = parse_architecture(written)
    except SpecError as fault:
        problems.extend(f"architecture.{problem}" for problem in fault.problems)
        return stage.architecture
    problems.extend(_fixed_field_faults(point, before, after))
    change = changed_fields(before, after)
    if stage.architecture != ArchitectureChange() and change != ArchitectureChange():
        problems.append(
            "architecture and the architecture of the first stage both change what the run begins"
            f" with; write both under one of them, for {point.name!r} has the rest"
        )
        return stage.architecture
    if change == ArchitectureChange():
        return stage.architecture
    return change


def _written_fields(table: Any) -> dict[str, Any]:
    """The fields of an architecture as written, a preset laid open; not the sizes that follow from
    text and training where only a preset has them.
    """
    if not isinstance(table, Mapping):
        raise SpecError(
            f"is {table!r}, but the run has the architecture of what it begins from; leave it out,"
            f" or write a table with {CHANGEABLE_FIELDS}"
        )
    fields = merged_table(dict(table))
    for name in DERIVED_SIZES:
        if name not in table:
            fields.pop(name, None)
    return fields


def _fixed_field_faults(
    point: BeginPoint, before: Architecture, after: Architecture
) -> Iterator[str]:
    """Each field that differs though a stage cannot change it."""
    changed = changed_fields(before, after).model_dump(mode="json")
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    for name, value in new.items():
        expected = old.get(name)
        if name in changed:
            expected = changed[name]
        if name == "encoder" and isinstance(value, Mapping) and isinstance(expected, Mapping):
            expected = {**old["encoder"], **expected}
        if value != expected:
            yield (
                f"architecture.{name} is {value!r}, but the run begins from {point.name!r}, which"
                f" has {old.get(name)!r}; leave it out: only {CHANGEABLE_FIELDS} can change"
            )

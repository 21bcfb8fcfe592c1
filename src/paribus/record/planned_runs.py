"""Is the run of a cell the one that its plan asks for? Its address only says that it is what it
says itself.

A cell names an arm, a seed and a run. A run of another recipe, or one that begins from a stage of
another seed, would be measured as well as any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from paribus.record.address import without_places
from paribus.record.folder import read_stages
from paribus.record.plan_lock import table_differences
from paribus.record.study import CellRecord, Study

if TYPE_CHECKING:
    from paribus.record.plan import ArmRecord, PlanRecord  # pydantic is for those who read a plan

Table = Mapping[str, Any]
_SEEDS = ("seed", "data_seed")
_SCALED = ("n_steps", "warmup", "valid_every")  # of the last stage: a sweep may be shorter


def cell_faults(study: Study, plan: PlanRecord, cell: CellRecord) -> Iterator[str]:
    """In what the run of a cell is not that of its arm under its seed."""
    stages = read_stages(study.root / cell.run)
    planned = planned_stages(plan.arm_at(cell.arm, cell.size))
    if cell.purpose == "stage_sweep":  # which ends with an earlier stage
        planned = planned[: len(stages)]
    if cell.purpose != "variance":  # whose starts and orders are drawn one by one
        yield from _seed_faults(stages, cell)
    if len(stages) != len(planned):
        yield f"it has {_n_stages(stages)}, and arm {cell.arm!r} is planned with {len(planned)}"
        return
    for number, (own, other) in enumerate(zip_longest(stages, planned, fillvalue={})):
        is_last = number == len(stages) - 1
        difference = table_differences(_recipe(other, is_last), _recipe(own, is_last))
        if difference:
            yield f"stages.{number} is not that of arm {cell.arm!r}: {'; '.join(difference)}"
    yield from _last_training_faults(stages[-1], cell)


def planned_stages(record: ArmRecord) -> list[dict[str, Any]]:
    """The stages of an arm as a run of it would record them, but for seeds and rates."""
    run = record.run.table
    architecture = dict(run["architecture"])
    texts = [*record.earlier_texts, record.text]
    stages: list[dict[str, Any]] = []
    for stage, text in zip(run["stages"], texts, strict=True):
        changes = dict(stage.get("architecture", {}))
        if "encoder" in changes:
            changes["encoder"] = {**architecture["encoder"], **changes["encoder"]}
        architecture = _with_added_rows({**architecture, **changes}, stage)
        stages.append({**stage, "architecture": architecture, "text": text})
    if run.get("begin") is not None:
        stages[0]["begin"] = run["begin"]
    return stages


def _with_added_rows(architecture: dict[str, Any], stage: Table) -> dict[str, Any]:
    """An architecture with the rows that the special tokens of conversations add to an imported
    vocabulary.
    """
    special_tokens = stage["corpus"]["tokenizer"].get("special_tokens") or {}
    n_needed = max(special_tokens.values(), default=-1) + 1
    return {**architecture, "n_vocab": max(architecture["n_vocab"], n_needed)}


def _recipe(stage: Table, is_last: bool) -> dict[str, Any]:
    """What of a stage a plan decides: all but the seeds, the rate, which may be tuned, and of the
    last stage its length.
    """
    own = dict(without_places(stage))
    training = dict(own["training"])
    training["optimizer"] = {**training["optimizer"], "rate": None}
    for name in (*_SEEDS, *(_SCALED if is_last else ())):
        training.pop(name, None)
    own["training"] = training
    own.pop("rerun", None)
    return own


def _seed_faults(stages: Sequence[Table], cell: CellRecord) -> Iterator[str]:
    """Where a stage has another seed than the cell: a replicate is a whole chain."""
    orders = {stage["training"]["data_seed"] for stage in stages}
    for number, stage in enumerate(stages):
        seed = stage["training"]["seed"]
        if seed != cell.seed:
            yield f"stages.{number}.training.seed is {seed} in a run of seed {cell.seed}"
    if len(orders) > 1:
        yield f"its stages read their texts in orders of several seeds: {sorted(orders)}"


def _last_training_faults(stage: Table, cell: CellRecord) -> Iterator[str]:
    training = stage["training"]
    if training["n_steps"] != cell.n_steps:
        yield f"it has {training['n_steps']} steps, and its cell {cell.n_steps}"
    if training["optimizer"]["rate"] != cell.rate:
        yield f"it has the rate {training['optimizer']['rate']:g}, and its cell {cell.rate:g}"


def _n_stages(stages: Sequence[Table]) -> str:
    if len(stages) == 1:
        return "1 stage"
    return f"{len(stages)} stages"

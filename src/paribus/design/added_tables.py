"""What a table that only one of two arms has holds beside being there.

An encoder, or a stage more, is one factor as it comes by default. What it changes besides could
decide the comparison alone: an encoder whose mask hides most of its source, a stage with another
optimizer. Each such field counts by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from paribus.design.arms import Arm
from paribus.design.trials import differing_fields
from paribus.errors import SpecError
from paribus.masks import Nothing
from paribus.spec.architecture import Encoder
from paribus.spec.begin_reading import DERIVED_SIZES
from paribus.spec.design import Design, Table, control_arm
from paribus.spec.stages import stage_architectures
from paribus.spec.training import Training

ENCODER_PATH = "architecture.encoder"
STAGE_TABLE = re.compile(r"stages\.(\d+)")
# of a stage's training; its length, its batches and its text are its own
STAGE_RECIPE = ("optimizer", "schedule", "z_loss")


def added_factors(path: str, arm: Arm, other: Arm) -> tuple[str, ...]:
    """The fields of a table that only `arm` has, in which it departs from its defaults, and from
    what stands for them elsewhere in either arm; without learning rates.
    """
    stage = STAGE_TABLE.fullmatch(path)
    if path == ENCODER_PATH:
        fields = _encoder_fields(arm, other)
    elif stage is not None:
        fields = _stage_fields(arm, int(stage[1]))
    else:
        fields = ()
    return tuple([f"{path}.{field}" for field in fields])


def _encoder_fields(arm: Arm, other: Arm) -> Iterator[str]:
    """The other arm has a mask and positions of its own, which an encoder may have too; its layers
    are as many as those of the main stack where nobody writes them.
    """
    encoder = arm.run.architecture.encoder
    assert encoder is not None
    usual = Encoder(n_layers=arm.run.architecture.n_layers).model_dump(mode="json")
    table = encoder.model_dump(mode="json")
    elsewhere = other.run.architecture.model_dump(mode="json")
    counterparts = {"mask": elsewhere["mask"], "cross_positions": elsewhere["positions"]["kind"]}
    for name, value in table.items():
        if value != usual.get(name) and value != counterparts.get(name):
            yield name


def _stage_fields(arm: Arm, number: int) -> Iterator[str]:
    """A stage is compared with the one before it, or the first with the one after it."""
    neighbour = number - 1 if number else 1
    own, near = arm.run.stages[number], arm.run.stages[neighbour]
    architectures = [_without_sizes(one) for one in stage_architectures(arm.run)]
    fields, _ = differing_fields(architectures[neighbour], architectures[number])
    yield from [f"architecture.{path}" for path in fields]
    fields, _ = differing_fields(_recipe(near.training), _recipe(own.training))
    yield from [f"training.{path}" for path in fields]


def _recipe(training: Training) -> Table:
    table = training.model_dump(mode="json")
    table["optimizer"] = {"kind": training.optimizer.kind, **table["optimizer"]}
    return {name: table[name] for name in STAGE_RECIPE}


def _without_sizes(architecture: Any) -> Table:
    table = architecture.model_dump(mode="json")
    return {name: value for name, value in table.items() if name not in DERIVED_SIZES}


def require_seen_sources(design: Design, arms: Sequence[Arm]) -> None:
    """SpecError where an arm that is not the control cannot see its source."""
    problems = []
    for arm in arms:
        encoder = arm.run.architecture.encoder
        if encoder is None or encoder.cross != Nothing() or arm.name == control_arm(design):
            continue
        problems.append(
            f"arms.{arm.name}: architecture.encoder.cross is 'nothing', which hides the source, and"
            f' the arm is not the control; leave cross out, or write control = "{arm.name}"'
        )
    if problems:
        raise SpecError(problems)

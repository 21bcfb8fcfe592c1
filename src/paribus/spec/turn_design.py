"""A design of conversations: which architectures hold one, how long it is, and what is made equal
between them. Nothing of it is trained.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from paribus.errors import SpecError
from paribus.spec.arm_faults import ARM_NAME, MAX_ARMS
from paribus.spec.base import Count, Spec
from paribus.spec.conversation import Conversation, Custom
from paribus.spec.design_values import Question
from paribus.spec.match import Match
from paribus.spec.merging import (
    Table,
    in_setting_order,
    merge_tables,
    refuse_empty_table,
    require_plain_tables,
    set_at_path,
)
from paribus.spec.reading import describe_faults, read_table
from paribus.spec.scales import take_scales
from paribus.spec.spelling import word_advice


class TurnDesignArm(Spec):
    """One architecture of a design of conversations."""

    architecture: dict[str, Any] = Field(default_factory=dict)
    """What is laid over the `base`."""
    custom: Custom | None = None
    """How it holds a conversation. If left out: each way that it can."""


class TurnDesign(Spec):
    """A design of conversations, for `paribus turns --design`. Nothing of it is trained."""

    question: Question
    """What is asked."""
    n_turns: Count = 10
    """Number of turns."""
    n_user: Count = 64
    """Tokens that the user says in each turn."""
    n_answer: Count = 64
    """Tokens of each answer."""
    base: dict[str, Any]
    """The architecture that the arms are laid over; `max_length` is that of the conversation."""
    baseline: str
    """The arm that sizes and costs are compared with."""
    match: Match = Match(by="nothing")
    """What is made equal between the arms. FLOPs are those of the whole conversation."""
    arms: Annotated[dict[str, TurnDesignArm], Field(min_length=1)]
    """The architectures by name."""

    @property
    def conversation(self) -> Conversation:
        return Conversation(self.n_turns, self.n_user, self.n_answer)


def load_turn_design(
    source: str | Path | Mapping[str, Any],
    scale: str | None = None,
    changes: Mapping[str, Any] | None = None,
) -> TurnDesign:
    """A design of conversations from a TOML or JSON file or a mapping, at one of the scales it
    has, with changes by path.
    """
    if isinstance(source, Mapping):
        require_plain_tables(source, "the table")
        table = copy.deepcopy(dict(source))
    else:
        table = read_table(Path(source), "give a file that describes a design of conversations")
    table = _apply_scale(table, scale)
    for path in in_setting_order(changes or {}):
        set_at_path(table, path, (changes or {})[path])
    try:
        design = TurnDesign.model_validate(table)
    except ValidationError as fault:
        raise SpecError([*describe_faults(fault, table, TurnDesign)]) from None
    problems = list(_problems(design))
    if problems:
        raise SpecError(problems)
    return design


def _apply_scale(table: Table, scale: str | None) -> Table:
    """The scale's own table laid over the rest."""
    scales = take_scales(table)
    if scale is None:
        return table
    if scale not in scales:
        raise SpecError(f"scale is {scale!r}; this design has {', '.join(scales) or 'none'}")
    result = merge_tables(table, scales[scale])
    refuse_empty_table(result, scales[scale], f"scales.{scale}.")
    return result


def _problems(design: TurnDesign) -> Iterator[str]:
    if len(design.arms) > MAX_ARMS:
        yield f"arms has {len(design.arms):,} arms; use at most {MAX_ARMS}, or several designs"
        return
    for name in design.arms:
        if not ARM_NAME.fullmatch(name):
            yield (
                f"arms.{name} cannot be an arm's name; use up to 80 letters, digits, spaces, '.',"
                " '_', '+' or '-'"
            )
    if design.baseline not in design.arms:
        advice = word_advice(design.baseline, design.arms)
        yield (
            f"baseline is {design.baseline!r}, which is not an arm; {advice}arms are"
            f" {', '.join(design.arms)}"
        )
    if "max_length" in design.base:
        yield "base.max_length is given; leave it out, for it is the length of the conversation"

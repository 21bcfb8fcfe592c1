"""Stages of a base that an arm leaves out: `stages.1 = false`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paribus.errors import SpecError


def require_last_left_out(table: Mapping[str, Any], base: Mapping[str, Any]) -> None:
    """SpecError where an arm leaves out a stage that its base does not have, or one before
    others.
    """
    stages, of_base = table.get("stages"), base.get("stages")
    if not isinstance(stages, Mapping):
        return
    if not isinstance(of_base, Mapping):
        of_base = {}
    left_out = [number for number, stage in stages.items() if stage is False]
    for number in left_out:
        if number not in of_base:
            raise SpecError(
                f"stages.{number} is false, but the base has no such stage; leave this line out"
            )
    last_numbers = list(map(str, range(len(of_base) - len(left_out), len(of_base))))
    if left_out and (sorted(left_out) != sorted(last_numbers) or "0" in left_out):
        raise SpecError(
            f"stages.{left_out[0]} is false, but only the last stages can be left out, and the"
            " first is always there; leave this line out, or leave out those after it"
        )


def without_left_out_stages(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table of an arm laid over its base, without the stages that the arm leaves out."""
    stages = table.get("stages")
    if not isinstance(stages, Mapping):
        return dict(table)
    kept = {number: stage for number, stage in stages.items() if stage is not False}
    return {**table, "stages": kept}

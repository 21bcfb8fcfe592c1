"""Which transformers class answers as a spec does, and why none does."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from paribus.errors import ParibusError, UnsupportedError
from paribus.interop.config import sorted_keys
from paribus.interop.families import FAMILIES
from paribus.interop.family import Family
from paribus.interop.reading import CONFIG_FILE, architecture_of
from paribus.spec import Difference, Resolved, difference, resolve


class Fit(NamedTuple):
    """A family that computes a spec, the config that says so, and what is read from it again."""

    family: Family
    config: dict[str, Any]
    given: dict[str, Any]


class Misfit(NamedTuple):
    """A family that does not, and how far off it is: no such model at all, then parts of another kind, then values."""

    distance: tuple[bool, int, int]
    family: Family
    reasons: list[str]


def chosen(spec: Resolved) -> Fit:
    """How a spec is written; UnsupportedError says how the nearest family differs.

    A family fits if its config, written from the spec and read back, gives the same spec: so no field is overlooked.
    Only what no logit depends on may differ: start, dropout, balance loss and the rate of a selection bias.
    """
    misfits: list[Misfit] = []
    for family in FAMILIES.values():
        match _tried(spec, family):
            case Fit() as fit:
                return fit
            case misfit:
                misfits.append(misfit)
    nearest = min(misfits, key=lambda misfit: misfit.distance)
    raise UnsupportedError(
        f"no class of transformers computes this architecture; the nearest, {nearest.family.title} "
        f"({nearest.family.classname}), would give other answers: {'; '.join(nearest.reasons)}; "
        "change these, or keep the native checkpoint"
    )


def _tried(spec: Resolved, family: Family) -> Fit | Misfit:
    try:
        config = {"model_type": family.model_type, **family.config(spec)}
        given, _ = sorted_keys(config, family.tables, Path(CONFIG_FILE))
        theirs = resolve(architecture_of(family, given, spec.head.tied, Path(CONFIG_FILE)))
    except ParibusError as fault:
        return Misfit((True, 0, 0), family, [str(fault)])
    differences = [found for found in difference(spec, theirs) if not _without_effect(found)]
    parts = sum(isinstance(found.left, dict) or isinstance(found.right, dict) for found in differences)
    reasons = [*family.problems(given), *(_reason(found, family) for found in differences)]
    return Misfit((False, parts, len(reasons)), family, reasons) if reasons else Fit(family, config, given)


def _reason(found: Difference, family: Family) -> str:
    return f"{found.path} is {_brief(found.left)}, {family.title} has {_brief(found.right)}"


def _without_effect(found: Difference) -> bool:
    if found.path.endswith(".bias_rate"):
        return found.left is not None and found.right is not None
    return found.path == "dropout" or found.path.split(".")[0] == "start" or ".balance" in found.path


def _brief(value: Any) -> str:
    """A value, or of a part of a spec its kind alone."""
    if isinstance(value, dict):
        return repr(value["kind"]) if "kind" in value else "given"
    return "none" if value is None else repr(value)

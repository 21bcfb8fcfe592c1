"""Which transformers class answers as a spec does, and why none does."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from paribus.errors import ParibusError, UnsupportedError
from paribus.interop.config_keys import split_config
from paribus.interop.family import ModelFamily
from paribus.interop.importing import CONFIG_FILE, architecture_from_config
from paribus.interop.registry import FAMILIES
from paribus.spec import Difference, ResolvedArchitecture, difference, resolve


class Fit(NamedTuple):
    """A family that computes a spec, the config that says so, and what is read from it again."""

    family: ModelFamily
    config: dict[str, Any]
    filled_config: dict[str, Any]


class Misfit(NamedTuple):
    """A family that does not, and how far off it is: no such model at all, then parts of
    another kind, then values.
    """

    distance: tuple[bool, int, int]
    family: ModelFamily
    reasons: list[str]


def choose_family(spec: ResolvedArchitecture) -> Fit:
    """How a spec is written; UnsupportedError says how the nearest family differs.

    A family fits if its config, written from the spec and read back, gives the same spec: so no
    field is overlooked. Only what no logit depends on may differ: init, dropout, balance loss and
    the rate of a selection bias.
    """
    misfits: list[Misfit] = []
    for family in FAMILIES.values():
        match _try_family(spec, family):
            case Fit() as fit:
                return fit
            case misfit:
                misfits.append(misfit)
    nearest = min(misfits, key=lambda misfit: misfit.distance)
    raise UnsupportedError(
        f"no class of transformers computes this architecture; the nearest, {nearest.family.title} "
        f"({nearest.family.class_name}), would give other answers: {'; '.join(nearest.reasons)}; "
        "change these, or keep the native checkpoint"
    )


def _try_family(spec: ResolvedArchitecture, family: ModelFamily) -> Fit | Misfit:
    try:
        config = {"model_type": family.model_type, **family.config(spec)}
        filled_config, _ = split_config(config, family.config_keys, Path(CONFIG_FILE))
        theirs = resolve(
            architecture_from_config(family, filled_config, spec.head.tied, Path(CONFIG_FILE))
        )
    except ParibusError as fault:
        return Misfit((True, 0, 0), family, [str(fault)])
    mismatches = [mismatch for mismatch in difference(spec, theirs) if not _has_no_effect(mismatch)]
    parts = sum(
        isinstance(mismatch.left, dict) or isinstance(mismatch.right, dict)
        for mismatch in mismatches
    )
    reasons = [
        *family.problems(filled_config),
        *(_reason(mismatch, family) for mismatch in mismatches),
    ]
    if reasons:
        return Misfit((False, parts, len(reasons)), family, reasons)
    return Fit(family, config, filled_config)


def _reason(one: Difference, family: ModelFamily) -> str:
    return (
        f"{one.path} is {_describe_value(one.left)}, {family.title} has"
        f" {_describe_value(one.right)}"
    )


def _has_no_effect(one: Difference) -> bool:
    if one.path.endswith(".bias_rate"):
        return one.left is not None and one.right is not None
    return one.path == "dropout" or one.path.split(".")[0] == "init" or ".balance" in one.path


def _describe_value(value: Any) -> str:
    """A value, or of a part of a spec its kind alone."""
    if isinstance(value, dict):
        if "kind" in value:
            return repr(value["kind"])
        return "given"
    if value is None:
        return "none"
    return repr(value)

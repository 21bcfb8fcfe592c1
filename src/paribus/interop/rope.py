"""Rotary positions in a config: `rope_parameters`, or the older `rope_theta` and `rope_scaling`."""

from typing import Any

from paribus.errors import UnsupportedError
from paribus.interop.config_keys import Config, ModelledKey, as_float
from paribus.spec import ResolvedArchitecture, RotaryPositions

ROPE_KEYS = {
    "rope_parameters": ModelledKey(dict, None, nullable=True),
    "rope_theta": ModelledKey(float, None),  # transformers refuses null
    "rope_scaling": ModelledKey(dict, None, nullable=True),
}


def read_theta(config: Config, default: float) -> float:
    """The theta that transformers reads; UnsupportedError where another is named too, or
    positions are scaled.

    transformers takes `rope_scaling` in place of `rope_parameters` where it holds anything, and
    `rope_theta` or its default only where that one table names no theta.
    """
    inside = {
        name: _table_theta(name, config[name] or {}) for name in ("rope_parameters", "rope_scaling")
    }
    of_table = inside["rope_scaling" if config["rope_scaling"] else "rope_parameters"]
    beside: float = default if config["rope_theta"] is None else config["rope_theta"]
    theta = beside if of_table is None else of_table
    for name, other in {"rope_theta": config["rope_theta"], **inside}.items():
        if other not in (None, theta):
            raise UnsupportedError(_describe_two_thetas(config, name, other, theta))
    return theta


def _table_theta(name: str, table: dict[str, Any]) -> float | None:
    """The theta a table names, if any; UnsupportedError for anything but plain rotary positions."""
    others = {
        key: value for key, value in table.items() if key not in ("rope_type", "type", "rope_theta")
    }
    kinds = [table.get(word, "default") for word in ("rope_type", "type")]
    if kinds != ["default", "default"] or (others and others != {"partial_rotary_factor": 1.0}):
        raise UnsupportedError(
            f"{name} is {table}, but scaled, partial or nested rotary positions are not "
            "modelled; use rope_type 'default' with a rope_theta alone"
        )
    theta = table.get("rope_theta", 1.0)
    if isinstance(theta, bool) or not isinstance(theta, int | float):
        raise UnsupportedError(f"{name}.rope_theta is {theta!r}; give a number, or leave it out")
    if "rope_theta" in table:
        return as_float(theta)
    return None


def _describe_two_thetas(config: Config, name: str, other: float, theta: float) -> str:
    if name == "rope_parameters" and config["rope_scaling"]:
        return (
            f"rope_scaling is {config['rope_scaling']}, beside which transformers does not read"
            f" rope_parameters: rope_theta would be {theta}, not {other}; take out rope_scaling"
        )
    low, high = sorted((other, theta))
    return f"rope_theta is both {low} and {high}; give one"


def rope_config(spec: ResolvedArchitecture) -> dict[str, Any]:
    """Both spellings: an older transformers would take its default theta if it found only the
    newer one.
    """
    positions = spec.stack.positions
    if isinstance(positions, RotaryPositions):
        theta = positions.theta
    else:
        theta = 10000.0
    return {"rope_parameters": {"rope_theta": theta, "rope_type": "default"}, "rope_theta": theta}

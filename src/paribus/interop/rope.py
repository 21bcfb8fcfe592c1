"""Rotary positions in a config: `rope_parameters`, or the older `rope_theta` and `rope_scaling`."""

from typing import Any

from paribus.errors import UnsupportedError
from paribus.interop.config import Config, Obeyed
from paribus.spec import Resolved, Rotary

ROPE = {
    "rope_parameters": Obeyed(dict, None),
    "rope_theta": Obeyed(float, None),
    "rope_scaling": Obeyed(dict, None),
}


def theta_of(given: Config, default: float) -> float:
    """The one theta a config names; UnsupportedError for rotary positions that are scaled or partial."""
    thetas = {given["rope_theta"]}
    for name in ("rope_parameters", "rope_scaling"):
        table = dict(given[name] or {})
        kinds = {table.pop(word, "default") for word in ("rope_type", "type")}
        thetas.add(table.pop("rope_theta", None))
        if kinds != {"default"} or (table and table != {"partial_rotary_factor": 1.0}):
            raise UnsupportedError(
                f"{name} is {given[name]}, but scaled, partial or nested rotary positions are not "
                "modelled; use rope_type 'default' with a rope_theta alone"
            )
    named = sorted(theta for theta in thetas if theta is not None)
    if len(named) > 1:
        raise UnsupportedError(f"rope_theta is both {named[0]} and {named[1]}; give one")
    return float(named[0]) if named else default


def written(spec: Resolved) -> dict[str, Any]:
    """Both spellings: an older transformers would take its default theta if it found only the newer one."""
    positions = spec.stack.positions
    theta = positions.theta if isinstance(positions, Rotary) else 10000.0
    return {"rope_parameters": {"rope_theta": theta, "rope_type": "default"}, "rope_theta": theta}

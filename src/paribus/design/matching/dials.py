"""What may move in an architecture so that it meets a size: whole numbers, and what each sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import gcd
from typing import Any

from paribus.errors import SpecError
from paribus.spec import Architecture, Dense, Experts, MultiHead, load, resolve
from paribus.spec.base import MAX_SIZE
from paribus.spec.match import Move

ArchitectureChanges = dict[str, int]
MAX_LAYERS = 4096  # layers of a stack


@dataclass(frozen=True)
class Dial:
    """One move of one architecture: where it stands, how far it goes, what a setting changes;
    larger is more.
    """

    current: int
    maximum: int
    changes_for: Callable[[int], ArchitectureChanges]


def make_dial(architecture: Architecture, move: Move) -> Dial:
    """The dial of a move; each setting keeps the proportions that the architecture was written
    with.
    """
    match move:
        case "depth":
            return _depth_dial(architecture)
        case "width":
            return _width_dial(architecture)
        case "d_ff":
            return _d_ff_dial(architecture)


def try_changes(architecture: Architecture, changes: ArchitectureChanges) -> Architecture | None:
    """The architecture with these changes; None where that is no legal one."""
    try:
        return load(architecture.model_dump(), changes=changes)
    except SpecError:
        return None


def _depth_dial(spec: Architecture) -> Dial:
    """Layers of both stacks in their ratio: 12+12 goes to k+k, 6+12 to k+2k."""
    parts = {"n_layers": spec.n_layers}
    if spec.encoder is not None:
        parts["encoder.n_layers"] = spec.encoder.n_layers
    unit = gcd(*parts.values())
    most = MAX_LAYERS * unit // max(parts.values())
    return Dial(unit, most, partial(_in_ratio, parts, unit))


def _width_dial(spec: Architecture) -> Dial:
    """d_model and heads in their ratio at the same head size, and with them the key/value heads
    and written widths.

    One key/value head for several is multi-query attention, and stays one.
    """
    attention = spec.attention
    if isinstance(attention, MultiHead):
        n_kv_heads = attention.n_kv_heads
    else:
        n_kv_heads = None
    parts = {"d_model": spec.d_model, "attention.n_heads": attention.n_heads}
    if n_kv_heads is not None and (n_kv_heads > 1 or attention.n_heads == 1):
        parts["attention.n_kv_heads"] = n_kv_heads
    unit = gcd(*parts.values())
    follow = _written_widths(spec)

    def changes(k: int) -> ArchitectureChanges:
        return _in_ratio(parts, unit, k) | _near_ratio(follow, unit, k)

    return Dial(unit, MAX_SIZE * unit // spec.d_model, changes)


def _written_widths(spec: Architecture) -> ArchitectureChanges:
    feed_forward, widths = spec.feed_forward, {}
    if feed_forward.d_ff is not None:
        widths["feed_forward.d_ff"] = feed_forward.d_ff
    if isinstance(feed_forward, Experts) and feed_forward.d_expert is not None:
        widths["feed_forward.d_expert"] = feed_forward.d_expert
    return widths


def _d_ff_dial(spec: Architecture) -> Dial:
    """The feed-forward width; of experts theirs, and in its ratio that of the dense layers
    among them.
    """
    widths = _feed_forward_widths(spec)
    at = widths.get("feed_forward.d_expert") or widths["feed_forward.d_ff"]
    return Dial(at, MAX_SIZE, partial(_near_ratio, widths, at))


def _feed_forward_widths(spec: Architecture) -> ArchitectureChanges:
    """Every feed-forward width that some layer has, by the path that sets it."""
    widths: ArchitectureChanges = {}
    for stack in resolve(spec).stacks:
        for block in stack.layers:
            path, width = _feed_forward_width(block.feed_forward)
            assert width, "a resolved block knows its width"
            widths[path] = width
    return widths


def _feed_forward_width(feed_forward: Dense | Experts) -> tuple[str, int | None]:
    """The width of a layer, after the path that sets it."""
    if isinstance(feed_forward, Dense):
        return "feed_forward.d_ff", feed_forward.d_ff
    return "feed_forward.d_expert", feed_forward.d_expert


def _in_ratio(sizes: ArchitectureChanges, unit: int, k: int) -> ArchitectureChanges:
    """Sizes that a unit divides, where k stands for it."""
    return {path: k * (size // unit) for path, size in sizes.items()}


def _near_ratio(sizes: ArchitectureChanges, unit: int, k: int) -> ArchitectureChanges:
    """Sizes where k stands for a unit, each as near as whole numbers come."""
    return {path: _round_ratio(size * k, unit) for path, size in sizes.items()}


def _round_ratio(numerator: int, denominator: int) -> int:
    """The nearest whole number from 1 up, halves upward."""
    return max(1, (2 * numerator + denominator) // (2 * denominator))


MOVABLE_PATHS = (
    "n_layers",
    "encoder.n_layers",
    "d_model",
    "attention.n_heads",
    "attention.n_kv_heads",
    "feed_forward.d_ff",
    "feed_forward.d_expert",
)


def moved_fields(before: Architecture, after: Architecture) -> dict[str, tuple[Any, Any]]:
    """Path → (from, to) of what moved; a width that was not written has moved from what it was
    resolved to.
    """
    widths, moves = _feed_forward_widths(before), {}
    for path in MOVABLE_PATHS:
        old, new = _field_value(before, path), _field_value(after, path)
        if old != new:
            moves[path] = (widths.get(path) if old is None else old, new)
    return moves


def _field_value(spec: Architecture, path: str) -> Any:
    here: Any = spec.model_dump()
    for name in path.split("."):
        here = here.get(name) if isinstance(here, dict) else None
    return here

"""The name of a run: a fingerprint of its chain of stages."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from paribus.errors import RecordError

Stage = Mapping[str, Any]


def address(stages: Sequence[Stage]) -> str:
    """The sha256 of the last stage and of its parent's address.

        address(s₁ … sₙ) = sha256(canonical {parent: address(s₁ … sₙ₋₁), stage: sₙ}),    address of no stage: null

    Runs that share their first stages share the addresses `address(stages[:1])`, `address(stages[:2])`, …
    """
    assert stages, "a chain has at least one stage"
    parent = address(stages[:-1]) if len(stages) > 1 else None
    return hashlib.sha256(canonical({"parent": parent, "stage": dict(stages[-1])}).encode()).hexdigest()


def canonical(value: Any) -> str:
    """JSON with keys in order and no spaces: equal for equal values, whatever the order they were written in."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as fault:
        raise RecordError(
            f"a stage cannot be written as JSON: {fault}; give finite numbers, text, lists and tables"
        ) from fault

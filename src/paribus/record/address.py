"""The name of a run: a fingerprint of its chain of stages."""

from collections.abc import Mapping, Sequence
from typing import Any

from paribus.canonical import canonical_hash

Stage = Mapping[str, Any]


def address(stages: Sequence[Stage]) -> str:
    """The sha256 of the last stage and of its parent's address.

        address(s₁ … sₙ) = sha256(canonical {parent: address(s₁ … sₙ₋₁), stage: sₙ}),    address of no stage: null

    Runs that share their first stages share the addresses `address(stages[:1])`, `address(stages[:2])`, …
    """
    assert stages, "a chain has at least one stage"
    parent = address(stages[:-1]) if len(stages) > 1 else None
    return canonical_hash({"parent": parent, "stage": dict(stages[-1])})

"""One way to write a value as text, and one hash of it: what addresses, fingerprints and file
names are made of.
"""

import hashlib
import json
from typing import Any

from paribus.errors import RecordError

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_json(value: Any) -> str:
    """JSON with keys in order and no spaces: equal for equal values, whatever the order they
    were written in.
    """
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError) as fault:
        raise RecordError(
            f"a stage cannot be written as JSON: {fault}; give finite numbers, text, lists and"
            " tables"
        ) from fault


def canonical_hash(value: Any) -> str:
    """The sha256 of a value's canonical JSON, in hex digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()

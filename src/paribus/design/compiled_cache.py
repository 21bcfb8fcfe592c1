"""Where workers keep what they compile, so that later workers and calls need not compile it
again.

It changes no number: compiled code is found by a hash of what it was compiled from.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

COMPILED = "compiled"  # a folder of the cache
INDUCTOR_VARIABLE, TRITON_VARIABLE = "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"
_FOLDERS = {INDUCTOR_VARIABLE: "inductor", TRITON_VARIABLE: "triton"}


def compiled_folders(cache: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """What workers need in their environment to share what they compile; a folder that the user
    has set stays.
    """
    variables: dict[str, str] = {}
    for variable, name in _FOLDERS.items():
        if not environment.get(variable):
            variables[variable] = str(cache.absolute() / COMPILED / name)
    return variables

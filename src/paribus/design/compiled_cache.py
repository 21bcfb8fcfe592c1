"""Where workers keep what they compile, so that later workers and calls need not compile it
again; and how many threads compile in each.

It changes no number: compiled code is found by a hash of what it was compiled from.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from paribus.train.compile_turns import COMPILED_FOLDER_VARIABLE

COMPILED = "compiled"  # a folder of the cache
TRITON_VARIABLE = "TRITON_CACHE_DIR"
THREADS_VARIABLE = "TORCHINDUCTOR_COMPILE_THREADS"
_FOLDERS = {COMPILED_FOLDER_VARIABLE: "inductor", TRITON_VARIABLE: "triton"}


def compile_variables(cache: Path, n_jobs: int, environment: Mapping[str, str]) -> dict[str, str]:
    """What workers need in their environment to share what they compile, and the cores too; what
    the user has set stays.
    """
    variables = {THREADS_VARIABLE: str(max(1, (os.cpu_count() or 1) // n_jobs))}
    for variable, name in _FOLDERS.items():
        variables[variable] = str(cache.absolute() / COMPILED / name)
    return {name: value for name, value in variables.items() if not environment.get(name)}

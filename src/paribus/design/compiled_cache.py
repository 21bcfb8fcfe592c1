"""Where workers keep what they compile, so that later workers and calls need not compile it
again; and how many threads compile in each.

It changes no number: compiled code is found by a hash of what it was compiled from.
"""

from __future__ import annotations

import fcntl
import getpass
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from paribus.train.compile_turns import COMPILED_FOLDER_VARIABLE

COMPILED = "compiled"  # a folder of the cache
TRITON_VARIABLE = "TRITON_CACHE_DIR"
THREADS_VARIABLE = "TORCHINDUCTOR_COMPILE_THREADS"
_FOLDERS = {COMPILED_FOLDER_VARIABLE: "inductor", TRITON_VARIABLE: "triton"}
_NAMES = (THREADS_VARIABLE, *_FOLDERS)


def compile_variables(
    cache: Path, n_threads: int, environment: Mapping[str, str]
) -> dict[str, str]:
    """What workers need in their environment to share what they compile, and the cores too; what
    the user has set stays.
    """
    variables = {THREADS_VARIABLE: str(n_threads), **_folders(cache)}
    own = _user_variables(environment)
    return {name: value for name, value in variables.items() if name not in own}


def compile_threads(n_cpus: int, n_places: int) -> int:
    """How many threads compile in each of the workers that share a machine."""
    return max(1, n_cpus // max(1, n_places))


@dataclass(frozen=True)
class CompileSettings:
    """How a worker on a node shares what it compiles with others; it goes there as JSON."""

    cache: str  # the driver's, which a node may not see or may not write to
    n_threads: int
    user_variables: Mapping[str, str]  # what the user has set for the driver

    @staticmethod
    def of(cache: Path, n_threads: int, environment: Mapping[str, str]) -> CompileSettings:
        return CompileSettings(str(cache.absolute()), n_threads, _user_variables(environment))

    @property
    def table(self) -> dict[str, Any]:
        return asdict(self)

    def node_variables(self, environment: Mapping[str, str]) -> dict[str, str]:
        """What the environment of a worker needs on this node. What is set on the node stays,
        then what is set for the driver. A folder that cannot be shared here is left out.
        """
        variables = compile_variables(Path(self.cache), self.n_threads, environment)
        for name in list(variables):
            if name in self.user_variables:
                variables[name] = self.user_variables[name]
            elif name in _FOLDERS and not self._is_shared(Path(variables[name])):
                del variables[name]
        return variables

    def _is_shared(self, folder: Path) -> bool:
        """Can files be made and locked in a folder of the cache, as compilers do?"""
        if not Path(self.cache).is_dir():
            return False
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


def _folders(cache: Path) -> dict[str, str]:
    return {name: str(cache.absolute() / COMPILED / folder) for name, folder in _FOLDERS.items()}


def _user_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """What the user has set. A process that has compiled sets its folders itself, and the
    processes it starts inherit them: those are nobody's choice.
    """
    chosen = {name: environment[name] for name in _NAMES if environment.get(name)}
    compiled, triton = chosen.get(COMPILED_FOLDER_VARIABLE), chosen.get(TRITON_VARIABLE)
    if compiled and Path(compiled) == _torch_folder():
        del chosen[COMPILED_FOLDER_VARIABLE]
    # torch gives each device a folder of its own beside what it compiles
    if compiled and triton and Path(triton).parent == Path(compiled) / "triton":
        del chosen[TRITON_VARIABLE]
    return chosen


def _torch_folder() -> Path:
    """Where torch keeps what it compiles if nobody says where. It is worked out here: to ask torch
    is to import its compiler, which takes seconds.
    """
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        user = f"uid_{os.getuid()}"
    user = re.sub(r'[\\/:*?"<>|]', "_", user)
    return Path(tempfile.gettempdir()).absolute() / f"torchinductor_{user}"

"""NVIDIA's Multi-Process Service (MPS): kernels of several processes run side by side on one GPU,
which otherwise takes turns between them.

It changes no number. A daemon of our own is started for the workers of a study and stopped with
them; one that runs already is used as it is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

CONTROL = "nvidia-cuda-mps-control"
PIPE_VARIABLE, LOG_VARIABLE = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
USUAL_PIPES = Path("/tmp/nvidia-mps")  # where a daemon listens unless told otherwise
PATIENCE = 30  # seconds for the daemon to start, and to stop


@contextmanager
def shared_gpu() -> Iterator[dict[str, str]]:
    """What processes need in their environment to share a GPU; nothing where a daemon runs
    already, where none is installed, or where it does not start.
    """
    control = shutil.which(CONTROL)
    if control is None or runs_already(control):
        yield {}
        return
    with TemporaryDirectory(prefix="paribus-mps-") as folder:
        variables = {PIPE_VARIABLE: f"{folder}/pipes", LOG_VARIABLE: f"{folder}/logs"}
        for path in variables.values():
            Path(path).mkdir()
        if not _control(control, ["-d"], "", variables):
            yield {}
            return
        try:
            yield variables
        finally:
            _control(control, [], "quit\n", variables)


def runs_already(control: str) -> bool:
    """Whether somebody else has started a daemon that our processes would find, and it answers:
    one that was killed leaves its pipe behind.
    """
    pipes = Path(os.environ.get(PIPE_VARIABLE) or USUAL_PIPES)
    return (pipes / "control").exists() and _control(control, [], "get_server_list\n", {})


def _control(
    control: str, arguments: list[str], command: str, variables: Mapping[str, str]
) -> bool:
    """Whether the daemon did as it was told."""
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [control, *arguments],
            input=command,
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **variables},
            timeout=PATIENCE,
            check=False,
        )
        return done.returncode == 0
    return False

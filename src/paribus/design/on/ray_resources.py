"""What a run takes of a node of a Ray cluster, and the environment of its process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from paribus.design.compiled_cache import compile_threads
from paribus.errors import UnsupportedError
from paribus.runtime import CUBLAS_WORKSPACE_VARIABLE

_VARIABLES = ("OMP_NUM_THREADS", "ATEN_CPU_CAPABILITY", CUBLAS_WORKSPACE_VARIABLE)


@dataclass(frozen=True)
class RunResources:
    """What a run takes of a node."""

    n_cpus: int
    gpu_share: float

    def __str__(self) -> str:
        if self.gpu_share:
            return f"{self.n_cpus} CPU and {self.gpu_share:.3g} of a GPU"
        return f"one CPU for each of its threads, {self.n_cpus} in all"

    def n_places(self, node: Mapping[str, Any], n_jobs: int) -> int:
        """How many runs a node, as Ray describes it, has room for."""
        total = node["Resources"]
        places = int(total.get("CPU", 0) // self.n_cpus)
        if self.gpu_share == 0:
            return min(places, n_jobs)
        return min(places, int(total.get("GPU", 0)) * n_jobs)

    def n_compile_threads(self, node: Mapping[str, Any], n_jobs: int) -> int:
        """How many threads compile in each worker of a node: its runs share its CPUs."""
        n_cpus = int(node["Resources"].get("CPU", 0))
        return compile_threads(n_cpus, self.n_places(node, n_jobs))


def describe_resources(resources: Mapping[str, float]) -> str:
    """CPUs and GPUs as Ray counts them; it leaves out what there is none of."""
    words = f"{resources.get('CPU', 0):.3g} CPU"
    if "GPU" in resources:
        words += f" and {resources['GPU']:.3g} GPU"
    return words


def run_resources(device: torch.device, n_jobs: int) -> RunResources:
    """What each of `n_jobs` runs takes: on a CPU as many as it has threads, on CUDA a share of a
    GPU.
    """
    if device.type == "cuda":
        return RunResources(1, 1 / n_jobs)
    if device.type == "cpu":
        return RunResources(1 if n_jobs > 1 else torch.get_num_threads(), 0)
    raise UnsupportedError(f"--on ray cannot share out the device {device.type}; use cpu or cuda")


def worker_variables(n_jobs: int) -> dict[str, str | None]:
    """What the environment of a worker has whatever Ray says: what it would have here."""
    variables = {name: os.environ.get(name) for name in _VARIABLES}
    if n_jobs > 1:
        variables["OMP_NUM_THREADS"] = "1"
    return variables

"""What this machine is: processor, memory, accelerators, disk and versions."""

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter

import torch

from paribus import __version__
from paribus.report.numbers import format_size
from paribus.runtime import best_device

_PROCESSOR_COMMANDS = (("lscpu",), ("sysctl", "machdep.cpu.brand_string"))
_LIBRARIES = ("torch", "numpy", "safetensors", "transformers")
_REPEATS = 4
_MATMUL_SIDES = {
    "cpu": 256,
    "cuda": 4096,
    "mps": 1024,
}  # of the matrix product that is timed, large enough to fill each


@dataclass(frozen=True)
class Machine:
    """What this machine is; `bf16_speed` is relative to float32 on the same device."""

    processor: str
    n_cores: int
    n_threads: int
    memory_bytes: int
    accelerators: tuple[str, ...]
    device: str  # where work runs by default
    bf16_speed: float
    folder: str
    disk_free_bytes: int
    versions: dict[str, str]


def inspect_machine(folder: Path) -> Machine:
    """This machine, and the disk that `folder` is on."""
    device = best_device()
    return Machine(
        processor=_processor(),
        n_cores=os.cpu_count() or 1,
        n_threads=torch.get_num_threads(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        accelerators=_accelerators(),
        device=device.type,
        bf16_speed=_matmul_seconds(torch.float32, device) / _matmul_seconds(torch.bfloat16, device),
        folder=str(folder),
        disk_free_bytes=shutil.disk_usage(folder).free,
        versions={"paribus": __version__, "python": platform.python_version(), **_versions()},
    )


def _processor() -> str:
    for command in _PROCESSOR_COMMANDS:
        if shutil.which(command[0]) is None:
            continue
        answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        for line in answer.splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("Model name", "machdep.cpu.brand_string"):
                return f"{value.strip()} ({platform.machine()})"
    return platform.processor() or platform.machine()


def _accelerators() -> tuple[str, ...]:
    names = []
    for number in range(torch.cuda.device_count()):
        card = torch.cuda.get_device_properties(number)
        names.append(f"cuda:{number} {card.name}, {format_size(card.total_memory)}")
    if torch.backends.mps.is_available():
        return (*names, "mps")
    return tuple(names)


def _versions() -> dict[str, str]:
    versions = {}
    for library in _LIBRARIES:
        try:
            versions[library] = version(library)
        except PackageNotFoundError:
            versions[library] = "not installed"
    return versions


def _matmul_seconds(dtype: torch.dtype, device: torch.device) -> float:
    """The best time of one matrix product."""
    side = _MATMUL_SIDES[device.type]
    matrix = torch.ones(side, side, dtype=dtype, device=device)
    times = []
    for _ in range(_REPEATS):
        begin = perf_counter()
        (matrix @ matrix)[0, 0].item()  # item waits for the device
        times.append(perf_counter() - begin)
    return min(times)

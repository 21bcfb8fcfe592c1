"""What besides its spec decides a run's numbers: machine, libraries, threads and the code
itself.
"""

import hashlib
import os
import platform
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from paribus.errors import RecordError
from paribus.record.syntax import syntax_digest

Environment = dict[str, Any]
EnvironmentChanges = dict[str, tuple[Any, Any]]  # name → (then, now)

NUMERIC_SOURCES = (
    "batch.py",
    "vocabulary.py",
    "corpus",
    "evaluate",
    "masks",
    "model",
    "objectives",
    "runtime.py",
    "spec",
    "train",
)
_VARIABLES = ("OMP_NUM_THREADS", "ATEN_CPU_CAPABILITY")
_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"  # of CUDA: it decides in which order a product sums
_CPUINFO = Path("/proc/cpuinfo")
_VECTOR_FLAGS = ("avx", "fma", "amx", "asimd", "sve", "sme", "bf16", "i8mm", "fphp")


def current_environment(n_threads: int, device: str, cudnn: int | None = None) -> Environment:
    """This machine and this code; threads, device kind and the version of cuDNN are the
    caller's to say.
    """
    cpuinfo = _CPUINFO.read_text() if _CPUINFO.exists() else ""
    workspace = os.environ.get(_WORKSPACE) if "cuda" in device else None
    return {
        "python": platform.python_version(),
        "torch": _version("torch"),
        "numpy": _version("numpy"),
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": processor_name(cpuinfo) or platform.processor(),
        "cpu_capability": cpu_capability(cpuinfo),
        "n_threads": n_threads,
        "device": device,
        "cudnn": cudnn,
        _WORKSPACE.lower(): workspace,
        **{name.lower(): os.environ.get(name) for name in _VARIABLES},
        "code": _own_code_hash(),
    }


def environment_differences(
    before: Mapping[str, Any], now: Mapping[str, Any]
) -> EnvironmentChanges:
    """What is not the same, as (then, now); None where one of them says nothing."""
    changes: EnvironmentChanges = {}
    for name in dict.fromkeys((*before, *now)):
        if before.get(name) != now.get(name):
            changes[name] = (before.get(name), now.get(name))
    return changes


def require_same_environment(
    before: Mapping[str, Any], now: Mapping[str, Any], accept: bool, where: Path
) -> EnvironmentChanges:
    """The differences, if they are accepted; RecordError names every one if they are not."""
    changes = environment_differences(before, now)
    if changes and not accept:
        descriptions = [f"{name} was {then}, is {new}" for name, (then, new) in changes.items()]
        raise RecordError(
            f"{where} was made under another environment: {'; '.join(descriptions)}; "
            f"resume under the former one, or give --accept-environment, which marks the rows"
        )
    return changes


@lru_cache(maxsize=1)
def _own_code_hash() -> str:
    """Of the package as this process began to use it."""
    return code_hash(Path(__file__).parent.parent)


def code_hash(package: Path) -> str:
    """A hash of the code that touches numbers: of every file's syntax tree, whatever the file
    is called.

    Comments, docstrings and layout may change, and code may move to another file; names and values
    may not.
    """
    digests = sorted(syntax_digest(path.read_bytes()) for path in _sources(package))
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def processor_name(cpuinfo: str) -> str:
    """The model's name, or on ARM its numbers for maker and part, in /proc/cpuinfo."""
    fields = _cpuinfo_fields(cpuinfo)
    parts = (fields.get("CPU implementer"), fields.get("CPU part"))
    return fields.get("model name") or " ".join(filter(None, parts))


def cpu_capability(cpuinfo: str) -> str:
    """The vector instructions named in /proc/cpuinfo: they choose the kernels, and so the
    rounding.
    """
    fields = _cpuinfo_fields(cpuinfo)
    flags = (fields.get("flags") or fields.get("Features") or "").split()
    return " ".join(sorted({flag for flag in flags if flag.startswith(_VECTOR_FLAGS)}))


def _cpuinfo_fields(cpuinfo: str) -> dict[str, str]:
    """The fields of the first processor listed."""
    fields = {}
    for line in cpuinfo.split("\n\n")[0].splitlines():
        name, _, value = line.partition(":")
        fields[name.strip()] = value.strip()
    return fields


def _sources(package: Path) -> Iterator[Path]:
    for name in NUMERIC_SOURCES:
        path = package / name
        if path.is_dir():
            yield from path.rglob("*.py")
        elif path.is_file():
            yield path


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None

"""Device, memory, signals and named random streams: passed as arguments, never global."""

import hashlib
import os
import re
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import index
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from paribus.errors import UnsupportedError

Name = str | int
CUBLAS_WORKSPACE_VARIABLE = "CUBLAS_WORKSPACE_CONFIG"
# those under which cuBLAS sums in a fixed order; the first is as fast as its own
DETERMINISTIC_WORKSPACES = (
    ":4096:8",
    ":16:8",
)
_PHILOX_BLOCK = 4  # numbers that one turn of its counter gives
# that ask a process to save its work and end: a person's, a system's, and those of SLURM, which
# sends what it was asked to before a job's time is over (submitit asks for USR2)
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
_MEMINFO = Path("/proc/meminfo")
# of a container
_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def torch_generator(seed: int, *names: Name) -> torch.Generator:
    """A CPU generator of its own for each (seed, names): what one draws never shifts another."""
    return torch.Generator().manual_seed(derive_seed(seed, *names))


def derive_seed(seed: int, *names: Name) -> int:
    """A 63-bit number for each (seed, names); 1 is the same seed however its type is called."""
    return _seed_of(hashlib.sha256(_stream_text(seed, *names).encode()).digest())


def _stream_text(seed: int, *names: Name) -> str:
    return "\x1f".join(_encode_name(name) for name in (index(seed), *names))


def _seed_of(digest: bytes) -> int:
    return int.from_bytes(digest[:8]) >> 1


def _encode_name(name: Name) -> str:
    if isinstance(name, str):
        return f"str:{name}"
    return f"int:{index(name)}"


def select_device(name: str | None) -> torch.device:
    """The device asked for, or the best; UnsupportedError if this machine has none such."""
    there = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if name is None:
        return best_device()
    if not there.get(name.partition(":")[0], False):
        able = ", ".join(kind for kind, has in there.items() if has)
        raise UnsupportedError(f"device is {name!r}, which this machine does not have; use {able}")
    return prepare_cuda(torch.device(name))


def best_device() -> torch.device:
    """The fastest device this machine has."""
    if torch.cuda.is_available():
        return prepare_cuda(torch.device("cuda"))
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def prepare_cuda(device: torch.device) -> torch.device:
    """A device made ready: before CUDA starts, cuBLAS is told to sum in a fixed order, unless
    it was told otherwise.
    """
    if device.type == "cuda":
        os.environ.setdefault(CUBLAS_WORKSPACE_VARIABLE, DETERMINISTIC_WORKSPACES[0])
    return device


def cudnn_version(device: torch.device) -> int | None:
    """Of the library that computes attention on CUDA; None elsewhere."""
    if device.type == "cuda":
        return torch.backends.cudnn.version()
    return None


def device_kind(device: torch.device, n_ranks: int = 1, is_sharded: bool = False) -> str:
    """What a run computes on, as its record says it."""
    if device.type == "cuda":
        kind = f"cuda {torch.cuda.get_device_name(device)}"
    else:
        kind = device.type
    if n_ranks > 1:
        kind = f"{n_ranks} × {kind}"
    if is_sharded:
        kind = f"{kind}, sharded"
    return kind


def free_memory(device: torch.device) -> int:
    """Bytes that could be allocated on a device now, at most."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    limits = [
        int(path.read_text())
        for path in _LIMITS
        if path.is_file() and path.read_text().strip().isdecimal()
    ]
    return min([_unused_memory(), *limits])


def _unused_memory() -> int:
    """Of the machine, with what it could swap out; all of it where the system does not say."""
    if _MEMINFO.is_file():
        meminfo = dict(re.findall(r"^(\w+):\s+(\d+) kB$", _MEMINFO.read_text(), re.MULTILINE))
        if "MemAvailable" in meminfo:
            return 1024 * (int(meminfo["MemAvailable"]) + int(meminfo.get("SwapFree", 0)))
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def require_memory(n_bytes: int, device: torch.device, what: str) -> None:
    """UnsupportedError, before anything is allocated, where a device has less than that."""
    if device.type == "meta":
        return
    free = free_memory(device)
    if n_bytes > free:
        raise UnsupportedError(
            f"{what} needs at least {n_bytes / 1e9:,.1f} GB of memory, and {device.type} has"
            f" {free / 1e9:,.1f} GB free here; use smaller sizes, such as d_model or n_layers, or a"
            " machine with more"
        )


def numpy_generator(seed: int, *names: Name) -> np.random.Generator:
    """A numpy generator of its own for each (seed, names)."""
    return np.random.Generator(np.random.Philox(key=derive_seed(seed, *names)))


def numpy_generator_per_name(
    seed: int, *names: Name, last_names: Iterable[Name]
) -> Iterator[np.random.Generator]:
    """What `numpy_generator` gives for these names and each last one: one generator keyed anew, to
    be used before the next.
    """
    source = np.random.Philox(key=0)
    fresh, draws = source.state, np.random.Generator(source)
    for name in last_names:
        fresh["state"]["key"][0] = derive_seed(seed, *names, name)
        source.state = fresh
        yield draws


def derive_seed_per_name(seed: int, *names: Name, last_names: Iterable[Name]) -> NDArray[np.uint64]:
    """What `derive_seed` gives for these names and each last one."""
    first = hashlib.sha256(f"{_stream_text(seed, *names)}\x1f".encode())
    keys = []
    for name in last_names:
        digest = first.copy()
        digest.update(_encode_name(name).encode())
        keys.append(_seed_of(digest.digest()))
    return np.array(keys, np.uint64)


def random_uint64(seed: int, *names: Name, rows: NDArray[np.int64], n: int) -> NDArray[np.uint64]:
    """n numbers of 64 bits for each row, [rows, n], from one stream: a row's own, whichever
    others are drawn.
    """
    source, first, last = (
        np.random.Philox(key=derive_seed(seed, *names)),
        int(rows.min()),
        int(rows.max()),
    )
    n_turns = -(-n // _PHILOX_BLOCK)
    source.advance(first * n_turns)
    numbers = source.random_raw((last - first + 1) * n_turns * _PHILOX_BLOCK).reshape(
        -1, n_turns * _PHILOX_BLOCK
    )
    return numbers[rows - first, :n]


@contextmanager
def deferred_signals() -> Iterator[list[int]]:
    """Signals to stop are only noted in the list, to be acted on when the caller is ready."""
    caught_signals: list[int] = []
    with signal_handler(caught_signals.append):
        yield caught_signals


@contextmanager
def signal_handler(handle: Callable[[int], object]) -> Iterator[None]:
    """Signals to stop call `handle` with their number; the handlers before come back after."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    for number in before:
        signal.signal(number, lambda signal_number, _: handle(signal_number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

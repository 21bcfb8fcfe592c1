"""Device, precision and named random streams: passed as arguments, never global."""

import hashlib
from collections.abc import Iterable, Iterator
from operator import index

import numpy as np
import torch

from paribus.errors import UnsupportedError

Name = str | int


def stream(seed: int, *names: Name) -> torch.Generator:
    """A CPU generator of its own for each (seed, names): what one draws never shifts another."""
    return torch.Generator().manual_seed(key(seed, *names))


def key(seed: int, *names: Name) -> int:
    """A 63-bit number for each (seed, names); 1 is the same seed however its type is called."""
    text = "\x1f".join(_told(name) for name in (index(seed), *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1


def _told(name: Name) -> str:
    return f"str:{name}" if isinstance(name, str) else f"int:{index(name)}"


def device_named(name: str | None) -> torch.device:
    """The device asked for, or the best; UnsupportedError if this machine has none such."""
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name is None:
        return best_device()
    if not there.get(name.partition(":")[0], False):
        able = ", ".join(kind for kind, has in there.items() if has)
        raise UnsupportedError(f"device is {name!r}, which this machine does not have; use {able}")
    return torch.device(name)


def best_device() -> torch.device:
    """The fastest device this machine has."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def numbers(seed: int, *names: Name) -> np.random.Generator:
    """A numpy generator of its own for each (seed, names)."""
    return np.random.Generator(np.random.Philox(key=key(seed, *names)))


def numbers_of_each(seed: int, *names: Name, last: Iterable[Name]) -> Iterator[np.random.Generator]:
    """What `numbers` gives for these names and each last one: one generator keyed anew, to be used before the next."""
    source = np.random.Philox(key=0)
    fresh, draws = source.state, np.random.Generator(source)
    for name in last:
        fresh["state"]["key"][0] = key(seed, *names, name)
        source.state = fresh
        yield draws

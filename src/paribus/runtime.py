"""Device, precision and named random streams: passed as arguments, never global."""

import hashlib

import torch

Name = str | int


def stream(seed: int, *names: Name) -> torch.Generator:
    """A CPU generator of its own for each (seed, names): what one draws never shifts another."""
    return torch.Generator().manual_seed(key(seed, *names))


def key(seed: int, *names: Name) -> int:
    """A 63-bit number for each (seed, names)."""
    text = "\x1f".join(f"{type(name).__name__}:{name}" for name in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1


def best_device() -> torch.device:
    """The fastest device this machine has."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")

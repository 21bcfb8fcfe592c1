"""Numbers as a person reads them."""

from collections.abc import Sequence
from itertools import pairwise


def count(number: float) -> str:
    """124439808 → 124.4M."""
    return _scaled(number, ("", "K", "M", "B", "T"))


def flops(number: float) -> str:
    """874944921600 → 874.9 GFLOP."""
    return _scaled(number, (" FLOP", " kFLOP", " MFLOP", " GFLOP", " TFLOP", " PFLOP", " EFLOP", " ZFLOP"))


def size(n_bytes: float) -> str:
    """36864 → 36.86 kB; — where nothing is stored."""
    return _scaled(n_bytes, (" B", " kB", " MB", " GB", " TB")) if n_bytes else "—"


def share(part: float) -> str:
    """0.5005 → 50.0%."""
    return f"{part:.1%}"


def whether(answer: float) -> str:
    """True → yes."""
    return "yes" if answer else "no"


def spans(numbers: Sequence[int]) -> str:
    """0, 1, 2, 3 → 0–3; 1, 3, 5 → 1, 3 … 5; otherwise each in turn."""
    steps = {after - before for before, after in pairwise(numbers)}
    if len(numbers) > 2 and len(steps) == 1:
        first, second, last = numbers[0], numbers[1], numbers[-1]
        return f"{first}–{last}" if steps == {1} else f"{first}, {second} … {last}"
    return ", ".join(map(str, numbers))


def _scaled(number: float, units: Sequence[str]) -> str:
    """Four digits in the largest unit that leaves at least one before the point."""
    place = 0
    while abs(number) >= 999.95 and place < len(units) - 1:
        number, place = number / 1000, place + 1
    decimals = 3 - len(str(int(abs(number)))) + 1 if place else 0
    return f"{number:.{decimals}f}{units[place]}"

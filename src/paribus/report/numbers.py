"""Numbers as a reader of the page meets them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import floor, isfinite, log10

MINUS = "−"
FEW = 3  # so many are told one by one
_HYPHEN = re.compile(r"(?<![\w.])-(?=\d)")  # a hyphen that stands for a minus
_UNITS = ("", "k", "M", "G", "T", "P", "E")


def signed(value: float, decimals: int) -> str:
    """0.0123 → +0.012, with a true minus."""
    text = plain(value, decimals)
    return text if text.startswith(MINUS) or not text.strip("0.") else f"+{text}"


def plain(value: float, decimals: int) -> str:
    """-0.0123 → −0.012; a zero has no sign."""
    text = f"{value:.{decimals}f}"
    negative = text.startswith("-") and bool(text.strip("-0."))
    return f"{MINUS}{text[1:]}" if negative else text.removeprefix("-")


def decimals(width: float) -> int:
    """As many as give the half-width of an interval two digits: 3 to 6."""
    if not (isfinite(width) and width > 0):
        return 4
    return min(6, max(3, 1 - floor(log10(width))))


def scaled(value: float, unit: str = "") -> str:
    """124439808 → 124M; three digits."""
    place = 0
    while abs(value) >= 999.5 and place < len(_UNITS) - 1:
        value, place = value / 1000, place + 1
    text = f"{value:.0f}" if abs(value) >= 99.95 or value == int(value) else f"{value:.3g}"
    space = " " if unit else ""
    return f"{text}{space}{_UNITS[place]}{unit}"


def percent(part: float) -> str:
    return f"{100 * part:.3g} %"


def some(n: int, thing: str) -> str:
    """1 seed, 4 seeds."""
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"


def listed(words: list[str]) -> str:
    """a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""


def sum_of(weights: Mapping[str, float]) -> str:
    """Weights by arm as a sum, the largest first: 1 × prefix − 0.5 × causal − 0.5 × full."""
    order = sorted(weights, key=lambda arm: -weights[arm])
    signs = {arm: MINUS if weights[arm] < 0 else "+" for arm in order}
    terms = [f"{signs[arm]} {abs(weights[arm]):g} × {arm}" for arm in order]
    return " ".join(terms).removeprefix("+ ")


def true_minus(text: str) -> str:
    """Words with numbers in them, each with a true minus."""
    return _HYPHEN.sub(MINUS, text)


def each(values: Mapping[str, float], written: Callable[[float], str]) -> str:
    """Every value with its name; of many, those that are alike together, or the range with its ends named."""
    if len(values) <= FEW:
        return listed([f"{written(value)} for {name}" for name, value in values.items()])
    order = sorted(values, key=lambda name: values[name])
    alike: dict[str, list[str]] = {}
    for name in order:
        alike.setdefault(written(values[name]), []).append(name)
    if len(alike) > FEW:
        return f"{written(values[order[0]])} for {order[0]} to {written(values[order[-1]])} for {order[-1]}"
    return listed([f"{value} for {_who(names, len(values))}" for value, names in alike.items()])


def _who(names: list[str], of: int) -> str:
    return "all" if len(names) == of else listed(names) if len(names) < FEW else f"{len(names)} of them"

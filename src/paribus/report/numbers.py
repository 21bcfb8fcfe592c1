"""Numbers as a person reads them, the same on a page and on a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import floor, isfinite, log10
from typing import Any

from paribus.spec.measure import POINTS

MINUS = "−"
DASH = "–"
MAX_LISTED = 3  # so many are told one by one
DIGITS = 3  # of a number in short
MAX_WHOLE = 10_000  # above it a number that may be of any size has an exponent
ROUGH = 2  # digits of what is an estimate of noise itself
LEVEL_DIGITS = 4
SCORE_DECIMALS = 4
POINT_DECIMALS = 2
EXACT_DIGITS = 12  # numbers that agree to so many are equal: sums of floats agree to no more
_HYPHEN = re.compile(r"(?<![\w.])-(?=\d)")  # a hyphen that stands for a minus
_COUNT_SUFFIXES = ("", "k", "M", "B", "T")  # a model of 7B parameters
_UNIT_PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")  # before a unit
_YEAR = 365.25 * 86400
_DURATIONS = (
    ("s", 1, 90),
    ("min", 60, 5400),
    ("h", 3600, 2 * 86400),
    ("days", 86400, 2 * _YEAR),
)  # and up to how long

NumberFormat = Callable[[float, int], str]  # a number, in so many digits


def format_signed(value: float, decimals: int) -> str:
    """0.0123 → +0.012, with a true minus."""
    text = format_plain(value, decimals)
    if text.startswith(MINUS) or not text.strip("0."):
        return text
    return f"+{text}"


def format_plain(value: float, decimals: int) -> str:
    """-0.0123 → −0.012; a zero has no sign."""
    text = f"{value:.{decimals}f}"
    negative = text.startswith("-") and bool(text.strip("-0."))
    if negative:
        return f"{MINUS}{text[1:]}"
    return text.removeprefix("-")


def rough(value: float) -> str:
    """0.01234 → 0.012: two digits, for what is an estimate of noise."""
    return significant(value, ROUGH)


def score(value: float | None, unit: str = "") -> str:
    """1.23456 → 1.2346: a score, or a loss; 73.456 points → 73.46; – where there is none."""
    if value is None:
        return DASH
    return format_plain(value, score_decimals(unit))


def signed_score(value: float, unit: str = "") -> str:
    """0.01234 → +0.0123: a difference of scores."""
    return format_signed(value, score_decimals(unit))


def score_decimals(unit: str) -> int:
    """Decimals of a score: fewer of points."""
    if unit == POINTS:
        return POINT_DECIMALS
    return SCORE_DECIMALS


def decimals_for_width(width: float, unit: str = "") -> int:
    """As many as give the half-width of an interval two digits: 3 to 6, of points 1 to 6."""
    if not (isfinite(width) and width > 0):
        return score_decimals(unit)
    least = 1 if unit == POINTS else 3
    return min(6, max(least, 1 - floor(log10(width))))


def format_scaled(value: float, unit: str = "", digits: int = DIGITS) -> str:
    """124439808 → 124M, 46.7e9 → 46.7B; with a unit, 2.5e9 → 2.5 GFLOP."""
    steps = _UNIT_PREFIXES if unit else _COUNT_SUFFIXES
    place = 0
    while place < len(steps) - 1 and abs(round_digits(value, digits)) >= 1000 and isfinite(value):
        value, place = value / 1000, place + 1
    space = " " if unit else ""
    return f"{significant(value, digits)}{space}{steps[place]}{unit}"


def round_digits(value: float, digits: int) -> float:
    """A number with so many significant digits."""
    return float(f"{value:.{digits}g}")


def significant(value: float, digits: int = DIGITS) -> str:
    """0.0034567 → 0.00346; a large number is whole, without an exponent where it stays readable
    without it.
    """
    whole = 10 ** (digits - 1) <= abs(value) < 10**6
    if whole:
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def compact(value: float, digits: int = DIGITS) -> str:
    """-0.32 → −0.32, 5773 → 5773, 67864 → 6.79e+04: a number that may be of any size."""
    if abs(value) >= MAX_WHOLE:
        return true_minus(f"{value:.{digits}g}")
    return true_minus(significant(value, digits))


def format_count(number: float, digits: int = DIGITS) -> str:
    """124439808 → 124M."""
    return format_scaled(number, "", digits)


def format_flops(number: float, digits: int = DIGITS) -> str:
    """874944921600 → 875 GFLOP."""
    return format_scaled(number, "FLOP", digits)


def format_size(n_bytes: float, digits: int = DIGITS) -> str:
    """36864 → 36.9 kB; – where nothing is stored."""
    if n_bytes:
        return format_scaled(n_bytes, "B", digits)
    return DASH


def format_percent(share: float, digits: int = DIGITS) -> str:
    """0.50048 → 50 %."""
    return f"{100 * share:.{digits}g} %"


def whole_percent(part: float) -> str:
    """0.4231 → 42 %."""
    return f"{100 * part:.0f} %"


def percent_level(level: float) -> str:
    """0.975 → 97.5 %."""
    return format_percent(level, LEVEL_DIGITS)


def format_duration(seconds: float) -> str:
    """0.0123 → 12.3 ms, 90 → 1.5 min, 7200 → 2.0 h, 7.5e10 → 2,377 years."""
    if 0 < seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    unit, length = _duration_unit(seconds)
    number = seconds / length
    if number >= 10**6:
        return f"{format_count(number)} {unit}"
    if unit == "s" and (number >= 10 or number == 0):
        return f"{number:.0f} s"
    if number >= 1000:
        return f"{number:,.0f} {unit}"
    return f"{number:.1f} {unit}"


def _duration_unit(seconds: float) -> tuple[str, float]:
    """The unit to tell a time in, and how many seconds it has."""
    for unit, length, longest in _DURATIONS:
        if seconds < longest:
            return unit, length
    return "years", _YEAR


def distinguishing_digits(values: Iterable[float]) -> int:
    """How many digits tell different values apart; three at least."""
    numbers = list(values)
    n_different = _n_different(numbers, EXACT_DIGITS)
    digits = DIGITS
    while digits < EXACT_DIGITS and _n_different(numbers, digits) != n_different:
        digits += 1
    return digits


def _n_different(values: Iterable[float], digits: int) -> int:
    """How many values there are that look different in so many digits."""
    return len({f"{value:.{digits}g}" for value in values})


def format_distinct(values: Sequence[float], number_format: NumberFormat) -> list[str]:
    """Every value in short, with as many digits as tell different ones apart."""
    digits = distinguishing_digits(values)
    return [number_format(value, digits) for value in values]


def are_equal(values: Iterable[float]) -> bool:
    """Whether numbers are one number, but for the rounding of sums."""
    return _n_different(values, EXACT_DIGITS) <= 1


def format_line_values(
    path: str, values: Sequence[Any], format_other: Callable[[Any], str]
) -> list[str]:
    """The values of one line of the control table; large numbers in short, what else there is
    as `format_other` writes it.
    """
    digits = distinguishing_digits([value for value in values if _is_large(path, value)])
    format_large = format_flops if "flops" in path else format_count
    texts: list[str] = []
    for value in values:
        if _is_large(path, value):
            texts.append(format_large(value, digits))
        else:
            texts.append(format_other(value))
    return texts


def _is_large(path: str, value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return "flops" in path or (isinstance(value, int) and value >= 10_000 and "seed" not in path)


def format_plural(n: int, thing: str) -> str:
    """1 seed, 4 seeds."""
    if n == 1:
        return f"{n} {thing}"
    return f"{n} {thing}s"


def capitalise(words: str) -> str:
    """With a capital first; the rest as it is."""
    return f"{words[:1].upper()}{words[1:]}"


def join_words(words: list[str]) -> str:
    """a, b and c."""
    if len(words) == 1:
        return words[0]
    if words:
        return f"{', '.join(words[:-1])} and {words[-1]}"
    return ""


def quote_arm(name: str) -> str:
    """The name of an arm as a sentence has it: causal → "causal" in quotation marks."""
    return f'"{name}"'


def describe_weights(weights: Mapping[str, float]) -> str:
    """Weights by arm as a sum, the largest first: 1 × prefix − 0.5 × causal − 0.5 × full."""
    terms: list[str] = []
    for arm in sorted(weights, key=lambda arm: -weights[arm]):
        sign = MINUS if weights[arm] < 0 else "+"
        terms.append(f"{sign} {abs(weights[arm]):g} × {arm}")
    return " ".join(terms).removeprefix("+ ")


def true_minus(text: str) -> str:
    """Words with numbers in them, each with a true minus."""
    return _HYPHEN.sub(MINUS, text)


def describe_each(values: Mapping[str, float], format_value: Callable[[float], str]) -> str:
    """Every value with its name; of many, those that look alike together, or the range with its
    ends named.
    """
    if len(values) <= MAX_LISTED:
        return join_words([f"{format_value(value)} for {name}" for name, value in values.items()])
    order = sorted(values, key=lambda name: values[name])
    alike: dict[str, list[str]] = {}
    for name in order:
        alike.setdefault(format_value(values[name]), []).append(name)
    if len(alike) > MAX_LISTED:
        lowest, highest = order[0], order[-1]
        return (
            f"{format_value(values[lowest])} for {lowest} to {format_value(values[highest])}"
            f" for {highest}"
        )
    return _describe_groups(alike, values)


def _describe_groups(alike: Mapping[str, list[str]], values: Mapping[str, float]) -> str:
    """Every text with the names whose values look so."""
    groups: list[str] = []
    n_pairs = 0  # each has an "and" of its own
    for text, names in alike.items():
        whose = _describe_names(names, len(values))
        n_pairs += len(names) == 2
        if are_equal(values[name] for name in names):
            groups.append(f"{text} for {whose}")
        else:
            groups.append(f"about {text} for {whose}")
    if n_pairs > 1:
        return "; ".join(groups)
    return join_words(groups)


def _describe_names(names: list[str], of: int) -> str:
    if len(names) == of:
        return "all"
    if len(names) < MAX_LISTED:
        return join_words(names)
    return f"{len(names)} of them"

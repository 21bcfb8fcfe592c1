"""Numbers as a person reads them, the same on a page and on a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import floor, isfinite, log10
from typing import Any

MINUS = "−"
DASH = "–"
MAX_LISTED = 3  # so many are told one by one
DIGITS = 3  # of a number in short
ROUGH = 2  # digits of what is an estimate of noise itself
LEVEL_DIGITS = 4
SCORE_DECIMALS = 4
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


def score(value: float | None) -> str:
    """1.23456 → 1.2346: a score, or a loss; – where there is none."""
    if value is None:
        return DASH
    return format_plain(value, SCORE_DECIMALS)


def signed_score(value: float) -> str:
    """0.01234 → +0.0123: a difference of scores."""
    return format_signed(value, SCORE_DECIMALS)


def decimals_for_width(width: float) -> int:
    """As many as give the half-width of an interval two digits: 3 to 6."""
    if not (isfinite(width) and width > 0):
        return 4
    return min(6, max(3, 1 - floor(log10(width))))


def format_scaled(value: float, unit: str = "", digits: int = DIGITS) -> str:
    """124439808 → 124M, 46.7e9 → 46.7B; with a unit, 2.5e9 → 2.5 GFLOP."""
    steps = _UNIT_PREFIXES if unit else _COUNT_SUFFIXES
    place = 0
    while place < len(steps) - 1 and abs(_round_digits(value, digits)) >= 1000 and isfinite(value):
        value, place = value / 1000, place + 1
    space = " " if unit else ""
    return f"{significant(value, digits)}{space}{steps[place]}{unit}"


def _round_digits(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def significant(value: float, digits: int = DIGITS) -> str:
    """0.0034567 → 0.00346; a large number is whole, without an exponent where it stays readable
    without it.
    """
    whole = 10 ** (digits - 1) <= abs(value) < 10**6
    if whole:
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


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
    fitting = ((unit, length) for unit, length, longest in _DURATIONS if seconds < longest)
    unit, length = next(fitting, ("years", _YEAR))
    number = seconds / length
    if number >= 10**6:
        return f"{format_count(number)} {unit}"
    if unit == "s" and (number >= 10 or number == 0):
        return f"{number:.0f} s"
    if number >= 1000:
        return f"{number:,.0f} {unit}"
    return f"{number:.1f} {unit}"


def distinguishing_digits(values: Iterable[float]) -> int:
    """How many digits tell different values apart; three at least."""
    given = list(values)
    different = len({f"{value:.{EXACT_DIGITS}g}" for value in given})
    enough = (
        n
        for n in range(DIGITS, EXACT_DIGITS)
        if len({f"{value:.{n}g}" for value in given}) == different
    )
    return next(enough, EXACT_DIGITS)


def format_distinct(values: Sequence[float], number_format: NumberFormat) -> list[str]:
    """Every value in short, with as many digits as tell different ones apart."""
    digits = distinguishing_digits(values)
    return [number_format(value, digits) for value in values]


def are_equal(values: Iterable[float]) -> bool:
    """Whether numbers are one number, but for the rounding of sums."""
    return len({f"{value:.{EXACT_DIGITS}g}" for value in values}) <= 1


def format_line_values(
    path: str, values: Sequence[Any], format_other: Callable[[Any], str]
) -> list[str]:
    """The values of one line of the control table; large numbers in short, what else there is
    as `other` writes it.
    """
    large = [_is_large(path, value) for value in values]
    digits = distinguishing_digits(
        value for value, short in zip(values, large, strict=True) if short
    )
    writer = format_flops if "flops" in path else format_count
    return [
        writer(value, digits) if short else format_other(value)
        for value, short in zip(values, large, strict=True)
    ]


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
    order = sorted(weights, key=lambda arm: -weights[arm])
    signs = {arm: MINUS if weights[arm] < 0 else "+" for arm in order}
    terms = [f"{signs[arm]} {abs(weights[arm]):g} × {arm}" for arm in order]
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
        return (
            f"{format_value(values[order[0]])} for {order[0]} to {format_value(values[order[-1]])}"
            f" for {order[-1]}"
        )
    about = {
        text: "" if are_equal(values[name] for name in names) else "about "
        for text, names in alike.items()
    }
    told = [
        f"{about[text]}{text} for {_describe_names(names, len(values))}"
        for text, names in alike.items()
    ]
    n_pairs = sum(len(names) == 2 for names in alike.values())  # each has an "and" of its own
    if n_pairs > 1:
        return "; ".join(told)
    return join_words(told)


def _describe_names(names: list[str], of: int) -> str:
    if len(names) == of:
        return "all"
    if len(names) < MAX_LISTED:
        return join_words(names)
    return f"{len(names)} of them"

"""The table of what arms of a ladder gain on each other at every size."""

from __future__ import annotations

from paribus.analyse.interval import MIN_SEEDS
from paribus.analyse.ladder_gains import LadderGain, ladder_gains
from paribus.report.numbers import DASH, format_signed, significant
from paribus.report.report_data import ReportData

GAINS_TITLE = "Gains at every size"
_DECIMALS = 3


def describe_ladder_gains(report: ReportData) -> str:
    """What the table of gains holds."""
    return (
        f"Means over paired seeds, in {report.measure.unit}; above 0 the first arm is better. In"
        f" brackets is the 95 % interval of each gain by itself, from {MIN_SEEDS} seeds on. No"
        " verdict rests on them. Tokens are per parameter of the baseline outside of embeddings."
    )


def ladder_gain_heading(report: ReportData) -> tuple[str, ...]:
    """The heading of the table of gains: one column for each size."""
    sizes = _sizes(ladder_gains(report.plan, report.findings.table.rows))
    return ("arm", "against", "tokens", *[f"d_model {size}" for size in sizes])


def ladder_gain_lines(report: ReportData) -> list[tuple[str, ...]]:
    """A line for each pair and number of tokens per parameter; no lines without a ladder."""
    cells: dict[tuple[str, str, str], dict[int, str]] = {}
    gains = ladder_gains(report.plan, report.findings.table.rows)
    for gain in gains:
        line = gain.arm, gain.against, significant(gain.tokens_per_parameter, 2)
        cells.setdefault(line, {})[gain.size] = _describe_gain(gain)
    return [
        (*line, *(by_size.get(size, DASH) for size in _sizes(gains)))
        for line, by_size in cells.items()
    ]


def _sizes(gains: list[LadderGain]) -> list[int]:
    return sorted({gain.size for gain in gains})


def _describe_gain(gain: LadderGain) -> str:
    mean = format_signed(gain.mean, _DECIMALS)
    if gain.interval is None:
        return mean
    low, high = (format_signed(end, _DECIMALS) for end in gain.interval)
    return f"{mean} ({low} to {high})"

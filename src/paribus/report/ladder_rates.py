"""The rates of a ladder whose rates were swept at a few sizes, and the power law they follow."""

from __future__ import annotations

from paribus.report.numbers import format_signed, significant
from paribus.report.report_data import ReportData

RATES_TITLE = "Rates on the ladder"


def ladder_rate_heading(report: ReportData) -> tuple[str, ...]:
    """The heading of the table of rates: one column for each size."""
    return ("arm", *[f"d_model {rung.size}" for rung in report.plan.rungs])


def ladder_rate_lines(report: ReportData) -> list[tuple[str, ...]]:
    """A line for each arm: its rate at each size, and in brackets what the sweep there found; no
    lines where nothing was swept.
    """
    record = report.ladder_rates
    if record is None:
        return []
    lines: list[tuple[str, ...]] = []
    for arm in report.order:
        if arm not in record["law"]["log_levels"]:
            continue  # the control is not on the ladder
        cells: list[str] = []
        for rung in report.plan.rungs:
            rate = significant(record["rates"][str(rung.size)][arm])
            swept = record["sweeps"].get(str(rung.size))
            if swept is not None:
                rate = f"{rate} ({significant(swept[arm]['rate'])})"
            cells.append(rate)
        lines.append((arm, *cells))
    return lines


def describe_rate_law(report: ReportData) -> str:
    """The power law of the rates, with its interval; nothing where nothing was swept."""
    if report.ladder_rates is None:
        return ""
    law = report.ladder_rates["law"]
    swept = ", ".join(sorted(report.ladder_rates["sweeps"], key=int))
    words = (
        f"Every arm was swept at d_model {swept}; in brackets is what a sweep found. All rates"
        " follow a power of the baseline's parameters outside of embeddings, with a level for each"
        f" arm: rate ∝ N^{format_signed(law['power'], 3)} (95 % interval"
        f" {format_signed(law['low'], 3)} to {format_signed(law['high'], 3)}, {law['df']} degrees"
        f" of freedom); rates scatter about it by a factor of {significant(law['factor'])}."
    )
    p = law["equal_powers_p"]
    if p is not None:
        words += f" The p of the F test that all arms have one power is {significant(p)}."
    return words

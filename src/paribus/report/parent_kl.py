"""How far a last stage of preferences has moved each arm from its parent: shown, never judged."""

from __future__ import annotations

from math import sqrt

from paribus.analyse.interval import critical_t, moments
from paribus.report.numbers import DASH, format_plain
from paribus.report.report_data import ReportData

KL_TITLE = "KL divergence from the parent"
KL_NOTE = (
    "In nats a response, on held-out pairs after the last step: the responses are those of the"
    " data. A gain in reward may be bought with distance from the parent. No verdict."
)
KL_HEADING = ("arm", "mean", "spread", "95 % interval", "seeds")
LEVEL = 0.95
_DIGITS = 3


def kl_lines(report: ReportData) -> list[tuple[str, ...]]:
    """An arm a line: mean, spread and interval over seeds; no line where no run has preferences."""
    values: dict[str, list[float]] = {}
    for row in report.findings.reported_rows:
        if row.get("valid_kl") is not None:
            values.setdefault(row["arm"], []).append(row["valid_kl"])
    lines: list[tuple[str, ...]] = []
    for arm in report.order:
        if arm in values:
            lines.append((arm, *_summary(values[arm])))
    return lines


def _summary(values: list[float]) -> tuple[str, str, str, str]:
    if len(values) < 2:
        return format_plain(values[0], _DIGITS), DASH, DASH, "1"
    own = moments(values)
    mean, sd = float(own.mean), float(own.sd)
    half = float(critical_t(LEVEL, own.n - 1)) * sd / sqrt(own.n)
    low, high = format_plain(mean - half, _DIGITS), format_plain(mean + half, _DIGITS)
    return format_plain(mean, _DIGITS), format_plain(sd, _DIGITS), f"{low} to {high}", str(own.n)

"""Tables and sentences of the laws of a study with a ladder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, inf, isfinite
from typing import Any

from paribus.analyse.laws.exponents import SAME, UNDECIDED, ExponentVerdict
from paribus.analyse.laws.fit import LawEstimate
from paribus.analyse.laws.prediction import (
    LawPrediction,
    PredictionOutcome,
    compare_with_outcome,
)
from paribus.analyse.run_table import column_of, select_rows
from paribus.analyse.study_laws import LawMultiplier, StudyLaws, study_laws
from paribus.errors import SpecError
from paribus.report.numbers import (
    DASH,
    format_count,
    format_flops,
    format_signed,
    quote_arm,
    significant,
)
from paribus.report.report_data import ReportData

LAWS_TITLE = "Laws"
EXPONENTS_TITLE = "Do exponents differ?"
PREDICTIONS_TITLE = "Predicted before it was run"
LAWS_NOTE = (
    "L = E + A/N^α + B/D^β, with N all parameters, D tokens read and L the primary yardstick."
    " Least squares on ln L, one E for all arms; 95 % intervals by profile. Lack of fit: the p of"
    " an F test against the spread between seeds; below 0.05 the residuals of the points replace"
    " that spread. Definitions: docs/scaling.md."
)
LAW_HEADING = ("arm", "E", "A", "B", "α", "β", "lack of fit, p", "runs")
EXPONENT_HEADING = ("arm", "against", "exponent", "difference", "interval", "verdict")
PREDICTION_HEADING = ("arm", "parameters", "tokens", "predicted", "interval", "measured", "")
MAX_LOG = 700.0  # of a number that a float can hold, about
_SYMBOLS = {"alpha": "α", "beta": "β"}


def laws_of_report(report: ReportData) -> StudyLaws | str | None:
    """The laws; why there are none, in words; None where the study has no ladder."""
    try:
        return study_laws(report.plan, report.findings.table.rows)
    except SpecError as fault:
        return str(fault)


def law_lines(laws: StudyLaws) -> list[tuple[str, ...]]:
    """A line for each arm: its law with intervals."""
    lines: list[tuple[str, ...]] = []
    for cells, noise in zip(laws.fit.arms, laws.fit.noises, strict=True):
        own = laws.estimates[cells.arm]
        p = float(noise.lack_of_fit[0])
        lines.append(
            (
                cells.arm,
                _estimate(own["E"]),
                _estimate(_unlogged(own["lnA"])),
                _estimate(_unlogged(own["lnB"])),
                _estimate(own["alpha"]),
                _estimate(own["beta"]),
                DASH if p != p else significant(p),
                str(int(cells.n_runs_C.sum())),
            )
        )
    return lines


def exponent_lines(laws: StudyLaws) -> list[tuple[str, ...]]:
    """A line for each exponent of each pair that the design judges."""
    lines: list[tuple[str, ...]] = []
    for one in laws.verdicts:
        found = one.one_floor
        lines.append(
            (
                one.arm,
                one.against,
                _SYMBOLS[one.exponent],
                format_signed(found.estimate, 3),
                f"{_signed_end(found.low)} to {_signed_end(found.high)}",
                _exponent_word(one),
            )
        )
    return lines


def multiplier_sentences(laws: StudyLaws) -> list[str]:
    """What compute each pair's first arm needs for the loss of the second, and where they cross."""
    return [_describe_multiplier(one) for one in laws.multipliers]


def prediction_lines(report: ReportData, predictions: Sequence[Any]) -> list[tuple[str, ...]]:
    """What was predicted before the largest run, beside what it came to."""
    lines: list[tuple[str, ...]] = []
    for table in predictions:
        prediction = LawPrediction(**table)
        outcome = _outcome(report, prediction)
        measured, words = DASH, "not run yet"
        if outcome is not None:
            measured, words = significant(outcome.loss, 4), outcome.words
        lines.append(
            (
                prediction.arm,
                format_count(prediction.parameters),
                format_count(prediction.tokens),
                significant(prediction.loss, 4),
                f"{significant(prediction.low, 4)} to {significant(prediction.high, 4)}",
                measured,
                words,
            )
        )
    return lines


def law_section(report: ReportData) -> Mapping[str, Any] | None:
    """All that a page shows of laws; None where the study has no ladder."""
    laws = laws_of_report(report)
    if laws is None:
        return None
    if isinstance(laws, str):
        return {"fault": laws}
    return {
        "laws": law_lines(laws),
        "exponents": exponent_lines(laws),
        "multipliers": multiplier_sentences(laws),
        "predictions": prediction_lines(report, report.predictions),
    }


def _estimate(one: LawEstimate) -> str:
    low = "0" if one.low <= 0 else significant(one.low)
    high = significant(one.high) if isfinite(one.high) else "no bound"
    return f"{significant(one.estimate)} ({low} to {high})"


def _signed_end(value: float) -> str:
    return format_signed(value, 3) if isfinite(value) else "no bound"


def _unlogged(one: LawEstimate) -> LawEstimate:
    return LawEstimate(_exp(one.estimate), _exp(one.low), _exp(one.high))


def _exp(value: float) -> float:
    """e to this power; infinite where that is more than a number can hold."""
    return exp(value) if value < MAX_LOG else inf


def _exponent_word(one: ExponentVerdict) -> str:
    if one.flips:
        return f"{UNDECIDED}: it would be another word with an E for each arm"
    if one.larger is not None:
        return f"{one.word}: {one.larger}"
    if one.word == SAME:
        return f"{SAME} within ±{significant(one.margin)}"
    return one.word


def _describe_multiplier(one: LawMultiplier) -> str:
    known = [point for point in one.curve if point.factor is not None and not point.extrapolated]
    pair = f"{quote_arm(one.arm)} against {quote_arm(one.against)}"
    if not known:
        return f"{pair}: no compute multiplier within the data."
    parts = []
    for point in dict.fromkeys((known[0], known[len(known) // 2], known[-1])):
        assert point.factor is not None
        assert point.low is not None
        assert point.high is not None
        parts.append(
            f"{significant(point.factor)} ({significant(point.low)} to {significant(point.high)})"
            f" at {format_flops(point.compute)}"
        )
    return (
        f"{pair}: the compute that {quote_arm(one.against)} needs for the same loss, over that of"
        f" {quote_arm(one.arm)}: {', '.join(parts)}. {one.crossing.words.capitalize()}."
    )


def _outcome(report: ReportData, prediction: LawPrediction) -> PredictionOutcome | None:
    column = column_of(report.plan.design.primary.measure.table)
    losses: list[float] = []
    for row in select_rows(report.findings.table.rows, purposes=["predicted"], arm=prediction.arm):
        if row["outcome"] == "finished" and row.get(column) is not None:
            losses.append(row[column])
    if len(losses) != prediction.n_seeds:
        return None
    return compare_with_outcome(prediction, losses)

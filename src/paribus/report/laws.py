"""Tables and sentences of the laws of a study with a ladder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isfinite, isnan, sqrt
from typing import Any

from paribus.analyse.law_sensitivity import COMMON, OtherReading
from paribus.analyse.laws.bounds import MAX_EXPONENT, MAX_FACTOR, NO_BOUND
from paribus.analyse.laws.exponents import SAME, UNDECIDED, ExponentDifference, ExponentVerdict
from paribus.analyse.laws.fit import LawEstimate
from paribus.analyse.laws.misfit import LEAST_P
from paribus.analyse.laws.points import unlogged
from paribus.analyse.laws.prediction import (
    LawPrediction,
    PredictionOutcome,
    compare_with_outcome,
    prediction_refusal,
    read_predictions,
)
from paribus.analyse.run_table import column_of, select_rows
from paribus.analyse.scoreless_runs import scoreless_runs
from paribus.analyse.study_laws import LawMultiplier, StudyLaws
from paribus.report.ladder_gains import describe_ladder_gains, ladder_gain_lines
from paribus.report.ladder_rates import describe_rate_law, ladder_rate_lines
from paribus.report.numbers import (
    DASH,
    compact,
    describe_each,
    format_count,
    format_flops,
    format_signed,
    join_words,
    quote_arm,
    rough,
    significant,
)
from paribus.report.report_data import ReportData
from paribus.report.size_trends import trend_section

LAWS_TITLE = "Laws"
EXPONENTS_TITLE = "Do exponents differ?"
SHARED_TITLE = "If arms miss their laws together"
PREDICTIONS_TITLE = "Predicted before it was run"
READINGS_TITLE = "The laws under other readings"
READINGS_NOTE = (
    "The bootstrap keeps or turns the residuals of whole cells, the same in all arms. Where arms"
    " miss their laws together, what all of them share at a size and duration has a variance of"
    " its own. N without embeddings leaves out the table of tokens. With equal noise every run"
    " counts alike; it is shown where noise differs. Huber's loss of ln L with δ = 0.001 is fitted"
    " to each arm alone; its intervals come from redrawn cells, and need a fourth size."
)
LAWS_NOTE = (
    "L = E + A/N^α + B/D^β, with N all parameters, D tokens read and L the primary yardstick."
    " Least squares on ln L, one E for all arms; 95 % intervals by profile. Lack of fit: the p of"
    " an F test against the spread between seeds{misfit}. Definitions: docs/scaling.md."
)
OWN_MISFIT = (
    "; below 0.05 all points of the arm get a further variance, which accounts for their residuals"
)
POOLED_MISFIT = ", arm by arm; the p of all arms together is {p}. {consequence}"
POOLED_OFF_LAW = (
    "It is below 0.05, so the points of every arm get a further variance about its law, which"
    " accounts for their residuals: {off_law}"
)
NO_OFF_LAW = "Below 0.05 the points of every arm would get a further variance about its law"
LAW_HEADING = ("arm", "E", "A", "B", "α", "β", "lack of fit, p", "runs")
EXPONENT_HEADING = (
    *("arm", "against", "exponent", "difference", "interval", "with an E each", "verdict"),
)
SHARED_HEADING = (*EXPONENT_HEADING[:-1], "in this reading")
READING_HEADING = ("arm", "reading", "E", "A", "B", "α", "β")
PREDICTION_HEADING = ("arm", "parameters", "tokens", "predicted", "interval", "measured", "")
NOT_RUN, NO_ESTIMATE = "not run yet", "no estimate"
NO_SUCH_ARM = "the study has no such arm now"
_SYMBOLS = {"alpha": "α", "beta": "β"}


def describe_fit(laws: StudyLaws | str) -> str:
    """What is fitted and how, and how points that lie off their law are judged."""
    misfit = OWN_MISFIT
    if isinstance(laws, str):
        misfit = ""
    elif laws.fit.misfit_p_P is not None:
        misfit = _describe_pooled_misfit(laws, float(laws.fit.misfit_p_P[0]))
    return LAWS_NOTE.format(misfit=misfit)


def _describe_pooled_misfit(laws: StudyLaws, p: float) -> str:
    """The p that no arm misses its law, and the further variance where it is small."""
    consequence, off_law = NO_OFF_LAW, describe_off_law(laws)
    if off_law:
        consequence = POOLED_OFF_LAW.format(off_law=off_law)
    known_p = f"below {LEAST_P:g}"
    if p > LEAST_P:
        known_p = significant(p)
    return POOLED_MISFIT.format(p=known_p, consequence=consequence)


def describe_off_law(laws: StudyLaws) -> str:
    """How far points lie off the law of each arm beyond what seeds explain, as a standard
    deviation; nothing where laws fit.
    """
    deviations: dict[str, float] = {}
    for cells, noise in zip(laws.fit.arms, laws.fit.noises, strict=True):
        if noise.off_law[0] > 0:
            deviations[quote_arm(cells.arm)] = sqrt(float(noise.off_law[0]))
    if not deviations:
        return ""
    return f"as a standard deviation of the loss, {describe_each(deviations, _rough_percent)}"


def _rough_percent(share: float) -> str:
    return f"{rough(100 * share)} %"


def law_lines(laws: StudyLaws) -> list[tuple[str, ...]]:
    """A line for each arm: its law with intervals."""
    lines: list[tuple[str, ...]] = []
    for cells, noise in zip(laws.fit.arms, laws.fit.noises, strict=True):
        own = laws.estimates[cells.arm]
        p = float(noise.lack_of_fit[0])
        lines.append(
            (
                cells.arm,
                *_law_numbers(own),
                DASH if p != p else significant(p),
                str(int(cells.n_runs_C.sum())),
            )
        )
    return lines


def exponent_lines(verdicts: Sequence[ExponentVerdict]) -> list[tuple[str, ...]]:
    """A line for each exponent of each pair that the design judges."""
    lines: list[tuple[str, ...]] = []
    for one in verdicts:
        found, own = one.one_floor, one.own_floors
        lines.append(
            (
                one.arm,
                one.against,
                _SYMBOLS[one.exponent],
                _signed_estimate(found),
                _signed_interval(found),
                _signed_with_interval(own),
                _exponent_word(one),
            )
        )
    return lines


def describe_floor(laws: StudyLaws) -> str:
    """What is known of whether one E is enough for all arms."""
    if laws.one_floor_p is None:
        return ""
    return (
        f"That all arms have one E is assumed; the p of the F test of it is"
        f" {significant(laws.one_floor_p)}, and it sees little. So a word about an exponent must"
        " also hold, at the same level, with an E for each arm."
    )


def describe_shared_misfit(laws: StudyLaws) -> str:
    """How far arms of a rung are off their laws together; empty where they are not."""
    found = laws.shared_misfit
    if found is None:
        return ""
    return (
        f"At the same size and duration, arms miss their laws together: by"
        f" {significant(100 * found.shared)} % of the loss in common and by"
        f" {significant(100 * found.own)} % each by itself, beyond what seeds explain (standard"
        f" deviations; the p that nothing is common is {significant(found.p)}). What is common"
        " cancels in a difference, so it is no noise of one. Fitted in that way, exponents differ"
        f' as follows; the laws are those of "{COMMON}" among the other readings. The verdicts'
        " stay those above."
    )


def reading_lines(laws: StudyLaws, readings: Sequence[OtherReading]) -> list[tuple[str, ...]]:
    """Each arm's law as it is fitted, and under other readings."""
    lines: list[tuple[str, ...]] = []
    for arm in laws.arms:
        lines.append((arm, "as above", *_law_numbers(laws.estimates[arm])))
        for one in readings:
            if one.arm != arm:
                continue
            if one.estimates:
                lines.append((arm, one.reading, *_law_numbers(one.estimates)))
            else:
                lines.append((arm, f"{one.reading}: {one.refusal}", *[DASH] * 5))
    return lines


def _law_numbers(own: Mapping[str, LawEstimate]) -> tuple[str, ...]:
    """E, A, B, α and β, each with its interval."""
    return (
        _estimate(own["E"]),
        _estimate(_unlogged(own["lnA"]), MAX_FACTOR),
        _estimate(_unlogged(own["lnB"]), MAX_FACTOR),
        _exponent(own["alpha"]),
        _exponent(own["beta"]),
    )


def describe_noise(laws: StudyLaws) -> str:
    """How the noise between seeds differs between places of the ladder; nothing where it does
    not, as far as a test can tell.
    """
    if not laws.rung_noise.differs_P[0]:
        return ""
    deviations: list[float] = []
    for cells, noise in zip(laws.fit.arms, laws.fit.noises, strict=True):
        for relative in cells.relative_variance_C:
            deviations.append(100 * sqrt(float(noise.seed_variance[0]) * relative))
    return (
        "The noise between seeds differs between places of the ladder (Bartlett's test, p ="
        f" {significant(float(laws.rung_noise.p_P[0]))}): the standard deviation of a loss is from"
        f" {significant(min(deviations))} % to {significant(max(deviations))} % of it. Points count"
        " by one over their variance, so that the noisiest do not widen every interval."
    )


def warn_of_shared_misfit(laws: StudyLaws) -> str:
    """Where arms miss their laws together: what that does to intervals; nothing elsewhere."""
    if laws.shared_misfit is None:
        return ""
    return (
        "Arms miss their laws in the same places, and this table takes each of them for evidence of"
        " its own. So its intervals can be too narrow, above all those of E, A and α. The reading"
        f' "{COMMON}" below heeds it.'
    )


def describe_unbounded(laws: StudyLaws) -> str:
    """Which arms have too few runs, or too noisy ones, for a law; nothing where none has."""
    names: list[str] = []
    for arm, own in laws.estimates.items():
        ends = [abs(end) for name in ("alpha", "beta") for end in (own[name].low, own[name].high)]
        if max(ends) > MAX_EXPONENT:
            names.append(quote_arm(arm))
    if not names:
        return ""
    return (
        f"Exponents without a bound: {', '.join(names)}. These runs say too little for a law. A"
        " number that has no bound has no estimate below, and nothing should be concluded from the"
        " others."
    )


def multiplier_sentences(laws: StudyLaws) -> list[str]:
    """What compute each pair's first arm needs for the loss of the second, and where they cross."""
    return [_describe_multiplier(one) for one in laws.multipliers]


def prediction_lines(report: ReportData, predictions: Sequence[Any]) -> list[tuple[str, ...]]:
    """What was predicted before the largest run, beside what it came to."""
    lines: list[tuple[str, ...]] = []
    for prediction in read_predictions(predictions):
        outcome = _outcome(report, prediction)
        measured = DASH if outcome is None else significant(outcome.loss, 4)
        lines.append(
            (
                prediction.arm,
                format_count(prediction.parameters),
                format_count(prediction.tokens),
                significant(prediction.loss, 4),
                describe_prediction_interval(prediction),
                measured,
                describe_outcome(report, prediction),
            )
        )
    return lines


def describe_refusal(predictions: Sequence[Any]) -> str:
    """Why nothing was predicted of the largest run; nothing where it was."""
    refusal = prediction_refusal(predictions)
    if not refusal:
        return ""
    return f"The largest run was made without a prediction: {refusal}"


def describe_scoreless_runs(report: ReportData) -> str:
    """Which runs of the ladder laws and gains are without; nothing where all have a score."""
    described = scoreless_runs(report.plan, report.findings.table.rows).description
    if not described:
        return ""
    return (
        f"{described}. Laws and gains are without them, so they may favour sizes and durations that"
        " go well. A lower rate helps against divergence, and more tokens against short training."
    )


def describe_unknown_arms(report: ReportData) -> str:
    """Which arms the study does not have now although something was predicted of them; nothing
    where it has all of them.
    """
    predicted = [one.arm for one in read_predictions(report.predictions)]
    unknown = [quote_arm(arm) for arm in predicted if arm not in report.order]
    if not unknown:
        return ""
    others = [quote_arm(arm) for arm in report.order if arm not in predicted]
    sentence = (
        f"Predictions were written down for {join_words(unknown)}, and the study has no arm of"
        " that name now. An arm that was renamed afterwards keeps its prediction under the old"
        " name, which is not compared with any run and not drawn."
    )
    if not others:
        return sentence
    return f"{sentence} Arms without a prediction: {join_words(others)}."


def law_section(report: ReportData) -> Mapping[str, Any] | None:
    """All that a page shows of laws; None where the study has no ladder."""
    laws = report.laws
    if laws is None:
        return None
    gains = {
        "note": describe_fit(laws),
        "gains": ladder_gain_lines(report),
        "gains_note": describe_ladder_gains(report),
        "scoreless": describe_scoreless_runs(report),
    }
    if isinstance(laws, str):
        return {
            **gains,
            "fault": laws,
            "refusal": describe_refusal(report.predictions),
            "unknown_arms": describe_unknown_arms(report),
            **trend_section(report),
        }
    return {
        **gains,
        "unbounded": describe_unbounded(laws),
        "noise": describe_noise(laws),
        "misfit": warn_of_shared_misfit(laws),
        "laws": law_lines(laws),
        "exponents": _mark_compounds(exponent_lines(laws.verdicts), report),
        "floor": describe_floor(laws),
        "shared_misfit": describe_shared_misfit(laws),
        "shared_exponents": exponent_lines(laws.shared_misfit.verdicts)
        if laws.shared_misfit
        else [],
        "readings": reading_lines(laws, report.law_readings),
        "rates": ladder_rate_lines(report),
        "rate_law": describe_rate_law(report),
        "multipliers": multiplier_sentences(laws),
        "predictions": prediction_lines(report, report.predictions),
        "refusal": describe_refusal(report.predictions),
        "unknown_arms": describe_unknown_arms(report),
        **trend_section(report),
    }


def _mark_compounds(lines: Sequence[tuple[str, ...]], report: ReportData) -> list[tuple[str, ...]]:
    """Lines on exponents, with the factors of each pair that differs in several."""
    marked = []
    for arm, against, *cells, verdict in lines:
        difference = report.plan.difference_of(arm, against)
        mark = "" if difference is None else difference.mark
        marked.append((arm, against, *cells, "; ".join(filter(None, (verdict, mark)))))
    return marked


def _estimate(one: LawEstimate, most: float = inf) -> str:
    """E, A or B with its interval: numbers above 0."""
    least = 1 / most
    estimate = compact(one.estimate)
    if one.estimate > most or one.estimate < least:
        estimate = NO_ESTIMATE
    low, high = "0", NO_BOUND
    if least < one.low <= most:
        low = compact(one.low)
    if least <= one.high <= most and isfinite(one.high):
        high = compact(one.high)
    return _with_interval(one, estimate, low, high, has_end=low != "0" or high != NO_BOUND)


def _exponent(one: LawEstimate) -> str:
    """An exponent with its interval; unlike the others it may be below 0."""
    estimate, low, high = NO_ESTIMATE, NO_BOUND, NO_BOUND
    if abs(one.estimate) <= MAX_EXPONENT:
        estimate = compact(one.estimate)
    if abs(one.low) <= MAX_EXPONENT:
        low = compact(one.low)
    if abs(one.high) <= MAX_EXPONENT:
        high = compact(one.high)
    return _with_interval(one, estimate, low, high, has_end={low, high} != {NO_BOUND})


def _with_interval(one: LawEstimate, estimate: str, low: str, high: str, has_end: bool) -> str:
    """A number with the ends of its interval; of one without an end there is no estimate."""
    if isnan(one.low):
        if estimate == NO_ESTIMATE:
            return NO_ESTIMATE
        return f"{estimate} (no interval)"
    if not has_end:
        return NO_ESTIMATE
    return f"{estimate} ({low} to {high})"


def _end(value: float) -> str:
    return significant(value) if isfinite(value) else NO_BOUND


def _signed_estimate(found: ExponentDifference) -> str:
    """A difference of exponents; there is none where its interval has no end."""
    if min(abs(found.low), abs(found.high)) > MAX_EXPONENT:
        return NO_ESTIMATE
    return format_signed(found.estimate, 3)


def _signed_with_interval(found: ExponentDifference) -> str:
    estimate = _signed_estimate(found)
    if estimate == NO_ESTIMATE:
        return NO_ESTIMATE
    return f"{estimate} ({_signed_interval(found)})"


def _signed_interval(found: ExponentDifference) -> str:
    return f"{_signed_end(found.low)} to {_signed_end(found.high)}"


def _signed_end(value: float) -> str:
    return format_signed(value, 3) if abs(value) <= MAX_EXPONENT else NO_BOUND


def _unlogged(one: LawEstimate) -> LawEstimate:
    return LawEstimate(unlogged(one.estimate), unlogged(one.low), unlogged(one.high))


def _exponent_word(one: ExponentVerdict) -> str:
    if one.rests_on_one_floor:
        return f"{UNDECIDED}: {one.one_floor_word} only if all arms have one E"
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
            f"{significant(point.factor)} ({significant(point.low)} to {_end(point.high)})"
            f" at {format_flops(point.compute)}"
        )
    return (
        f"{pair}: the compute that {quote_arm(one.against)} needs for the same loss, over that of"
        f" {quote_arm(one.arm)}: {', '.join(parts)}. {one.crossing.words.capitalize()}."
    )


def describe_prediction_interval(prediction: LawPrediction) -> str:
    """The two ends, or that there is none."""
    return describe_interval(prediction.low, prediction.high, 4)


def describe_interval(low: float, high: float, n_digits: int = 3) -> str:
    """The two ends of an interval of numbers above 0, which may have no upper end."""
    last = significant(high, n_digits) if isfinite(high) else NO_BOUND
    return f"{significant(low, n_digits)} to {last}"


def predicted_losses(report: ReportData, arm: str) -> dict[int, float]:
    """What the runs came to that were predicted of an arm, by seed."""
    column = column_of(report.plan.design.primary.measure.table)
    losses: dict[int, float] = {}
    for row in select_rows(report.findings.table.rows, purposes=["predicted"], arm=arm):
        if row["outcome"] == "finished" and row.get(column) is not None:
            losses[row["seed"]] = row[column]
    return losses


def describe_outcome(report: ReportData, prediction: LawPrediction) -> str:
    """Whether a prediction came true, in words."""
    if prediction.arm not in report.order:
        return NO_SUCH_ARM
    outcome = _outcome(report, prediction)
    return NOT_RUN if outcome is None else outcome.words


def _outcome(report: ReportData, prediction: LawPrediction) -> PredictionOutcome | None:
    losses = list(predicted_losses(report, prediction.arm).values())
    if len(losses) != prediction.n_seeds:
        return None
    return compare_with_outcome(prediction, losses)

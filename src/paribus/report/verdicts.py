"""The verdict in words, for a reader who knows no statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isinf

from paribus.analyse import Comparison
from paribus.analyse.advice import Advice
from paribus.analyse.bound_verdict import SAME_SCORES
from paribus.analyse.findings import ArmFinding
from paribus.analyse.plan_family import is_fourth_edition
from paribus.analyse.run_table import Row
from paribus.analyse.sign_test import NOT_CONFIRMED, TOO_FEW_SEEDS
from paribus.analyse.undertrained import UNDERTRAINED
from paribus.record import JudgedDifference
from paribus.report.intervals import describe_compute, describe_gain
from paribus.report.numbers import capitalise, format_plural, quote_arm, rough, significant
from paribus.report.positive_control import equivalence_caveat
from paribus.report.report_data import ReportData
from paribus.report.series import describe_seeds
from paribus.spec.measure import with_unit

UNDERTRAINED_MEANING = (
    "the loss was finite and had not risen, but the score is still worse than that of the unigram"
    " model"
)
TRAIN_LONGER = "Train longer: more n_steps, or a larger --scale where the design has one"
HEAPS_MEANING = (
    "A mean over runs that learnt and runs that did not describes neither, so no interval is given."
    " How often an arm learns is another question, and takes more seeds."
)


@dataclass(frozen=True)
class VerdictText:
    """What is said of one arm."""

    arm: str
    word: str
    label: str  # the word, with the seeds that it is of where some runs failed
    headline: str
    compound: str  # why it is judged though several factors differ
    failures: str  # who trained how often, where not all did
    numbers: str  # effect and interval
    meaning: str  # what these allow to say
    compute: str  # what the effect is worth
    advice: str  # what it would take, where nothing can be said
    is_control: bool


def verdict_texts(report: ReportData) -> list[VerdictText]:
    """Every comparison; the positive control last."""
    texts = [_verdict_text(arm, report) for arm in report.findings.arms]
    return sorted(texts, key=lambda one: one.is_control)


def _verdict_text(arm: ArmFinding, report: ReportData) -> VerdictText:
    baseline, comparison = arm.against, arm.judgement.comparison
    advice = advice_on_arm(arm)
    advice_text = "" if advice is None else f"{advice.description}."
    numbers = compute = ""
    meaning = HEAPS_MEANING if arm.judgement.verdict.word == "bimodal" else ""
    difference = report.plan.difference_of(arm.name, baseline)
    if comparison is not None:
        numbers, meaning = describe_gain(comparison), _describe_reading(arm, comparison, report)
        compute = describe_compute(arm.name, baseline, arm.multiplier)
    return VerdictText(
        arm=arm.name,
        word=arm.judgement.verdict.word,
        label=arm.judgement.verdict.label,
        headline=with_factors(
            verdict_headline(arm, baseline, equivalence_caveat(report), items_note(report)),
            difference,
        ),
        compound=describe_reason(difference),
        failures=_describe_failures(arm, baseline, report),
        numbers=numbers,
        meaning=meaning,
        compute=compute,
        advice=advice_text,
        is_control=arm.name == report.first_edition_control_arm,
    )


def with_factors(headline: str, difference: JudgedDifference | None) -> str:
    """A headline, with what differs where that is several factors, or something is allowed."""
    if difference is None or not difference.mark:
        return headline
    return f"{headline} ({difference.description})"


def describe_reason(difference: JudgedDifference | None) -> str:
    """Why a comparison of several factors is judged; nothing of another."""
    if difference is None or not difference.is_compound:
        return ""
    return f"Several factors on purpose: {difference.reason or 'the design does not say why'}."


def _describe_reading(arm: ArmFinding, comparison: Comparison, report: ReportData) -> str:
    """What the interval says against the margin, at every rate of a bracket, and what tuning
    could move.
    """
    unit = report.measure.unit
    meaning = describe_bracket(arm)
    if not meaning:
        meaning = _verdict_meaning(comparison, arm.judgement.verdict.word, unit)
    sentences = (meaning, _symmetry_note(comparison), describe_tuning_doubt(arm, unit))
    return " ".join(filter(None, sentences))


def quote_comparison(arm: ArmFinding, baseline: str) -> str:
    """The name of a comparison as a sentence has it: its arm, and what it is judged against where
    that is not the baseline.
    """
    if arm.against == baseline:
        return quote_arm(arm.name)
    return f"{quote_arm(arm.name)} against {quote_arm(arm.against)}"


def advice_on_arm(arm: ArmFinding) -> Advice | None:
    """What an inconclusive comparison would take; None of another."""
    return advice_on_comparison(arm.judgement.comparison, arm.judgement.verdict.word)


def advice_on_comparison(comparison: Comparison | None, word: str) -> Advice | None:
    if comparison is not None and word == "inconclusive":
        return comparison.advice
    return None


def describe_fresh_seeds(report: ReportData) -> str:
    """How to get fresh seeds, where a contrast, or a comparison that is no control, asks for
    some.
    """
    if not any(advice.needs_fresh_seeds for advice in _advice_of_study(report)):
        return ""
    own_seeds = describe_seeds(report.plan.design.declared_seeds)
    return (
        f"Fresh seeds make a new study of the same design, with seeds other than {own_seeds}, as"
        f" many as advised: `paribus run DESIGN{_run_options(report)} --seeds N`, and whatever else"
        " was --set or named for this study. Its verdict is read from the new seeds alone; seeds"
        " added to this study would be a second look."
    )


def _advice_of_study(report: ReportData) -> Iterator[Advice]:
    """What inconclusive comparisons and contrasts would take, but for the positive control."""
    for arm in report.findings.arms:
        advice = advice_on_arm(arm)
        if advice is not None and arm.name != report.first_edition_control_arm:
            yield advice
    for contrast in report.findings.contrasts:
        advice = advice_on_comparison(contrast.comparison, contrast.word or "")
        if advice is not None:
            yield advice


def _run_options(report: ReportData) -> str:
    """Options of `paribus run` that make a new study beside this one."""
    options, series = "", report.plan.series
    if report.plan.scale:
        options += f" --scale {report.plan.scale}"
    if series is not None:
        # The same command again would go on with this study, which has a number of its own.
        options += f" --name {series.first}-{series.number + 1}"
    return options


def items_note(report: ReportData) -> str:
    """That a verdict is about the items that were measured, which headlines say from the fourth
    edition on.
    """
    if is_fourth_edition(report.plan):
        return "on these items"
    return ""


def verdict_headline(arm: ArmFinding, baseline: str, within: str = "", items: str = "") -> str:
    """The verdict in a short sentence, with what could overturn it.

    `within` says what the margin of an `equivalent` is, where that must be known. `items` says
    what the verdict is about.
    """
    verdict = arm.judgement.verdict
    scope = "".join(f" {part}" for part in (verdict.seeds, items) if part)
    doubt, sentence = verdict.doubt, _verdict_sentence(arm, baseline, within, scope)
    if doubt:
        return f"{sentence}; {doubt}"
    return sentence


def describe_tuning_doubt(arm: ArmFinding, unit: str) -> str:
    """Why tuning could overturn a verdict; nothing where it could not."""
    if not arm.judgement.verdict.doubt or arm.tuning_uncertainty is None:
        return ""
    if isinf(arm.tuning_uncertainty):
        return "What tuning could move is not known: a rate was taken without a parabola."
    move = with_unit(rough(arm.tuning_uncertainty), unit)
    return (
        f"An error in the arms' rates could move the gain by {move}, and more seeds do not heal it."
    )


def describe_bracket(arm: ArmFinding) -> str:
    """That a verdict is lost beside the tuned rates; nothing where it holds, or where nobody
    asked.
    """
    verdict = arm.judgement.verdict
    if not arm.brackets or verdict.word != "inconclusive" or not verdict.detail:
        return ""
    return (
        "The numbers are of the tuned rates; half an octave beside them the verdict is another, so"
        " it is none."
    )


def _verdict_sentence(arm: ArmFinding, against: str, within: str, scope: str) -> str:
    """The verdict in a sentence; `scope` is of which seeds and items it is."""
    name, baseline, verdict = quote_arm(arm.name), quote_arm(against), arm.judgement.verdict
    detail = f", {verdict.detail}" if verdict.detail else ""
    match verdict.word:
        case "better" | "worse":
            return f"{name} does {verdict.word} than {baseline}{scope}{detail}"
        case "equivalent":
            return f"{name} and {baseline} do equally well{scope}, {within or 'within the margin'}"
        case "not worse":
            return f"{name} is not worse than {baseline} by as much as the margin{scope}{detail}"
        case "inconclusive":
            return f"These runs cannot tell {name} from {baseline}{scope}{detail}"
        case "identical" if verdict.detail == SAME_SCORES.detail:
            return f"{name} and {baseline} score the same in every seed: nothing can be compared"
        case "identical":
            return f"{name} and {baseline} are the same runs: nothing was compared"
        case "at floor":
            return f"Neither {name} nor {baseline} is above the floor of the task{scope}"
        case "at ceiling":
            return f"{name} and {baseline} are both at the ceiling of the task{scope}"
        case "unstable":
            return f"{name} against {baseline} is {verdict.label}: {verdict.detail}"
        case "manipulation not shown":
            return (
                f"{capitalise(verdict.detail)}: manipulation not shown, so no verdict on {name}"
                f" against {baseline}"
            )
        case "bimodal":
            return (
                f"No verdict on {name} against {baseline}, some runs learnt and some did not:"
                f" {verdict.detail}"
            )
        case "withheld":
            return (
                f"No verdict on {name} against {baseline}: files of the study are not what was"
                " written"
            )
        case "no verdict":
            return f"No verdict on {name} against {baseline}: {verdict.detail}"


def _verdict_meaning(comparison: Comparison, word: str, unit: str) -> str:
    """What an arm's verdict says, which failures can change from what its numbers alone would."""
    average = " on average over seeds" if comparison.margins else ""
    if comparison.margin is None:
        margin = ""
    else:
        margin = f"±{with_unit(significant(comparison.margin), unit)}{average}"
    match word:
        case "better":
            return "The whole interval lies above zero: over many seeds, the mean would be a gain."
        case "worse":
            return "The whole interval lies below zero: over many seeds, the mean would be a loss."
        case "equivalent":
            return (
                f"A difference as large as the margin, {margin}, is ruled out in both directions."
            )
        case "not worse":
            return (
                f"A loss as large as the margin, {margin.removeprefix('±')}, is ruled out; a gain"
                " was not asked for."
            )
        case "inconclusive" if comparison.margin is None:
            return "The interval holds zero, and without a margin nothing can be called equal."
        case "inconclusive" if comparison.margins:
            return (
                f"The interval holds zero, and a difference as large as the margin, {margin}, is"
                " not ruled out: neither a difference nor its absence is shown."
            )
        case "inconclusive":
            return (
                f"The interval holds zero and is not inside the margin of {margin}: neither a"
                " difference nor its absence is shown."
            )
        case "at floor" | "at ceiling":
            return (
                f"{capitalise(comparison.verdict.detail)}. A task that cannot tell two arms apart"
                " does not show that they are equal."
            )
        case "unstable":
            return (
                "Whichever failed more often can neither win nor be called equal, whatever the"
                " numbers say."
            )
        case _:
            return ""


def _symmetry_note(comparison: Comparison) -> str:
    """That a word of an open number of seeds rests on symmetric noise, where it does."""
    notes: list[str] = []
    for remark in comparison.remarks:
        if remark in (NOT_CONFIRMED, TOO_FEW_SEEDS):
            notes.append(f"It {remark}.")
    return " ".join(notes)


def _describe_failures(arm: ArmFinding, baseline: str, report: ReportData) -> str:
    judgement = arm.judgement
    if judgement.arm_trained.k == judgement.baseline_trained.k == len(judgement.seeds):
        return ""
    counts = (
        f"{quote_arm(arm.name)} trained in {judgement.arm_trained}, {quote_arm(baseline)} in"
        f" {judgement.baseline_trained}"
    )
    if judgement.comparison is None:
        rest = ""
    elif judgement.undertrained_note:
        rest = "; the numbers include the scores that the others had reached"
    else:
        rest = "; the numbers are of the seeds in which both did"
    rows = report.findings.reported_rows
    own = [row for row in rows if row["arm"] in (arm.name, baseline)]
    return " ".join(filter(None, (f"{counts}{rest}.", undertrained_advice(own))))


def undertrained_advice(rows: Sequence[Row]) -> str:
    """What to do about runs that were not trained long enough; nothing where there are none."""
    n_short = Counter(row["outcome"] for row in rows)[UNDERTRAINED]
    if not n_short:
        return ""
    was = "was" if n_short == 1 else "were"
    return (
        f"{format_plural(n_short, 'run')} {was} not trained long enough: {UNDERTRAINED_MEANING}."
        f" {TRAIN_LONGER}."
    )

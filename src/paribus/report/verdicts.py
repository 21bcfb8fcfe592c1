"""The verdict in words, for a reader who knows no statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isinf

from paribus.analyse import Comparison
from paribus.analyse.advice import Advice
from paribus.analyse.findings import UNIT, Arm
from paribus.analyse.rows import Row
from paribus.analyse.sign_test import SILENT, TOO_FEW
from paribus.analyse.undertrained import UNDERTRAINED
from paribus.report.intervals import compute_words, numbers
from paribus.report.material import Material
from paribus.report.numbers import rough, significant, some
from paribus.report.positive_control import equivalent_within
from paribus.report.series import seed_range

SHORT = "the loss was finite and had not risen, but the score is still worse than that of the unigram model"
LONGER = "Train longer: more n_steps, or a larger --scale where the design has one"


@dataclass(frozen=True)
class Said:
    """What is said of one arm."""

    arm: str
    word: str
    headline: str
    failures: str  # who trained how often, where not all did
    numbers: str  # effect and interval
    meaning: str  # what these allow to say
    compute: str  # what the effect is worth
    advice: str  # what it would take, where nothing can be said
    is_control: bool


def verdicts(material: Material) -> list[Said]:
    """Every comparison; the positive control last."""
    said = [_said(arm, material) for arm in material.found.arms]
    return sorted(said, key=lambda one: one.is_control)


def _said(arm: Arm, material: Material) -> Said:
    judgement, baseline = arm.judgement, arm.against
    made, advice = judgement.comparison, advice_on(arm)
    return Said(
        arm.name,
        judgement.verdict.word,
        headline(arm, baseline, equivalent_within(material)),
        _failures(arm, baseline, material),
        "" if made is None else numbers(made),
        "" if made is None else _reading_words(arm, made),
        "" if made is None else compute_words(arm.name, baseline, arm.multiplier),
        "" if advice is None else f"{advice.words}.",
        arm.name == material.control,
    )


def _reading_words(arm: Arm, made: Comparison) -> str:
    """What the interval says against the margin, at every rate of a bracket, and what tuning could move."""
    said = bracket_words(arm) or _meaning(made, arm.judgement.verdict.word)
    return " ".join(filter(None, (said, _rests_on(made), tuning_words(arm))))


def advice_on(arm: Arm) -> Advice | None:
    """What an inconclusive comparison would take; None of another."""
    return advice_on_comparison(arm.judgement.comparison, arm.judgement.verdict.word)


def advice_on_comparison(made: Comparison | None, word: str) -> Advice | None:
    return made.advice if made is not None and word == "inconclusive" else None


def fresh_seeds(material: Material) -> str:
    """How to get fresh seeds, where a contrast, or a comparison that is no control, asks for some."""
    asked = [advice_on(arm) for arm in material.found.arms if arm.name != material.control]
    asked += [advice_on_comparison(one.comparison, one.word or "") for one in material.found.contrasts]
    if not any(one is not None and one.is_fresh for one in asked):
        return ""
    series = material.plan.series
    scale = material.plan.scale
    options = f" --scale {scale}" if scale else ""
    # The same command again would go on with this study, which has a number of its own.
    options += "" if series is None else f" --name {series.first}-{series.number + 1}"
    used = seed_range(material.plan.design.declared_seeds)
    return (
        f"Fresh seeds make a new study of the same design, with seeds other than {used}, as many as advised: "
        f"`paribus run DESIGN{options} --seeds N`, and whatever else was --set or named for this study. Its verdict is "
        f"read from the new seeds alone; seeds added to this study would be a second look."
    )


def headline(arm: Arm, baseline: str, within: str = "") -> str:
    """The verdict in a short sentence, with what could overturn it.

    `within` says what the margin of an `equivalent` is, where that must be known.
    """
    doubt, said = arm.judgement.verdict.doubt, _sentence(arm, baseline, within)
    return f"{said}; {doubt}" if doubt else said


def tuning_words(arm: Arm) -> str:
    """Why tuning could overturn a verdict; nothing where it could not."""
    if not arm.judgement.verdict.doubt or arm.movable is None:
        return ""
    if isinf(arm.movable):
        return "What tuning could move is not known: a rate was taken without a parabola."
    move = f"An error in the arms' rates could move the gain by {rough(arm.movable)} {UNIT}"
    return f"{move}, and more seeds do not heal it."


def bracket_words(arm: Arm) -> str:
    """That a verdict is lost beside the tuned rates; nothing where it holds, or where nobody asked."""
    verdict = arm.judgement.verdict
    if not arm.brackets or verdict.word != "inconclusive" or not verdict.detail:
        return ""
    return "The numbers are of the tuned rates; half an octave beside them the verdict is another, so it is none."


def _sentence(arm: Arm, baseline: str, within: str) -> str:
    name, verdict = arm.name, arm.judgement.verdict
    detail = f", {verdict.detail}" if verdict.detail else ""
    match verdict.word:
        case "better" | "worse":
            return f"{name} does {verdict.word} than {baseline}{detail}"
        case "equivalent":
            return f"{name} and {baseline} do equally well, {within or 'within the margin'}"
        case "not worse":
            return f"{name} is not worse than {baseline} by as much as the margin{detail}"
        case "inconclusive":
            return f"These runs cannot tell {name} from {baseline}{detail}"
        case "identical":
            return f"{name} and {baseline} are the same runs: nothing was compared"
        case "unstable":
            return f"{name} against {baseline} is unstable: {verdict.detail}"
        case "withheld":
            return f"No verdict on {name} against {baseline}: files of the study are not what was written"
        case "no verdict":
            return f"No verdict on {name} against {baseline}: {verdict.detail}"


def _meaning(made: Comparison, word: str) -> str:
    """What an arm's verdict says, which failures can change from what its numbers alone would."""
    average = " on average over seeds" if made.margins else ""
    margin = "" if made.margin is None else f"±{significant(made.margin)} {UNIT}{average}"
    match word:
        case "better":
            return "The whole interval lies above zero: over many seeds, the mean would be a gain."
        case "worse":
            return "The whole interval lies below zero: over many seeds, the mean would be a loss."
        case "equivalent":
            return f"A difference as large as the margin, {margin}, is ruled out in both directions."
        case "not worse":
            return f"A loss as large as the margin, {margin.removeprefix('±')}, is ruled out; a gain was not asked for."
        case "inconclusive" if made.margin is None:
            return "The interval holds zero, and without a margin nothing can be called equal."
        case "inconclusive" if made.margins:
            return (
                f"The interval holds zero, and a difference as large as the margin, {margin}, is not ruled out: "
                f"neither a difference nor its absence is shown."
            )
        case "inconclusive":
            return (
                f"The interval holds zero and is not inside the margin of {margin}: neither a difference nor its "
                f"absence is shown."
            )
        case "unstable":
            return "Whichever failed more often can neither win nor be called equal, whatever the numbers say."
        case _:
            return ""


def _rests_on(made: Comparison) -> str:
    """That a word of an open number of seeds rests on symmetric noise, where it does."""
    return " ".join(f"It {remark}." for remark in made.remarks if remark in (SILENT, TOO_FEW))


def _failures(arm: Arm, baseline: str, material: Material) -> str:
    judgement = arm.judgement
    if judgement.arm_trained.k == judgement.baseline_trained.k == len(judgement.seeds):
        return ""
    counts = f"{arm.name} trained in {judgement.arm_trained}, {baseline} in {judgement.baseline_trained}"
    of = "" if judgement.comparison is None else "; the numbers are of the seeds in which both did"
    if judgement.undertrained and judgement.comparison is not None:
        of = "; the numbers include the scores that the others had reached"
    own = [row for row in material.found.reported if row["arm"] in (arm.name, baseline)]
    return " ".join(filter(None, (f"{counts}{of}.", too_short(own))))


def too_short(rows: Sequence[Row]) -> str:
    """What to do about runs that were not trained long enough; nothing where there are none."""
    n_short = sum(row["outcome"] == UNDERTRAINED for row in rows)
    if not n_short:
        return ""
    was = "was" if n_short == 1 else "were"
    return f"{some(n_short, 'run')} {was} not trained long enough: {SHORT}. {LONGER}."

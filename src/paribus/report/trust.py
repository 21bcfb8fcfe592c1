"""Can I trust it? What the verdict rests on, each with a mark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf, isinf
from typing import Literal

from paribus.analyse.detection import detectable_gain, detectable_in_sds
from paribus.analyse.expected_gain import ExpectedGain, expected_gain
from paribus.analyse.findings import UNIT
from paribus.analyse.remarks import rate_remark
from paribus.analyse.sign_test import MIN_SIGN_TEST_SEEDS
from paribus.analyse.undertrained import UNDERTRAINED
from paribus.record import ControlLine, Mark
from paribus.report.noise import TITLE, describe_noise
from paribus.report.numbers import (
    DIGITS,
    MAX_LISTED,
    decimals_for_width,
    describe_each,
    distinguishing_digits,
    format_count,
    format_percent,
    format_plain,
    format_plural,
    format_signed,
    join_words,
    percent_level,
    rough,
    significant,
)
from paribus.report.positive_control import (
    describe_control,
    describe_control_meaning,
    describe_margin_share,
    is_margin_weak,
)
from paribus.report.report_data import ReportData
from paribus.report.text_read import describe_text_differences
from paribus.report.verdicts import undertrained_advice

RATE_PATH = "training.optimizer.rate"
SYMMETRY_NOTE = (
    "Verdicts on an open number of seeds hold for symmetric noise, where about 3 % of studies ever"
    " say something false; with one skewed arm it is 8 to 24 %."
)
BATCH_PATHS = (
    "text",
    "corpus",
    "objective",
    "training.length",
    "training.n_sequences",
    "training.data_seed",
)
TrustMark = Literal["yes", "mind", "no"]


@dataclass(frozen=True)
class TrustCheck:
    """One thing the verdict rests on: fine, to be kept in mind, or broken."""

    name: str
    mark: TrustMark
    text: str


def trust_checks(report: ReportData) -> list[TrustCheck]:
    """In the order in which a reader should ask."""
    return [
        _confounds(report),
        _tuning(report),
        _seeds(report),
        *_pooled_noise(report),
        *_symmetry(report),
        *_noise_sources(report),
        _pairing(report),
        _control(report),
        *_margin(report),
        *_failures(report),
        _size(report),
        _text_epochs(report),
        *_budget(report),
        *_truncated_contexts(report),
        _new_documents(report),
        _machine(report),
        _as_planned(report),
    ]


def _confounds(report: ReportData) -> TrustCheck:
    lines = [line for line in report.plan.control if line.mark == Mark.CONFOUND]
    allowed = [line for line in lines if line.allowed is not None]
    if len(allowed) < len(lines):
        paths = join_words([line.path for line in lines if line.allowed is None])
        return TrustCheck(
            "Confounds", "no", f"{paths} differ between the arms and are not the factor."
        )
    n_equal = sum(line.mark == Mark.EQUAL for line in report.plan.control)
    if len(report.plan.declared) > 1:
        factor, them = ("differ", "them")
    else:
        factor, them = ("differs", "it")
    if allowed:
        reasons = "; ".join(allowed_confounds(report))
        return TrustCheck(
            "Confounds",
            "mind",
            f"{format_plural(len(allowed), 'difference')} allowed by the design. {reasons}.",
        )
    return TrustCheck(
        "Confounds",
        "yes",
        f"None: only {join_words(report.plan.declared)} {factor}, and what follows from {them}; "
        f"{n_equal} other fields are equal.",
    )


def allowed_confounds(report: ReportData) -> list[str]:
    """Every confound that the design lets pass, with its reason."""
    lines = [line for line in report.plan.control if line.mark == Mark.CONFOUND]
    return [f"{line.path}: {line.allowed}" for line in lines if line.allowed is not None]


def _tuning(report: ReportData) -> TrustCheck:
    rates = report.findings.rates
    if report.plan.design.tune is None or rates is None:
        return _untuned_rates(report)
    found = describe_each({arm: rates[arm]["rate"] for arm in report.order}, _format_rate)
    outside = [arm for arm in report.order if not rates[arm]["optimum"]["inside"]]
    if outside:
        return TrustCheck(
            "Learning rates",
            "no",
            f"The optimum of {join_words(outside)} lies outside the grid; used {found}.",
        )
    odd = [
        f"{arm}: {rates[arm]['optimum']['remark']}"
        for arm in report.order
        if rates[arm]["optimum"]["remark"]
    ]
    remarks = "; ".join(
        filter(None, (rate_remark(report.plan), *odd, _describe_overturnable(report)))
    )
    said = f"Tuned alike, each optimum inside the grid: {found}."
    return TrustCheck(
        "Learning rates",
        "mind" if remarks else "yes",
        f"{said} {remarks[:1].upper()}{remarks[1:]}." if remarks else said,
    )


def _describe_overturnable(report: ReportData) -> str:
    """Which verdicts an error in the arms' rates could overturn; nothing where it could none."""
    doubtful = [
        report.findings.label(arm) for arm in report.findings.arms if arm.judgement.verdict.doubt
    ]
    if doubtful:
        return f"tuning could overturn the verdict on {join_words(doubtful)}"
    return ""


def _untuned_rates(report: ReportData) -> TrustCheck:
    """Rates as they were written: one for all, the factor itself, or unequal for another reason."""
    rates = describe_each({arm: report.rate(arm) for arm in report.order}, _format_rate)
    if report.has_one_rate:
        said = (
            f"Not tuned: every arm trained at {report.rate(report.findings.baseline):g}, which may"
            " suit one better."
        )
        return TrustCheck("Learning rates", "mind", said)
    if any(path == RATE_PATH or RATE_PATH.startswith(f"{path}.") for path in report.plan.declared):
        return TrustCheck(
            "Learning rates", "yes", f"Not tuned, for the rate is what is compared: {rates}."
        )
    return TrustCheck("Learning rates", "mind", f"Not tuned, and not equal: {rates}.")


def _format_rate(rate: float) -> str:
    return significant(rate)


def _seeds(report: ReportData) -> TrustCheck:
    found = report.findings
    n, m = len(found.seeds), found.n_comparisons
    spreads = detectable_in_sds(found)
    if isinf(spreads):
        said = (
            f"{n} seeds of an open number can show no difference, however large: run more of them."
        )
        return TrustCheck("Seeds", "mind", f"{said} {found.look_description}.")
    made = {found.label(arm): arm.judgement.comparison for arm in found.arms}
    effects = {name: detectable_gain(one, found) for name, one in made.items() if one is not None}
    if effects:
        can = f"; in {UNIT}, at the largest sd these seeds allow, {describe_each(effects, rough)}"
    else:
        can = ""
    family = f" in a family of {m} comparisons" if m > 1 else ""
    early = found.look is not None and n < found.look.n_planned_seeds
    look = f" {found.look_description}." if found.look_description else ""
    return TrustCheck(
        "Seeds",
        "yes" if n >= 5 and not early else "mind",
        f"{n} seeds{family} have 80 % power for an effect of {rough(spreads)} sd of the paired"
        f" difference{can}.{look}",
    )


def _pooled_noise(report: ReportData) -> Iterator[TrustCheck]:
    """Where one noise was declared for all arms: each arm's own beside it."""
    pooled = report.findings.pooled
    if not report.findings.declares_pooled_noise or report.findings.agreement.faults:
        return
    if pooled is None:
        yield TrustCheck(
            "One noise", "no", "Declared, and not to be had: too few arms trained in every seed."
        )
        return
    own = join_words([f"{rough(sd)} for {arm}" for arm, sd in pooled.residual_sds.items()])
    if min(pooled.residual_sds.values()):
        apart = max(pooled.residual_sds.values()) / min(pooled.residual_sds.values())
    else:
        apart = inf
    yield TrustCheck(
        "One noise",
        "mind",
        f"Declared before the runs: all arms share one spread, {rough(pooled.residual_sd)} {UNIT}"
        f" with {pooled.df} degrees of freedom. Each arm's own, without what its seeds share with"
        f" the others: {own}; the largest is {rough(apart)} times the smallest. For an arm noisier"
        " than the rest the interval is too narrow; designs may no longer declare it.",
    )


def _symmetry(report: ReportData) -> Iterator[TrustCheck]:
    """What an open number of seeds rests on, and what a test says that does not."""
    found = report.findings
    if not found.open_ended or found.agreement.faults:
        return
    made = {found.label(arm): arm.judgement.comparison for arm in found.arms}
    made |= {one.name: one.comparison for one in found.contrasts if one.is_judged}
    signs = {
        name: one.sign_test
        for name, one in made.items()
        if one is not None and one.sign_test is not None
    }
    said = f" A sign test on the median stands beside from {MIN_SIGN_TEST_SEEDS} seeds on."
    if signs:
        said = " A sign test on the median stands beside: " + "; ".join(
            f"{name}, {one.description}" for name, one in signs.items()
        )
    yield TrustCheck("Shape of the noise", "mind", f"{SYMMETRY_NOTE}{said.removesuffix('.')}.")


def _noise_sources(report: ReportData) -> Iterator[TrustCheck]:
    """What a seed fixes, where it was measured."""
    noise = report.findings.noise
    if noise is not None:
        yield TrustCheck(
            TITLE,
            "mind" if noise.why or noise.is_reproducible is False else "yes",
            describe_noise(report),
        )


def _pairing(report: ReportData) -> TrustCheck:
    label = report.findings.label
    ratios = {
        label(arm): arm.pairing.variance_ratio
        for arm in report.findings.arms
        if arm.pairing is not None
    }
    shared = _shared_init(report)
    apart = _batch_differences(report)
    if apart:
        what = f"{join_words(apart)} {'differs' if len(apart) == 1 else 'differ'}"
        said = (
            f"Under one seed {shared} of the weights start equal. Arms do not read the same batches"
            f" alike: {what}."
        )
    else:
        said = (
            f"Under one seed all arms read the same batches, and {shared} of their weights start"
            " equal."
        )
    if ratios:
        said += (
            f" Of the noise of unpaired runs this leaves {describe_each(ratios, format_percent)}."
        )
    return TrustCheck("Pairing", "mind" if apart else "yes", said)


def _batch_differences(report: ReportData) -> list[str]:
    """What of a batch is not equal in all arms, by the control table; an encoder is given its
    input apart.
    """
    lines = [line.path for line in report.plan.control if line.mark != Mark.EQUAL]
    found = [
        path
        for path in lines
        if any(path == part or path.startswith(f"{part}.") for part in BATCH_PATHS)
    ]
    encoders = {
        report.plan.arms[arm].run.architecture.get("encoder") is None for arm in report.order
    }
    if len(encoders) > 1:
        return [*found, "how input and target are laid out"]
    return found


def _shared_init(report: ReportData) -> str:
    line = _control_line(report, "starting weights in common")
    if line is None:
        return "some"
    return format_percent(min(float(value) for value in line.values.values()))


def _control(report: ReportData) -> TrustCheck:
    if report.findings.is_second_edition:
        return _second_edition_control(report)
    name, found = report.control, report.findings.control_worked
    if name is None:
        return TrustCheck(
            "Positive control", "mind", "The design has none: no arm that had to come out worse."
        )
    if found:
        return TrustCheck(
            "Positive control",
            "yes",
            f"{name} had to come out worse, and did: the instrument works.",
        )
    if report.findings.arm(name).judgement.undertrained_note:
        said = (
            f"{name} had to come out worse, and there is no verdict on it: runs were not trained"
            " long enough."
        )
        return TrustCheck("Positive control", "no", said)
    word = report.findings.arm(name).judgement.verdict.word
    if word == "withheld":
        return TrustCheck(
            "Positive control", "no", f"No verdict is given on {name}, which had to come out worse."
        )
    return TrustCheck(
        "Positive control",
        "no",
        f"{name} had to come out worse, but is {word}: at this size and length, the experiment sees"
        " nothing.",
    )


def _second_edition_control(report: ReportData) -> TrustCheck:
    """The control of a plan that does not judge it as any arm."""
    found, declared = report.findings.control, report.plan.design.control
    if declared is None:
        return TrustCheck(
            "Positive control", "mind", "The design has none: nothing that had to come out worse."
        )
    if found is None:
        return TrustCheck(
            "Positive control",
            "no",
            "Whether it works is not said, for files are not what was written.",
        )
    said = f"{describe_control(report)} {describe_control_meaning(found)}"
    return TrustCheck("Positive control", "yes" if found.works else "no", said)


def _margin(report: ReportData) -> Iterator[TrustCheck]:
    """How large the margin is beside what the control costs."""
    said = describe_margin_share(report)
    if not said:
        return
    if is_margin_weak(report):
        little = (
            "so `equivalent` says little: an arm that made no use of the input would nearly get it"
        )
        yield TrustCheck("Margin and control", "mind", f"{said}, {little}.")
    else:
        yield TrustCheck("Margin and control", "yes", f"{said}.")


def _failures(report: ReportData) -> Iterator[TrustCheck]:
    reported = report.findings.reported_rows
    bad = [row for row in reported if row["outcome"] not in ("finished", UNDERTRAINED)]
    if bad:
        told = join_words([f"{row['arm']}, seed {row['seed']}" for row in bad])
        said = f"{len(bad)} of {len(reported)} runs did not train ({told}); none is dropped."
        yield TrustCheck("Failed runs", "mind", said)
    short = Counter(row["arm"] for row in reported if row["outcome"] == UNDERTRAINED)
    if short:
        told = join_words([f"{n} of {arm}" for arm, n in short.items()])
        said = f"{undertrained_advice(reported)} Pairs with these arms get no verdict ({told})."
        yield TrustCheck("Length of training", "no", said)


def _size(report: ReportData) -> TrustCheck:
    sizes = {arm: report.plan.arms[arm].price.parameters for arm in report.order}
    if len(set(sizes.values())) == 1:
        size = format_count(sizes[report.order[0]])
        return TrustCheck(
            "Size", "mind", f"One size, {size} parameters: no trend over sizes was measured."
        )
    told = describe_each(sizes, partial(format_count, digits=_size_digits(sizes)))
    return TrustCheck(
        "Size",
        "mind",
        f"Sizes differ between arms: {told}, in parameters. No trend over them was measured.",
    )


def _size_digits(sizes: Mapping[str, int]) -> int:
    """Three where many arms fall into groups so; otherwise as many as tell the sizes apart."""
    grouped = len(sizes) > MAX_LISTED and len(set(map(format_count, sizes.values()))) > 1
    if grouped:
        return DIGITS
    return distinguishing_digits(sizes.values())


def _text_epochs(report: ReportData) -> TrustCheck:
    line = _control_line(report, "epochs")
    if line is None:
        return TrustCheck("Text", "mind", "How often the text was read is not known.")
    times = [float(one) for value in line.values.values() for one in str(value).split(",")]
    tokens = sum(_tokens(report, arm) for arm in report.order) / len(report.order)
    often = significant(min(times))
    if min(times) != max(times):
        often += f" to {significant(max(times))}"
    repeated = max(times) > 1
    repetition = "some text was repeated" if repeated else "no text was repeated"
    return TrustCheck(
        "Text",
        "mind" if repeated else "yes",
        f"{format_count(tokens)} tokens, {often} epochs; {repetition}.",
    )


def _budget(report: ReportData) -> Iterator[TrustCheck]:
    """Where a budget of tokens gave judged arms unequal text."""
    said = describe_text_differences(report)
    if said:
        yield TrustCheck("Budget", "mind", said)


def _tokens(report: ReportData, arm: str) -> float:
    return report.plan.arms[arm].work.tokens_read * report.stage(arm).training.n_steps


def _truncated_contexts(report: ReportData) -> Iterator[TrustCheck]:
    """Where an arm's window was too short for some contexts of the primary yardstick."""
    answers = report.findings.evaluations
    heads = {arm: next((one.head for one in own.values()), None) for arm, own in answers.items()}
    if any(head is not None and head.n_cut for head in heads.values()):
        n_items = max(head.n_items for head in heads.values() if head is not None)
        cut = {arm: float(head.n_cut) for arm, head in heads.items() if head is not None}
        told = describe_each(cut, lambda n_cut: f"{format_plain(n_cut, 0)} of {n_items}")
        yield TrustCheck(
            "Window", "mind", f"Contexts that did not fit, and lost their beginnings: {told}."
        )


def _new_documents(report: ReportData) -> TrustCheck:
    told = [(report.findings.label(arm), expected_gain(arm)) for arm in report.findings.arms]
    found = {name: one for name, one in told if one is not None}
    if not found:
        return TrustCheck(
            "Other documents",
            "mind",
            "The verdict is about these items, and says nothing of others.",
        )
    gains = ": " + join_words([f"{name} {_describe_interval(one)}" for name, one in found.items()])
    if len(found) > MAX_LISTED:
        order = sorted(found, key=lambda name: found[name].effect)
        ends = (f"{_describe_interval(found[name])} for {name}" for name in (order[0], order[-1]))
        gains = " lie between {} and {}".format(*ends)
    narrower = _describe_narrower([name for name, one in found.items() if one.is_hull], len(found))
    said = f"The verdict is about these items. Gains to expect on new documents{gains}.{narrower}"
    return TrustCheck("Other documents", "mind" if narrower else "yes", said)


def _describe_narrower(names: list[str], of: int) -> str:
    """Why an interval on new documents may be the narrower one, where some are."""
    if not names:
        return ""
    if len(names) <= MAX_LISTED:
        whose = join_words(names)
    else:
        whose = f"{len(names)} of {of}"
    return (
        f" For {whose} the interval on new documents comes out narrower than the one on these"
        " items, because more degrees of freedom go into its estimate; it is no stronger claim, so"
        " what is shown is the hull of both."
    )


def _describe_interval(gain: ExpectedGain) -> str:
    digits = decimals_for_width((gain.high - gain.low) / 2)
    return (
        f"{format_signed(gain.low, digits)} to {format_signed(gain.high, digits)}"
        f" ({percent_level(gain.level)})"
    )


def _machine(report: ReportData) -> TrustCheck:
    one = report.environments[0]
    if report.environment_differences:
        return TrustCheck(
            "Machine and code",
            "mind",
            f"Runs were made under different {join_words(list(report.environment_differences))}.",
        )
    match one:
        case {"device": str(device), "n_threads": int(n_threads), "torch": str(torch)}:
            if report.anonymous:
                where = ""
            else:
                where = f", {device}, {format_plural(n_threads, 'thread')} a run"
            return TrustCheck(
                "Machine and code", "yes", f"One code, one environment: torch {torch}{where}."
            )
        case {"torch": str(torch)} if report.anonymous:
            return TrustCheck(
                "Machine and code", "yes", f"One code, one environment: torch {torch}."
            )
    return TrustCheck("Machine and code", "mind", "Under what the runs were made is not known.")


def _as_planned(report: ReportData) -> TrustCheck:
    lock, files = report.findings.lock, report.findings.agreement
    if files.faults:
        return TrustCheck(
            "As planned",
            "no",
            f"Not what was written: {files.description}. No verdict is read from it.",
        )
    if lock is None:
        return TrustCheck("As planned", "mind", "The plan was not locked before the runs.")
    if lock.as_planned and lock.n_older:
        n_runs = len([row for row in report.findings.reported_rows if row["outcome"] != "open"])
        return TrustCheck(
            "As planned",
            "mind",
            f"{lock.n_older} of {format_plural(n_runs, 'run')} had been made for another study"
            " before this plan was locked; whoever planned this one could know them.",
        )
    if lock.as_planned:
        said = "The plan was locked before the first result, and has not changed since."
        return TrustCheck(
            "As planned", "yes", " ".join(filter(None, (said, files.unchecked_description)))
        )
    return TrustCheck("As planned", "no", f"Not as planned: {lock.description}.")


def _control_line(report: ReportData, path: str) -> ControlLine | None:
    return next((line for line in report.plan.control if line.path == path), None)

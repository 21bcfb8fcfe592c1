"""Were the arms treated alike? Their learning rates, and what a seed fixes in all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from paribus.analyse.remarks import rate_remark
from paribus.record import Mark
from paribus.report.numbers import (
    capitalise,
    describe_each,
    format_percent,
    join_words,
    quote_arm,
    significant,
)
from paribus.report.rate_intervals import cut_ends, kept_sweeps
from paribus.report.report_data import ReportData
from paribus.report.stages import stage_names
from paribus.report.tables import control_line
from paribus.report.trust_check import TrustCheck, yes_unless
from paribus.report.verdicts import quote_comparison

FACTORS = "Factors"
RATE_PATH = "training.optimizer.rate"
_STAGE = re.compile(r"stages\.\d+\.")  # before a field of a stage
BATCH_PATHS = (
    "text",
    "corpus",
    "objective",
    "training.length",
    "training.n_sequences",
    "training.data_seed",
)


def factor_checks(report: ReportData) -> Iterator[TrustCheck]:
    """Does each comparison differ in one factor? A plan of before they were counted does not
    say.
    """
    if not report.plan.judged:
        return
    compound = list(compound_comparisons(report))
    if compound:
        text = f"{capitalise('; '.join(compound))}."
        yield TrustCheck(FACTORS, "mind", text)
    else:
        text = "Each comparison differs in one factor; an interaction is called so."
        yield TrustCheck(FACTORS, "yes", text)


def compound_comparisons(report: ReportData) -> Iterator[str]:
    """Every comparison and contrast that differs in several factors at once, or in something that
    is allowed, with the reason.
    """
    for one in report.plan.judged:
        if not one.mark:
            continue
        if one.contrast is None:
            name = f"{quote_arm(str(one.arm))} against {quote_arm(str(one.against))}"
        else:
            name = one.contrast
        reason = "" if one.reason is None else f" ({one.reason})"
        yield f"{name} {one.description}{reason}"


def rate_check(report: ReportData) -> TrustCheck:
    """Were the learning rates tuned alike, and found inside the grid?"""
    rates = report.findings.rates
    if report.plan.design.tune is None or rates is None:
        return _untuned_rate_check(report)
    rate_list = _describe_rates(report, lambda arm: rates[arm]["rate"])
    rate_list += "".join(f"; {one}" for one in _describe_stage_rates(report))
    outside = [quote_arm(arm) for arm in report.order if not rates[arm]["optimum"]["inside"]]
    if outside:
        text = f"The optimum of {join_words(outside)} lies outside the grid; used {rate_list}."
        return TrustCheck("Learning rates", "no", text)
    text = f"Tuned alike, each optimum inside the grid: {rate_list}."
    if kept_sweeps(report.plan):
        text = (
            f"Tuned alike, in sweeps of other studies ({kept_sweeps(report.plan)}), and read off a"
            f" line in size and text for each arm: {rate_list}."
        )
    remarks = "; ".join(_rate_remarks(report))
    if not remarks:
        return TrustCheck("Learning rates", "yes", text)
    text = f"{text} {remarks[:1].upper()}{remarks[1:]}."
    return TrustCheck("Learning rates", "mind", text)


def _describe_rates(report: ReportData, rate: Callable[[str], float]) -> str:
    """The rate of every arm, in words."""
    return describe_each({quote_arm(arm): rate(arm) for arm in report.order}, significant)


def _describe_stage_rates(report: ReportData) -> Iterator[str]:
    """The rates of each stage before the last, as far as they were tuned."""
    names = stage_names(report)
    for number, sweeps in enumerate(report.findings.stage_rates):
        rates = {}
        for arm in report.order:
            is_earlier = number < len(report.plan.arms[arm].run.stages) - 1
            if is_earlier and arm in sweeps:
                rates[quote_arm(arm)] = sweeps[arm]["rate"]
        if rates:
            yield f"in {names[number]} {describe_each(rates, significant)}"


def _stage_rate_remarks(report: ReportData) -> Iterator[str]:
    """What is odd about the rates of stages before the last."""
    names = stage_names(report)
    for number, sweeps in enumerate(report.findings.stage_rates):
        for arm in report.order:
            optimum = sweeps[arm]["optimum"] if arm in sweeps else {}
            if optimum.get("remark"):
                yield f"{names[number]} of {quote_arm(arm)}: {optimum['remark']}"


def _rate_remarks(report: ReportData) -> Iterator[str]:
    """What is odd about the tuned rates, and which verdicts an error in them could overturn."""
    general = rate_remark(report.plan)
    if general:
        yield general
    rates = report.findings.rates or {}
    by_loss = [quote_arm(arm) for arm in report.order if rates[arm].get("own_loss")]
    if by_loss:
        whose = "all arms" if len(by_loss) == len(report.order) else join_words(by_loss)
        yield (
            f"the rates of {whose} were tuned on the held-out loss of their own objective, so what"
            " tuning could move in the score is not known"
        )
    for arm in report.order:
        remark = rates[arm]["optimum"]["remark"]
        if remark:
            yield f"{quote_arm(arm)}: {remark}"
    yield from _stage_rate_remarks(report)
    wide = [quote_arm(arm) for arm in report.order if any(cut_ends(rates[arm]))]
    if wide:
        whose = "all arms" if len(wide) == len(report.order) else join_words(wide)
        yield (
            f"the 95 % intervals of the rates of {whose} reach an octave or more from the rate and"
            " are cut there, so what tuning could move is counted up to an octave"
        )
    doubtful: list[str] = []
    for arm in report.findings.arms:
        if arm.judgement.verdict.doubt:
            doubtful.append(quote_comparison(arm, report.findings.baseline))
    if doubtful:
        yield f"tuning could overturn the verdict on {join_words(doubtful)}"


def _untuned_rate_check(report: ReportData) -> TrustCheck:
    """Rates as they were written: one for all, the factor itself, or unequal for another reason."""
    if report.has_one_learning_rate:
        rate = report.written_learning_rate(report.findings.baseline)
        text = f"Not tuned: every arm trained at {rate:g}, which may suit one better."
        return TrustCheck("Learning rates", "mind", text)
    rates = _describe_rates(report, report.written_learning_rate)
    if _compares_rates(report):
        text = f"Not tuned, for the rate is what is compared: {rates}."
        return TrustCheck("Learning rates", "yes", text)
    return TrustCheck("Learning rates", "mind", f"Not tuned, and not equal: {rates}.")


def _compares_rates(report: ReportData) -> bool:
    """Is the learning rate, or a table that holds it, what the arms differ in on purpose?"""
    return any(_is_within(RATE_PATH, path) for path in report.plan.declared)


def _is_within(path: str, table: str) -> bool:
    return path == table or path.startswith(f"{table}.")


def pairing_check(report: ReportData) -> TrustCheck:
    """What runs under one seed have in common, and how much noise that takes away."""
    shared, differences = _shared_init(report), _batch_differences(report)
    if differences:
        verb = "differs" if len(differences) == 1 else "differ"
        text = (
            f"Under one seed {shared} of the weights start equal. Arms do not read the same batches"
            f" alike: {join_words(differences)} {verb}."
        )
    else:
        text = (
            f"Under one seed all arms read the same batches, and {shared} of their weights start"
            " equal."
        )
    ratios = _noise_ratios(report)
    if ratios:
        text += f" Of the noise of unpaired runs this leaves {ratios}."
    return TrustCheck("Pairing", yes_unless(bool(differences)), text)


def _noise_ratios(report: ReportData) -> str:
    """How much of the noise of unpaired runs is left, by comparison; empty where not known."""
    ratios: dict[str, float] = {}
    for arm in report.findings.arms:
        if arm.pairing is not None:
            name = quote_comparison(arm, report.findings.baseline)
            ratios[name] = arm.pairing.variance_ratio
    return describe_each(ratios, format_percent)


def _batch_differences(report: ReportData) -> list[str]:
    """What of a batch is not equal in all arms, by the control table; an encoder is given its
    input apart.
    """
    differing: list[str] = []
    for line in report.plan.control:
        path = _batch_path(line.path)
        if line.mark != Mark.EQUAL and path and path not in differing:
            differing.append(path)
    has_encoder: set[bool] = set()
    for arm in report.order:
        has_encoder.add(report.plan.arms[arm].run.architecture.get("encoder") is not None)
    if len(has_encoder) > 1:
        differing.append("how input and target are laid out")
    return differing


def _batch_path(path: str) -> str:
    """The path of what a batch is made by; of a stage, the table that holds it. '' of others."""
    stage = _STAGE.match(path)
    for table in BATCH_PATHS:
        if stage is None and _is_within(path, table):
            return path
        if stage is not None and _is_within(path.removeprefix(stage[0]), table):
            return f"{stage[0]}{table}"
    return ""


def _shared_init(report: ReportData) -> str:
    line = control_line(report, "starting weights in common")
    if line is None:
        return "some"
    return format_percent(min(map(float, line.values.values())))

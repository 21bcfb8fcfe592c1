"""Could these runs show a difference? Their seeds, the noise, the positive control, and the
margin.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isinf

from paribus.analyse import Comparison, Findings
from paribus.analyse.detection import detectable_gain, detectable_in_sds
from paribus.analyse.heaps import SURE_SIGHT, seeds_that_see, unseen_share
from paribus.analyse.pooled_noise import PooledNoise
from paribus.analyse.sign_test import MIN_SIGN_TEST_SEEDS
from paribus.report.noise import TITLE, describe_noise
from paribus.report.numbers import (
    capitalise,
    describe_each,
    join_words,
    quote_arm,
    rough,
    whole_percent,
)
from paribus.report.positive_control import (
    NO_DETECTION,
    describe_control,
    describe_control_meaning,
    describe_margin_share,
    describe_refused_margin,
    is_margin_too_wide,
)
from paribus.report.report_data import ReportData
from paribus.report.trust_check import TrustCheck, yes_unless
from paribus.report.verdicts import quote_comparison
from paribus.spec.measure import with_unit

FEW_SEEDS = 5  # fewer are to be kept in mind
SYMMETRY_NOTE = (
    "Verdicts on an open number of seeds hold for symmetric noise, where about 3 % of studies ever"
    " say something false; with one skewed arm it is 8 to 24 %."
)
CONTROL = "Positive control"


def seed_check(report: ReportData) -> TrustCheck:
    """How large an effect so many seeds can show."""
    findings = report.findings
    n, m = len(findings.seeds), findings.n_comparisons
    spreads = detectable_in_sds(findings)
    if isinf(spreads):
        text = (
            f"{n} seeds of an open number can show no difference, however large: run more of them."
        )
        return TrustCheck("Seeds", "mind", f"{text} {findings.look_description}.")
    family = f" in a family of {m} comparisons" if m > 1 else ""
    text = (
        f"{n} seeds{family} have 80 % power for an effect of {rough(spreads)} sd of the paired"
        f" difference{_describe_detectable(report)}."
    )
    if findings.is_fourth_edition:
        text += f" {capitalise(describe_rare_state(n))}."
    if findings.look_description:
        text += f" {findings.look_description}."
    early = findings.look is not None and n < findings.look.n_planned_seeds
    return TrustCheck("Seeds", yes_unless(n < FEW_SEEDS or early), text)


def describe_rare_state(n_seeds: int) -> str:
    """How often a state that 1 run in 5 falls into shows in no seed, and how many seeds show it."""
    return (
        f"a state that 1 run in 5 falls into is not seen in {whole_percent(unseen_share(n_seeds))}"
        f" of arms of {n_seeds} seeds; {seeds_that_see()} seeds show it in"
        f" {whole_percent(SURE_SIGHT)}"
    )


def _describe_detectable(report: ReportData) -> str:
    """The smallest effect that each comparison can show; empty where none has numbers."""
    effects: dict[str, float] = {}
    for name, comparison in _comparisons(report.findings):
        effects[name] = detectable_gain(comparison, report.findings)
    if not effects:
        return ""
    unit = report.measure.unit
    return f"; in {unit}, at the largest sd these seeds allow, {describe_each(effects, rough)}"


def _comparisons(findings: Findings) -> Iterator[tuple[str, Comparison]]:
    """Comparisons of arms that have numbers, each under its name in quotation marks."""
    for arm in findings.arms:
        if arm.judgement.comparison is not None:
            yield quote_comparison(arm, findings.baseline), arm.judgement.comparison


def pooled_noise_checks(report: ReportData) -> Iterator[TrustCheck]:
    """Where one noise was declared for all arms: each arm's own beside it."""
    pooled = report.findings.pooled_noise
    if not report.findings.declares_pooled_noise or report.findings.agreement.faults:
        return
    if pooled is None:
        text = "Declared, and not to be had: too few arms trained in every seed."
        yield TrustCheck("One noise", "no", text)
        return
    sds = pooled.residual_sds.items()
    own = join_words([f"{rough(sd)} for {quote_arm(arm)}" for arm, sd in sds])
    spread = with_unit(rough(pooled.residual_sd), report.measure.unit)
    text = (
        f"Declared before the runs: all arms share one spread, {spread}"
        f" with {pooled.df} degrees of freedom. Each arm's own, without what its seeds share with"
        f" the others: {own}; the largest is {rough(_sd_ratio(pooled))} times the smallest. For an"
        " arm noisier than the rest the interval is too narrow; designs may no longer declare it."
    )
    yield TrustCheck("One noise", "mind", text)


def _sd_ratio(pooled: PooledNoise) -> float:
    """How many times the smallest of the arms' own spreads the largest is."""
    sds = pooled.residual_sds.values()
    if min(sds):
        return max(sds) / min(sds)
    return inf


def symmetry_checks(report: ReportData) -> Iterator[TrustCheck]:
    """What an open number of seeds rests on, and what a test says that does not."""
    if not report.findings.open_ended or report.findings.agreement.faults:
        return
    tests = "; ".join(_sign_tests(report.findings))
    if tests:
        beside = f"A sign test on the median stands beside: {tests}"
    else:
        beside = f"A sign test on the median stands beside from {MIN_SIGN_TEST_SEEDS} seeds on"
    text = f"{SYMMETRY_NOTE} {beside.removesuffix('.')}."
    yield TrustCheck("Shape of the noise", "mind", text)


def _sign_tests(findings: Findings) -> Iterator[str]:
    """What the sign test says of each comparison and contrast that has one."""
    comparisons = dict(_comparisons(findings))
    for contrast in findings.contrasts:
        if contrast.is_judged and contrast.comparison is not None:
            comparisons[contrast.name] = contrast.comparison
    for name, comparison in comparisons.items():
        if comparison.sign_test is not None:
            yield f"{name}, {comparison.sign_test.description}"


def noise_source_checks(report: ReportData) -> Iterator[TrustCheck]:
    """What a seed fixes, where it was measured."""
    noise = report.findings.noise
    if noise is not None:
        doubtful = bool(noise.why) or noise.is_reproducible is False
        yield TrustCheck(TITLE, yes_unless(doubtful), describe_noise(report))


def positive_control_check(report: ReportData) -> TrustCheck:
    """Did what had to come out worse come out worse?"""
    if report.findings.is_second_edition:
        return _second_edition_control_check(report)
    name = report.first_edition_control_arm
    if name is None:
        text = "The design has none: no arm that had to come out worse."
        return TrustCheck(CONTROL, "mind", text)
    if report.findings.control_worked:
        text = f"{quote_arm(name)} had to come out worse, and did: the instrument works."
        return TrustCheck(CONTROL, "yes", text)
    return TrustCheck(CONTROL, "no", _describe_control_failure(name, report))


def _describe_control_failure(name: str, report: ReportData) -> str:
    """Why an arm that had to come out worse is not called so."""
    judgement, quoted = report.findings.arm(name).judgement, quote_arm(name)
    if judgement.undertrained_note:
        return (
            f"{quoted} had to come out worse, and there is no verdict on it: runs were not trained"
            " long enough."
        )
    word = judgement.verdict.word
    if word == "withheld":
        return f"No verdict is given on {quoted}, which had to come out worse."
    return f"{quoted} had to come out worse, but is {word}: at this size and length {NO_DETECTION}."


def _second_edition_control_check(report: ReportData) -> TrustCheck:
    """The control of a plan that does not judge it as any arm."""
    control = report.findings.control
    if report.plan.design.control is None:
        text = "The design has none: nothing that had to come out worse."
        return TrustCheck(CONTROL, "mind", text)
    if control is None:
        text = "Whether it works is not said, for files are not what was written."
        return TrustCheck(CONTROL, "no", text)
    text = f"{describe_control(report)} {describe_control_meaning(control)}"
    if control.works:
        return TrustCheck(CONTROL, "yes", text)
    return TrustCheck(CONTROL, "no", text)


def manipulation_checks(report: ReportData) -> Iterator[TrustCheck]:
    """Did the arms do what the question needs, where the design says what that is?"""
    for check in report.findings.checks:
        text = f"Must hold: {check.that}. {capitalise(check.description)}."
        yield TrustCheck("Manipulation", "yes" if check.is_shown else "no", text)


def margin_checks(report: ReportData) -> Iterator[TrustCheck]:
    """How large the margin is beside what the control costs, and whether it counts."""
    refused = describe_refused_margin(report)
    if refused:
        yield TrustCheck("Margin and control", "no", refused)
    share = describe_margin_share(report)
    if not share:
        return
    if is_margin_too_wide(report):
        little = (
            "so `equivalent` says little: an arm that made no use of the input would nearly get it"
        )
        yield TrustCheck("Margin and control", "mind", f"{share}, {little}.")
    else:
        yield TrustCheck("Margin and control", "yes", f"{share}.")

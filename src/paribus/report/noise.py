"""Where the noise comes from: the components of variance as a table, and what making a run
again changes.
"""

from __future__ import annotations

from collections.abc import Iterator

from paribus.analyse.variance import NoiseSources, VarianceComponent
from paribus.report.numbers import DASH, format_percent, join_words, quote_arm, rough, significant
from paribus.report.report_data import ReportData
from paribus.report.verdicts import quote_comparison
from paribus.spec.measure import with_unit

TITLE = "Where the noise comes from"
METHOD = (
    "A two-way table of the baseline at its tuned rate, one run for each start and order, without"
    " replicates; components by the method of moments, random effects, F tests against the rest. An"
    " estimate below 0 stands as 0. The rest holds what start and order do together."
)


def noise_heading(report: ReportData) -> tuple[str, ...]:
    """The columns of the table of components."""
    sd = f"standard deviation, {report.measure.unit}"
    return "component", sd, "share of the variance", "degrees of freedom", "p"


def noise_lines(report: ReportData) -> list[tuple[str, ...]]:
    """A line a component; none where nothing was measured."""
    noise = report.findings.noise
    if noise is None:
        return []
    total = sum(max(one.variance, 0.0) for one in noise.components)
    lines = [_component_line(one, total) for one in noise.components]
    if noise.rerun is not None:
        lines.append(_component_line(noise.rerun, 0.0))
    return lines


def _component_line(component: VarianceComponent, total: float) -> tuple[str, ...]:
    if total:
        share = format_percent(max(component.variance, 0.0) / total)
    else:
        share = DASH
    if component.variance >= 0:
        sd = significant(component.sd)
    else:
        sd = "0 (estimate below 0)"
    if component.p is None:
        p = DASH
    else:
        p = rough(component.p)
    return component.name, sd, share, str(component.df), p


def describe_noise(report: ReportData) -> str:
    """What was made, in a sentence or two; nothing where nothing was."""
    noise = report.findings.noise
    if noise is None:
        return ""
    return " ".join(_noise_sentences(noise, report))


def _noise_sentences(noise: NoiseSources, report: ReportData) -> Iterator[str]:
    if noise.why:
        yield f"The noise of {quote_arm(noise.arm)} was to be taken apart, and is not: {noise.why}."
        return
    if noise.components:
        parts = join_words([f"{rough(one.sd)} for the {one.name}" for one in noise.components])
        yield (
            f"Of {quote_arm(noise.arm)}, {noise.n_inits} starts under {noise.n_orders} orders of"
            f" the text spread by {parts}."
        )
    if noise.rerun is not None:
        yield _describe_rerun(noise.rerun, report)


def _describe_rerun(rerun: VarianceComponent, report: ReportData) -> str:
    """Whether a seed fixes a run; if it does not, beside the spread of the paired gains."""
    times = f"made {rerun.df + 1} times"
    if rerun.variance == 0.0:
        return f"The same run, {times}, ended the same to the last bit."
    spread = with_unit(rough(rerun.sd), report.measure.unit)
    text = f"The same run, {times}, spreads by {spread}: a seed does not fix it"
    gains = _gain_spreads(report)
    if gains:
        return f"{text}; paired gains spread by {join_words(gains)}."
    return f"{text}."


def _gain_spreads(report: ReportData) -> list[str]:
    """By how much the paired gains of each comparison spread."""
    spreads: list[str] = []
    for arm in report.findings.arms:
        if arm.judgement.comparison is not None:
            sd = rough(arm.judgement.comparison.sd)
            spreads.append(f"{sd} for {quote_comparison(arm, report.findings.baseline)}")
    return spreads

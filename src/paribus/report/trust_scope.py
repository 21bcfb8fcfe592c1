"""How far does the verdict reach? The size of the models, the contexts that fit, and other
documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from paribus.analyse.expected_gain import ExpectedGain, expected_gain
from paribus.analyse.verdict import BOUND_WORDS
from paribus.record import ControlLine, TaskEvaluation
from paribus.record.control_table import CUT_CONTEXTS, TRAINED_ITEMS
from paribus.report.numbers import (
    DIGITS,
    MAX_LISTED,
    decimals_for_width,
    describe_each,
    distinguishing_digits,
    format_count,
    format_plain,
    format_signed,
    join_words,
    percent_level,
    quote_arm,
    score,
)
from paribus.report.report_data import ReportData
from paribus.report.trust_check import TrustCheck, yes_unless
from paribus.report.verdicts import quote_comparison
from paribus.spec.measure import with_unit
from paribus.spec.yardstick import HEAD

DOCUMENTS = "Other documents"
_OTHER_SIZES = "the section on laws has the other sizes"


def size_check(report: ReportData) -> TrustCheck:
    """How many parameters the arms have."""
    sizes = {quote_arm(arm): report.plan.arms[arm].price.parameters for arm in report.order}
    if len(set(sizes.values())) == 1:
        size = format_count(next(iter(sizes.values())))
        text = f"One size, {size} parameters: no trend over sizes was measured."
        if report.plan.rungs:
            text = f"The verdicts are of one size, {size} parameters; {_OTHER_SIZES}."
        return TrustCheck("Size", "mind", text)
    each = describe_each(sizes, partial(format_count, digits=_size_digits(sizes)))
    trend = "No trend over them was measured"
    if report.plan.rungs:
        trend = f"The verdicts are of these; {_OTHER_SIZES}"
    text = f"Sizes differ between arms: {each}, in parameters. {trend}."
    return TrustCheck("Size", "mind", text)


def _size_digits(sizes: Mapping[str, int]) -> int:
    """Three where many arms fall into groups so; otherwise as many as tell the sizes apart."""
    grouped = len(sizes) > MAX_LISTED and len(set(map(format_count, sizes.values()))) > 1
    if grouped:
        return DIGITS
    return distinguishing_digits(sizes.values())


def window_checks(report: ReportData) -> Iterator[TrustCheck]:
    """Where an arm's window was too short for some contexts of the primary yardstick, and how much
    of them was lost, where the plan has counted it.
    """
    n_truncated: dict[str, float] = {}
    n_items = 0
    for arm, evaluations in report.findings.evaluations.items():
        first = next(iter(evaluations.values()), None)
        if first is not None:
            n_truncated[quote_arm(arm)] = float(first.head.n_truncated)
            n_items = max(n_items, first.head.n_items)
    if not any(n_truncated.values()):
        return
    each = describe_each(n_truncated, lambda n: f"{format_plain(n, 0)} of {n_items}")
    for line in report.plan.control:
        if line.path == CUT_CONTEXTS:
            each = _describe_counts(line)
    yield TrustCheck("Window", "mind", f"{_describe_cut(report)}: {each}.")


def trained_item_checks(report: ReportData) -> Iterator[TrustCheck]:
    """Where items of the primary yardstick stand in the training text of arms, as the plan has
    counted them.
    """
    for line in report.plan.control:
        if line.path == TRAINED_ITEMS:
            text = f"Items that stand in the training text: {_describe_counts(line)}."
            if line.allowed is not None:
                text += f" Allowed: {line.allowed}."
            yield TrustCheck("Seen items", "mind", text)


def _describe_counts(line: ControlLine) -> str:
    """The counts of a control line, each with the arms that have it."""
    arms_by_count: dict[str, list[str]] = {}
    for arm, count in line.values.items():
        arms_by_count.setdefault(count, []).append(quote_arm(arm))
    counts = [f"{count} for {join_words(arms)}" for count, arms in arms_by_count.items()]
    return "; ".join(counts)


def _describe_cut(report: ReportData) -> str:
    """What a text that does not fit has lost: a head reads its beginning, and what is asked to go
    on from a context reads its end.
    """
    for evaluations in report.findings.evaluations.values():
        for answers in evaluations.values():
            if isinstance(answers, TaskEvaluation) and answers.head.protocol.get("kind") == HEAD:
                return "Texts that did not fit, and lost their ends"
    return "Contexts that did not fit, and lost their beginnings"


def bound_checks(report: ReportData) -> Iterator[TrustCheck]:
    """Where the scores of a task end, and which arms are there; nothing of a likelihood."""
    bounds, unit = report.findings.bounds, report.measure.unit
    if bounds is None:
        return
    if bounds.floor is None:
        yield TrustCheck("Floor", "mind", "The task has no floor on record.")
        return
    value = with_unit(score(bounds.floor.value, unit), unit)
    if report.measure.is_difference:
        text = "An arm that its last stage has not changed scores 0."
    else:
        text = f"What needs no model scores up to {value}: {bounds.floor.description}."
    words = {arm.judgement.verdict.word for arm in report.findings.arms}
    at_bounds = [word for word in BOUND_WORDS if word in words]
    if at_bounds:
        text += f" Some comparisons are {join_words(at_bounds)}, and tell nothing of a difference."
    yield TrustCheck("Floor", yes_unless(bool(at_bounds)), text)


def new_document_check(report: ReportData) -> TrustCheck:
    """Which gains to expect on documents that were not among the items."""
    gains = dict(_expected_gains(report))
    if not gains:
        text = "The verdict is about these items, and says nothing of others."
        return TrustCheck(DOCUMENTS, "mind", text)
    hulls = [name for name, gain in gains.items() if gain.is_hull]
    narrower = _describe_narrower(hulls, len(gains))
    unit = report.measure.unit
    expected = f"Gains to expect on new documents{_describe_gains(gains, unit)}."
    text = f"The verdict is about these items. {expected}{narrower}"
    return TrustCheck(DOCUMENTS, yes_unless(bool(narrower)), text)


def _expected_gains(report: ReportData) -> Iterator[tuple[str, ExpectedGain]]:
    for arm in report.findings.arms:
        gain = expected_gain(arm)
        if gain is not None:
            yield quote_comparison(arm, report.findings.baseline), gain


def _describe_gains(gains: Mapping[str, ExpectedGain], unit: str) -> str:
    """Every gain with its interval; of many, the lowest and the highest."""
    if len(gains) <= MAX_LISTED:
        each = [f"{name} {_describe_interval(gain, unit)}" for name, gain in gains.items()]
        return f": {join_words(each)}"
    order = sorted(gains, key=lambda name: gains[name].effect)
    low, high = order[0], order[-1]
    return (
        f", of {len(gains)} comparisons: the lowest is that of {low},"
        f" {_describe_interval(gains[low], unit)}; the highest is that of {high},"
        f" {_describe_interval(gains[high], unit)}"
    )


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


def _describe_interval(gain: ExpectedGain, unit: str) -> str:
    digits = decimals_for_width((gain.high - gain.low) / 2, unit)
    return (
        f"{format_signed(gain.low, digits)} to {format_signed(gain.high, digits)}"
        f" ({percent_level(gain.level)})"
    )

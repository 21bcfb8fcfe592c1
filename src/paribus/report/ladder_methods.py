"""For a paper: how the runs of a ladder were made, and how laws were fitted to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paribus.record.plan import RungRecord
from paribus.report.laws import describe_off_law
from paribus.report.numbers import (
    format_count,
    format_plain,
    format_plural,
    join_words,
    quote_arm,
    true_minus,
)
from paribus.report.report_data import ReportData


def at_own_width(report: ReportData, sentence: str) -> str:
    """A sentence about the runs of the verdicts, which says so where a ladder has others."""
    if not report.plan.rungs:
        return sentence
    return f"At the width {_own_width(report)}, {sentence[:1].lower()}{sentence[1:]}"


def ladder_sentences(report: ReportData) -> Iterator[str]:
    """At which sizes, for how long and at which rates arms are trained beside the runs of the
    verdicts, and how laws are fitted to that.
    """
    rungs = [rung for rung in report.plan.rungs if not rung.is_predicted]
    if not rungs:
        return
    ladder = report.plan.design.table["ladder"]
    yield (
        f"On the ladder, {_ladder_arms(report, rungs)} are also trained at the widths"
        f" {_join_sizes([rung.size for rung in rungs])}, for"
        f" {_describe_durations(ladder, rungs)}, under {format_plural(ladder['n_seeds'], 'seed')}."
        " Each run has its whole schedule."
    )
    yield _shape_sentence(report, ladder)
    yield from _rate_sentences(report, ladder)
    yield (
        "The law L = E + A/N^α + B/D^β is fitted to their losses by least squares of ln L, with"
        f" one E for all arms, N all parameters and D the tokens read{_describe_weights(report)};"
        " exponents are compared by F tests."
    )
    yield from _off_law_sentences(report)
    for rung in report.plan.rungs:
        if rung.is_predicted:
            yield (
                f"Runs of the width {rung.size} on {format_count(rung.tokens[0])} tokens are not in"
                " the fit; what the laws say of them was written down before they were made."
            )


def _own_width(report: ReportData) -> int:
    """The width of the runs that verdicts are about."""
    return report.resolved_architecture(report.order[0]).d_model


def _join_sizes(sizes: Sequence[int]) -> str:
    return join_words([str(size) for size in sizes])


def _ladder_arms(report: ReportData, rungs: Sequence[RungRecord]) -> str:
    """Which arms are on the ladder."""
    others = [quote_arm(arm) for arm in report.order if arm not in rungs[0].arms]
    if others:
        return f"all arms but {join_words(others)}"
    return "all arms"


def _describe_durations(ladder: Mapping[str, Any], rungs: Sequence[RungRecord]) -> str:
    """For how many tokens, and per parameter as the design says it."""
    tokens = [n_tokens for rung in rungs for n_tokens in rung.tokens]
    span = f"{format_count(min(tokens))} to {format_count(max(tokens))} tokens"
    ratios = ladder["tokens_per_parameter"]
    each = join_words([f"{ratio:g}" for ratio in ratios])
    words = f"{each} tokens for each parameter of the baseline outside of embeddings"
    if any(len(rung.tokens) < len(ratios) for rung in rungs):
        words += f", and at most {format_count(ladder['max_tokens'])}"
    return f"{words} ({span})"


def _shape_sentence(report: ReportData, ladder: Mapping[str, Any]) -> str:
    """What else grows with the width."""
    layers = f"as many layers as at the width {_own_width(report)}"
    if ladder["depth"] == "proportional":
        layers = "layers in proportion to the width"
    heads = "more heads of the same size where they are wider"
    if ladder["d_head"] is not None:
        heads = f"heads of {ladder['d_head']} dimensions"
    return f"Arms have {layers}, and {heads}."


def _rate_sentences(report: ReportData, ladder: Mapping[str, Any]) -> Iterator[str]:
    """How the learning rate follows the size."""
    power, own = ladder["rate_power"], _own_width(report)
    factor = f"(width / {own})^{true_minus(f'{power:g}')}"
    if ladder["rate_sizes"]:
        yield from _swept_rate_sentences(report, ladder, factor)
    elif power:
        yield f"The rate of an arm on the ladder is that at the width {own} times {factor}."
    else:
        yield f"The rate of an arm on the ladder is that at the width {own}."


def _swept_rate_sentences(
    report: ReportData, ladder: Mapping[str, Any], factor: str
) -> Iterator[str]:
    """Where rates of a ladder were swept, and the power law that they follow."""
    centred = ""
    if ladder["rate_power"]:
        centred = f", with grids centred at the written rate times {factor}"
    yield (
        "The rate of each arm is also swept at the widths"
        f" {_join_sizes(ladder['rate_sizes'])}, over the same share of the longest duration that"
        f" all widths have{centred}."
    )
    power = ""
    if report.ladder_rates is not None:
        power = f", {format_plain(report.ladder_rates['law']['power'], 3)}"
    yield (
        "The rates of the ladder follow a power of the baseline's parameters outside of embeddings"
        f" that is fitted to these: a level for each arm, and one power for all{power}."
    )


def _describe_weights(report: ReportData) -> str:
    """Whether points count by their variance; nothing where all count alike."""
    laws = report.laws
    if laws is None or isinstance(laws, str) or not laws.rung_noise.differs_P[0]:
        return ""
    return ", and each point counts by one over its variance"


def _off_law_sentences(report: ReportData) -> Iterator[str]:
    """The further variance of points that lie off their laws; nothing where laws fit."""
    laws = report.laws
    if laws is None or isinstance(laws, str):
        return
    off_law = describe_off_law(laws)
    if off_law:
        yield (
            "Arms miss their laws by more than seeds explain (F tests), so their points get a"
            f" further variance about the law of the arm: {off_law}."
        )

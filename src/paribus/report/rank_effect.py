"""Describes whether the score follows the effective rank of attention, and the ranks that were
only observed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2

from paribus.analyse.findings import Findings
from paribus.analyse.interval import MIN_SEEDS
from paribus.analyse.rank_effect import MIN_MOVE, RankEffect, SlopeDifference
from paribus.analyse.study_ranks import StudyRanks, study_ranks
from paribus.report.numbers import (
    capitalise,
    decimals_for_width,
    format_plain,
    format_plural,
    format_signed,
    percent_level,
    quote_arm,
    significant,
    whole_percent,
)
from paribus.spec.measure import with_unit

RANK_TITLE = "Rank and effect"
INTERVENTION_NOTE = (
    "Here the rank is moved, by arms that differ in one field of attention. First it is checked"
    " that it moved at all; then a slope says what the score gains for each doubling of the rank,"
    " with an interval over seeds that allows for the number of interventions. It cannot show that"
    " rank is the cause where interventions agree: they may act through something else that they"
    " share. Definitions: docs/probes.md."
)
OBSERVED_NOTE = (
    "Observed, and not judged: runs that differ in rank differ in whatever moved it, too."
)
_SENTENCES = {
    "rank helps": "The score gets better with the rank under this intervention.",
    "rank hurts": "The score gets worse with the rank under this intervention.",
    "within the margin": "Over the whole range of ranks, the score moves by less than the margin.",
    "undecided": "Whether the score follows the rank is undecided.",
}


def rank_sentences(findings: Findings) -> list[str]:
    """What a study says of rank, a sentence or more for each intervention; nothing where it shows
    no rank.
    """
    ranks = study_ranks(findings)
    return [] if ranks is None else describe_study_ranks(ranks)


def rank_note(findings: Findings) -> str:
    """How slopes are to be read; empty where nothing moves the rank."""
    ranks = study_ranks(findings)
    return INTERVENTION_NOTE if ranks is not None and ranks.effects else ""


def describe_study_ranks(ranks: StudyRanks) -> list[str]:
    """All that a study says of rank: each intervention, then what sets those under one mask apart;
    or the observed ranks alone.
    """
    if not ranks.effects:
        return [describe_observed_ranks(ranks.by_arm)] if ranks.by_arm else []
    effects = [describe_rank_effect(effect) for effect in ranks.effects]
    return [*effects, *(describe_slope_difference(one) for one in ranks.differences)]


def describe_rank_effect(effect: RankEffect) -> str:
    """The manipulation check of an intervention, and then the slope under it."""
    check = f"{capitalise(effect.intervention)}: {_describe_move(effect)}"
    if effect.word == "not moved":
        return f"{check}. Not moved: less than {whole_percent(MIN_MOVE)}, so no slope is read."
    if effect.effect is None or effect.low is None or effect.high is None:
        seeds = format_plural(effect.n_seeds, "seed")
        return f"{check}. Undecided: {seeds} with all levels, and a slope needs {MIN_SEEDS}."
    digits = decimals_for_width((effect.high - effect.low) / 2, effect.unit)
    gain = with_unit(format_signed(effect.effect, digits), effect.unit)
    ends = f"{format_signed(effect.low, digits)} to {format_signed(effect.high, digits)}"
    n_doublings = log2(effect.move.high_rank / effect.move.low_rank)
    return (
        f"{check}, {format_plain(n_doublings, 2)} doublings. A doubling of the effective rank goes"
        f" with a gain of {gain} ({ends}, {percent_level(effect.level)},"
        f" {format_plural(len(effect.slopes), 'seed')}). {_SENTENCES[effect.word]}"
    )


def describe_slope_difference(difference: SlopeDifference) -> str:
    """Whether two interventions tell the same of rank."""
    digits = decimals_for_width((difference.high - difference.low) / 2, difference.unit)
    gap = with_unit(format_signed(difference.effect, digits), difference.unit)
    ends = f"{format_signed(difference.low, digits)} to {format_signed(difference.high, digits)}"
    one, other = difference.interventions
    numbers = (
        f"{capitalise(one)}, less {other}: {gap} for each doubling ({ends},"
        f" {percent_level(difference.level)})."
    )
    if difference.excludes_zero:
        return f"{numbers} The slopes differ, so rank alone does not explain the effect."
    return f"{numbers} No difference between the slopes is shown."


def describe_observed_ranks(ranks: Mapping[str, Sequence[float]]) -> str:
    """The effective ranks of finished runs by arm, without a verdict."""
    parts = []
    for arm, values in ranks.items():
        mean = significant(sum(values) / len(values))
        ends = f"{significant(min(values))} to {significant(max(values))}"
        parts.append(f"{quote_arm(arm)} {mean} ({ends}, {format_plural(len(values), 'run')})")
    return f"Effective rank of attention: {'; '.join(parts)}. {OBSERVED_NOTE}"


def _describe_move(effect: RankEffect) -> str:
    move = effect.move
    return (
        f"the effective rank of attention goes from {significant(move.low_rank)}"
        f" ({quote_arm(move.lowest)}) to {significant(move.high_rank)}"
        f" ({quote_arm(move.highest)}), {whole_percent(move.share)} more"
    )

"""For a paper: how the study was made, in one paragraph, and captions of the tables of results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from paribus.analyse import column_of
from paribus.analyse.plan_rules import plan_measure
from paribus.report.hyperparameters import hyperparameters, last_stage_table, optimizer_name
from paribus.report.ladder_methods import at_own_width, ladder_sentences
from paribus.report.limits import describe_yardstick, sources_read
from paribus.report.numbers import (
    format_plural,
    join_words,
    percent_level,
    quote_arm,
    score,
    significant,
)
from paribus.report.rate_intervals import kept_sweeps
from paribus.report.report_data import ReportData
from paribus.report.size_matches import match_sentences
from paribus.report.stages import stage_names
from paribus.report.verdicts import items_note

METHODS = "Methods"
_BUDGETS = {
    "tokens_read": "tokens read",
    "tokens_scored": "tokens scored",
    "bytes_read": "bytes of text read",
    "training_flops": "training FLOPs",
}
_MARKS = {  # of lines of the control table, and what is said of so many of them
    "✓": "equal",
    "→": "that follow from the factor",
    "≈": "matched",
    "⟳": "tuned alike",
    "✗": "allowed to differ",
}


def methods(material: ReportData) -> str:
    """How the study was made, in sentences whose numbers come from its plan and its rows."""
    return " ".join(_sentences(material))


def _sentences(material: ReportData) -> Iterator[str]:
    plan = material.plan
    arms = join_words(list(map(quote_arm, material.order)))
    yield (
        f"We compare {format_plural(len(material.order), 'arm')}, {arms}, which differ in"
        f" {join_words(plan.declared)}."
    )
    yield from _equal_sentences(material)
    yield from _text_sentences(material)
    yield from _training_sentences(material)
    yield at_own_width(material, _rate_sentence(material))
    yield at_own_width(material, _seed_sentence(material))
    yield from ladder_sentences(material)
    yield (
        f"The primary measure is {describe_yardstick(material)}, in"
        f" {plan_measure(plan).unit}, on {_describe_items(material)}."
    )
    yield f"Margin: {material.findings.margin_description}."
    n_words = material.findings.n_comparisons
    if n_words > 1:
        shared = f"; {n_words} comparisons share {percent_level(material.findings.family_alpha)}"
    else:
        shared = ""
    yield f"Intervals are at {percent_level(_level(material))} unless they say otherwise{shared}."
    versions = _torch_versions(material)
    if versions:
        yield f"Runs were made with {join_words(versions)}."


def _seed_sentence(material: ReportData) -> str:
    seeds = format_plural(len(material.findings.seeds), "seed")
    return f"Each arm is trained under {seeds}; runs of the same seed are paired."


def _torch_versions(material: ReportData) -> list[str]:
    versions: dict[str, None] = {}
    for environment in material.environments:
        if "torch" in environment:
            versions[f"torch {environment['torch']}"] = None
    return list(versions)


def _equal_sentences(material: ReportData) -> Iterator[str]:
    """How many lines of the control table have each mark, and what was made equal on purpose."""
    marks = Counter(str(line.mark) for line in material.plan.control)
    counts: list[str] = []
    n_fields = 0
    for mark, words in _MARKS.items():
        if marks[mark]:
            counts.append(f"{marks[mark]} {words}")
            n_fields += marks[mark]
    if counts:
        yield f"Other fields and quantities of a run, {n_fields} in all: {join_words(counts)}."
    yield from match_sentences(material)
    design = material.plan.design.table
    if design.get("budget") is not None:
        yield f"Arms are trained for equal {_BUDGETS[design['budget']]}."


def _describe_items(material: ReportData) -> str:
    """How many items were asked: of a task, as many as there are."""
    most = material.plan.design.primary.measure.table.get("n_items")
    if material.measure.is_likelihood:
        return f"up to {most} items"
    n_items = 0
    for by_seed in material.findings.evaluations.values():
        for answers in by_seed.values():
            n_items = max(n_items, answers.head.n_items)
    floor = material.findings.bounds and material.findings.bounds.floor
    if not floor:
        return f"{n_items} items"
    value = score(floor.value, material.measure.unit)
    return f"{n_items} items, of which {floor.description} scores {value}"


def _text_sentences(material: ReportData) -> Iterator[str]:
    """The text of each stage of the baseline; of other arms it is said where it is not the
    same.
    """
    baseline = material.findings.baseline
    stages, corpora = material.plan.arms[baseline].run.stages, _corpora(material, baseline)
    names = stage_names(material, baseline)
    for stage, corpus, name in zip(stages, corpora, names, strict=True):
        valid, test = percent_level(corpus["valid"]), percent_level(corpus["test"])
        whose = "The text" if len(stages) == 1 else f"The text of the stage {name}"
        yield (
            f"{whose} is {sources_read(material, stage)}; {valid} of the documents are held out for"
            f" validation, {test} for the test."
        )
    others: list[str] = []
    for arm in material.order:
        own = _corpora(material, arm)
        if own != corpora[: len(own)]:
            others.append(quote_arm(arm))
    if others:
        yield f"The corpus of {join_words(others)} is another one."


def _corpora(material: ReportData, arm: str) -> list[Mapping[str, Any]]:
    """The corpus of each stage of an arm, with all its fields."""
    return [stage["corpus"] for stage in material.plan.arms[arm].run.table["stages"]]


def _optimizer_sentence(material: ReportData) -> str:
    """What the arms are trained with."""
    arms_by_optimizer: dict[str, list[str]] = {}
    for arm in material.order:
        name = optimizer_name(last_stage_table(material, arm)["training"])
        arms_by_optimizer.setdefault(name, []).append(quote_arm(arm))
    if len(arms_by_optimizer) == 1:
        return f"All arms are trained with {next(iter(arms_by_optimizer))}"
    clauses = [f"{name} trains {join_words(arms)}" for name, arms in arms_by_optimizer.items()]
    return join_words(clauses)


def _training_sentences(material: ReportData) -> Iterator[str]:
    """The optimizer and the length of training; what is not the same in all arms is in the
    table.
    """
    yield f"{_optimizer_sentence(material)}; the table has the hyper-parameters of each."
    names = stage_names(material, material.findings.baseline)
    if len(names) > 1:
        yield (
            f"A run has {len(names)} stages, {join_words(names)}. Numbers that name no stage are"
            " those of the last."
        )
    for number, name in enumerate(names[:-1]):
        shared = _shared_lengths(material, f"stages.{number}: ")
        if shared:
            yield f"In the stage {name} all arms have {shared}."
    shared = _shared_lengths(material)
    if shared and len(names) > 1:
        yield f"In the stage {names[-1]} all arms have {shared}."
    elif shared:
        yield at_own_width(material, f"All arms have {shared}.")


def _shared_lengths(material: ReportData, stage: str = "") -> str:
    """How long a stage is and how large its batches, as far as that is the same in all arms."""
    lines = {name: cells for name, *cells in hyperparameters(material)}
    shared: list[str] = []
    for name in ("steps", "sequences per batch", "tokens per sequence"):
        cells = lines.get(f"{stage}{name}", [])
        if len(set(cells)) == 1:
            shared.append(f"{cells[0]} {name}")
    return join_words(shared)


def _rate_sentence(material: ReportData) -> str:
    tune = material.plan.design.table["tune"]
    if tune is not None and tune.get("rates"):
        return (
            "The learning rate of each arm is read from sweeps of it in other studies"
            f" ({kept_sweeps(material.plan)}), by a least-squares line of its logarithm in those of"
            " the parameters outside of embeddings and of the tokens read."
        )
    if tune is not None and material.findings.rates is not None:
        seeds, share = format_plural(tune["n_seeds"], "seed"), percent_level(tune["share"])
        return (
            "The learning rate of each arm is tuned by the same search, from a grid of"
            f" {tune['n_rates']} rates a factor 2 apart, on the {tune['split']} split, with {seeds}"
            f" that are not reported and {share} of the steps{_last_share(tune)}."
            f"{_stage_tuning(material)}"
        )
    if material.has_one_learning_rate:
        rate = significant(material.written_learning_rate(material.order[0]))
        return f"All arms are trained at the learning rate {rate}, which was not tuned."
    return "Each arm is trained at the learning rate in the table, which was not tuned."


def _last_share(tune: dict[str, Any]) -> str:
    """How much of the last stage its sweep takes; '' where it is the share of the others."""
    share = tune.get("last_share")
    if share is None or share == tune["share"]:
        return ""
    return f", {percent_level(share)} in the last stage"


def _stage_tuning(material: ReportData) -> str:
    """By what the stages were tuned that have no score of their own; '' where all have."""
    if not material.findings.stage_rates:
        return ""
    rates = material.findings.rates or {}
    if all(rates[arm].get("own_loss") for arm in material.order):
        return " All stages are tuned on the held-out loss of their own objectives."
    return " Stages before the last are tuned on the held-out loss of their own objectives."


def results_caption(material: ReportData) -> str:
    """What the table of scores and verdicts shows."""
    column = column_of(material.plan.design.primary.measure.table)
    seeds = format_plural(len(material.findings.seeds), "seed")
    measure, baseline = material.measure, quote_arm(material.findings.baseline)
    return (
        f"Score, gain and verdict of each arm. Score: {measure.unit} of {column}, mean over"
        f" {seeds}, {measure.direction}. Gain: against {baseline} unless another arm is named;"
        f" above 0 is better. Intervals at {percent_level(_level(material))} unless they say"
        f" otherwise. Margin: {material.findings.margin_description}.{_items_sentence(material)}"
    )


def _items_sentence(material: ReportData) -> str:
    """That verdicts are about the items that were measured, from the fourth edition on."""
    items = items_note(material)
    return f" Each verdict is {items}." if items else ""


def behind_caption(material: ReportData) -> str:
    """What the table of the numbers behind the verdict shows."""
    column = column_of(material.plan.design.primary.measure.table)
    seeds = format_plural(len(material.findings.seeds), "seed")
    unit = material.measure.unit
    return (
        f"What each verdict rests on: {unit} of {column}, {seeds}. Margin:"
        f" {material.findings.margin_description}."
    )


def _level(material: ReportData) -> float:
    return 1 - material.findings.family_alpha / material.findings.n_comparisons

"""A study's results in short: each arm's score, seed by seed."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from paribus.analyse import column_of
from paribus.analyse.plan_rules import plan_measure
from paribus.analyse.run_table import Row
from paribus.analyse.scoreless_runs import scoreless_runs
from paribus.analyse.undertrained import UNDERTRAINED
from paribus.record import Study
from paribus.record.plan import PlanRecord
from paribus.record.plan_file import read_plan
from paribus.report.numbers import DASH, score, significant
from paribus.report.verdicts import TRAIN_LONGER, UNDERTRAINED_MEANING


def print_results(rows: Sequence[dict[str, Any]], study: Study, page: Console) -> None:
    """The primary score of each reported run."""
    plan = read_plan(study)
    column, measure = column_of(plan.design.primary.measure.table), plan_measure(plan)
    unit = measure.unit
    reported_rows = [row for row in rows if row["purpose"] == "reported"]
    seeds = sorted({row["seed"] for row in reported_rows})
    table = RichTable(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("arm")
    for heading in ("rate", *(f"seed {seed}" for seed in seeds), "mean"):
        table.add_column(heading, justify="right")
    for arm in plan.order:
        own = {row["seed"]: row for row in reported_rows if row["arm"] == arm}
        values = _trained_scores(own, seeds, column)
        rate = DASH
        if own:
            rate = significant(next(iter(own.values()))["rate"])
        table.add_row(
            arm,
            rate,
            *(_format_score(own.get(seed), column, unit) for seed in seeds),
            _format_mean(values, len(seeds), unit),
        )
    page.print(table)
    if any(row["outcome"] == UNDERTRAINED for row in reported_rows):
        page.print(
            f"{UNDERTRAINED}: {UNDERTRAINED_MEANING}. {TRAIN_LONGER}.",
            style="yellow",
            soft_wrap=True,
        )
    page.print(
        f"{measure.unit} of {column}, {measure.direction}; {study.folder}",
        style="dim",
        soft_wrap=True,
    )
    print_ladder(plan, rows, page)


def _trained_scores(
    rows_by_seed: dict[int, dict[str, Any]], seeds: Sequence[int], column: str
) -> list[float]:
    """The scores of the runs that have one and were trained long enough."""
    scores: list[float] = []
    for seed in seeds:
        row = rows_by_seed.get(seed)
        if row is None or row["outcome"] == UNDERTRAINED or row.get(column) is None:
            continue
        scores.append(row[column])
    return scores


def _format_mean(values: Sequence[float], n_seeds: int, unit: str) -> str:
    """The mean over the runs that have a value, with their count if some have none."""
    mean = DASH
    if values:
        mean = score(fmean(values), unit)
    if len(values) == n_seeds:
        return mean
    return f"{mean} ({len(values)} of {n_seeds})"


def _format_score(row: dict[str, Any] | None, column: str, unit: str) -> str:
    if row is None:
        return DASH
    if row["outcome"] == "finished":
        return score(row.get(column), unit)
    return row["outcome"]


def print_ladder(plan: PlanRecord, rows: Sequence[Row], page: Console) -> None:
    """How many runs a ladder has, and how many without a score; nothing without a ladder."""
    if not plan.rungs:
        return
    scoreless = scoreless_runs(plan, rows)
    page.print(f"ladder: {scoreless.n_runs} runs, whose laws are in the report", highlight=False)
    if scoreless.description:
        page.print(
            f"{scoreless.description}; laws are fitted without them",
            style="yellow",
            soft_wrap=True,
            highlight=False,
        )

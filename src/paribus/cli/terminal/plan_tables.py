"""A plan on the page: the control table, what it costs, and what it can see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isinf
from typing import Any

from rich.console import Console
from rich.table import Table

from paribus.analyse import PastNoise, detectable_effect, equivalence_margin, power_table
from paribus.analyse.looks import FAMILY_ALPHA
from paribus.cli.terminal.field_format import format_field
from paribus.cli.terminal.power_table import describe_past_noise, print_power_table
from paribus.design import Plan, StudyCost, group_identical_arms
from paribus.design.arms import width_notes
from paribus.design.study_cost import n_rates_per_seed
from paribus.record import ControlLine, Mark
from paribus.report.numbers import (
    describe_weights,
    format_duration,
    format_flops,
    format_line_values,
    format_plural,
    format_size,
    rough,
)
from paribus.report.series import describe_series_place
from paribus.spec.design import (
    OPEN_SEEDS,
    control_arm,
    control_length,
    declared_contrasts,
    judged_pairs,
)

STYLES = {
    Mark.CONFOUND: "bold red",
    Mark.FACTOR: "bold cyan",
    Mark.MATCHED: "yellow",
    Mark.TUNED: "yellow",
    Mark.FOLLOWS: "",
    Mark.EQUAL: "green",
}
OPEN_SEED_COUNTS = (5, 10, 20)  # seeds at which it is told what an open design can see


def print_control_table(lines: Iterable[ControlLine], page: Console, every: bool) -> None:
    """The table, what differs first; equal fields are counted unless all are asked for."""
    ordered = sorted(lines, key=lambda line: line.mark.place)
    shown = [line for line in ordered if every or line.mark != Mark.EQUAL]
    arms = list(ordered[0].values) if ordered else []
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("", "field", *arms, ""):
        table.add_column(heading, overflow="fold")
    for line in shown:
        note = f"allowed: {line.allowed}" if line.allowed else line.note
        cells = format_line(line.path, [line.values[arm] for arm in arms])
        table.add_row(line.mark, line.path, *cells, note, style=STYLES[line.mark])
    page.print(table)
    if not every:
        n_equal = len(ordered) - len(shown)
        page.print(
            f"✓  {n_equal} other fields and quantities are equal; --all lists them", style="green"
        )
    page.print("   ".join(f"{mark} {mark.meaning}" for mark in Mark), style="dim")


def print_unused_allowances(plan: Plan, page: Console) -> None:
    """What is allowed for nothing."""
    for path in plan.unused_allowances:
        page.print(
            f"allow      {path}: nothing there is a confound, so nothing is let pass",
            soft_wrap=True,
        )


def print_identical_arms(plan: Plan, page: Console) -> None:
    """Which arms are the same run under another name."""
    groups = group_identical_arms(plan)
    if len(groups) == 1:
        page.print(
            "note       no arm differs from the baseline in the factor: one run each seed",
            soft_wrap=True,
        )
        return
    for group in groups:
        if len(group) > 1:
            names = ", ".join(arm.name for arm in group)
            page.print(f"note       {names} differ in name only: one run each seed", soft_wrap=True)


def print_width_notes(plan: Plan, page: Console) -> None:
    """Which widths of presets do not follow the arms' d_model."""
    for note in width_notes(plan.design):
        page.print(f"note       {note}", style="yellow", soft_wrap=True)


def format_line(path: str, values: Sequence[Any]) -> list[str]:
    """The values of a line, large numbers in short."""
    last = path.rpartition(".")[-1]
    return format_line_values(
        path, values, lambda value: format_field(value, last if isinstance(value, str) else "")
    )


def print_cost(plan: Plan, cost: StudyCost, page: Console, past_noise: PastNoise | None) -> None:
    """Runs, time and disk, and what so many seeds can see; in bits where an earlier study tells
    the noise.
    """
    parts = {"to find rates": cost.n_sweep_runs, "of other lengths": cost.n_length_runs}
    shares = ""
    for what, n in parts.items():
        if n:
            shares += f", {n} of them {what}"
    bound = "at most " if cost.n_sweep_runs else ""
    n_runs, time = f"{bound}{cost.n_runs}{shares}", format_duration(cost.seconds)
    page.print(
        f"runs       {n_runs}; {format_flops(cost.flops)}, about {time} ({cost.basis})",
        soft_wrap=True,
    )
    page.print(f"disk       about {format_size(cost.n_bytes)}")
    if plan.design.seeds == OPEN_SEEDS:
        n_runs = len(group_identical_arms(plan)) * n_rates_per_seed(
            plan
        ) + cost.n_length_runs // len(plan.seeds)
        told = (
            f"{n_runs} runs; {format_flops(cost.flops_per_seed)}, about"
            f" {format_duration(cost.seconds_per_seed)}"
        )
        page.print(
            f"a seed     {told}; {len(plan.seeds)} are counted above, and --seeds N adds more",
            soft_wrap=True,
        )
    for line in _describe_power(plan, past_noise):
        page.print(line, soft_wrap=True)
    _print_plan_power(plan, past_noise, page)
    for name, weights in declared_contrasts(plan.design).items():
        page.print(f"contrast   {name}: {describe_weights(weights)}", soft_wrap=True, markup=False)
    page.print(f"control    {_describe_control(plan)}", soft_wrap=True, markup=False)
    margin = plan.design.primary.margin
    page.print(
        f"margin     {margin if margin is not None else 'none: nothing will be called equivalent'}"
    )
    if plan.design.primary.test == "not worse":
        page.print(
            "test       not worse: one-sided, whether a loss of the margin is ruled out",
            soft_wrap=True,
        )


def _describe_control(plan: Plan) -> str:
    """What must come out worse, outside the family."""
    arm, length = control_arm(plan.design), control_length(plan.design)
    if arm is None and length is None:
        return "none: nothing will show that the yardstick reacts"
    if length is None:
        what = arm
    else:
        what = f"{plan.design.baseline} at {length:g} of its training"
    return f"{what}: must come out worse than {plan.design.baseline}; it is not in the family"


def print_series(plan: Plan, page: Console) -> None:
    """Which study of a series is carried out, where it is a later one."""
    if plan.series is not None:
        said = (
            f"{describe_series_place(plan.series.number, plan.seeds)}; earlier seeds are shown and"
            " not judged"
        )
        page.print(f"{said} ({plan.name})", soft_wrap=True, markup=False)


def _print_plan_power(plan: Plan, past_noise: PastNoise | None, page: Console) -> None:
    """The table of what a few numbers of seeds would see."""
    is_open, looks = plan.design.seeds == OPEN_SEEDS, plan.design.looks or {}
    share = looks[max(looks)] if looks else FAMILY_ALPHA
    lines = power_table(len(plan.seeds), plan.n_comparisons, share, open_ended=is_open)
    if len(looks) > 1:
        last = f", at the share of the last look, {share:g}"
    else:
        last = ""
    family, unit = f"{_describe_family(plan)}{last}", plan.design.primary.measure.scores.unit
    print_power_table(lines, len(plan.seeds), family, past_noise, unit, page)


def _describe_power(plan: Plan, past_noise: PastNoise | None) -> Iterator[str]:
    if plan.design.seeds == OPEN_SEEDS:
        yield from _describe_open_power(plan, past_noise)
        return
    n, m, looks = len(plan.seeds), plan.n_comparisons, plan.design.looks or {}
    share = looks[max(looks)] if looks else FAMILY_ALPHA
    effect = detectable_effect(n, m, alpha=share)
    margin = equivalence_margin(n, m, alpha=share)
    if len(looks) > 1:
        last = f"; at the last of {len(looks)} looks, with its share of {share:g}"
    else:
        last = ""
    yield (
        f"can see    with {n} seeds and {_describe_family(plan)}: an effect of {rough(effect)} sd"
        " of the paired difference, at 80 % power; a true zero is called equivalent from a margin"
        f" of {rough(margin)} sd{last}"
    )
    if past_noise is not None:
        unit = plan.design.primary.measure.scores.unit
        yield (
            f"           in {unit}, {rough(effect * past_noise.upper_sd)} and"
            f" {rough(margin * past_noise.upper_sd)}; {describe_past_noise(past_noise)}"
        )


def _describe_family(plan: Plan) -> str:
    """What shares the 5 %."""
    counts = {
        "comparison": len(judged_pairs(plan.design)),
        "contrast": len(declared_contrasts(plan.design)),
    }
    return " and ".join(format_plural(n, name) for name, n in counts.items() if n)


def _describe_open_power(plan: Plan, past_noise: PastNoise | None) -> Iterator[str]:
    """At a few numbers of seeds, each taken alone: whoever looks at all of them sees no less."""
    m, sd = plan.n_comparisons, 1.0 if past_noise is None else past_noise.upper_sd
    at = sorted({*OPEN_SEED_COUNTS, len(plan.seeds)})
    effects = [detectable_effect(n, m, open_ended=True) for n in at]
    margins = [equivalence_margin(n, m, open_ended=True) for n in at]
    seeds = (
        f"with {', '.join(map(str, at))} seeds, of a number that is open, and"
        f" {_describe_family(plan)}"
    )
    yield (
        f"can see    {seeds}: an effect of {_join_numbers(effects)} sd of the paired difference, at"
        " 80 % power; a true zero is called equivalent from a margin of"
        f" {_join_numbers(margins)} sd"
    )
    if past_noise is not None:
        unit = plan.design.primary.measure.scores.unit
        yield (
            f"           in {unit}, {_join_numbers([sd * one for one in effects])}; "
            f"{_join_numbers([sd * one for one in margins])}; {describe_past_noise(past_noise)}"
        )


def _join_numbers(values: Sequence[float]) -> str:
    return ", ".join("none" if isinf(value) else rough(value) for value in values)

"""A plan on the page: the control table, what it costs, and what it can see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isinf
from typing import Any

from rich.console import Console
from rich.table import Table

from paribus.analyse import Spread, detectable, equivalence_margin, power_table
from paribus.analyse.looks import SHARE
from paribus.cli.terminal.power import noise_words, print_power
from paribus.cli.terminal.spelling import spelled
from paribus.design import Cost, Plan, alike
from paribus.design.arms import width_notes
from paribus.design.cost import rates_per_seed
from paribus.record import ControlLine, Mark
from paribus.report.numbers import duration, flops, line_texts, rough, size, some, sum_of
from paribus.report.series import series_place
from paribus.spec.design import OPEN, control_arm, control_length, declared_contrasts, pairs_of

STYLES = {
    Mark.CONFOUND: "bold red", Mark.FACTOR: "bold cyan", Mark.MATCHED: "yellow", Mark.TUNED: "yellow",
    Mark.FOLLOWS: "", Mark.EQUAL: "green",
}  # fmt: skip
OPEN_AT = (5, 10, 20)  # seeds at which it is told what an open design can see


def print_control(lines: Iterable[ControlLine], page: Console, every: bool) -> None:
    """The table, what differs first; equal fields are counted unless all are asked for."""
    ordered = sorted(lines, key=lambda line: line.mark.place)
    shown = [line for line in ordered if every or line.mark != Mark.EQUAL]
    arms = list(ordered[0].values) if ordered else []
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("", "field", *arms, ""):
        table.add_column(heading, overflow="fold")
    for line in shown:
        note = f"allowed: {line.allowed}" if line.allowed else line.note
        cells = written(line.path, [line.values[arm] for arm in arms])
        table.add_row(line.mark, line.path, *cells, note, style=STYLES[line.mark])
    page.print(table)
    n_equal = sum(line.mark == Mark.EQUAL for line in ordered)
    if not every:
        page.print(f"✓  {n_equal} other fields and quantities are equal; --all lists them", style="green")
    page.print("   ".join(f"{mark} {mark.meaning}" for mark in Mark), style="dim")


def print_idle(plan: Plan, page: Console) -> None:
    """What is allowed for nothing."""
    for path in plan.idle:
        page.print(f"allow      {path}: nothing there is a confound, so nothing is let pass", soft_wrap=True)


def print_alike(plan: Plan, page: Console) -> None:
    """Which arms are the same run under another name."""
    groups = alike(plan)
    if len(groups) == 1:
        page.print("note       no arm differs from the baseline in the factor: one run each seed", soft_wrap=True)
        return
    for names in ([arm.name for arm in group] for group in groups if len(group) > 1):
        page.print(f"note       {', '.join(names)} differ in name only: one run each seed", soft_wrap=True)


def print_widths(plan: Plan, page: Console) -> None:
    """Which widths of presets do not follow the arms' d_model."""
    for note in width_notes(plan.design):
        page.print(f"note       {note}", style="yellow", soft_wrap=True)


def written(path: str, values: Sequence[Any]) -> list[str]:
    """The values of a line, large numbers in short."""
    last = path.rpartition(".")[-1]
    return line_texts(path, values, lambda value: spelled(value, last if isinstance(value, str) else ""))


def print_cost(plan: Plan, cost: Cost, page: Console, earlier: Spread | None) -> None:
    """Runs, time and disk, and what so many seeds can see; in bits where an earlier study tells the noise."""
    parts = {"to find rates": cost.n_sweeps, "of other lengths": cost.n_lengths}
    told = "".join(f", {n} of them {what}" for what, n in parts.items() if n)
    bound = "at most " if cost.n_sweeps else ""
    n_runs, time = f"{bound}{cost.n_runs}{told}", duration(cost.seconds)
    page.print(f"runs       {n_runs}; {flops(cost.flops)}, about {time} ({cost.basis})", soft_wrap=True)
    page.print(f"disk       about {size(cost.n_bytes)}")
    if plan.design.seeds == OPEN:
        n_runs = len(alike(plan)) * rates_per_seed(plan) + cost.n_lengths // len(plan.seeds)
        told = f"{n_runs} runs; {flops(cost.seed_flops)}, about {duration(cost.seed_seconds)}"
        page.print(f"a seed     {told}; {len(plan.seeds)} are counted above, and --seeds N adds more", soft_wrap=True)
    for line in _can_see(plan, earlier):
        page.print(line, soft_wrap=True)
    _print_power(plan, earlier, page)
    for name, weights in declared_contrasts(plan.design).items():
        page.print(f"contrast   {name}: {sum_of(weights)}", soft_wrap=True, markup=False)
    page.print(f"control    {_control_words(plan)}", soft_wrap=True, markup=False)
    margin = plan.design.primary.margin
    page.print(f"margin     {margin if margin is not None else 'none: nothing will be called equivalent'}")
    if plan.design.primary.test == "not worse":
        page.print("test       not worse: one-sided, whether a loss of the margin is ruled out", soft_wrap=True)


def _control_words(plan: Plan) -> str:
    """What must come out worse, outside the family."""
    arm, length = control_arm(plan.design), control_length(plan.design)
    if arm is None and length is None:
        return "none: nothing will show that the yardstick reacts"
    what = arm if length is None else f"{plan.design.baseline} at {length:g} of its training"
    return f"{what}: must come out worse than {plan.design.baseline}; it is not in the family"


def print_series(plan: Plan, page: Console) -> None:
    """Which study of a series is carried out, where it is a later one."""
    if plan.series is not None:
        said = f"{series_place(plan.series.number, plan.seeds)}; earlier seeds are shown and not judged"
        page.print(f"{said} ({plan.name})", soft_wrap=True, markup=False)


def _print_power(plan: Plan, earlier: Spread | None, page: Console) -> None:
    """The table of what a few numbers of seeds would see."""
    is_open, looks = plan.design.seeds == OPEN, plan.design.looks or {}
    share = looks[max(looks)] if looks else SHARE
    lines = power_table(len(plan.seeds), plan.n_comparisons, share, open_ended=is_open)
    last = f", at the share of the last look, {share:g}" if len(looks) > 1 else ""
    print_power(lines, len(plan.seeds), f"{_family(plan)}{last}", earlier, page)


def _can_see(plan: Plan, earlier: Spread | None) -> Iterator[str]:
    if plan.design.seeds == OPEN:
        yield from _can_see_open(plan, earlier)
        return
    n, m, looks = len(plan.seeds), plan.n_comparisons, plan.design.looks or {}
    share = looks[max(looks)] if looks else SHARE
    effect, margin = (ask(n, m, alpha=share) for ask in (detectable, equivalence_margin))
    last = f"; at the last of {len(looks)} looks, with its share of {share:g}" if len(looks) > 1 else ""
    yield (
        f"can see    with {n} seeds and {_family(plan)}: an effect of {rough(effect)} sd of the paired difference, at "
        f"80 % power; a true zero is called equivalent from a margin of {rough(margin)} sd{last}"
    )
    if earlier is not None:
        yield (
            f"           in bits per byte, {rough(effect * earlier.upper)} and {rough(margin * earlier.upper)}; "
            f"{noise_words(earlier)}"
        )


def _family(plan: Plan) -> str:
    """What shares the 5 %."""
    counts = {"comparison": len(pairs_of(plan.design)), "contrast": len(declared_contrasts(plan.design))}
    return " and ".join(some(n, name) for name, n in counts.items() if n)


def _can_see_open(plan: Plan, earlier: Spread | None) -> Iterator[str]:
    """At a few numbers of seeds, each taken alone: whoever looks at all of them sees no less."""
    m, sd = plan.n_comparisons, 1.0 if earlier is None else earlier.upper
    at = sorted({*OPEN_AT, len(plan.seeds)})
    effects, margins = ([ask(n, m, open_ended=True) for n in at] for ask in (detectable, equivalence_margin))
    seeds = f"with {', '.join(map(str, at))} seeds, of a number that is open, and {_family(plan)}"
    yield (
        f"can see    {seeds}: an effect of {_listed(effects)} sd of the paired difference, at 80 % power; a "
        f"true zero is called equivalent from a margin of {_listed(margins)} sd"
    )
    if earlier is not None:
        yield (
            f"           in bits per byte, {_listed([sd * one for one in effects])}; "
            f"{_listed([sd * one for one in margins])}; {noise_words(earlier)}"
        )


def _listed(values: Sequence[float]) -> str:
    return ", ".join("none" if isinf(value) else rough(value) for value in values)

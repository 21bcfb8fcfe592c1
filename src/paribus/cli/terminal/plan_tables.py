"""A plan on the terminal: the control table, the cost and the power."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from paribus.analyse import PastNoise, detectable_effect, equivalence_margin, power_table
from paribus.analyse.looks import FAMILY_ALPHA
from paribus.analyse.margin_limits import MAX_CONTROL_SHARE
from paribus.analyse.margins import NO_EQUIVALENT
from paribus.analyse.positive_control import describe_shortened
from paribus.analyse.power import one_sided_power
from paribus.cli.terminal.field_format import format_field
from paribus.cli.terminal.power_table import (
    describe_past_noise,
    print_power_table,
    rough_or_none,
)
from paribus.design import Plan, StudyCost, group_identical_arms
from paribus.design.alarms import Alarm
from paribus.design.arms import width_notes
from paribus.design.control_arm import describe_control_differences
from paribus.design.ladder import Rung
from paribus.design.proposed_jobs import ProposedJobs
from paribus.escapes import on_one_line
from paribus.evaluate.tasks.run import PreparedTask
from paribus.record import ControlLine, JudgedDifference, Mark
from paribus.record.control_table import TRAINED_ITEMS
from paribus.report.numbers import (
    describe_weights,
    format_count,
    format_duration,
    format_flops,
    format_line_values,
    format_plural,
    format_size,
    quote_arm,
    rough,
    whole_percent,
)
from paribus.report.series import describe_series_place
from paribus.report.trust_power import describe_rare_state
from paribus.spec.design import (
    OPEN_SEEDS,
    control_arm,
    control_length,
    control_margin,
    declared_contrasts,
    judged_pairs,
)
from paribus.spec.must import Must, hanging_contrasts, hanging_pairs
from paribus.spec.parameters import position_note

STYLES = {
    Mark.CONFOUND: "bold red",
    Mark.FACTOR: "bold cyan",
    Mark.MATCHED: "yellow",
    Mark.TUNED: "yellow",
    Mark.FOLLOWS: "",
    Mark.EQUAL: "green",
}
OPEN_SEED_COUNTS = (5, 10, 20)  # at which the power of an open design is printed
USUAL_DIFFERENCE = 2.0  # in sd of the paired difference: what the power of a check is told of


def print_alarms(alarms: Iterable[Alarm], page: Console) -> None:
    """Print what is alarming, each with the line that cures it."""
    for alarm in alarms:
        page.print(
            f"alarm      {alarm.text}; write {alarm.cure}",
            style="bold red",
            soft_wrap=True,
            markup=False,
        )


def print_control_table(lines: Iterable[ControlLine], page: Console, every: bool) -> None:
    """Print the control table, differences first; equal fields are only counted unless `every`."""
    all_lines = sorted(lines, key=lambda line: line.mark.place)
    table_lines = [line for line in all_lines if every or line.mark != Mark.EQUAL]
    arms: list[str] = []
    if all_lines:
        arms = list(all_lines[0].values)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("", "field", *arms, ""):
        table.add_column(heading, overflow="fold")
    for line in table_lines:
        note = line.note
        if line.allowed:
            note = f"allowed: {on_one_line(line.allowed)}"
        cells = format_line(line.path, [line.values[arm] for arm in arms])
        table.add_row(line.mark, line.path, *cells, note, style=STYLES[line.mark])
    page.print(table)
    if not every:
        n_equal = len(all_lines) - len(table_lines)
        page.print(
            f"✓  {n_equal} other fields and quantities are equal; --all lists them", style="green"
        )
    page.print("   ".join(f"{mark} {mark.meaning}" for mark in Mark), style="dim")


def print_judged(plan: Plan, page: Console) -> None:
    """Print what each judged pair and each contrast differs in."""
    heading = "judged"
    for one in plan.judged:
        name = on_one_line(one.contrast or f"{one.arm} against {one.against}")
        line = "; ".join([f"{heading:10} {name}: {one.description}", *_hanging_checks(plan, one)])
        if one.reason is not None:
            line += f" (meant: {on_one_line(one.reason)})"
        style = "bold yellow" if one.is_compound else ""
        page.print(line, style=style, soft_wrap=True, markup=False, highlight=False)
        heading = ""


def _hanging_checks(plan: Plan, one: JudgedDifference) -> Iterator[str]:
    """What must be shown before a comparison gets a word."""
    pairs, contrasts = judged_pairs(plan.design), declared_contrasts(plan.design)
    for must in plan.design.must:
        hangs = (one.arm, one.against) in hanging_pairs(must.scope, pairs)
        if hangs or one.contrast in hanging_contrasts(must.scope, contrasts):
            yield f"no word without {_name_must(must)}"


def _name_must(must: Must) -> str:
    return must.that if must.on is None else f"{must.that} on {must.on}"


def print_unused_allowances(plan: Plan, page: Console) -> None:
    """Print each entry under `allow` or `compound` that is not needed."""
    for path, reason in plan.unused_allowances.items():
        page.print(f"allow      {path} is not needed: {reason}", soft_wrap=True, markup=False)
    for name in plan.unused_reasons:
        page.print(
            f"compound   {name} is not needed: it differs in one factor",
            soft_wrap=True,
            markup=False,
        )


def print_identical_arms(plan: Plan, page: Console) -> None:
    """Print which arms are the same run under another name."""
    groups = group_identical_arms(plan)
    if len(groups) == 1:
        page.print(
            "note       no arm differs from the baseline in the factor: one run per seed",
            soft_wrap=True,
        )
        return
    for group in groups:
        if len(group) > 1:
            names = ", ".join(quote_arm(arm.name) for arm in group)
            page.print(f"note       {names} differ in name only: one run per seed", soft_wrap=True)


def print_width_notes(plan: Plan, page: Console) -> None:
    """Print which widths of presets do not follow the arms' d_model."""
    for note in width_notes(plan.design):
        page.print(f"note       {note}", style="yellow", soft_wrap=True)


def print_position_notes(plan: Plan, page: Console) -> None:
    """Print which arms have positions in which their embeddings drown."""
    arms_by_note: dict[str, list[str]] = {}
    for arm in plan.arms:
        note = position_note(arm.run.architecture)
        if note is not None:
            arms_by_note.setdefault(note, []).append(quote_arm(arm.name))
    for note, names in arms_by_note.items():
        of = "" if len(names) == len(plan.arms) else f"{', '.join(names)}: "
        page.print(f"note       {of}{note}", style="yellow", soft_wrap=True)


def print_trained_items(plan: Plan, page: Console) -> None:
    """Print which items stand in the training text of arms alike, or may stand there."""
    for line in plan.control_lines:
        if line.path.startswith(TRAINED_ITEMS) and line.mark != Mark.CONFOUND and line.note:
            counts = [f"{value} in {quote_arm(arm)}" for arm, value in line.values.items()]
            text = f"{line.path}: {', '.join(counts)}; {line.note}"
            page.print(f"note       {text}", style="yellow", soft_wrap=True, markup=False)


def format_line(path: str, values: Sequence[Any]) -> list[str]:
    """The values of a line, large numbers in short."""
    last_name = path.rpartition(".")[-1]

    def format_value(value: Any) -> str:
        if isinstance(value, str):
            return format_field(value, last_name)
        return format_field(value)

    return format_line_values(path, values, format_value)


def print_cost(plan: Plan, cost: StudyCost, page: Console, past_noise: PastNoise | None) -> None:
    """Print runs, time, disk and power; the power also in the unit of the scores if an earlier
    study gives the noise.
    """
    page.print(f"runs       {_describe_runs(cost)}", soft_wrap=True)
    page.print(f"disk       about {format_size(cost.n_bytes)}")
    for rung in plan.rungs:
        page.print(f"ladder     {_describe_rung(rung)}", soft_wrap=True, markup=False)
    if plan.design.seeds == OPEN_SEEDS:
        page.print(f"per seed   {_describe_seed_cost(plan, cost)}", soft_wrap=True)
    for line in _describe_power(plan, past_noise):
        page.print(line, soft_wrap=True)
    page.print(f"           {describe_rare_state(len(plan.seeds))}", soft_wrap=True)
    _print_plan_power(plan, past_noise, page)
    for name, weights in declared_contrasts(plan.design).items():
        page.print(f"contrast   {name}: {describe_weights(weights)}", soft_wrap=True, markup=False)
    page.print(f"control    {_describe_control(plan)}", soft_wrap=True, markup=False)
    for must in plan.design.must:
        page.print(f"must       {_describe_must(plan, must)}", soft_wrap=True, markup=False)
    for column, n_items in plan.n_items.items():
        text = format_plural(n_items, "item")
        if column in plan.tasks:
            text = _describe_items(plan.tasks[column])
        page.print(f"items      {column}: {text}", markup=False)
    for line in _describe_margin(plan, past_noise):
        page.print(line, soft_wrap=True, markup=False)
    if plan.design.primary.test == "not worse":
        page.print(
            "test       not worse: one-sided, whether a loss of the margin is ruled out",
            soft_wrap=True,
        )


def _describe_margin(plan: Plan, past_noise: PastNoise | None) -> Iterator[str]:
    """The margin, and whether it is too wide as far as that is known before the runs."""
    margin, control = plan.design.primary.margin, plan.design.control
    if margin is None:
        yield "margin     none: no verdict can be 'equivalent'"
        return
    yield f"margin     {margin}"
    share = control_margin(margin) if isinstance(margin, str) else None
    most = f"{100 * MAX_CONTROL_SHARE:g} % of control"
    if share is not None and share > MAX_CONTROL_SHARE:
        yield f"           too wide, {NO_EQUIVALENT}; use '{most}' or less"
        return
    excess = "" if past_noise is None else past_noise.excess(margin)
    if past_noise is not None and excess:
        yield f"           too wide if it goes as in {past_noise.study}: {excess}, {NO_EQUIVALENT}"
        return
    if share is not None:
        yield f"           {_describe_control_share(plan)}"
    reference = "the unigram model"
    if not plan.design.primary.measure.scores.is_likelihood:
        reference = "chance"
    learnt = f"a tenth of what the baseline gains on {reference}"
    limit = learnt if control is None else f"half of what the control loses for sure, or {learnt}"
    yield f"           where it is more than {limit}, nothing is called equivalent"


def _describe_control_share(plan: Plan) -> str:
    """What a margin in shares of the control is a share of, and when there is none."""
    whole = "of what the control loses for sure, given that it works"
    if plan.design.seeds == OPEN_SEEDS:
        return whole
    least = _last_share(plan) ** 2
    return f"{whole}: nothing if its p, one-sided, is above {rough(least)}"


def print_proposed_jobs(proposed: ProposedJobs, page: Console) -> None:
    """Print how many runs should share a GPU, and why."""
    size = format_count(proposed.parameters)
    if proposed.n_jobs == 1:
        words = f"--jobs 1: at {size} parameters, one run fills a GPU"
        if proposed.limit != "its size":
            words = f"--jobs 1, for {proposed.limit}"
    else:
        words = (
            f"--jobs {proposed.n_jobs}: at {size} parameters, where half of the work is, one run"
            f" leaves a GPU idle; bounded by {proposed.limit}"
        )
    page.print(f"proposal   {words}", soft_wrap=True, markup=False)


def _describe_rung(rung: Rung) -> str:
    """The size of a rung, what its arms have in parameters, and what they read."""
    sizes = {arm.price.parameters for arm in rung.arms}
    parameters = " to ".join(dict.fromkeys(format_count(size) for size in (min(sizes), max(sizes))))
    own = format_count(rung.arms[0].price.non_embedding_parameters)
    tokens = ", ".join(format_count(n_tokens) for n_tokens in rung.tokens)
    ending = "; predicted before it is run" if rung.is_predicted else ""
    return (
        f"d_model {rung.size}: {parameters} parameters, {own} of the baseline's in no embedding;"
        f" {tokens} tokens{ending}"
    )


def _describe_items(prepared: PreparedTask) -> str:
    """How many items of a task every arm is asked, and how many do not fit them all."""
    own = prepared.prepared
    text = f"{format_plural(len(own.items), 'item')} for every arm"
    if own.n_left_out:
        text += f", {own.n_left_out} left out that do not fit all of them"
    n_cut = sum(n > 0 for n in own.n_truncated_bytes)
    if n_cut:
        text += f", {n_cut} of them cut at the same byte for all"
    return text


def _describe_runs(cost: StudyCost) -> str:
    n_runs = str(cost.n_runs)
    if cost.n_sweep_runs:  # and of a ladder that is swept, some are those of the verdict, too
        n_runs = f"at most {n_runs}"
    if cost.n_sweep_runs:
        n_runs += f", {cost.n_sweep_runs} of them to find learning rates"
    if cost.n_length_runs:
        n_runs += f", {cost.n_length_runs} of them of other lengths"
    if cost.n_ladder_runs:
        n_runs += f", {cost.n_ladder_runs} of them on the ladder"
    time = format_duration(cost.seconds)
    return f"{n_runs}; {format_flops(cost.flops)}, about {time} ({cost.basis})"


def _describe_seed_cost(plan: Plan, cost: StudyCost) -> str:
    time = format_duration(cost.seconds_per_seed)
    return (
        f"{format_plural(cost.n_runs_per_seed, 'run')}; {format_flops(cost.flops_per_seed)},"
        f" about {time}; {len(plan.seeds)} seeds are counted above, and --seeds N adds more"
    )


def _describe_control(plan: Plan) -> str:
    """The positive control, which must come out worse and is not in the family."""
    arm, length = control_arm(plan.design), control_length(plan.design)
    if arm is None and length is None:
        return "none: nothing shows that the yardstick can see a difference"
    baseline = quote_arm(plan.design.baseline)
    if arm is not None and length is None:
        control = quote_arm(arm)
    else:
        run = next(arm.run for arm in plan.arms if arm.name == plan.design.baseline)
        whole = describe_shortened([stage.kind for stage in run.stages])
        control = f"{baseline} at {length:g} of {whole}"
    text = f"{control} must come out worse than {baseline}; it is not in the family"
    differences = describe_control_differences(plan.design, plan.control_lines)
    return f"{text}; {differences}" if differences else text


def _describe_must(plan: Plan, must: Must) -> str:
    """What must hold, how it is tested, what that can see, and what hangs on it."""
    claim, n = must.claim, len(plan.seeds)
    text = _name_must(must)
    if claim.is_threshold:
        text += f", by the means of {n} seeds"
    else:
        share, is_open = _last_share(plan), plan.design.seeds == OPEN_SEEDS
        shown = one_sided_power(USUAL_DIFFERENCE, n, share, open_ended=is_open)
        text += (
            f", one-sided at {100 * share:g} %: with {n} seeds a real difference of"
            f" {USUAL_DIFFERENCE:g} sd of the paired difference is missed in"
            f" {whole_percent(1 - shown)} of studies"
        )
    pairs = hanging_pairs(must.scope, judged_pairs(plan.design))
    names = [f"{quote_arm(arm)} against {quote_arm(against)}" for arm, against in pairs]
    names += hanging_contrasts(must.scope, declared_contrasts(plan.design))
    hanging = ", ".join(names)
    if len(names) == plan.n_comparisons:
        hanging = "all that is judged"
    return f"{text}. Where it is not shown, there is no word on {hanging}"


def print_series(plan: Plan, page: Console) -> None:
    """Print which study of a series this is, if it is a later one."""
    if plan.series is not None:
        place = describe_series_place(plan.series.number, plan.seeds)
        page.print(
            f"{place}; earlier seeds are shown and not judged ({plan.name})",
            soft_wrap=True,
            markup=False,
        )


def _print_plan_power(plan: Plan, past_noise: PastNoise | None, page: Console) -> None:
    """Print the power at a few numbers of seeds."""
    is_open, looks = plan.design.seeds == OPEN_SEEDS, plan.design.looks or {}
    share = _last_share(plan)
    lines = power_table(len(plan.seeds), plan.n_comparisons, share, open_ended=is_open)
    if len(looks) > 1:
        last = f", at the share of the last look, {share:g}"
    else:
        last = ""
    family, unit = f"{_describe_family(plan)}{last}", plan.design.primary.measure.scores.unit
    print_power_table(lines, len(plan.seeds), family, past_noise, unit, page)


def _last_share(plan: Plan) -> float:
    """The share of the family's error rate that the last look has."""
    looks = plan.design.looks
    if not looks:
        return FAMILY_ALPHA
    return looks[max(looks)]


def _describe_power(plan: Plan, past_noise: PastNoise | None) -> Iterator[str]:
    if plan.design.seeds == OPEN_SEEDS:
        yield from _describe_open_power(plan, past_noise)
        return
    n, m, looks = len(plan.seeds), plan.n_comparisons, plan.design.looks or {}
    share = _last_share(plan)
    effect = detectable_effect(n, m, alpha=share)
    margin = equivalence_margin(n, m, alpha=share)
    if len(looks) > 1:
        last = f"; at the last of {len(looks)} looks, with its share of {share:g}"
    else:
        last = ""
    yield (
        f"power      with {n} seeds and {_describe_family(plan)}: an effect of {rough(effect)} sd"
        " of the paired difference, at 80 % power; a true zero is called equivalent from a margin"
        f" of {rough(margin)} sd{last}"
    )
    if past_noise is not None:
        unit = plan.design.primary.measure.scores.unit
        yield (
            f"           in {unit}, {rough(effect * past_noise.upper_sd)} and"
            f" {rough(margin * past_noise.upper_sd)}; {describe_past_noise(past_noise, unit)}"
        )


def _describe_family(plan: Plan) -> str:
    """The comparisons and contrasts that share the 5 %."""
    counts = {
        "comparison": len(judged_pairs(plan.design)),
        "contrast": len(declared_contrasts(plan.design)),
    }
    return " and ".join(format_plural(n, name) for name, n in counts.items() if n)


def _describe_open_power(plan: Plan, past_noise: PastNoise | None) -> Iterator[str]:
    """The power at a few numbers of seeds, each on its own; looking at all of them loses none."""
    m = plan.n_comparisons
    at = sorted({*OPEN_SEED_COUNTS, len(plan.seeds)})
    effects = [detectable_effect(n, m, open_ended=True) for n in at]
    margins = [equivalence_margin(n, m, open_ended=True) for n in at]
    seeds = (
        f"with {', '.join(map(str, at))} seeds (the number is open) and {_describe_family(plan)}"
    )
    yield (
        f"power      {seeds}: an effect of {_join_numbers(effects)} sd of the paired difference, at"
        " 80 % power; a true zero is called equivalent from a margin of"
        f" {_join_numbers(margins)} sd"
    )
    if past_noise is not None:
        unit, sd = plan.design.primary.measure.scores.unit, past_noise.upper_sd
        yield (
            f"           in {unit}, {_join_numbers([sd * one for one in effects])}; "
            f"{_join_numbers([sd * one for one in margins])};"
            f" {describe_past_noise(past_noise, unit)}"
        )


def _join_numbers(values: Sequence[float]) -> str:
    return ", ".join(map(rough_or_none, values))

"""What is alarming in a plan: said before anything else, each with the line of TOML that cures it.

A study can be valid and still run for months, fill the disk, or have too few seeds or items to
decide anything.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil, log2
from pathlib import Path
from statistics import fmean
from typing import Any

from paribus.analyse import PastStudies, column_of, detectable_effect
from paribus.analyse.interval import MIN_SEEDS
from paribus.analyse.looks import FAMILY_ALPHA
from paribus.analyse.margin_limits import MAX_LEARNT_SHARE
from paribus.corpus.tasks import ChoiceItem
from paribus.design.control_arm import control_doubts
from paribus.design.item_reach import ItemReach, can_be_compared, item_reach
from paribus.design.plan import Plan
from paribus.design.quantities import PlannedArm
from paribus.design.study_cost import STUDY_SECONDS, StudyCost, run_seconds, study_bytes
from paribus.errors import SpecError, UnsupportedError
from paribus.report.numbers import format_duration, format_plural, format_size, rough
from paribus.runtime import select_device
from paribus.spec.contrasts import default_contrasts, opposed_arms
from paribus.spec.design import (
    OPEN_SEEDS,
    ArmPair,
    arm_levels,
    declared_contrasts,
    leaves_of,
)
from paribus.spec.measure import BITS_PER_ITEM, POINTS, WHOLE_RANGES
from paribus.spec.yardstick import DocumentHalves, HeadYardstick, PseudoHalves, TaskYardstick
from paribus.workspace import Workspace

LONGEST_SECONDS = 24 * 3600.0
MOST_MARGINS = 10.0  # that the least effect which is found may come to
MOST_SDS = 5.0  # that it may come to where nothing is known of the noise
MOST_SEEDS = 100
FEW_ITEMS = 30  # of a measure that is a share of items
HANDFUL = 20  # items of any other measure
POWER_FACTOR = 2.8  # standard errors that are found at 80 % power, two-sided at .05
MOST_HELD_OUT = 0.5  # of a corpus
LENGTH_FIELDS = {"mask", "cross", "max_distance"}  # that may show in long texts alone
LEAST_REACHING = 0.1  # of the items, that show what arms differ in
MORE_ITEMS = 1.1  # times as many are made as would fit on average
SPARE_SHARE = 0.95  # of what is allowed, that a cure uses


@dataclass(frozen=True)
class Alarm:
    """What is alarming, and the line of TOML that cures it, at the scale that was planned."""

    text: str
    cure: str


def plan_alarms(
    plan: Plan, cost: StudyCost, workspace: Workspace, past: PastStudies
) -> tuple[Alarm, ...]:
    """What is alarming in a plan: its time, its disk, what it can find, its margin and control."""
    return (
        *_time_alarm(plan, cost, workspace),
        *_disk_alarm(plan, cost, workspace),
        *_power_alarm(plan, past),
        *_item_alarm(plan),
        *_margin_alarm(plan),
        *_control_alarms(plan),
        *_reach_alarms(plan),
    )


def _at_scale(plan: Plan, line: str) -> str:
    """A line of a design, where the scale that is planned does not write over it."""
    if plan.scale is None:
        return line
    return f"scales.{plan.scale}.{line}"


def _time_alarm(plan: Plan, cost: StudyCost, workspace: Workspace) -> Iterator[Alarm]:
    if cost.seconds <= LONGEST_SECONDS:
        return
    text = (
        f"about {format_duration(cost.seconds)} of runs one after another, more than"
        f" {format_duration(LONGEST_SECONDS)} ({cost.basis})"
    )
    fixed = STUDY_SECONDS + cost.n_runs * run_seconds(select_device(workspace.device).type)
    share = SPARE_SHARE * (LONGEST_SECONDS - fixed) / (cost.seconds - fixed)
    if share <= 0:
        n_seeds = max(MIN_SEEDS, int(len(plan.seeds) * LONGEST_SECONDS / cost.seconds))
        yield Alarm(text, _at_scale(plan, f"seeds = {n_seeds}"))
        return
    lines = [_at_scale(plan, line) for line in _step_lines(plan, share)]
    yield Alarm(text, "; ".join(lines))


def _step_lines(plan: Plan, share: float) -> Iterator[str]:
    """The lines that bring every run to a share of its steps."""
    baseline = plan.arms[0].run
    for number, stage in enumerate(baseline.stages):
        where = f"stages.{number}." if len(baseline.stages) > 1 else ""
        n_steps = max(1, int(stage.training.n_steps * share))
        yield f"base.{where}training.n_steps = {n_steps}"
        for arm in plan.arms:
            if _writes_steps(plan.design.arms.get(arm.name, {}), where):
                own = max(1, int(arm.run.stages[number].training.n_steps * share))
                yield f"arms.{arm.name!r}.{where}training.n_steps = {own}".replace("'", '"')
    ladder = plan.design.ladder
    if ladder is not None:
        shorter = [float(f"{one * share:.2g}") for one in ladder.tokens_per_parameter]
        yield f"ladder.tokens_per_parameter = {shorter}"


def _writes_steps(table: Mapping[str, Any], where: str) -> bool:
    """Does the table of an arm have a number of steps of its own?"""
    here: Any = table
    for name in f"{where}training.n_steps".split("."):
        if not isinstance(here, Mapping) or name not in here:
            return False
        here = here[name]
    return True


def _disk_alarm(plan: Plan, cost: StudyCost, workspace: Workspace) -> Iterator[Alarm]:
    place = Path(workspace.runs_folder).absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if cost.n_bytes <= free:
        return
    text = (
        f"about {format_size(cost.n_bytes)} of checkpoints, more than the {format_size(free)} that"
        f" are free in {place}"
    )
    n_steps = max(arm.n_steps for arm in plan.arms)
    for name, value in (("keep_last", 1), ("checkpoint_every", n_steps)):
        if study_bytes(_with_training(plan, name, value)) <= free:
            yield Alarm(text, _at_scale(plan, f"base.training.{name} = {value}"))
            return
    least = study_bytes(_with_training(plan, "checkpoint_every", n_steps))
    yield Alarm(
        text,
        f"{_at_scale(plan, 'base.training.checkpoint_every')} = {n_steps} leaves"
        f" {format_size(least)}; for the rest, use --runs with a folder on a larger disk, or a"
        " smaller base.architecture",
    )


def _with_training(plan: Plan, name: str, value: int) -> Plan:
    """The plan with another value in one field of the last training of every arm."""

    def changed(arm: PlannedArm) -> PlannedArm:
        last = arm.run.last
        training = last.training.model_copy(update={name: value})
        return replace(arm, run=arm.run.with_last(last.model_copy(update={"training": training})))

    rungs = [replace(rung, arms=tuple(map(changed, rung.arms))) for rung in plan.rungs]
    return replace(plan, arms=tuple(map(changed, plan.arms)), rungs=tuple(rungs))


def _power_alarm(plan: Plan, past: PastStudies) -> Iterator[Alarm]:
    if plan.n_comparisons == 0:
        return
    n, is_open = len(plan.seeds), plan.design.seeds == OPEN_SEEDS
    effect = _detectable_sds(plan, n)
    limit, limit_words = _largest_useful_effect(plan, past)
    if effect <= limit:
        return
    in_unit = ""
    if past.noise is not None:
        unit = plan.design.primary.measure.scores.unit
        in_unit = f", by {past.noise.study} about {rough(effect * past.noise.upper_sd)} {unit}"
    text = (
        f"{n} seeds and {format_plural(plan.n_comparisons, 'comparison')} find no effect below"
        f" {rough(effect)} sd of the paired difference{in_unit}, at 80 % power, which is more than"
        f" {limit_words}"
    )
    for more in range(n + 1, MOST_SEEDS + 1):
        if _detectable_sds(plan, more) <= limit:
            cure = f"--seeds {more}" if is_open else _at_scale(plan, f"seeds = {more}")
            if plan.design.looks:
                cure += ", and looks that end there"
            yield Alarm(text, cure)
            return
    yield Alarm(
        text,
        f"{_at_scale(plan, 'comparisons')} = [[…]], with those pairs alone that the question needs",
    )


def _item_alarm(plan: Plan) -> Iterator[Alarm]:
    """Few items of the primary yardstick: what holds of them need not hold of others."""
    measure, n_items = plan.design.primary.measure, next(iter(plan.n_items.values()))
    margin = plan.design.primary.margin
    is_share = measure.scores.unit == POINTS
    least = FEW_ITEMS if is_share else HANDFUL
    if is_share and isinstance(margin, float | int):
        least = max(least, ceil(100 / margin))  # with fewer, one item is more than the margin
    if n_items >= least:
        return
    text = f"the verdicts rest on {format_plural(n_items, 'item')}"
    if is_share and n_items >= FEW_ITEMS:
        text += f", of which one is {rough(100 / n_items)} points, more than the margin, {margin:g}"
    elif is_share:
        effect = min(100.0, 100 * POWER_FACTOR * (0.5 / n_items) ** 0.5)
        text += (
            f": one of them is {rough(100 / n_items)} points, and with other items of the kind"
            f" no difference below {rough(effect)} points is sure to be found (80 % power, two"
            " arms that are right in half of them)"
        )
    else:
        text += ", and what holds of a handful need not hold of other text"
    n_left_out = _n_left_out(plan)
    if n_left_out:
        length = plan.arms[0].run.last.training.length
        text += f"; {n_left_out} more do not fit training.length = {length} in every arm"
    yield Alarm(text, _at_scale(plan, _item_cure(plan, n_items, least)))


def _n_left_out(plan: Plan) -> int:
    """How many items of a task that is the primary yardstick do not fit every arm."""
    measure = plan.design.primary.measure
    if not isinstance(measure, TaskYardstick):
        return 0
    return plan.tasks[column_of(measure.model_dump(mode="json"))].prepared.n_left_out


def _item_cure(plan: Plan, n_items: int, least: int) -> str:
    """The line that gives the primary yardstick enough items: more of those that are there, or
    more text that is held out.
    """
    measure = plan.design.primary.measure
    if isinstance(measure, TaskYardstick):
        n_left_out = _n_left_out(plan)
        n_made, spare = n_items + n_left_out, MORE_ITEMS if n_left_out else 1
        n_wanted = ceil(spare * least * n_made / max(1, n_items))
        cure = f"primary.measure.task.n_items = {n_wanted}"
        languages, asked = getattr(measure.task, "language", None) or (), measure.task.n_items
        has_no_more = asked is None or n_made < asked
        if len(languages) == 1 and has_no_more:
            n_documents = ceil(MORE_ITEMS * languages[0].n_documents * n_wanted / max(1, n_made))
            cure += f" and primary.measure.task.language.n_documents = {n_documents}"
        return cure
    if not isinstance(measure, HeadYardstick) and n_items >= measure.n_items:
        return f"primary.measure.n_items = {least}"
    share = getattr(plan.arms[0].run.last.corpus, measure.split) * least / n_items
    return f"base.corpus.{measure.split} = {min(MOST_HELD_OUT, ceil(100 * share) / 100):g}"


def _margin_alarm(plan: Plan) -> Iterator[Alarm]:
    """A margin that is more than a tenth of all that can be learnt: the report has none that wide,
    and nothing is called equivalent within it.
    """
    margin, measure = plan.design.primary.margin, plan.design.primary.measure.scores
    most = _most_learnt(plan)
    if not isinstance(margin, float | int) or most is None or margin <= MAX_LEARNT_SHARE * most:
        return
    limit = MAX_LEARNT_SHARE * most
    yield Alarm(
        f"the margin, {margin:g} {measure.unit}, is more than a tenth of all that can be learnt,"
        f" {most:.3g} {measure.unit}, so that nothing is called equivalent",
        _at_scale(plan, f"primary.margin = {limit:.2g}, or less"),
    )


def _most_learnt(plan: Plan) -> float | None:
    """What a model can gain at most on what needs no model; None where nothing bounds it."""
    measure = plan.design.primary.measure.scores
    whole = WHOLE_RANGES.get(measure.unit)
    column = next(iter(plan.n_items))
    items = plan.tasks[column].prepared.items if column in plan.tasks else ()
    options = [len(item.options) for item in items if isinstance(item, ChoiceItem)]
    if not options or measure.is_difference:
        return whole
    if measure.unit == BITS_PER_ITEM:
        return fmean(map(log2, options))
    if whole is not None and measure.unit == POINTS:
        return whole * (1 - fmean(1 / n_options for n_options in options))
    return whole


def _control_alarms(plan: Plan) -> Iterator[Alarm]:
    """A control that is badly trained, or a margin that is a share of something else."""
    for doubt, lines in control_doubts(plan.design, plan.control_lines):
        yield Alarm(doubt, " and ".join(_at_scale(plan, line) for line in lines))


def _reach_alarms(plan: Plan) -> Iterator[Alarm]:
    """Pairs that are compared and differ in how far they look, whatever lets that pass, where items
    of the primary yardstick are too short to show it.
    """
    arms, measure = {arm.name: arm for arm in plan.arms}, plan.design.primary.measure
    pairs_by_alarm: dict[Alarm, list[str]] = {}
    for pair in _shown_pairs(plan):
        if not arms.keys() >= set(pair):
            continue
        arm, against = arms[pair[0]], arms[pair[1]]
        fields = _length_fields(arm, against)
        if not fields or not can_be_compared(arm, against):
            continue
        reach = item_reach(measure, arm, against, plan.tasks)
        if reach.needed is None or reach.n_reaching >= LEAST_REACHING * reach.n_items:
            continue
        found = f"the longest of {format_plural(reach.n_items, 'item')} has {reach.longest}"
        if reach.n_reaching:
            found = f"only {reach.n_reaching} of {reach.n_items} are that long"
        alarm = Alarm(
            f"differ in {', '.join(fields)}; an item of the primary yardstick shows that from about"
            f" {reach.needed} tokens on, as it is laid, and {found}",
            _reach_cure(plan, arm, against, reach),
        )
        pairs_by_alarm.setdefault(alarm, []).append(" and ".join(pair))
    for alarm, pairs in pairs_by_alarm.items():
        more = f", and {format_plural(len(pairs) - 1, 'more pair')}," if pairs[1:] else ""
        yield replace(alarm, text=f"{pairs[0]}{more} {alarm.text}")


def _shown_pairs(plan: Plan) -> list[ArmPair]:
    """Each judged pair once, and each arm that a contrast counts up with each that it counts down,
    also where the contrast is shown and not judged.
    """
    levels, baseline = arm_levels(plan.design), plan.design.baseline
    contrasts = default_contrasts(levels, baseline) | declared_contrasts(plan.design)
    pairs: dict[frozenset[str], ArmPair] = {}
    for one in plan.judged:
        own = [(str(one.arm), str(one.against))]
        if one.contrast is not None:
            own = opposed_arms(contrasts[one.contrast])
        for pair in own:
            pairs.setdefault(frozenset(pair), pair)
    return list(pairs.values())


def _length_fields(one: PlannedArm, other: PlannedArm) -> list[str]:
    """The fields in which two architectures differ and that may show in long texts alone."""
    tables = [arm.run.last_architecture.model_dump(mode="json") for arm in (one, other)]
    first, second = map(leaves_of, tables)
    fields = []
    for path, value in first.items():
        if path.rpartition(".")[2] in LENGTH_FIELDS and second.get(path, value) != value:
            fields.append(path)
    return fields


def _reach_cure(plan: Plan, arm: PlannedArm, against: PlannedArm, reach: ItemReach) -> str:
    """The line that gives the primary yardstick items that are long enough, if it cuts texts."""
    measure = plan.design.primary.measure
    if isinstance(measure, DocumentHalves | PseudoHalves):
        for times in (1.25, 2.0, 4.0):
            n_bytes = ceil(measure.max_bytes * times * (reach.needed or 0) / reach.longest)
            longer = measure.model_copy(update={"max_bytes": n_bytes})
            try:
                found = item_reach(longer, arm, against, plan.tasks)
            except (SpecError, UnsupportedError):  # nothing is that long, or has no room
                continue
            if found.n_reaching >= LEAST_REACHING * found.n_items:
                return _at_scale(plan, f"primary.measure.max_bytes = {n_bytes}")
    return (
        f"{_at_scale(plan, 'primary.measure')} = {{ … }}, a yardstick whose items have about"
        f" {reach.needed} tokens or more, or take longer texts"
    )


def _detectable_sds(plan: Plan, n_seeds: int) -> float:
    """The least effect that so many seeds find, in spreads of the paired difference."""
    looks = plan.design.looks
    alpha = looks[max(looks)] if looks else FAMILY_ALPHA
    is_open = plan.design.seeds == OPEN_SEEDS
    return detectable_effect(n_seeds, plan.n_comparisons, alpha=alpha, open_ended=is_open)


def _largest_useful_effect(plan: Plan, past: PastStudies) -> tuple[float, str]:
    """The effect, in spreads of the paired difference, above which finding it decides nothing."""
    limits: list[tuple[float, str]] = []
    if past.noise is not None:
        sd, unit = past.noise.upper_sd, plan.design.primary.measure.scores.unit
        margin = plan.design.primary.margin
        if isinstance(margin, float | int):
            words = f"{MOST_MARGINS:g} margins of {margin:g} {unit}"
            limits.append((MOST_MARGINS * margin / sd, words))
        if past.control_effect is not None:
            words = f"what a control was worth, {rough(past.control_effect)} {unit}"
            limits.append((past.control_effect / sd, words))
    if not limits:
        return MOST_SDS, f"{MOST_SDS:g} sd"
    return min(limits)

"""A plan: every arm made ready, the control table over all of them, and what it will cost and
can see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from html import escape
from typing import Any, get_args

import torch

from paribus.corpus import TokenisedCorpus, find_recorded_corpus, prepare_corpus
from paribus.design.added_tables import require_right_targets, require_seen_sources
from paribus.design.arms import Arm, arms_of
from paribus.design.asked_forms import (
    require_like_parents,
    require_trained_forms,
    tuning_criterion,
)
from paribus.design.asked_tasks import plan_tasks, task_fingerprints
from paribus.design.budget_groups import (
    BudgetGroups,
    budget_groups,
    budget_steps,
    describe_missed_budgets,
    mark_total_lines,
    require_budget_over_stages,
    require_room_for_last_stage,
)
from paribus.design.computation import require_different_computations
from paribus.design.contrast_parts import require_usual_weights
from paribus.design.control import (
    RATE_PATH,
    FindingsByPair,
    describe_confounds,
    field_lines,
    is_inside,
    judge_pairs,
)
from paribus.design.control_arm import require_another_control
from paribus.design.field_paths import (
    ITEM_LINES,
    require_known_paths,
    require_reasons,
    unused_allowances,
)
from paribus.design.item_checks import describe_cut_confounds, item_counts, item_lines
from paribus.design.judged_notes import note_judged
from paribus.design.judged_pairs import (
    describe_compounds,
    is_allowed_beside,
    judged_differences,
    name_allowed,
    name_details,
    pairs_of_contrasts,
    unused_reasons,
)
from paribus.design.kept_rates import describe_kept_rates, read_kept_rates
from paribus.design.ladder import Rung, ladder_lines, plan_rungs
from paribus.design.length_checks import require_trainable_batches, require_trainable_lengths
from paribus.design.must_checks import require_open_verdicts
from paribus.design.pair_sizes import UnequalSizes, pair_ratios, size_lines, unequal_sizes
from paribus.design.probe_checks import require_kept_checkpoints
from paribus.design.quantities import (
    QUANTITIES,
    PlannedArm,
    machine_lines,
    quantity_lines,
)
from paribus.design.ready_arms import (
    match_sizes,
    plan_arm,
    require_choice,
    require_declared_match,
)
from paribus.design.scaling_checks import require_scalable, scale_recipes, scaled_notes
from paribus.design.seeds import reported_seeds
from paribus.design.series import Series
from paribus.design.text_lines import describe_text_confounds
from paribus.design.trained_items import describe_trained_confounds, trained_item_lines
from paribus.design.unseen_tasks import require_unseen_tasks
from paribus.design.wrong_targets import wrongly_taught_arms
from paribus.errors import ConfoundError
from paribus.evaluate.tasks.run import PreparedTask
from paribus.interop.begin import open_begin
from paribus.record import ControlLine, JudgedDifference, current_environment
from paribus.record.plan_lock import design_fingerprint, plan_fingerprint
from paribus.runtime import cudnn_version, device_kind, select_device
from paribus.spec.corpus import Corpus
from paribus.spec.design import (
    OPEN_SEEDS,
    Budget,
    Design,
    compared_pairs,
    declared_contrasts,
    n_judged,
    sweep_yardstick,
)
from paribus.spec.design_reading import require_valid_design
from paribus.workspace import Execution

VERDICT_RULE = (
    "{test}, Bonferroni over one family a report, {equal} for equivalence, last checkpoint"
)
TWO_TESTS = "two one-sided tests"
ONE_THREAD = {"n_threads": 1, "omp_num_threads": "1"}


@dataclass(frozen=True, eq=False)
class Plan:
    """What will be run, and the proof that nothing but the factor differs."""

    name: str
    scale: str | None
    design: Design
    arms: tuple[PlannedArm, ...]  # the baseline first
    control_lines: tuple[ControlLine, ...]
    judged: tuple[JudgedDifference, ...]
    environment: dict[str, Any]
    # to be reported; of an open design, as many as it is to be carried to now
    seeds: tuple[int, ...]
    series: Series | None = None  # where it is a later study of a series
    # by their columns: the items that every arm is asked
    tasks: Mapping[str, PreparedTask] = field(default_factory=dict)
    rungs: tuple[Rung, ...] = ()  # of the ladder, ascending
    # what is kept of each arm's rate, where it is read from finished sweeps
    kept_rates: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    # of the design as it was frozen, where arms were changed since by what sweeps have found
    frozen_design: str | None = None

    @property
    def n_comparisons(self) -> int:
        return n_judged(self.design)

    @property
    def allowed_lines(self) -> tuple[ControlLine, ...]:
        lines = []
        for line in self.control_lines:
            if line.allowed is not None:
                lines.append(line)
        return tuple(lines)

    @property
    def unused_allowances(self) -> dict[str, str]:
        """What the design allows though nothing there is a confound, and why that is not needed."""
        unused = unused_allowances(self.design, self.control_lines)
        used = [path for path in unused if is_allowed_beside(path, self.judged)]
        return {path: why for path, why in unused.items() if path not in used}

    @property
    def unused_reasons(self) -> tuple[str, ...]:
        """The entries of `compound` that are not needed."""
        return unused_reasons(self.design, self.judged)

    def _repr_html_(self) -> str:
        """In a notebook: the control table, what differs first."""
        columns = ["", "field", *[arm.name for arm in self.arms], ""]
        rows = [_html_row("th", columns)]
        for line in sorted(self.control_lines, key=lambda line: line.mark.place):
            values = line.values.values()
            cells = [line.mark, line.path, *values, line.allowed or line.note]
            rows.append(_html_row("td", cells))
        return f"<p>{escape(self.design.question)}</p><table>{''.join(rows)}</table>"

    @property
    def design_fingerprint(self) -> str:
        """Of the design as it comes out: arms, text, seeds, yardsticks, margins."""
        if self.frozen_design is not None:
            return self.frozen_design
        runs = {}
        for arm in self.arms:
            text: str | list[str] = arm.dataset.fingerprint
            if len(arm.texts) > 1:
                text = [own.fingerprint for own in arm.texts]
            runs[arm.name] = (arm.run.model_dump(mode="json"), text)
        return design_fingerprint(
            self.design.model_dump(mode="json"), runs, items=self.items, rates=self.kept_rates
        )

    @cached_property
    def items(self) -> dict[str, str]:
        """The fingerprint of the items of each task, by its column."""
        return task_fingerprints(self.tasks)

    @cached_property
    def n_items(self) -> dict[str, int]:
        """How many items each yardstick asks every arm, by its column, the primary first."""
        return item_counts(self.design, self.arms, self.tasks)

    @property
    def fingerprint(self) -> str:
        """Of the design, the rule of the verdict and the code: what must not change on the way."""
        return plan_fingerprint(self.design_fingerprint, self.rule, self.environment["code"])

    @property
    def rule(self) -> str:
        """How the verdict is read."""
        if self.design.seeds == OPEN_SEEDS:
            return VERDICT_RULE.format(
                test="paired t past a bound for any number of seeds", equal="the same interval"
            )
        return VERDICT_RULE.format(test="paired t", equal=TWO_TESTS)


def _html_row(tag: str, cells: Sequence[Any]) -> str:
    """A row of a table whose cells have the tag."""
    text = ""
    for cell in cells:
        text += f"<{tag}>{escape(str(cell))}</{tag}>"
    return f"<tr>{text}</tr>"


def make_plan(
    design: Design,
    name: str,
    scale: str | None,
    execution: Execution,
    *,
    show_progress: bool = True,
    n_seeds: int | None = None,
) -> Plan:
    """Resolve every arm, refuse what is no fair comparison, match sizes and budgets; `n_seeds`
    of an open design.
    """
    cache = execution.workspace.cache_folder
    device = select_device(execution.workspace.device)
    require_valid_design(design)
    seeds = reported_seeds(design, n_seeds)
    opener = partial(open_begin, runs=execution.workspace.runs_folder)
    arms = arms_of(design, opener)
    require_known_paths(design, arms, execution.workspace.runs_folder)
    require_reasons(design)
    require_seen_sources(design, arms)
    require_unseen_tasks(design, arms)
    datasets: dict[str, TokenisedCorpus] = {}

    def text(corpus: Corpus) -> TokenisedCorpus:
        key = corpus.model_dump_json()
        datasets[key] = datasets.get(key) or prepare_corpus(
            corpus, cache, show_progress=show_progress
        )
        return datasets[key]

    def recorded_text(corpus: Corpus, fingerprint: str) -> TokenisedCorpus:
        return find_recorded_corpus(corpus, fingerprint, cache) or text(corpus)

    findings = judge_pairs(design, arms, opener, text)
    written_lines = field_lines(design, arms, findings)
    _refuse_confounds(design, written_lines)
    sizes = match_sizes(arms)
    unequal = unequal_sizes(design, arms, sizes, compared_pairs(design))
    own_size_lines = size_lines(design, arms, unequal)
    _refuse_confounds(design, (*own_size_lines, *written_lines))
    require_right_targets(design, arms)
    judged = judged_differences(design, arms, findings, unequal, opener)
    compounds = describe_compounds(design, arms, judged, unequal, opener)
    if compounds:
        raise ConfoundError(compounds, (*own_size_lines, *written_lines))
    require_usual_weights(declared_contrasts(design), judged)
    ready = [plan_arm(arm, size, text) for arm, size in zip(arms, sizes, strict=True)]
    lines_of_items = item_lines(design, ready)
    tasks = plan_tasks(design, ready)
    require_declared_match(arms, ready)
    groups = budget_groups(design, ready)
    require_trained_forms(design, ready)
    require_like_parents(design, ready, groups)
    ready = scale_recipes(design, arms, _apply_budget(design, ready, groups))
    require_different_computations(design, ready, tasks)
    require_another_control(design, ready)
    require_open_verdicts(design, arms, ready, judged, tasks)
    require_scalable(design, ready)
    require_trainable_batches(ready)
    require_trainable_lengths(design, ready)
    require_kept_checkpoints(design, ready)
    kept_rates = read_kept_rates(design, ready)
    tuning = _tuning_by_path(design, ready, kept_rates)
    lines = (
        *own_size_lines,
        *_control_lines(design, arms, ready, findings, unequal, groups, tuning),
        *lines_of_items,
        *trained_item_lines(design, arms, ready, tasks, opener, recorded_text),
    )
    _refuse_confounds(design, lines)
    rungs = plan_rungs(design, ready, unequal, opener, text)
    ratios = pair_ratios(arms, sizes, compared_pairs(design))
    contrast_pairs = pairs_of_contrasts(design, arms, findings, unequal, opener)
    judged = name_details(judged, arms, ratios, contrast_pairs, opener)
    here = run_environment(device, execution.n_jobs)
    return Plan(
        name=name,
        scale=scale,
        design=design,
        arms=tuple(ready),
        control_lines=(
            *lines,
            *ladder_lines(design, ready),
            *machine_lines(ready, here, device),
        ),
        judged=note_judged(
            name_allowed(judged, design, arms, lines), design, ready, contrast_pairs
        ),
        environment=here,
        seeds=seeds,
        tasks=tasks,
        rungs=rungs,
        kept_rates=kept_rates,
    )


def run_environment(device: torch.device, n_jobs: int) -> dict[str, Any]:
    """What the runs are made under: runs side by side have one thread each."""
    alone = current_environment(torch.get_num_threads(), device_kind(device), cudnn_version(device))
    if n_jobs > 1:
        return {**alone, **ONE_THREAD}
    return alone


def _refuse_confounds(design: Design, lines: Sequence[ControlLine]) -> None:
    of_fields = []
    for line in lines:
        is_of_items = any(is_inside(line.path, place) for place in ITEM_LINES)
        if line.path not in QUANTITIES and not is_of_items:
            of_fields.append(line)
    confounds = (
        *describe_confounds(of_fields),
        *describe_text_confounds(lines),
        *describe_cut_confounds(lines),
        *describe_missed_budgets(lines, design.budget),
        *describe_trained_confounds(lines),
    )
    if confounds:
        raise ConfoundError(confounds, lines)


def _apply_budget(
    design: Design, arms: Sequence[PlannedArm], groups: BudgetGroups
) -> list[PlannedArm]:
    """As many steps for each arm as its budget has: that of the first arm of its group."""
    if design.budget is None:
        _require_equal_totals(arms)
        require_budget_over_stages(design, arms, groups)
        return list(arms)
    firsts: dict[int, PlannedArm] = {}
    planned_arms = []
    for arm in arms:
        first = firsts.setdefault(groups[arm.name], arm)
        goal = first.total(design.budget)
        n_steps = round(budget_steps(design.budget, first, arm, first.n_steps))
        require_room_for_last_stage(design.budget, first, arm, goal, n_steps)
        planned_arms.append(_with_n_steps(arm, max(1, n_steps)))
    return planned_arms


def _require_equal_totals(arms: Sequence[PlannedArm]) -> None:
    """SpecError where arms differ in what they read; one stage more or less is a factor, which
    says so itself.
    """
    totals: dict[int, dict[str, dict[str, float]]] = {}
    by_step: dict[str, PlannedArm] = {}
    for arm in arms:  # longer training, which only a factor can be, asks for no budget
        by_step.setdefault(_described_steps(arm), arm)
    for arm in by_step.values():
        totals.setdefault(len(arm.run.stages), {})[arm.name] = _step_totals(arm)
    for n_stages, own in totals.items():
        # what differs in an earlier stage is not to change how much text the last one reads
        proposed = "bytes_read" if n_stages > 1 else "tokens_read"
        require_choice("budget", get_args(Budget), own, repr(proposed))


def _described_steps(arm: PlannedArm) -> str:
    """What decides the cost of every step of an arm, whatever their number."""
    stages = []
    for stage, text in zip(arm.run.stages, arm.text_fingerprints, strict=True):
        training = stage.training
        size = (training.n_sequences, training.length, training.data_seed)
        stages.append((text, stage.objective, stage.architecture, size))
    return repr((arm.run.architecture, stages))


def _step_totals(arm: PlannedArm) -> dict[str, float]:
    """What a step costs; of several stages, all of them in the shares that they have."""
    return {name: arm.total(name) / arm.n_steps for name in get_args(Budget)}


def _with_n_steps(arm: PlannedArm, n_steps: int) -> PlannedArm:
    stage = arm.run.last
    lasting = stage.model_copy(
        update={"training": stage.training.model_copy(update={"n_steps": n_steps})}
    )
    return replace(arm, run=arm.run.with_last(lasting))


def _control_lines(
    design: Design,
    arms: Sequence[Arm],
    ready: Sequence[PlannedArm],
    findings: FindingsByPair,
    unequal: UnequalSizes,
    groups: BudgetGroups,
    tuning: Mapping[str, str],
) -> tuple[ControlLine, ...]:
    moved_notes, final = {}, []
    for arm, own in zip(arms, ready, strict=True):
        last_stage = f"stages.{len(own.run.stages) - 1}." if arm.numbers_stages else ""
        moved_notes[own.name] = {
            **_moved_notes(design, own, f"{last_stage}training.n_steps"),
            **scaled_notes(arm, own.run),
        }
        final.append(replace(arm, run=own.run))
    pairs = compared_pairs(design)
    quantities = quantity_lines(ready, design.budget, pairs, design.allow, groups)
    return (
        *field_lines(design, final, findings, moved_notes, tuning, unequal),
        *mark_total_lines(quantities, design, ready, groups),
    )


def _moved_notes(design: Design, arm: PlannedArm, steps_path: str) -> dict[str, str]:
    notes, match = {}, arm.size_match
    if match is not None:
        note = f"moved so that {match.description}"
        for path in match.moved_fields:
            notes[f"architecture.{path}"] = note
    if design.budget is not None:
        notes[steps_path] = f"moved so that {design.budget.replace('_', ' ')} agree"
    return notes


def _tuning_by_path(
    design: Design, arms: Sequence[PlannedArm], kept_rates: Mapping[str, Any]
) -> dict[str, str]:
    """How the rate of each stage is found, by its path; nothing if rates are as written."""
    n_stages = max(len(arm.run.stages) for arm in arms)
    paths = {RATE_PATH: n_stages - 1}
    paths |= {f"stages.{number}.{RATE_PATH}": number for number in range(n_stages)}
    by_path = {}
    for path, number in paths.items():
        text = tuning_description(design, is_last=number == n_stages - 1)
        if kept_rates:
            text = describe_kept_rates(design, kept_rates)
        if text is not None:
            unswept = wrongly_taught_arms(design, arms)
            takes = [f"{name} takes the rate of {design.baseline}" for name in unswept]
            by_path[path] = "; ".join([text, *takes])
    return by_path


def tuning_description(design: Design, *, is_last: bool = True) -> str | None:
    """How the rate of a stage is found in every arm, in words; None if it is as written."""
    if design.tune is None:
        return None
    share, last_share = design.tune.share, design.tune.share_of(is_last=True)
    part = ""
    if share != last_share:
        part = f", over {share:.0%} of the steps, {last_share:.0%} in the last stage"
    elif share < 1:
        part = f", over {share:.0%} of the steps"
    on = tuning_criterion(design, is_last=is_last)
    if is_last and sweep_yardstick(design) is None:
        on += ", for the task must be unseen"
    return (
        f"{design.tune.n_rates} rates a factor 2 apart, then two half an octave beside the vertex,"
        f" {design.tune.n_seeds} seeds, vertex of a parabola within an octave, on {on}{part}"
    )

"""The arm that must come out worse: what it differs in, and whether that is of any use.

A control is free in what it does. But a control that is badly trained loses for that reason, and
what it loses says nothing of what the yardstick sees. So every difference is told, and every one is
alarming but those that controls are for: to hide the input, to take its positions away, or to teach
wrong targets; and but what a judged arm is as well, where it is no recipe: its objective, perhaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paribus.design.quantities import PlannedArm
from paribus.design.trials import ABSENT
from paribus.errors import SpecError
from paribus.record import ControlLine, Mark
from paribus.spec.contrasts import opposed_arms
from paribus.spec.design import (
    ArmPair,
    Design,
    control_arm,
    control_length,
    control_margin,
    declared_contrasts,
    judged_pairs,
)
from paribus.spec.training import BOOKKEEPING
from paribus.train.parent import name_of_run

RUN_PATHS = ("architecture", "begin", "corpus", "objective", "stages", "training")
RECIPE_PATHS = {"begin", "corpus", "training"}
# what a control is for: hidden input, and wrong targets
HIDING_PATHS = {"cross", "mask", "shuffled_targets", "swapped"}
POSITION_TABLES = {"positions", "cross_positions"}  # which may be taken away
NO_POSITIONS = "none"
DERIVED = ("n_vocab", "max_length")
STAGE = "a stage"
LEAST_LENGTH = 0.25  # of the training, of which a share says something of a trained model
SHORTER = ("control = { length = 0.5 }", "lengths = [0.5, 1]")  # a control that needs no arm
MAX_VALUE_CHARACTERS = 40


@dataclass(frozen=True)
class ControlDifference:
    """A field in which the control is not as the baseline, which it must come out worse than."""

    path: str
    usual: Any  # in the baseline
    value: Any
    is_alarming: bool  # does it neither hide anything, nor make the control as a judged arm is?
    is_own: bool  # does it hide nothing, and do no judged arms differ in it?

    @property
    def description(self) -> str:
        return f"{self.path} {_short(self.usual)} → {_short(self.value)}"


def require_another_control(design: Design, arms: Sequence[PlannedArm]) -> None:
    """SpecError where the control is the run of another arm, under another name."""
    name = control_arm(design)
    runs = {arm.name: name_of_run(arm.run, arm.texts) for arm in arms}
    twins = [arm for arm, run in runs.items() if name in runs and arm != name and run == runs[name]]
    if design.baseline in twins:
        raise SpecError(
            f"control is {name!r}, which is the same run as the baseline {design.baseline!r}, so it"
            " cannot come out worse; let the arm differ in something that must do harm"
        )
    if twins:
        raise SpecError(
            f"control is {name!r}, which is the same run as {twins[0]!r}, so it shows nothing of"
            " its own; let the arm differ in something that must do harm"
        )


def control_differences(
    design: Design, lines: Sequence[ControlLine]
) -> tuple[ControlDifference, ...]:
    """Every field in which the control differs from the baseline; not what a match, a budget or a
    sweep has moved.
    """
    name = control_arm(design)
    if name is None:
        return ()
    pairs = _judged_arms(design)
    judged = {arm for pair in pairs for arm in pair}
    differences, stages = [], dict[str, ControlDifference]()
    for line in _differing_lines(design, lines, name):
        parts = set(line.path.split("."))
        usual, value = line.values.get(design.baseline), line.values.get(name)
        stage = ".".join(line.path.split(".")[:2])
        kinds = [one.values for one in lines if one.path == f"{stage}.kind"]
        if kinds and ABSENT in (kinds[0][design.baseline], kinds[0][name]):
            have = [ABSENT if kinds[0][arm] == ABSENT else STAGE for arm in (design.baseline, name)]
            stages[stage] = ControlDifference(stage, *have, is_alarming=True, is_own=True)
            continue
        hides = bool(HIDING_PATHS & parts) or _has_no_positions(line.path, lines, name)
        is_shared = value in [line.values.get(arm) for arm in judged]
        is_judged = any(line.values.get(one) != line.values.get(other) for one, other in pairs)
        differences.append(
            ControlDifference(
                path=line.path,
                usual=usual,
                value=value,
                is_alarming=not hides and (_is_of_recipe(line.path) or not is_shared),
                is_own=not hides and not is_judged,
            )
        )
    return (*stages.values(), *differences)


def _has_no_positions(path: str, lines: Sequence[ControlLine], name: str) -> bool:
    """Is a field one of positions that an arm does without?"""
    for table in POSITION_TABLES & set(path.split(".")):
        place = path[: path.index(table) + len(table)]
        kinds = [line.values.get(name) for line in lines if line.path in (place, f"{place}.kind")]
        if NO_POSITIONS in kinds:
            return True
    return False


def _differing_lines(
    design: Design, lines: Sequence[ControlLine], name: str
) -> Iterator[ControlLine]:
    """The fields in which an arm differs from the baseline, but for what was moved for it."""
    by_path = {line.path: line for line in lines}
    for line in lines:
        first, second = line.values.get(design.baseline), line.values.get(name)
        last = line.path.split(".")[-1]
        is_field = line.path.split(".")[0] in RUN_PATHS and last not in (*BOOKKEEPING, *DERIVED)
        if not is_field or first == second or line.mark in (Mark.MATCHED, Mark.TUNED):
            continue
        if design.budget is None or not _is_moved_by_budget(line, by_path, design.baseline, name):
            yield line


def _is_moved_by_budget(
    line: ControlLine, by_path: Mapping[str, ControlLine], baseline: str, name: str
) -> bool:
    """Is a field the steps of the last stage, or a warm-up that keeps its share of them?"""
    table, _, last = line.path.rpartition(".")
    if last not in ("n_steps", "warmup") or any(
        path.startswith(_next_stage(line.path)) for path in by_path
    ):
        return False
    steps = by_path[f"{table}.n_steps"].values
    if ABSENT in (steps[name], steps[baseline]):  # one of them has no such stage
        return False
    ratio = steps[name] / steps[baseline]
    return last == "n_steps" or abs(line.values[name] - line.values[baseline] * ratio) <= 1


def _next_stage(path: str) -> str:
    """What paths of the stage after that of a field begin with."""
    parts = path.split(".")
    number = int(parts[1]) + 1 if parts[0] == "stages" else 1
    return f"stages.{number}."


def _is_of_recipe(path: str) -> bool:
    """Is a field of how a model is trained, and of no wrong targets?"""
    parts = set(path.split("."))
    if HIDING_PATHS & parts:
        return False
    return bool(RECIPE_PATHS & parts)


def _judged_arms(design: Design) -> list[ArmPair]:
    """Every two arms that a pair or a contrast sets against each other."""
    pairs = list(judged_pairs(design))
    for weights in declared_contrasts(design).values():
        pairs += opposed_arms(weights)
    return pairs


def describe_control_differences(design: Design, lines: Sequence[ControlLine]) -> str:
    """What the control differs in, as a clause; empty where it is a length."""
    differences = control_differences(design, lines)
    if not differences:
        return ""
    text = f"it differs in {', '.join(one.description for one in differences)}"
    own = [one.path for one in differences if one.is_own]
    if own:
        text += f" (no judged arms differ in {', '.join(own)})"
    return text


def control_doubts(
    design: Design, lines: Sequence[ControlLine]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Why what the control loses may say nothing of what the yardstick sees, each with the lines
    of TOML that cure it.
    """
    differences, length = control_differences(design, lines), control_length(design)
    margin = design.primary.margin
    is_share = isinstance(margin, str) and control_margin(margin) is not None
    besides = [one.description for one in differences if one.is_alarming]
    part = f", and {margin} is a share of that" if is_share else ""
    if besides:
        yield (
            f"the control {control_arm(design)} differs from {design.baseline} in more than what"
            f" hides input or targets ({', '.join(besides)}), and what it loses by that says"
            f" nothing of what the arms differ in{part}",
            SHORTER,
        )
    if is_share:
        yield from _strange_references(design, lines)
    if length is not None and length < LEAST_LENGTH:
        yield (
            f"the control is {design.baseline} at {length:g} of its training, and what so short a"
            f" run loses is nearly all that is learnt{part}",
            SHORTER,
        )


def _strange_references(
    design: Design, lines: Sequence[ControlLine]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Arms that others are judged against, and that are trained otherwise than the baseline, by
    which the margin is priced.
    """
    for name in dict.fromkeys(against for _, against in _judged_arms(design)):
        differing = _differing_lines(design, lines, name)
        recipe = [line.path for line in differing if _is_of_recipe(line.path)]
        if recipe:
            yield (
                f"the margin, {design.primary.margin}, is a share of what the control loses against"
                f" {design.baseline}, and {name}, which arms are judged against, is trained"
                f" otherwise ({', '.join(recipe)})",
                (f'baseline = "{name}"',),
            )


def _short(value: Any) -> str:
    text = str(value)
    if len(text) <= MAX_VALUE_CHARACTERS:
        return text
    return f"{text[: MAX_VALUE_CHARACTERS - 1]}…"

"""The control table, and every seed of every arm."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from paribus.analyse import name_of
from paribus.analyse.seed_scores import explored_gain, moments, seed_scores
from paribus.record import ControlLine, Mark
from paribus.report.material import Material
from paribus.report.numbers import decimals, line_texts, plain, score, signed, signed_score, significant


@dataclass(frozen=True)
class Line:
    """A field of all arms."""

    path: str
    mark: Mark
    meaning: str
    values: tuple[str, ...]
    note: str


def control_lines(material: Material) -> tuple[list[Line], list[Line]]:
    """What differs, confounds first; and what is equal."""
    ordered = sorted(material.plan.control, key=lambda line: line.mark.place)
    lines = [_line(line, material.order) for line in ordered]
    equal = [line for line in lines if line.mark == Mark.EQUAL]
    return [line for line in lines if line.mark != Mark.EQUAL], equal


def _line(line: ControlLine, arms: Sequence[str]) -> Line:
    values = line_texts(line.path, [line.values.get(arm) for arm in arms], written)
    note = f"allowed: {line.allowed}" if line.allowed else line.note
    return Line(line.path, line.mark, line.mark.meaning, values=tuple(values), note=note)


def written(value: Any) -> str:
    """A value of the table that is no large number."""
    match value:
        case bool() | None:
            return {True: "true", False: "false", None: "none"}[value]
        case float():
            return significant(value, 6)
        case dict() | list():
            return json.dumps(value, ensure_ascii=False, sort_keys=True)
        case _:
            return str(value)


@dataclass(frozen=True)
class SeedLine:
    """One seed: every arm's score or outcome, and every comparison's gain."""

    seed: int
    scores: tuple[str, ...]
    gains: tuple[str, ...]


def seed_lines(material: Material) -> list[SeedLine]:
    """The primary yardstick, seed by seed; a run that failed is named, not dropped."""
    column = name_of(material.plan.design.primary.measure.table)
    rows = {(row["arm"], row["seed"]): row for row in material.found.reported}
    gains = [{one.seed: one.gain for one in arm.judgement.seeds} for arm in material.found.arms]
    return [
        SeedLine(
            seed, tuple(_score(rows[arm, seed], column) for arm in material.order),
            tuple(_gain(own.get(seed)) for own in gains),
        )
        for seed in material.found.seeds
    ]  # fmt: skip


def seeds_by_arm(material: Material, column: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The same of many arms, turned: a line an arm's scores, then a line a comparison's gains."""
    lines, arms = seed_lines(material), material.found.arms
    made = [arm.judgement.comparison for arm in arms]
    moments = [("–", "–") if one is None else (signed(one.effect, 4), plain(one.sd, 4)) for one in made]
    scores = [
        (arm, *(line.scores[place] for line in lines), *summary(material, column)[place])
        for place, arm in enumerate(material.order)
    ]
    gains = [
        (f"gain of {material.found.label(arm)}", *(line.gains[place] for line in lines), *moments[place])
        for place, arm in enumerate(arms)
    ]
    return ("", *(f"seed {line.seed}" for line in lines), "mean", "spread"), scores + gains


def summary(material: Material, column: str) -> list[tuple[str, str]]:
    """Mean and spread of each arm's score at a yardstick; where not all of its runs have one, of how many it is."""
    found, n_seeds = [], len(material.found.seeds)
    for arm in material.order:
        own = moments(list(seed_scores(material.found, arm, column).values()))
        count = "" if own.n == n_seeds else f" ({own.n} of {n_seeds})"
        found.append((score(own.mean) + count, score(own.sd)))
    return found


OTHER_HEADING = ("arm", "mean", "spread", "gain", "95 % interval, exploratory", "seeds")


def others(material: Material) -> list[tuple[str, list[tuple[str, ...]]]]:
    """Every other yardstick of the design: paired intervals to explore, for no comparison is added; no verdict."""
    names = [name_of(measure.table) for measure in material.plan.design.others]
    return [(name, _other(material, name)) for name in names]


def _other(material: Material, column: str) -> list[tuple[str, ...]]:
    told = zip(material.order, summary(material, column), strict=True)
    return [(arm, *moments, *_explored(material, arm, column)) for arm, moments in told]


def _explored(material: Material, arm: str, column: str) -> tuple[str, str, str]:
    """The mean paired gain, its interval and the seeds it is of."""
    if arm == material.found.baseline:
        return "–", "–", "–"
    made = explored_gain(material.found, arm, column)
    if made.effect is None or made.low is None or made.high is None:
        return "–", "–", str(made.n)
    digits = decimals((made.high - made.low) / 2)
    return signed(made.effect, digits), f"{signed(made.low, digits)} to {signed(made.high, digits)}", str(made.n)


def _score(row: dict[str, Any], column: str) -> str:
    value = row.get(column)
    return score(value) if row["outcome"] == "finished" and value is not None else row["outcome"]


def _gain(value: float | None) -> str:
    return "–" if value is None else signed_score(value)

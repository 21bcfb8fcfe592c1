"""Points of a law from a CSV file: parameters, tokens and loss, and, where there are several, the
arm and the seed.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from math import isfinite
from pathlib import Path

from paribus.analyse.laws.points import LawPoint
from paribus.errors import SpecError, describe_first
from paribus.files import MAX_ROWS_BYTES, looked_for, read_text
from paribus.nearest import nearest, suggestion

REQUIRED = ("parameters", "tokens", "loss")
OPTIONAL = ("arm", "seed")
OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
MAX_EQUAL = 2  # points that may have the same loss by chance
MAX_LOSS_RATIO = 1e9  # of the highest loss over the lowest


@dataclass(frozen=True)
class PointsFile:
    """What a file of points holds."""

    points: tuple[LawPoint, ...]
    has_arms: bool
    unused_columns: tuple[str, ...]

    def by_arm(self) -> dict[str, list[LawPoint]]:
        """The points of each arm, in the order of the file."""
        arms: dict[str, list[LawPoint]] = {}
        for point in self.points:
            arms.setdefault(point.arm, []).append(point)
        return arms


def read_points(path: Path) -> PointsFile:
    """The points of a CSV file with a header; SpecError says which line is wrong, and how."""
    try:
        text = read_text(path, MAX_ROWS_BYTES)
    except OSError as fault:
        raise SpecError(
            f"{path} cannot be read: {fault.strerror}; name a CSV file with the columns"
            f" {', '.join(REQUIRED)}{looked_for(path)}"
        ) from fault
    except UnicodeDecodeError as fault:
        raise SpecError(
            f"{path} is not UTF-8 at byte {fault.start}; save it as UTF-8 text"
        ) from fault
    reader = csv.reader(StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        _require_columns(path, header)
        lines = [(reader.line_num, row) for row in reader if any(map(str.strip, row))]
    except csv.Error as fault:
        raise SpecError(f"{path}, line {reader.line_num}: {fault}; quote it as CSV does") from fault
    return _points_file(path, header, lines)


def _require_columns(path: Path, header: list[str]) -> None:
    if not any(header):
        raise SpecError(
            f"{path} is empty; write a header with the columns {', '.join(REQUIRED)}, then one"
            " line for each run"
        )
    for separator, word in OTHER_SEPARATORS.items():
        if len(header) == 1 and separator in header[0]:
            raise SpecError(f"{path} separates its columns by {word}; use commas")
    problems = list(_missing_columns(path, header))
    for name in sorted(set(header)):
        if header.count(name) > 1:
            problems.append(f"{path} has the column {name!r} more than once; use one of them")
    if problems:
        raise SpecError(problems)


def _missing_columns(path: Path, header: list[str]) -> Iterator[str]:
    """What is said of required columns that a header lacks: one line for all of them."""
    missing = [name for name in REQUIRED if name not in header]
    if not missing:
        return
    if all(_number(name) is not None for name in header):
        yield (
            f"{path} begins with numbers; write a first line that names the columns,"
            f" {','.join(REQUIRED)}"
        )
        return
    named = [name for name in header if name]
    near = dict.fromkeys(filter(None, (nearest(name, named) for name in missing)))
    advice = suggestion(", ".join(near)) if near else ""
    word, them = ("column", "it") if len(missing) == 1 else ("columns", "them")
    yield (
        f"{path} has no {word} {', '.join(map(repr, missing))}; {advice}add {them}, or rename what"
        f" the first line has: {', '.join(named)}"
    )


def _points_file(path: Path, header: list[str], lines: list[tuple[int, list[str]]]) -> PointsFile:
    points: list[LawPoint] = []
    problems: list[str] = []
    for number, row in lines:
        place = f"{path}, line {number}"
        if len(row) != len(header):
            problems.append(
                f"{place}: {len(row)} values under {len(header)} columns; give one for each"
            )
            continue
        cells = dict(zip(header, map(str.strip, row), strict=True))
        faults = list(_faults(cells))
        problems += [f"{place}: {fault}" for fault in faults]
        if not faults:
            points.append(_point(cells))
    if problems:
        raise SpecError(list(describe_first(problems, str, "lines with faults")))
    if not points:
        raise SpecError(f"{path} has a header and no line below it; write one for each run")
    known = {*REQUIRED, *OPTIONAL}
    file = PointsFile(
        points=tuple(points),
        has_arms="arm" in header,
        unused_columns=tuple(name for name in header if name not in known),
    )
    for arm, own in file.by_arm().items():
        _require_comparable(f"{path}, arm {arm!r}" if arm else str(path), own)
    return file


def _require_comparable(place: str, points: Sequence[LawPoint]) -> None:
    """SpecError where all losses are the same, or no one unit could be that of all."""
    least, most = (end(point.loss for point in points) for end in (min, max))
    if len(points) > MAX_EQUAL and least == most:
        raise SpecError(
            f"{place}: every loss is {most:g}, so there is no law to fit; give the loss of each run"
        )
    if most / MAX_LOSS_RATIO > least:
        raise SpecError(
            f"{place}: losses go from {least:g} to {most:g}, further than a factor of"
            f" {MAX_LOSS_RATIO:g} apart; give all of them in one unit, and leave out runs that"
            " diverged"
        )


def _faults(cells: Mapping[str, str]) -> Iterator[str]:
    for name in REQUIRED:
        value = _number(cells[name])
        if value is None:
            yield f"{name} is {cells[name]!r}; use a number above 0"
        elif not (isfinite(value) and value > 0):
            yield f"{name} is {cells[name]}; use a number above 0"
    if "seed" in cells and not cells["seed"].isdecimal():
        yield f"seed is {cells['seed']!r}; use a whole number"
    if "arm" in cells and not cells["arm"]:
        yield "arm is empty; name the arm of each line"


def _point(cells: Mapping[str, str]) -> LawPoint:
    return LawPoint(
        parameters=float(cells["parameters"]),
        tokens=float(cells["tokens"]),
        loss=float(cells["loss"]),
        arm=cells.get("arm", ""),
        seed=int(cells.get("seed", 0)),
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None

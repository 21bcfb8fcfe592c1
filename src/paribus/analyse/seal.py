"""The seal of a study: one digest of its plan, of what its runs answered, and of their rows.

    9c1f…-03ab…-77d0…
    plan   what was planned, and when it was locked
    items  the items that each run was asked, and what it answered
    rows   which run is which arm, seed and rate, and the rows of each; rates and predictions

Checksums lie beside the files that they are of, and have no key: whoever may write the ones may
write the others. So they tell accidents, not intent. A seal that was published, or that somebody
else keeps, tells both, and says which of the three parts is another one. The first part is there
before the first run.

Where files lie, which machine made them and what the clock said is no part of it: a study that was
packed and unpacked has the same seal. One that is made again has the same items and rows where its
numbers are the same to the bit; its plan was locked at another time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from paribus.analyse.run_answers import column_of, read_answers
from paribus.analyse.run_table import measures_of
from paribus.canonical import canonical_hash
from paribus.errors import RecordError, SpecError
from paribus.record import Study, run_name
from paribus.record.address import without_places
from paribus.record.file_names import ROWS_FILE, SPEC_FILE
from paribus.record.folder import read_written_stages
from paribus.record.plan_file import read_plan
from paribus.record.rows import CLOCK_FIELDS, ENVIRONMENT_CHANGED, Row, read_rows

N_DIGITS = 32  # of each part
_SEAL = re.compile(r"[0-9a-f]{32}(-[0-9a-f]{32}-[0-9a-f]{32})?", re.ASCII)
# Of the plan, what is of the machine: another one may read or resume the study.
_MACHINE_LINES = ("kernel", "precision", "threads", "device", "torch", "python")
PARTS = ("plan", "items", "rows")


class Seal(NamedTuple):
    """The three parts of a seal."""

    plan: str
    items: str
    rows: str

    def __str__(self) -> str:
        return "-".join(self)


def study_seal(study: Study) -> Seal:
    """The seal of a study as it is on disk, finished or not."""
    return Seal(plan_seal(study), _digest(list(_answers(study))), _digest(list(_rows(study))))


def plan_seal(study: Study) -> str:
    """The part of the seal that is there as soon as the plan is locked."""
    plan = read_plan(study)
    lines = []
    for line in plan.table["control"]:  # whose values are those of the runs
        if line["path"] not in _MACHINE_LINES:
            lines.append([line["path"], line["mark"], line.get("note"), line.get("allowed")])
    table = {name: value for name, value in plan.table.items() if name != "environment"}
    lock = study.read_lock()
    locked = None
    if lock is not None:
        locked = asdict(lock)
        del locked["n_older"]  # which grows with the seeds of an open design
    return _digest({"plan": without_places({**table, "control": lines}), "lock": locked})


def require_seal(study: Study, digest: str) -> None:
    """RecordError where a study has another seal than the one that is given, with the parts that
    differ. A seal of the plan alone is compared with the plan.
    """
    given = digest.strip().lower()
    if not _SEAL.fullmatch(given):
        raise SpecError(
            f"--seal is {digest!r}; give the three parts that `paribus run` prints at its end, or"
            f" the first of them: {N_DIGITS} hex digits each, joined by '-'"
        )
    there = str(study_seal(study)).split("-")
    differing = []
    for name, one, other in zip(PARTS, given.split("-"), there, strict=False):
        if one != other:
            differing.append(name)
    if differing:
        raise RecordError(
            f"{study.folder} has the seal {'-'.join(there)}, and not {given}: another"
            f" {' and other '.join(differing)}; restore the study that was sealed, or ask whoever"
            " published the seal"
        )


def _answers(study: Study) -> Iterator[Any]:
    """What the run of each cell was asked and what it answered; heads without what the machine
    was.
    """
    plan = read_plan(study)
    for cell in study.planned_cells():
        if cell.arm not in plan.arms:
            continue
        yardsticks = measures_of(plan, cell.purpose)
        text = plan.arms[cell.arm].text
        answers = read_answers(study.root / cell.run, yardsticks, text, cell.n_steps, plan.items)
        for yardstick in yardsticks:
            column = column_of(yardstick)
            if column not in answers:
                continue
            yield [cell.run, column, answers_without_machine(asdict(answers[column]))]


def _rows(study: Study) -> Iterator[Any]:
    """Which run each cell has, how it ended and the rows of all its stages; and what was found or
    foretold on the way.
    """
    for cell in study.planned_cells():
        outcome, _ = study.run_outcome(cell.run)
        folders = list(_stage_folders(study.root, cell.run))
        yield [asdict(cell), outcome, *[rows_without_clock(folder) for folder in folders]]
    yield [study.read_stage_rates(), study.read_rates(), study.read_ladder_rates()]
    yield study.read_predictions()


def rows_without_clock(folder: Path) -> list[Row]:
    """The rows of a run without what the clock decides, and without marks of its machine."""
    rows = []
    for row in read_rows(folder / ROWS_FILE).rows:
        left_out = (*CLOCK_FIELDS, ENVIRONMENT_CHANGED)
        rows.append({name: value for name, value in row.items() if name not in left_out})
    return rows


def answers_without_machine(table: dict[str, Any]) -> Any:
    """Answers as a table, without the places of files and without the machine that gave them."""
    head = {name: value for name, value in table["head"].items() if name != "environment"}
    return without_places({**table, "head": head})


def _stage_folders(root: Path, run: str) -> Iterator[Path]:
    """The folders of the stages of a run that there are, its own last."""
    if (root / run / SPEC_FILE).exists():
        stages = read_written_stages(root / run)
        for n_stages in range(1, len(stages)):
            folder = root / run_name(stages[:n_stages])
            if folder.is_dir():
                yield folder
    yield root / run


def _digest(value: Any) -> str:
    """A digest of plain values; of numbers that are not finite, too."""
    return canonical_hash(_named_numbers(value))[:N_DIGITS]


def _named_numbers(value: Any) -> Any:
    """Values whose numbers that are not finite, which JSON does not have, stand by name."""
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, Mapping):
        return {key: _named_numbers(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_named_numbers(one) for one in value]
    return value

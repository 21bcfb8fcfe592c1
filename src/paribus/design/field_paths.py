"""Paths that a design names: each must be a field of some arm's run, or a quantity of the
control table.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paribus.design.arms import Arm
from paribus.design.begin_differences import BEGIN_PATH
from paribus.design.control import is_inside
from paribus.design.quantities import MACHINE_QUANTITIES, QUANTITIES, full_quantity_name
from paribus.design.trials import ABSENT, entry_paths
from paribus.errors import MAX_LISTED, SpecError, describe_first
from paribus.record import ControlLine, Mark
from paribus.record.checkpoint_choice import RUNS
from paribus.record.checkpoints import latest_checkpoint
from paribus.record.control_table import CUT_CONTEXTS, TRAINED_ITEMS
from paribus.record.file_names import CHECKPOINTS
from paribus.spec.design import MATCH_PATH, Design
from paribus.spec.spelling import path_advice

PRESET_PATH = "architecture.preset"
MIN_WORDS, MIN_CHARACTERS = 3, 10  # of a reason
# lines of the yardsticks: of each but the primary one, a line inside of these
ITEM_LINES = (CUT_CONTEXTS, TRAINED_ITEMS)


def require_known_paths(design: Design, arms: Sequence[Arm], runs: Path = RUNS) -> None:
    """SpecError where a factor or an allowance names nothing that could differ; `runs` has the runs
    that arms begin from.

    What the levels of a factorial write is read with each arm, and refused there.
    """
    fields = _fields(arms)
    if any(arm.match is not None for arm in arms):
        fields[MATCH_PATH] = None
    quantities = (*QUANTITIES, *MACHINE_QUANTITIES, *ITEM_LINES)

    def say_factor(path: str) -> str:
        if path == PRESET_PATH:
            return (
                f"factor {path!r} is no field, but stands for all that a preset writes; name what"
                f" differs: {_differing_fields(arms, 'architecture.')}"
            )
        if path == BEGIN_PATH and any(arm.run.inherited_folders for arm in arms):
            checkpoints = _describe_checkpoints(arms, runs)
            return (
                f"factor {path!r} is no field of arms that begin from a whole run, for they have"
                f" its stages as their own; begin from a checkpoint: {checkpoints}; or name what"
                f" differs: {_differing_fields(arms)}"
            )
        advice = path_advice(path, fields)
        return (
            f"factor {path!r} is a field of no arm's run; {advice}name a field, or a table of"
            " fields"
        )

    def say_allowance(path: str) -> str:
        return (
            f"allow has {path!r}, a field of no arm's run and no quantity of the control table; "
            f"{path_advice(path, (*fields, *quantities))}name what differs as the table does"
        )

    factors = [path for path in design.factor if path not in fields]
    allowances = []
    for path in design.allow:
        is_quantity = full_quantity_name(path) in quantities
        is_quantity = is_quantity or any(is_inside(path, line) for line in ITEM_LINES)
        if path not in fields and not is_quantity:
            allowances.append(path)
    tables = [path for path in design.allow if _is_table_of_all(path, arms)]

    def say_table(path: str) -> str:
        inside = _differing_leaves(path, arms)
        shown = ", ".join(inside[:MAX_LISTED]) or "the fields that differ"
        is_list = any(path in arm.leaves for arm in arms)
        what = "list of tables" if is_list else "table"
        return (
            f"allow has {path!r}, a whole {what}; name the fields inside that may differ: {shown}"
        )

    problems = [
        *describe_first(tables, say_table, "allowances of whole tables"),
        *describe_first(factors, say_factor, "factors that are no field"),
        *describe_first(allowances, say_allowance, "allowances of nothing that could differ"),
    ]
    if problems:
        raise SpecError(problems)


def _describe_checkpoints(arms: Sequence[Arm], runs: Path) -> str:
    """What each arm that begins from a whole run could write instead: its last checkpoint."""
    lines = []
    for arm in arms:
        if arm.run.inherited_folders:
            checkpoints = runs / arm.run.inherited_folders[-1] / CHECKPOINTS
            last = latest_checkpoint(checkpoints).checkpoint
            folder = checkpoints if last is None else last.folder
            lines.append(f"begin = {str(folder)!r} in {arm.name}")
    return " and ".join(lines)


def _differing_fields(arms: Sequence[Arm], start: str = "") -> str:
    """What could be named as factors: the fields that are not the same in all arms, each table of
    an architecture as one.
    """
    fields: dict[str, None] = {}
    for path in dict.fromkeys(itertools.chain.from_iterable(arm.leaves for arm in arms)):
        values = [arm.leaves.get(path, ABSENT) for arm in arms]
        if path.startswith(start) and any(value != values[0] for value in values):
            is_of_model = path.startswith("architecture.")
            fields[".".join(path.split(".")[:2]) if is_of_model else path] = None
    names = list(fields)
    more = [f"and {len(names) - MAX_LISTED} more"] if len(names) > MAX_LISTED else []
    return ", ".join([*map(repr, names[:MAX_LISTED]), *more]) or "nothing does"


def _is_table_of_all(path: str, arms: Sequence[Arm]) -> bool:
    """Is a path a table, or a list of tables, that all arms have, and not a field? Whether a table
    is there that only some of them have can be allowed.
    """
    values = [arm.leaves[path] for arm in arms if path in arm.leaves]
    if values:
        return len(values) == len(arms) and all(map(_is_list_of_tables, values))
    return all(any(is_inside(leaf, path) for leaf in arm.leaves) for arm in arms)


def _is_list_of_tables(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value)


def _differing_leaves(path: str, arms: Sequence[Arm]) -> list[str]:
    """The fields in a table, or of the entries of a list, that are not as in the baseline."""
    paths = dict.fromkeys(leaf for arm in arms for leaf in arm.leaves if is_inside(leaf, path))
    baseline, differing = arms[0].leaves, dict[str, None]()
    for leaf in paths:
        for arm in arms[1:]:
            if arm.leaves.get(leaf) != baseline.get(leaf):
                own = entry_paths(leaf, baseline.get(leaf), arm.leaves.get(leaf))
                differing |= dict.fromkeys(own)
    return list(differing)


def require_reasons(design: Design) -> None:
    """SpecError where a reason is no reason: too short to say why."""
    problems = []
    for field, reasons in (("allow", design.allow), ("compound", design.compound)):
        for name, reason in reasons.items():
            if not _says_why(reason):
                problems.append(
                    f'{field}."{name}" is {reason!r}, which is no reason; say why in'
                    f" {MIN_WORDS} words or more, for every report shows it"
                )
    if problems:
        raise SpecError(problems)


def _says_why(reason: str) -> bool:
    """Has a reason several words? Where words stand without spaces, as in Chinese, each letter may
    be one.
    """
    words = re.findall(r"[^\W\d_]+", reason)
    n_caseless = sum(letter.lower() == letter.upper() for letter in "".join(words))
    has_words = len(words) >= MIN_WORDS or n_caseless >= MIN_CHARACTERS
    return has_words and len(reason.strip()) >= MIN_CHARACTERS


def unused_allowances(design: Design, lines: Sequence[ControlLine]) -> dict[str, str]:
    """The allowances under which nothing is a confound, so that they let nothing pass; each with
    why it is not needed.
    """
    reasons: dict[str, str] = {}
    for path in design.allow:
        place = full_quantity_name(path)
        inside = [line for line in lines if is_inside(line.path, place)]
        marks = {line.mark for line in inside}
        if Mark.CONFOUND in marks:
            continue
        differing = sorted(marks - {Mark.EQUAL}, key=lambda mark: mark.place)
        if differing:
            meanings = " and ".join(f"{mark} ({mark.meaning})" for mark in differing)
            reasons[path] = f"what differs there is {meanings} and needs no reason"
        else:
            reasons[path] = "nothing differs there"
    return reasons


def _fields(arms: Sequence[Arm]) -> dict[str, None]:
    """Every field of any arm, and every table of them; also the fields of a list's entries."""
    places: dict[str, None] = {}
    for arm in arms:
        for path, value in arm.leaves.items():
            names = path.split(".")
            for depth in range(1, len(names) + 1):
                places[".".join(names[:depth])] = None
            for number, entry in enumerate(value if isinstance(value, list) else ()):
                for name in entry if isinstance(entry, Mapping) else ():
                    places[f"{path}.{number}"] = places[f"{path}.{number}.{name}"] = None
    return places

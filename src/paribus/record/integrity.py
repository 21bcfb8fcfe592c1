"""Does a study still hold what was written? What no longer agrees is told, and no verdict is
read from it.

plan.json is compared with its own fingerprints and with plan.lock; every listed file with its
sha256; what a run answered with the manifest of the checkpoint that was asked; and the stages of a
run with those that the plan has for its arm. No checkpoint is read: nothing in a report comes from
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paribus.canonical import canonical_hash
from paribus.errors import RecordError
from paribus.record.address import run_address
from paribus.record.checksums import file_faults, read_checksums
from paribus.record.disk import read_json
from paribus.record.evaluations import EvaluationHead, evaluation_paths, read_evaluation_head
from paribus.record.file_names import (
    CELLS_FILE,
    CHECKPOINTS,
    CHECKSUMS_FILE,
    ENVIRONMENT_FILE,
    EVALUATIONS,
    ITEMS_FILE,
    LABEL_HEAD_FILE,
    LADDER_RATES_FILE,
    MANIFEST_FILE,
    PLAN_FILE,
    PLAN_LOCK_FILE,
    PREDICTIONS_FILE,
    RATES_FILE,
    ROWS_FILE,
    SAMPLES_FILE,
    SPEC_FILE,
    STAGE_RATES_FILE,
    STATE_FILE,
    WEIGHTS_FILE,
    checkpoint_name,
)
from paribus.record.folder import LISTED_RUN_FORMAT, read_written_stages
from paribus.record.manifest import manifest_sha256
from paribus.record.plan_lock import PlanLock, design_fingerprint, plan_fingerprint
from paribus.record.planned_runs import cell_faults
from paribus.record.study import CellRecord, Study
from paribus.record.task_answers import TaskHead, read_task_head, task_evaluation_paths

if TYPE_CHECKING:
    from paribus.record.plan import PlanRecord  # pydantic is for those who read a plan

MAX_NAMED = 3
_STUDY_FILES = (PLAN_FILE, PLAN_LOCK_FILE, CELLS_FILE)
# in some studies
_OPTIONAL_FILES = (
    RATES_FILE,
    STAGE_RATES_FILE,
    LADDER_RATES_FILE,
    ITEMS_FILE,
    SAMPLES_FILE,
    PREDICTIONS_FILE,
)
_RUN_FILES = (SPEC_FILE, ENVIRONMENT_FILE, ROWS_FILE, STATE_FILE)


@dataclass(frozen=True)
class IntegrityCheck:
    """What of a study's files is not what was written, and how much of it could not be compared."""

    faults: tuple[str, ...] = ()
    predates_checksums: bool = False  # the study was made before checksums were kept
    n_unchecked_runs: int = 0  # runs that were
    # those of the faults that are of the control table
    control_faults: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """The first few of what changed; empty where nothing did."""
        more = len(self.faults) - MAX_NAMED
        return "; ".join(self.faults[:MAX_NAMED]) + (f"; and {more} more" if more > 0 else "")

    @property
    def unchecked_description(self) -> str:
        """What was not compared, in words; empty where all was."""
        if self.predates_checksums:
            return "It was made before checksums were kept: its files are not checked."
        n = self.n_unchecked_runs
        runs = "1 run was" if n == 1 else f"{n} runs were"
        if n:
            return f"{runs} made before checksums were kept, and not checked."
        return ""


def check_integrity(
    study: Study, plan: PlanRecord, runs: Iterable[str], open_runs: Iterable[str] = ()
) -> IntegrityCheck:
    """How the files of a study, its plan as it was read, and of these runs compare with what
    was written.

    An open run is no result; one that was made to look open is told all the same, for a verdict may
    do without it.
    """
    is_older = not plan.is_listed and not _is_listed_and_changed(study.folder, PLAN_FILE)
    optional_files = [name for name in _OPTIONAL_FILES if (study.folder / name).exists()]
    faults = [
        *_plan_faults(plan, study),
        *(() if is_older else file_faults(study.folder, (*_STUDY_FILES, *optional_files))),
    ]
    n_older, cells = 0, _cells_by_run(study, plan)
    for name in dict.fromkeys(runs):
        run_faults = _run_faults(study.root / name)
        n_older += run_faults is None
        faults += [f"run {name}: {fault}" for fault in run_faults or ()]
        if run_faults == ():
            faults += _recipe_faults(study, plan, cells.get(name, ()))
    for name in dict.fromkeys(open_runs):
        faults += [f"run {name}: {fault}" for fault in _open_run_faults(study.root / name)]
    return IntegrityCheck(tuple(dict.fromkeys(faults)), is_older, n_older)


def require_study_integrity(study: Study, plan: PlanRecord, runs: Iterable[str]) -> None:
    """RecordError where a study, or one of these runs, does not hold what was written."""
    integrity = check_integrity(study, plan, runs)
    if integrity.faults:
        raise RecordError(
            f"{study.folder}: {integrity.description}; restore what was changed, or begin under"
            " another name"
        )


def require_run_integrity(study: Study, run: str) -> None:
    """RecordError where a finished run does not hold what was written, or is another one than
    its name says.
    """
    faults = _run_faults(study.root / run)
    if faults:
        raise RecordError(
            f"{study.root / run}: {'; '.join(faults[:MAX_NAMED])}; restore it, or remove that"
            " folder and run the study again"
        )


def _lists_its_files(folder: Path, spec: Any) -> bool:
    """Is the folder of a run of those that list their files?"""
    match spec:
        case {"format": int(number)} if number >= LISTED_RUN_FORMAT:
            return True
    return _is_listed_and_changed(folder, SPEC_FILE)


def _is_listed_and_changed(folder: Path, name: str) -> bool:
    """Does a folder list its first file as another one than it is? Then what the file says of
    itself does not count.
    """
    try:
        checksums = read_checksums(folder)
    except RecordError:
        return True
    return (
        checksums is not None
        and name in checksums.files
        and checksums.file_fault(folder, name) is not None
    )


def _plan_faults(plan: PlanRecord, study: Study) -> Iterator[str]:
    """Where a plan is not what its fingerprints, or its lock, name."""
    own, cell_plans = plan.design_fingerprint, {cell.plan for cell in study.read_cells()}
    if own is None and cell_plans <= {""}:
        return  # a plan of before designs had a fingerprint of their own
    if own not in (
        _computed_design_fingerprint(plan),
        _computed_design_fingerprint(plan, with_places=True),
    ):
        yield f"{PLAN_FILE} does not hold the design that its fingerprint names"
    if plan.fingerprint != plan_fingerprint(str(own), plan.rule, _code_hash(plan)):
        yield f"{PLAN_FILE} does not hold the plan that its fingerprint names"
    lock = study.read_lock()
    if lock is not None and not _is_lock_of(lock, plan):
        yield f"{PLAN_FILE} is not the plan that {PLAN_LOCK_FILE} holds"


def _is_lock_of(lock: PlanLock, plan: PlanRecord) -> bool:
    there = (plan.fingerprint, plan.design_fingerprint, plan.rule, _code_hash(plan))
    return there == (lock.latest_fingerprint, lock.design, lock.rule, lock.code)


def _code_hash(plan: PlanRecord) -> str:
    return str(plan.environment.get("code"))


def _computed_design_fingerprint(plan: PlanRecord, with_places: bool = False) -> str:
    """The fingerprint of the design as the file holds it: one that was converted has another."""
    table = plan.written
    runs: dict[str, tuple[Any, Any]] = {}
    for name, arm in table["arms"].items():
        earlier = arm.get("earlier_texts")
        runs[name] = (arm["run"], [*earlier, arm["text"]] if earlier else arm["text"])
    return design_fingerprint(
        table["design"],
        runs,
        with_places,
        items=table.get("items"),
        rates=table.get("rates"),
    )


def _run_faults(folder: Path) -> tuple[str, ...] | None:
    """What of a finished run is not what was written; None of one made before checksums were
    kept.
    """
    try:
        spec = read_json(folder / SPEC_FILE)
        if not _lists_its_files(folder, spec):
            return None
        paths = (*evaluation_paths(folder), *task_evaluation_paths(folder))
        answers = [f"{EVALUATIONS}/{path.name}" for path in paths]
        faults = file_faults(folder, (*_RUN_FILES, *answers))
        return faults or tuple(_evaluation_faults(folder))
    except RecordError as fault:
        return (str(fault).removeprefix(f"{folder}/"),)


def _recipe_faults(study: Study, plan: PlanRecord, cells: Iterable[CellRecord]) -> Iterator[str]:
    """Where a run that is whole is not the one that its cells ask for."""
    for cell in cells:
        for fault in cell_faults(study, plan, cell):
            yield f"run {cell.run}, of arm {cell.arm!r} under seed {cell.seed}: {fault}"


def _cells_by_run(study: Study, plan: PlanRecord) -> dict[str, list[CellRecord]]:
    cells: dict[str, list[CellRecord]] = {}
    for cell in study.planned_cells():
        if cell.arm in plan.arms:
            cells.setdefault(cell.run, []).append(cell)
    return cells


def _open_run_faults(folder: Path) -> tuple[str, ...]:
    """What of a run that has no result is not what was written; its rows are still being
    written.
    """
    if not (folder / SPEC_FILE).exists() and not (folder / CHECKSUMS_FILE).exists():
        return ()  # not begun
    try:
        if not _lists_its_files(folder, read_json(folder / SPEC_FILE)):
            return ()
        return file_faults(folder, (SPEC_FILE,), growing_files=(ROWS_FILE,))
    except RecordError as fault:
        return (str(fault).removeprefix(f"{folder}/"),)


def _evaluation_faults(folder: Path) -> Iterator[str]:
    """Where a run is not the one its name is of, or was asked at another checkpoint than the
    one that is there.
    """
    stages = read_written_stages(folder)
    own, older = run_address(stages), run_address(stages, with_places=True)
    if not own.startswith(folder.name) and not older.startswith(folder.name):
        yield f"{SPEC_FILE} is of the run {own[:16]}"
    heads: list[EvaluationHead | TaskHead] = []
    heads.extend(map(read_evaluation_head, evaluation_paths(folder)))
    heads.extend(map(read_task_head, task_evaluation_paths(folder)))
    for head in heads:
        place = folder / CHECKPOINTS / checkpoint_name(head.step)
        if place.is_dir() and head.weights not in _weights_of(place):
            yield (
                f"{CHECKPOINTS}/{place.name}/{MANIFEST_FILE} is not of the weights that were"
                " measured"
            )


def _weights_of(checkpoint: Path) -> tuple[str | None, ...]:
    """The sha256 of a checkpoint's weights, and of them with its head where it has one."""
    weights = manifest_sha256(checkpoint, WEIGHTS_FILE)
    head = manifest_sha256(checkpoint, LABEL_HEAD_FILE)
    if head is None:
        return (weights,)
    return weights, canonical_hash([weights, head])

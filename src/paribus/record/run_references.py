"""Which study needs which run: the runs of its cells, and the stages that these begin from.

A cell names the run of the last stage. Its earlier stages are known by their addresses; those of a
run that is not begun yet, by the texts that the plan has for its arm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paribus.errors import RecordError
from paribus.record.address import run_address
from paribus.record.file_names import (
    CELLS_FILE,
    PLAN_FILE,
    PLAN_LOCK_FILE,
    SPEC_FILE,
    STUDIES,
)
from paribus.record.folder import is_folder_name, read_stages, read_written_stages
from paribus.record.plan import PlanRecord
from paribus.record.plan_file import read_plan
from paribus.record.study import CellRecord, Study

Stages = list[dict[str, Any]]


@dataclass(frozen=True)
class RunReference:
    """A study that needs a run, and as what: the run of a cell, or a stage before it."""

    study: str
    arm: str
    seed: int
    purpose: str
    is_earlier_stage: bool = False


@dataclass
class RunReferences:
    """The studies that need each run, by the run's name; `faults` are of studies that cannot be
    read, of which nobody knows what they need.
    """

    by_run: dict[str, list[RunReference]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def add(self, run: str, reference: RunReference) -> None:
        known = self.by_run.setdefault(run, [])
        if reference not in known:
            known.append(reference)


def study_folders(root: Path) -> list[Path]:
    """The folder of every study under `root`, by name; one that has lost its plan as well."""
    folders = []
    for name in (PLAN_FILE, CELLS_FILE, PLAN_LOCK_FILE):
        for path in (root / STUDIES).glob(f"*/{name}"):
            if is_folder_name(path.parent.name) and not path.parent.is_symlink():
                folders.append(path.parent)
    return sorted(set(folders))


def find_references(root: Path) -> RunReferences:
    """What the studies under `root` need of its runs."""
    references, chains = RunReferences(), read_chains(root)
    ancestors = Ancestors(chains)
    for folder in study_folders(root):
        try:
            _add_study(Study(root, folder), chains, ancestors, references)
        except RecordError as fault:
            references.faults.append(str(fault))
    return references


def read_chains(root: Path) -> dict[str, Stages]:
    """The stages of every run under `root` that can be read."""
    chains: dict[str, Stages] = {}
    if not root.is_dir():
        return chains
    for folder in sorted(root.iterdir()):
        if folder.is_symlink() or not is_folder_name(folder.name):
            continue
        if (folder / SPEC_FILE).is_file():
            try:
                chains[folder.name] = read_stages(folder)
            except RecordError:
                continue  # it is listed as damaged
    return chains


class Ancestors:
    """The runs that a run begins from: those whose chains are the first stages of its own."""

    def __init__(self, chains: Mapping[str, Stages]):
        self._chains = chains
        self._names: dict[str, list[str]] = {}
        for name, stages in chains.items():
            self._names.setdefault(run_address(stages), []).append(name)

    def of(self, run: str) -> Iterator[str]:
        stages = self._chains.get(run, [])
        for n_stages in range(1, len(stages)):
            yield from self._names.get(run_address(stages[:n_stages]), ())


def _add_study(
    study: Study, chains: Mapping[str, Stages], ancestors: Ancestors, references: RunReferences
) -> None:
    study.require_cells()
    for cell in study.read_cells():
        own = _reference(study, cell)
        references.add(cell.run, own)
        for name in ancestors.of(cell.run):
            references.add(name, _reference(study, cell, is_earlier_stage=True))
    plan = read_plan(study)
    for arm, record in plan.arms.items():
        for name in begin_runs(study.root, record.run.table.get("begin")):
            begin = RunReference(
                study=study.folder.name,
                arm=arm,
                seed=0,
                purpose="reported",
                is_earlier_stage=True,
            )
            if name in chains:
                references.add(name, begin)
    for arm in _arms_to_begin(study, plan, chains):
        for name, stages in chains.items():
            if _may_be_begun_from(stages, plan.arms[arm].texts):
                seed = stages[-1].get("training", {}).get("seed", 0)
                reference = RunReference(
                    study=study.folder.name,
                    arm=arm,
                    seed=seed,
                    purpose="reported",
                    is_earlier_stage=True,
                )
                references.add(name, reference)


def _reference(study: Study, cell: CellRecord, is_earlier_stage: bool = False) -> RunReference:
    return RunReference(
        study=study.folder.name,
        arm=cell.arm,
        seed=cell.seed,
        purpose=cell.purpose,
        is_earlier_stage=is_earlier_stage,
    )


def _arms_to_begin(study: Study, plan: PlanRecord, chains: Mapping[str, Stages]) -> list[str]:
    """Arms of several stages that have runs to come: a run of which only earlier stages are there
    has no folder that would name them.
    """
    cells = study.planned_cells()
    arms = {cell.arm for cell in cells if cell.run not in chains}
    if not any(cell.purpose == "reported" for cell in cells):
        arms = set(plan.order)
    return [arm for arm in plan.order if arm in arms and len(plan.arms[arm].texts) > 1]


def _may_be_begun_from(stages: Stages, texts: list[str]) -> bool:
    """Has a chain read the first of these texts, and not all of them?"""
    own = [stage.get("text") for stage in stages]
    return len(own) < len(texts) and own == texts[: len(own)]


def begin_runs(root: Path, begin: Any) -> Iterator[str]:
    """The names that a run under `root` may have which another begins from, given as a stage or
    a plan has it.
    """
    if not isinstance(begin, dict):
        return
    yield str(begin.get("name"))
    path = Path(str(begin.get("path") or "")).absolute()
    if path.is_relative_to(root.absolute()):
        yield from path.relative_to(root.absolute()).parts[:1]


def is_named(run: str, folder: Path) -> bool:
    """Was a run given a name, in place of its address?"""
    stages = read_written_stages(folder)
    addresses = (run_address(stages), run_address(stages, with_places=True))
    converted = run_address(read_stages(folder))
    return not any(address.startswith(run) for address in (*addresses, converted))

"""Tasks that no arm may have been trained on: what is asked of a model after it was tuned must be
new to it.

Only stages after pretraining are looked at. Pairs that `paribus tasks --pairs` wrote say which task
they are from. Another copy that was written anew, row by row, is not found here; the overlap with
the training text tells it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paribus.corpus.documents import SourceNotes
from paribus.corpus.file_contents import content_digests
from paribus.corpus.sources import source_members
from paribus.corpus.tasks import marked_tasks, task_members, trained_task_name
from paribus.design.arms import Arm
from paribus.errors import SpecError
from paribus.spec.corpus import FileSource, PairFiles, Source
from paribus.spec.design import Design
from paribus.spec.languages import Language, common_phrasings
from paribus.spec.stage_kinds import FIRST_KIND
from paribus.spec.task_readers import READERS
from paribus.spec.tasks import Task
from paribus.spec.yardstick import OtherYardstick, TaskYardstick
from paribus.watcher import Watcher

# By its reader: the sources with the text that a task without files takes its items from.
ITEM_SOURCES = {
    "function-summary": ("python-code", "python-summaries"),
    "docstring-package": ("python-docs", "python-labels"),
}
REMEDY = "train on something else there, or leave unseen out"


@dataclass(frozen=True)
class _TunedSource:
    """A source of a stage after pretraining, where it stands, and in which arms."""

    source: Source
    where: str
    arms: list[str]


def require_unseen_tasks(design: Design, arms: Sequence[Arm]) -> None:
    """SpecError where an arm trains on a task that must be unseen, in a stage after
    pretraining.
    """
    tasks = dict(_unseen_tasks(design))
    if not tasks:
        return
    problems: list[str] = []
    task_files = {where: content_digests(task_members(task)) for where, task in tasks.items()}
    for tuned in _tuned_sources(arms):
        source_files: dict[str, str] = {}
        if isinstance(tuned.source, FileSource) and any(task_files.values()):
            members = source_members(tuned.source, SourceNotes(), Watcher())
            source_files = content_digests(members)
        marks: dict[str, str] = {}
        if isinstance(tuned.source, PairFiles):
            marks = marked_tasks(tuned.source)
        for where, task in tasks.items():
            reason = _common_text(task, tuned.source)
            reason = reason or _common_file(task_files[where], source_files)
            reason = reason or _common_mark(task, marks)
            if reason is not None:
                problems.append(
                    f"{where}.unseen is true, but {tuned.where} ({tuned.source.kind}) in"
                    f" {', '.join(tuned.arms)} trains on the task {task.name!r}: {reason}; {REMEDY}"
                )
    if problems:
        raise SpecError(problems)


def _unseen_tasks(design: Design) -> Iterator[tuple[str, Task]]:
    measures: dict[str, OtherYardstick] = {"primary.measure": design.primary.measure}
    for place, measure in enumerate(design.others):
        measures[f"others.{place}"] = measure
    for where, measure in measures.items():
        if isinstance(measure, TaskYardstick) and measure.unseen:
            yield where, measure.task


def _tuned_sources(arms: Sequence[Arm]) -> list[_TunedSource]:
    """Each source of a stage after pretraining, once for all arms that have it there."""
    tuned: dict[tuple[str, str], _TunedSource] = {}
    for arm in arms:
        for number, stage in enumerate(arm.run.stages):
            if stage.kind == FIRST_KIND:
                continue
            for place, source in enumerate(stage.corpus.sources):
                where = f"stages.{number}.corpus.sources.{place}"
                key = (where, source.model_dump_json())
                tuned.setdefault(key, _TunedSource(source, where, [])).arms.append(arm.name)
    return list(tuned.values())


def _common_text(task: Task, source: Source) -> str | None:
    """Why a source holds the task, whatever files there are; None where it does not."""
    if source.kind in ITEM_SOURCES.get(task.reader or "", ()):
        return f"the items of {task.reader!r} come from {source.kind!r}"
    for language in task.language or ():
        if isinstance(source, Language) and (common := common_phrasings(source, language)):
            return f"both ask {source.kind!r} as {common[0]!r}"
    return None


def _common_file(task_files: dict[str, str], source_files: dict[str, str]) -> str | None:
    """Which file of a task a source reads, too; None where there is none."""
    for digest, place in task_files.items():
        if digest in source_files:
            return f"{source_files[digest]} holds what {place} of the task does"
    return None


def _common_mark(task: Task, marks: dict[str, str]) -> str | None:
    """Where a line of pairs says that it is from the task; None where none does."""
    for name in (task.name, trained_task_name(task)):
        if name not in marks:
            continue
        reason = f"{marks[name]} says that its pair is from {name!r}"
        if name == task.reader and READERS[name].has_many_tasks:
            reason += ", a format that many tasks have (give different ones names of their own)"
        return reason
    return None

"""A task from its file, a table, the name of a built-in one, or `reader:path`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from paribus.canonical import canonical_hash
from paribus.errors import SpecError
from paribus.spec.base import Spec, with_tuples
from paribus.spec.languages import InventedLanguage
from paribus.spec.merging import in_setting_order, set_at_path
from paribus.spec.places import place_task
from paribus.spec.reading import describe_faults, read_table
from paribus.spec.spelling import word_advice
from paribus.spec.task_readers import LANGUAGE_CHOICES, LANGUAGE_TASK, READERS
from paribus.spec.tasks import Task, TaskKind

LANGUAGES = tuple(model.model_fields["kind"].default for model in get_args(InventedLanguage))
CHOICES_SUFFIX = "-choices"  # of a language that is asked as choices
N_QUESTIONS = 20_000  # of a built-in language, of which the test split is asked
# what changes no item, or where it lies
_PLACES = ("paths", "train", "valid", "name", "max_unpacked")


class _TaskTable(Spec):
    task: TaskKind


def built_in_tasks() -> dict[str, str]:
    """The tasks that need no files, each with what it asks."""
    tasks: dict[str, str] = {}
    for name, entry in READERS.items():
        if not entry.suffixes:
            tasks[name] = entry.about
    for model in get_args(InventedLanguage):
        kind = model.model_fields["kind"].default
        about = " ".join((model.__doc__ or "").split())
        tasks[kind] = f"{about} The answer is generated."
        tasks[kind + CHOICES_SUFFIX] = f"{about} Four answers to choose from."
    return tasks


def load_task(
    source: str | Path | Mapping[str, Any], changes: Mapping[str, Any] | None = None
) -> Task:
    """A task from a TOML or JSON file, a table, the name of a built-in task, or `reader:path`.

    `changes` are values by dotted path: `{"n_items": 100}`.
    """
    table, name = _task_table(source)
    for path in in_setting_order(changes or {}):
        set_at_path(table, path, (changes or {})[path])
    defaults = _default_fields(table)
    whole = {"task": with_tuples({"name": name, **defaults, **table})}
    try:
        return _TaskTable.model_validate(whole).task
    except ValidationError as fault:
        problems = list(describe_faults(fault, whole, _TaskTable))
        if isinstance(source, Mapping):
            raise SpecError(problems) from None
        raise SpecError([f"{source}: {problem}" for problem in problems]) from None


def task_fingerprint(task: Task) -> str:
    """The hash of all that a task says about its items and how they are asked, wherever its files
    lie.
    """
    return canonical_hash(task.model_dump(mode="json", exclude=set(_PLACES)))


def _task_table(source: str | Path | Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The table of a task, and its name unless the table has one."""
    if isinstance(source, Mapping):
        table = dict(source)
        return table, str(table.get("reader") or _language_kind(table) or "task")
    text = str(source)
    if text in built_in_tasks():
        if text in READERS:
            return {"reader": text}, text
        kind = text.removesuffix(CHOICES_SUFFIX)
        table: dict[str, Any] = {"language": {"kind": kind, "n_documents": N_QUESTIONS}}
        if kind != text:
            table["kind"] = "choices"
        return table, text
    reader, colon, path = text.partition(":")
    if colon and reader in READERS:
        return {"reader": reader, "paths": path}, reader
    if Path(text).suffix not in (".toml", ".json"):
        names = (*built_in_tasks(), *READERS)
        raise SpecError(
            f"{text} is no task; {word_advice(text, names)}give a .toml file, READER:PATH with one"
            f" of {', '.join(name for name in READERS if READERS[name].suffixes)}, or one of"
            f" {', '.join(built_in_tasks())}"
        )
    table = read_table(Path(text), "give a task that can be read")
    return place_task(table, Path(text).parent), Path(text).stem


def _language_kind(table: Mapping[str, Any]) -> str | None:
    """What a task over languages is called: as the first of them."""
    language: Any = table.get("language")
    if isinstance(language, list | tuple):
        language = next(iter(language), None)
    if isinstance(language, Mapping):
        return language.get("kind")
    return language


def _default_fields(table: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a reader or a language gives; those of another kind than the table asks for
    are not among them.
    """
    if table.get("language") is not None:
        if table.get("kind") == LANGUAGE_CHOICES["kind"]:
            return dict(LANGUAGE_CHOICES)
        return dict(LANGUAGE_TASK)
    reader = table.get("reader")
    if not isinstance(reader, str):
        return {}  # none, or one that is refused with its place
    if reader not in READERS:
        advice = word_advice(str(reader), tuple(READERS))
        raise SpecError(f"reader is {reader!r}; {advice}use one of {', '.join(READERS)}")
    entry = READERS[reader]
    if table.get("kind", entry.task.get("kind")) != entry.task.get("kind"):
        return {}
    return dict(entry.task)


def open_tasks(design: Mapping[str, Any]) -> dict[str, Any]:
    """The table of a design in which every task that it names, as a yardstick, is a whole table."""
    result = dict(design)
    primary = result.get("primary")
    if isinstance(primary, Mapping) and "measure" in primary:
        measure = _open_task(primary["measure"], "primary.measure")
        result["primary"] = {**primary, "measure": measure}
    others = result.get("others")
    if isinstance(others, list | tuple):
        result["others"] = [_open_task(one, f"others.{place}") for place, one in enumerate(others)]
    return result


def _open_task(yardstick: Any, where: str) -> Any:
    if not isinstance(yardstick, Mapping) or "task" not in yardstick:
        return yardstick
    task = yardstick["task"]
    if not isinstance(task, str | Path | Mapping):
        return yardstick  # which is refused with its place
    try:
        table = load_task(task).model_dump()
    except SpecError as fault:
        raise SpecError([f"{where}.{problem}" for problem in fault.problems]) from None
    return {**yardstick, "kind": yardstick.get("kind", "task"), "task": table}


def make_room_for_task(design: dict[str, Any], path: str, value: Any) -> None:
    """Take the primary's task out of a design where setting a value at a path gives it another: a
    task that is set as a table is not merged with the one there.
    """
    names, place = path.split("."), ["primary", "measure", "task"]
    if names != place[: len(names)]:
        return
    for name in place[len(names) :]:
        if not isinstance(value, Mapping):
            return
        value = value.get(name)
    primary = design.get("primary")
    if not isinstance(value, Mapping) or not isinstance(primary, Mapping):
        return
    measure = primary.get("measure")
    if isinstance(measure, Mapping):
        rest = {key: inner for key, inner in measure.items() if key != "task"}
        design["primary"] = {**primary, "measure": rest}

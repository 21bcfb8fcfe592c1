"""What an anonymous report does not say: places, files, machine, people and dates; one function
for all formats.
"""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import filterfalse
from pathlib import Path, PurePath
from typing import Any

from paribus.record.plan import PlanRecord

MACHINE_KEYS = (  # of an environment: what tells of a place
    "processor",
    "machine",
    "system",
    "cpu_capability",
    "device",
    "n_threads",
    "omp_num_threads",
    "aten_cpu_capability",
)
MACHINE_LINES = ("threads", "device")  # of the control table
FREE_TEXT_KEYS = (
    "reason",
    "note",
    "allowed",
    "allow",
    "question",
    "reference",
    "remark",
    "refused",
    "prompts",
)  # texts of people
PATH_KEYS = ("path", "paths")  # where a spec names files
COMMON_NAMES = (
    "root",
    "user",
    "admin",
    "runner",
    "ubuntu",
    "localhost",
)  # names that tell of nobody
RUNS, PATH, NAME = (
    "RUNS",
    "PATH",
    "NAME",
)  # what stands in the place of the runs folder, another path, a person
_ABSOLUTE = re.compile(r"(?:~|[A-Za-z]:)?[\\/].+|~")
_INSIDE = re.compile(
    r"(?<![\w.:/\\~-])(?:(?:~|[A-Za-z]:)[\\/]|[\\/][^\s\\/'\"`,;:]+[\\/]|\\\\)[^\s'\"`,;:]*"
)
_PATH_MARK = re.compile(r"\w[\\/.]|[\\/.]\w")  # what a path has and a plain word has not
_HOME = re.compile(r"(?:/home/|/Users/|\\Users\\|pytest-of-)([^/\\\s]+)")
_ERROR = re.compile(r"\w+: ")
# Behind a private word: nothing that makes it another word, but for the number of a study in its
# series, as in NAME-2.
_WORD_END = r"(?!\w|-(?!\d+(?![\w-])))"


@dataclass(frozen=True)
class Redactions:
    """Private texts and what stands in their place."""

    files: Mapping[str, str]  # a file as a spec writes it → its label
    in_any_text: Mapping[str, str]  # what is replaced inside any text
    in_free_text: Mapping[str, str]  # what is replaced inside texts of people alone
    arms: tuple[str, ...]

    def redact_text(self, text: str, is_free: bool = False) -> str:
        """A text without what is private."""
        if is_free:
            text = self.redact_names(text)
        else:
            text = _replace_words(text, self.in_any_text)
        if _ABSOLUTE.fullmatch(text):
            return PATH
        return _INSIDE.sub(PATH, text)

    def redact_names(self, text: str) -> str:
        """A text of data without what is private by name; what only looks like a path stays,
        for it is no place.
        """
        return _replace_words(text, {**self.in_any_text, **self.in_free_text})

    def redact_file(self, value: Any) -> Any:
        """The label of a file, or of each of some; anything else without what is private."""
        if isinstance(value, str):
            return self.files.get(value) or self.redact_text(value)
        if isinstance(value, list | tuple):
            return [self.redact_file(inner) for inner in value]
        return value


def _replace_words(text: str, words: Mapping[str, str]) -> str:
    for private, label in words.items():
        after = _WORD_END if private[-1].isalnum() else ""
        text = re.sub(rf"(?<![\w.-]){re.escape(private)}{after}", label, text)
    return text


def find_redactions(plan: PlanRecord, root: Path) -> Redactions:
    """What a study's plan, its folder and this machine hold of places and people."""
    files = _file_labels(plan)
    names = dict(zip(map(_file_name, files), files.values(), strict=True))
    mangled = dict(zip(map(_mangled_path, files), files.values(), strict=True))
    whole, dotted = {}, {}
    for path, label in files.items():
        if _PATH_MARK.search(path):
            whole[path] = label
    for name, label in (names | mangled).items():
        if "." in name:
            dotted[name] = label
    roots = _root_labels(root)
    people = dict.fromkeys(_private_names((*files, *roots)), NAME)
    return Redactions(
        files=files,
        in_any_text=_longest_first(whole | roots | dotted),
        in_free_text=_longest_first(names | people),
        arms=tuple(plan.order),
    )


def _file_labels(plan: PlanRecord) -> dict[str, str]:
    """Every file that the plan names, each with a label in the order of first appearance."""
    labels: dict[str, str] = {}
    for path in _spec_files(plan.table):
        labels.setdefault(path, f"file-{len(labels) + 1}")
    return labels


def _mangled_path(path: str) -> str:
    """A path as it stands in a file's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path).strip("-._")


def _root_labels(root: Path) -> dict[str, str]:
    """The runs folder, in every way it may be written."""
    labels = {}
    for place in (root.resolve(), root.absolute()):
        if len(place.parts) > 1:
            labels[str(place)] = RUNS
    if not root.is_absolute() and root.parts:
        # one that is called as a word is, such as runs, stays in sentences
        labels[f"{root}/"] = f"{RUNS}/"
    return labels


def _longest_first(words: Mapping[str, str]) -> dict[str, str]:
    ordered = {}
    for word in sorted(filter(None, words), key=len, reverse=True):
        ordered[word] = words[word]
    return ordered


def _private_names(paths: Sequence[str]) -> Iterator[str]:
    """Names of people and machines, but for those that tell of nobody."""
    for word in _people(paths):
        if word not in COMMON_NAMES and len(word) > 1:
            yield word


def _people(paths: Sequence[str]) -> Iterator[str]:
    """Names of this user and this machine, and of whoever's home a path lies in."""
    yield getpass.getuser()
    host = socket.gethostname()
    yield from (host, host.partition(".")[0])
    for path in (*paths, str(Path.home())):
        yield from _HOME.findall(path)


def _spec_files(value: Any) -> Iterator[str]:
    """Every file that specs name; the `path` of a factor or of a line of the control table
    names a field.
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "paths" or (key == "path" and "kind" in value):
                yield from _texts(inner)
            else:
                yield from _spec_files(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _spec_files(inner)


def _texts(value: Any) -> Iterator[str]:
    """A text, or those among some values."""
    if isinstance(value, str):
        yield value
        return
    for inner in value:
        if isinstance(inner, str):
            yield inner


def _file_name(path: str) -> str:
    return PurePath(path.replace("\\", "/")).name


def redact_value(value: Any, redactions: Redactions, is_free: bool = False) -> Any:
    """A value with no path, file name, machine or person in any text of it."""
    if isinstance(value, str):
        return redactions.redact_text(value, is_free)
    if isinstance(value, Mapping) and _names_files(value):
        rest = dict(value)
        del rest["values"]
        return {
            **redact_value(rest, redactions, is_free),
            "values": _file_values(value, redactions),
        }
    if isinstance(value, Mapping):
        return _redact_mapping(value, redactions, is_free)
    if isinstance(value, list):
        lines = filterfalse(_is_machine_line, value)
        return [redact_value(inner, redactions, is_free) for inner in lines]
    if isinstance(value, tuple):
        items = [redact_value(inner, redactions, is_free) for inner in value]
        if type(value) is not tuple:
            return type(value)(*items)
        return tuple(items)
    if is_dataclass(value) and not isinstance(value, type):
        return _redact_dataclass(value, redactions)
    return value


def _redact_mapping(
    table: Mapping[Any, Any], redactions: Redactions, is_free: bool
) -> dict[Any, Any]:
    redacted = {}
    for key, inner in _without_machine(table).items():
        redacted[_redact_key(key, redactions)] = _redact_field(key, inner, redactions, is_free)
    return redacted


def _names_files(line: Mapping[str, Any]) -> bool:
    """Is it a line of the control table whose values are files?"""
    return (
        "mark" in line
        and str(line.get("path")).rpartition(".")[2] in PATH_KEYS
        and isinstance(line.get("values"), dict)
    )


def _file_values(line: Mapping[str, Any], redactions: Redactions) -> dict[str, Any]:
    labels = {}
    for arm, value in line["values"].items():
        labels[_redact_key(arm, redactions)] = redactions.redact_file(value)
    return labels


def _redact_dataclass(value: Any, redactions: Redactions) -> Any:
    redacted = {}
    for field in fields(value):
        if field.init:
            own = getattr(value, field.name)
            redacted[field.name] = _redact_field(field.name, own, redactions, False)
    return replace(value, **redacted)


def _redact_key(key: Any, redactions: Redactions) -> Any:
    if key in redactions.arms:
        return redactions.redact_text(key)
    return key


def _redact_field(key: Any, value: Any, redactions: Redactions, is_free: bool) -> Any:
    if key in PATH_KEYS and (isinstance(value, list | tuple) or value in redactions.files):
        return redactions.redact_file(value)
    return redact_value(value, redactions, is_free or key in FREE_TEXT_KEYS)


def redact_row(row: Mapping[str, Any], redactions: Redactions) -> dict[str, Any]:
    """A row of a run; of the place where its run lay nothing is left in its reason."""
    return redact_value({**row, "reason": _without_folder(row["reason"], row["run"])}, redactions)


def _without_folder(reason: str, run: str) -> str:
    before, name, after = reason.partition(run)
    if not name:
        return reason
    error = _ERROR.match(before)
    if error:
        return f"{error[0]}{run}{after}"
    return f"{run}{after}"


def _is_machine_line(value: Any) -> bool:
    """Is it a line of the control table that tells of the machine?"""
    return isinstance(value, Mapping) and "mark" in value and value.get("path") in MACHINE_LINES


def _without_machine(table: Mapping[str, Any]) -> dict[str, Any]:
    """An environment without what tells of a place; any other table as it is."""
    if "torch" not in table:
        return dict(table)
    rest = dict(table)
    for key in MACHINE_KEYS:
        rest.pop(key, None)
    return rest

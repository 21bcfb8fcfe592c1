"""Which texts of a study are private, and what stands in their place."""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from paribus.record.plan import PlanRecord

RUNS, PATH, NAME = "RUNS", "PATH", "NAME"  # for the runs folder, another path, a person
COMMON_NAMES = (
    "root",
    "user",
    "admin",
    "runner",
    "ubuntu",
    "localhost",
)  # names that tell of nobody
_ABSOLUTE = re.compile(r"(?:~|[A-Za-z]:)?[\\/].+|~")
_INSIDE = re.compile(
    r"(?<![\w.:/\\~-])(?:(?:~|[A-Za-z]:)[\\/]|[\\/][^\s\\/'\"`,;:]+[\\/]|\\\\)[^\s'\"`,;:]*"
)
_PATH_MARK = re.compile(r"\w[\\/.]|[\\/.]\w")  # what a path has and a plain word has not
_HOME = re.compile(r"(?:/home/|/Users/|\\Users\\|pytest-of-)([^/\\\s]+)")
_TASK_FILES = ("train", "valid")  # of a task; of a corpus they are shares
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
        after = ""
        if private[-1].isalnum():
            after = _WORD_END
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
    labels = {}
    for word in sorted(filter(None, words), key=len, reverse=True):
        labels[word] = words[word]
    return labels


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
            is_place = key == "paths" or (key == "path" and "kind" in value)
            if is_place or key in _TASK_FILES:
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
    if not isinstance(value, list | tuple):
        return
    for inner in value:
        if isinstance(inner, str):
            yield inner


def _file_name(path: str) -> str:
    return PurePath(path.replace("\\", "/")).name

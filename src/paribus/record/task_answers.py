"""What a checkpoint answered to each item of a task: one JSON object per line under a head, whole
or absent.

The files lie beside those of yardsticks, in the folder of evaluations, under names of their own.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from paribus.canonical import canonical_hash, canonical_json
from paribus.errors import RecordError
from paribus.files import MAX_ROWS_BYTES, read_bytes
from paribus.record.checksums import require_unchanged_file, write_listed_file
from paribus.record.disk import explained
from paribus.record.file_names import EVALUATIONS, task_answers_name
from paribus.record.rows import NONFINITE

TAG_SEPARATOR = " "  # between the tags of an answer
PARENT = "parent"  # in the protocol and the summary of scores minus those of the parent
_REMEDY = "remove it, and the same command asks again"
_NAME_CHARACTERS = 16
_FLOATS = ("score", "count")
_FLOAT_LISTS = ("option_nats", "option_unconditional_nats")
_INTEGER_LISTS = ("option_tokens", "option_bytes")
_HEAD_TYPES: dict[str, Any] = {
    "task": dict,
    "name": str,
    "measure": str,
    "label": str,
    "protocol": dict,
    "component": dict,
    "step": int,
    "weights": str,
    "window": int,
    "items": str,
    "n_items": int,
    "n_truncated": int,
    "n_left_out": int,
    "text": str,
    "floors": dict,
    "summary": dict,
    "environment": dict,
}


@dataclass(frozen=True)
class TaskAnswer:
    """The answer to one item. `score` and `count` add up over items: the score of the task is
    the sum of one over the sum of the other.

    Of choices and labels, `chosen` and `key` are numbers from 0; of tags and generation, text.
    """

    item: str
    document: str  # items of one document are no independent evidence
    # accuracy: 1 or 0, or a share where options tie; bits per byte, log loss: bits
    score: float
    count: float  # accuracy, log loss: 1; bits per byte: bytes
    chosen: int | str
    key: int | str
    option_nats: tuple[float, ...] = ()  # -log p(option | context); () without options
    option_tokens: tuple[int, ...] = ()
    option_bytes: tuple[int, ...] = ()
    n_truncated_tokens: int = 0  # tokens of the context that did not fit
    option_unconditional_nats: tuple[float, ...] = ()  # -log p(option | unconditional context)
    overlaps: bool | None = None  # shares a 13-gram with the training text; None if unknown


@dataclass(frozen=True)
class TaskHead:
    """What the answers below it are answers to, and whose."""

    task: dict[str, Any]  # the spec
    name: str
    measure: str  # what score over count is: accuracy, exact match, bits per byte, …
    label: str  # likelihood, pseudo-likelihood or generation; of a trained head, its name
    protocol: dict[str, Any]  # kind, and what it needs: number of demonstrations, …
    component: dict[str, Any]  # of the objective, as which items were asked; {} of a trained head
    step: int  # of the checkpoint
    weights: str  # their sha256
    window: int  # positions
    items: str  # fingerprint of the items as they were asked
    n_items: int
    n_truncated: int  # items whose context did not fit
    n_left_out: int  # items left out because they do not fit every arm that was asked with this one
    text: str  # fingerprint of the training text; "" if unknown
    floors: dict[str, float]  # score of a uniform guess, of the majority label, of length alone
    summary: dict[str, float]  # other scores of the same answers, some of which do not add up
    environment: dict[str, Any]


@dataclass(frozen=True)
class TaskEvaluation:
    """One checkpoint asked one task."""

    head: TaskHead
    answers: tuple[TaskAnswer, ...]

    @property
    def score(self) -> float:
        """The score of the task, by its primary measure; one that does not add up over items is in
        the summary.
        """
        if self.head.measure in self.head.summary:
            return self.head.summary[self.head.measure]
        total = math.fsum(answer.score for answer in self.answers)
        return total / math.fsum(answer.count for answer in self.answers)

    @property
    def highest_floor(self) -> float | None:
        """What a score must exceed to say anything; None where the measure has no floor."""
        return max(self.head.floors.values(), default=None)


def task_evaluation_path(
    folder: Path, task: Mapping[str, Any], protocol: Mapping[str, Any], items: str
) -> Path:
    """Where a run keeps its answers to these items; those of a later checkpoint take the place of
    an earlier one's.
    """
    name = canonical_hash({"task": dict(task), "protocol": dict(protocol), "items": items})
    return folder / EVALUATIONS / task_answers_name(name[:_NAME_CHARACTERS])


def write_task_evaluation(path: Path, evaluation: TaskEvaluation) -> None:
    """Write all answers of a task at once; numbers that are not finite are null and named."""
    lines = [_head_table(evaluation.head), *map(_answer_row, evaluation.answers)]
    with explained(path.parent, "made", "remove what is in its place"):
        path.parent.mkdir(exist_ok=True)
    content = "".join(canonical_json(line) + "\n" for line in lines).encode()
    write_listed_file(path.parent.parent, f"{path.parent.name}/{path.name}", content)


def read_task_evaluation(path: Path) -> TaskEvaluation:
    """The answers to a task as they were written; RecordError with the line where they are not."""
    with explained(path, "read", _REMEDY):
        lines = read_bytes(path, MAX_ROWS_BYTES).splitlines()
    if not lines:
        raise RecordError(f"{path} holds no answers to a task: it is empty; {_REMEDY}")
    head = _read_head(lines[0], path)
    answers = []
    for number, line in enumerate(lines[1:], 2):
        where = f"{path}, line {number}"
        try:
            answers.append(_parse_answer(_parse_line(line, where)))
        except (KeyError, TypeError, ValueError) as fault:
            raise RecordError(f"{where} is no answer to a task: {fault}; {_REMEDY}") from fault
    if len(answers) != head.n_items:
        raise RecordError(
            f"{path} holds {len(answers)} answers, {head.n_items} were written; {_REMEDY}"
        )
    return TaskEvaluation(head, tuple(answers))


def read_task_head(path: Path) -> TaskHead:
    """What the answers of a file are answers to, without reading the answers."""
    with explained(path, "read", _REMEDY), open(path, "rb") as file:
        return _read_head(file.readline(), path)


def require_unchanged_task_evaluation(path: Path) -> None:
    """RecordError where the answers to a task are not what was written."""
    require_unchanged_file(path.parent.parent, f"{path.parent.name}/{path.name}", _REMEDY)


def read_task_evaluations(folder: Path) -> Iterator[TaskEvaluation]:
    """Every task that a run was asked, in the order of the files' names."""
    for path in task_evaluation_paths(folder):
        yield read_task_evaluation(path)


def task_evaluation_paths(folder: Path) -> list[Path]:
    """The file of every task that a run was asked, in the order of their names."""
    return sorted((folder / EVALUATIONS).glob(task_answers_name("*")))


def _read_head(line: bytes, path: Path) -> TaskHead:
    where = f"{path}, line 1"
    table = _parse_line(line, where)
    try:
        return _parse_head(table)
    except (TypeError, ValueError) as fault:
        raise RecordError(f"{where} is no head of a task: {fault}; {_REMEDY}") from fault


def _parse_head(table: dict[str, Any]) -> TaskHead:
    odd = table.pop(NONFINITE, {})
    head = TaskHead(**table)
    for name, kind in _HEAD_TYPES.items():
        value = table[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"its {name} is {str(value)[:40]}")
    if not isinstance(odd, dict):
        raise ValueError(f"its {NONFINITE} is {str(odd)[:40]}")
    for name, value in odd.items():
        head.summary[name] = float(value)
    for name in ("floors", "summary"):
        for key, value in table[name].items():
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise ValueError(f"its {name}.{key} is {str(value)[:40]}")
    return head


def _head_table(head: TaskHead) -> dict[str, Any]:
    """A head as it is written; scores that are not finite are null and named, as in answers."""
    table, odd = asdict(head), dict[str, str]()
    for name, value in table["summary"].items():
        if not math.isfinite(value):
            odd[name] = repr(float(value))
            table["summary"][name] = None
    if odd:
        table[NONFINITE] = odd
    return table


def _answer_row(answer: TaskAnswer) -> dict[str, Any]:
    row = dict(vars(answer))  # `asdict` would copy every tuple, and there may be 100,000 rows
    odd: dict[str, Any] = {}
    for name in _FLOATS:
        if not math.isfinite(row[name]):
            odd[name] = repr(float(row[name]))
            row[name] = None
    for name in _FLOAT_LISTS:
        if not all(map(math.isfinite, row[name])):
            odd[name] = [repr(float(value)) for value in row[name]]
            row[name] = None
    if odd:
        row[NONFINITE] = odd
    return row


def _parse_answer(row: dict[str, Any]) -> TaskAnswer:
    row.update(row.pop(NONFINITE, {}))
    missing = {field.name for field in fields(TaskAnswer)} - row.keys()
    if missing:
        raise KeyError(min(missing))
    for name in _FLOATS:
        row[name] = float(row[name])
    for name in _FLOAT_LISTS:
        row[name] = tuple(map(float, row[name]))
    for name in _INTEGER_LISTS:
        row[name] = _integers(row[name], name)
    match row:
        case {
            "item": str(),
            "document": str(),
            "chosen": int() | str(),
            "key": int() | str(),
            "n_truncated_tokens": int(),
            "overlaps": None | bool(),
        }:
            return TaskAnswer(**row)
    raise ValueError(f"the answer to {row['item']!r} has a value of another kind")


def _integers(values: list[Any], name: str) -> tuple[int, ...]:
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"its {name} has {str(value)[:40]}")
    return tuple(values)


def _parse_line(line: bytes, where: str) -> dict[str, Any]:
    try:
        table = json.loads(line)
    except (ValueError, RecursionError) as fault:
        raise RecordError(f"{where} is not JSON: {fault}; {_REMEDY}") from fault
    if not isinstance(table, dict):
        raise RecordError(f"{where} holds a {type(table).__name__}, not a table; {_REMEDY}")
    return table

"""Answers: what a checkpoint said to each item of a yardstick, one JSON object a line under a
head, whole or absent.
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
from paribus.record.file_names import EVALUATIONS, is_task_answers_name
from paribus.record.rows import NONFINITE

_REMEDY = "remove it, and the same command measures again"
_NAME_CHARACTERS = 16
_ENDING = ".jsonl"
# Fields of a head as earlier versions called them.
_OLDER_HEAD = {"part": "component", "n_cut": "n_truncated"}
_HEAD_TYPES: dict[str, Any] = {
    "yardstick": dict,
    "label": str,
    "component": dict,
    "step": int,
    "weights": str,
    "window": int,
    "items": str,
    "n_items": int,
    "n_truncated": int,
    "text": str,
    "unigram_nats": int | float | None,
    "environment": dict,
}


@dataclass(frozen=True)
class Answer:
    """How surprised a model is by one target; sums and counts."""

    item: str
    nats: float  # -log p(target | context)
    n_tokens: int  # of the target
    n_bytes: int  # of the target: equal in every arm
    n_truncated_tokens: int  # tokens of the context that did not fit
    document: str = ""  # items of one document are no independent evidence

    @property
    def bits_per_byte(self) -> float:
        return self.nats / math.log(2) / self.n_bytes


@dataclass(frozen=True)
class EvaluationHead:
    """What the answers below it are answers to, and whose."""

    yardstick: dict[str, Any]
    label: str  # likelihood or pseudo-likelihood: never on one axis
    component: dict[str, Any]  # of the objective, as which items were asked
    step: int  # of the checkpoint
    weights: str  # their sha256
    window: int  # positions
    items: str  # their fingerprint
    n_items: int
    n_truncated: int  # contexts that did not fit
    text: str  # fingerprint of what the items were drawn from
    # of all targets, by how often tokens come in the training text; None in older records
    unigram_nats: float | None
    environment: dict[str, Any]


@dataclass(frozen=True)
class Evaluation:
    """One checkpoint measured with one yardstick."""

    head: EvaluationHead
    answers: tuple[Answer, ...]


def evaluation_path(folder: Path, yardstick: Mapping[str, Any], items: str) -> Path:
    """Where a run keeps its answers to these items; a later checkpoint's take the place of an
    earlier one's.
    """
    name = canonical_hash({"yardstick": dict(yardstick), "items": items})
    return folder / EVALUATIONS / f"{name[:_NAME_CHARACTERS]}{_ENDING}"


def write_evaluation(path: Path, evaluation: Evaluation) -> None:
    """All of an evaluation at once; nats that are not finite are null and named."""
    lines = [asdict(evaluation.head), *map(_answer_row, evaluation.answers)]
    with explained(path.parent, "made", "remove what is in its place"):
        path.parent.mkdir(exist_ok=True)
    content = "".join(canonical_json(line) + "\n" for line in lines).encode()
    write_listed_file(path.parent.parent, f"{path.parent.name}/{path.name}", content)


def read_evaluation(path: Path) -> Evaluation:
    """An evaluation as it was written; RecordError with the line where it is not."""
    with explained(path, "read", _REMEDY):
        lines = read_bytes(path, MAX_ROWS_BYTES).splitlines()
    tables = [_parse_line(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)]
    try:
        head = _parse_head(tables[0])
        answers = tuple(map(_parse_answer, tables[1:]))
    except (IndexError, KeyError, TypeError, ValueError) as fault:
        raise RecordError(f"{path} holds no evaluation: {fault}; {_REMEDY}") from fault
    if len(answers) != head.n_items:
        raise RecordError(
            f"{path} holds {len(answers)} answers, {head.n_items} were written; {_REMEDY}"
        )
    return Evaluation(head, answers)


def read_evaluation_head(path: Path) -> EvaluationHead:
    """What the answers of a file are answers to, the answers themselves not read."""
    with explained(path, "read", _REMEDY), open(path, "rb") as file:
        line = file.readline()
    try:
        return _parse_head(_parse_line(line, f"{path}, line 1"))
    except (TypeError, ValueError) as fault:
        raise RecordError(f"{path} holds no evaluation: {fault}; {_REMEDY}") from fault


def require_unchanged_evaluation(path: Path) -> None:
    """RecordError where an evaluation is not what was written."""
    require_unchanged_file(path.parent.parent, f"{path.parent.name}/{path.name}", _REMEDY)


def read_evaluations(folder: Path) -> Iterator[Evaluation]:
    """Every evaluation of a run, in the order of their names."""
    for path in evaluation_paths(folder):
        yield read_evaluation(path)


def evaluation_paths(folder: Path) -> list[Path]:
    """The file of every evaluation of a run, in the order of their names; tasks are not among
    them.
    """
    paths = sorted((folder / EVALUATIONS).glob(f"*{_ENDING}"))
    return [path for path in paths if not is_task_answers_name(path.name)]


def _parse_head(table: dict[str, Any]) -> EvaluationHead:
    """What stands above answers, every value of its kind."""
    table = {_OLDER_HEAD.get(name, name): value for name, value in table.items()}
    head = EvaluationHead(**table)
    for name, kind in _HEAD_TYPES.items():
        value = table[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"its {name} is {str(value)[:40]}")
    return head


def _answer_row(answer: Answer) -> dict[str, Any]:
    if math.isfinite(answer.nats):
        return asdict(answer)
    return {**asdict(answer), "nats": None, NONFINITE: {"nats": repr(float(answer.nats))}}


def _parse_answer(row: dict[str, Any]) -> Answer:
    odd = row.pop(NONFINITE, None)
    if "n_cut" in row:  # as earlier versions called it
        row["n_truncated_tokens"] = row.pop("n_cut")
    if odd is None:
        row["nats"] = float(row["nats"])
    else:
        row["nats"] = float(odd["nats"])
    missing = {field.name for field in fields(Answer)} - row.keys()
    if missing:
        raise KeyError(min(missing))
    match row:
        case {
            "item": str(),
            "n_tokens": int(),
            "n_bytes": int(),
            "n_truncated_tokens": int(),
            "document": str(),
        } if row["n_bytes"]:
            return Answer(**row)
    raise ValueError(f"the answer to {row['item']!r} has a value of another kind")


def _parse_line(line: bytes, where: str) -> dict[str, Any]:
    try:
        table = json.loads(line)
    except (ValueError, RecursionError) as fault:
        raise RecordError(f"{where} is not JSON: {fault}; {_REMEDY}") from fault
    if not isinstance(table, dict):
        raise RecordError(f"{where} holds a {type(table).__name__}, not a table; {_REMEDY}")
    return table

"""What a study keeps for its report beside its rows: samples of each arm, and the texts of some
items.

runs/studies/bidirectional-input/
  samples.json  prompt, and what each arm goes on to say
  items.json    item → context and target
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from paribus.errors import RecordError
from paribus.record.checksums import write_listed_file
from paribus.record.disk import json_bytes, read_json
from paribus.record.file_names import ITEMS_FILE, SAMPLES_FILE
from paribus.record.study import Study

_REMEDY = "remove it, and `paribus run` writes it again"
_OLDER_NAMES = {"said": "continuations", "refused": "refusals"}  # of fields, in earlier versions


@dataclass(frozen=True)
class PromptSample:
    """One prompt continued by every arm; an arm that cannot says why in `refusals`."""

    prompt: str
    continuations: Mapping[str, str]
    refusals: Mapping[str, str]


@dataclass(frozen=True)
class ItemText:
    """What an item asked."""

    context: str
    target: str


def write_samples(study: Study, samples: Sequence[PromptSample]) -> None:
    write_listed_file(
        study.folder, SAMPLES_FILE, json_bytes([asdict(sample) for sample in samples])
    )


def read_samples(study: Study) -> tuple[PromptSample, ...]:
    """The samples there are: none before the study is done."""
    return tuple(
        _parse(PromptSample, one, study.folder / SAMPLES_FILE)
        for one in _read_or_default(study.folder / SAMPLES_FILE, [])
    )


def write_item_texts(study: Study, items: Mapping[str, ItemText]) -> None:
    write_listed_file(
        study.folder, ITEMS_FILE, json_bytes({name: asdict(text) for name, text in items.items()})
    )


def read_item_texts(study: Study) -> dict[str, ItemText]:
    """The texts there are."""
    path = study.folder / ITEMS_FILE
    return {name: _parse(ItemText, one, path) for name, one in _read_or_default(path, {}).items()}


def _read_or_default(path: Path, nothing: Any) -> Any:
    content = read_json(path, _REMEDY) if path.exists() else nothing
    if not isinstance(content, type(nothing)):
        raise RecordError(f"{path} holds a {type(content).__name__}; {_REMEDY}")
    return content


def _parse(kind: Any, table: Any, path: Path) -> Any:
    try:
        result = kind(**_with_present_names(table))
        odd = [name for name, value in asdict(result).items() if not _is_text(value)]
        if odd:
            raise TypeError(f"{odd[0]} is not text")
        return result
    except (TypeError, AttributeError) as fault:
        raise RecordError(f"{path} cannot be read: {fault}; {_REMEDY}") from fault


def _with_present_names(table: dict[str, Any]) -> dict[str, Any]:
    return {_OLDER_NAMES.get(name, name): value for name, value in table.items()}


def _is_text(value: Any) -> bool:
    """Text, or texts by their names."""
    if isinstance(value, dict):
        return all(map(_is_text, value.values()))
    return isinstance(value, str)

"""What a study keeps for its report beside its rows: samples of each arm, and the texts of some items.

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
from paribus.record.checksums import write_listed
from paribus.record.disk import as_json, read_json
from paribus.record.file_names import ITEMS_FILE, SAMPLES_FILE
from paribus.record.study import Study

_REMEDY = "remove it, and `paribus run` writes it again"


@dataclass(frozen=True)
class Sample:
    """One prompt continued by every arm; an arm that cannot says why in `refused`."""

    prompt: str
    said: Mapping[str, str]
    refused: Mapping[str, str]


@dataclass(frozen=True)
class ItemText:
    """What an item asked."""

    context: str
    target: str


def write_samples(study: Study, samples: Sequence[Sample]) -> None:
    write_listed(study.folder, SAMPLES_FILE, as_json([asdict(sample) for sample in samples]))


def samples_of(study: Study) -> tuple[Sample, ...]:
    """The samples there are: none before the study is done."""
    return tuple(_of(Sample, one, study.folder / SAMPLES_FILE) for one in _read(study.folder / SAMPLES_FILE, []))


def write_items(study: Study, items: Mapping[str, ItemText]) -> None:
    write_listed(study.folder, ITEMS_FILE, as_json({name: asdict(text) for name, text in items.items()}))


def items_of(study: Study) -> dict[str, ItemText]:
    """The texts there are."""
    path = study.folder / ITEMS_FILE
    return {name: _of(ItemText, one, path) for name, one in _read(path, {}).items()}


def _read(path: Path, nothing: Any) -> Any:
    found = read_json(path, _REMEDY) if path.exists() else nothing
    if not isinstance(found, type(nothing)):
        raise RecordError(f"{path} holds a {type(found).__name__}; {_REMEDY}")
    return found


def _of(kind: Any, given: Any, path: Path) -> Any:
    try:
        made = kind(**given)
        odd = [name for name, value in asdict(made).items() if not _is_text(value)]
        if odd:
            raise TypeError(f"{odd[0]} is no text")
        return made
    except TypeError as fault:
        raise RecordError(f"{path} cannot be read: {fault}; {_REMEDY}") from fault


def _is_text(value: Any) -> bool:
    """Text, or texts by their names."""
    return all(map(_is_text, value.values())) if isinstance(value, dict) else isinstance(value, str)

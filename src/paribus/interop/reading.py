"""From a Hugging Face folder to a model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from paribus.errors import RecordError, SpecError, UnsupportedError
from paribus.interop.config import Config, sorted_keys, undescribed
from paribus.interop.families import family_of
from paribus.interop.family import Family
from paribus.interop.names import Pair
from paribus.interop.shards import read_folder
from paribus.interop.tokenizer import copy_tokenizer
from paribus.interop.unread import notes_on, unread_keys
from paribus.model import Transformer, empty
from paribus.model.weights import check, fill, filled, read_json, whole
from paribus.spec import Architecture, read

CONFIG_FILE = "config.json"


class Imported(NamedTuple):
    """A model, and the keys of its config that the spec has no place for; hand both to `save` or `export`."""

    model: Transformer
    kept: dict[str, Any]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know: the keys that were passed over, and why."""
        return tuple(notes_on(self.kept))


def import_(folder: str | Path, dtype: torch.dtype = torch.float32, out: str | Path | None = None) -> Imported:
    """The model of a folder with config.json and safetensors, its weights in `dtype` whatever they are stored in.

    With `out`, a checkpoint is written there, with the tokenizer: `restore`, `generate_text`, `export` … take it.
    """
    imported = _read(Path(folder), dtype)
    if out is None:
        return imported
    with whole(out) as draft:
        fill(draft, imported.model, imported.kept)
        copy_tokenizer(Path(folder), draft)
    return imported


def _read(folder: Path, dtype: torch.dtype) -> Imported:
    config = read_json(folder / CONFIG_FILE)
    family = family_of(config, folder / CONFIG_FILE)
    unread = unread_keys(config, family.classname)
    read_keys = {name: value for name, value in config.items() if name not in unread}
    given, kept = sorted_keys(read_keys, family.tables, folder / CONFIG_FILE)
    problems = [*undescribed(given), *family.problems(given)]
    if problems:
        raise UnsupportedError(f"{folder / CONFIG_FILE} cannot be obeyed: {'; '.join(problems)}")
    tensors = canonical(read_folder(folder, family.classname), family, given, folder)
    tied = _tied(tensors, family, given)
    model = empty(architecture_of(family, given, tied, folder / CONFIG_FILE), device="meta", dtype=dtype)
    ours = translated(tensors, model, list(family.pairs(model.spec, given)), family, folder)
    return Imported(filled(model, ours, "cpu"), kept | unread)


def architecture_of(family: Family, given: Config, tied: bool, where: Path) -> Architecture:
    """The spec a config describes."""
    try:
        return read(family.architecture(given, tied))
    except SpecError as fault:
        raise RecordError(f"{where} describes no {family.title}: {fault}") from fault
    except UnsupportedError as fault:
        raise UnsupportedError(f"{where} cannot be obeyed: {fault}") from fault


def canonical(tensors: Mapping[str, Tensor], family: Family, given: Config, where: Path) -> dict[str, Tensor]:
    """Tensors by the names `pairs` knows: prefixed, unfused, without copies and without what is passed over."""
    bare = not any(name.startswith(family.prefix) for name in tensors)
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        inner = bare and not name.startswith(family.outer)
        for plain, part in family.spelled(family.prefix + name if inner else name, tensor):
            if plain in found:
                raise RecordError(f"{where}: {name} is another name of {plain}, which is there too; give one of them")
            found[plain] = part
    for pattern in family.passed_over(given):
        found = {name: tensor for name, tensor in found.items() if not re.fullmatch(pattern, name)}
    for name, stands_for in family.prevails.items():
        if name in found:
            found[stands_for] = found.pop(name)
    return _without_copies(found, family, where)


def _without_copies(found: dict[str, Tensor], family: Family, where: Path) -> dict[str, Tensor]:
    """A copy may stand alone, as the table it is a copy of; beside it, it must equal it."""
    for name, source in family.copies.items():
        copy = found.pop(name, None)
        if copy is not None and not _equal(found.setdefault(source, copy), copy):
            raise RecordError(
                f"{where}: {name} differs from {source}, but both stacks here read one table; give equal ones"
            )
    return found


def _tied(tensors: dict[str, Tensor], family: Family, given: Config) -> bool:
    """Read off the weights: a head without a table of its own, or with an equal one, is tied.

    The config is asked only where the table is missing: one that says the head has a table has lost it.
    """
    head, words = tensors.get(family.head), tensors.get(family.embedding)
    if head is None:
        return family.always_tied or given["tie_word_embeddings"]
    if words is None:
        # Older files may hold a tied table under the head's name alone.
        if given["tie_word_embeddings"] is not False:
            tensors[family.embedding] = tensors.pop(family.head)
            return True
        return False
    if _equal(head, words):
        del tensors[family.head]
        return True
    return False


def _equal(left: Tensor, right: Tensor) -> bool:
    return left.dtype == right.dtype and torch.equal(left, right)


def translated(
    tensors: dict[str, Tensor], model: Transformer, pairs: list[Pair], family: Family, where: Path
) -> dict[str, Tensor]:
    """Their tensors as ours, for a model of shapes alone; RecordError names every one that is missing or misshapen."""
    places = model.state_dict()
    expected = {
        name: tuple(tensor.shape)
        for pair in pairs
        for name, tensor in zip(pair.theirs, pair.write([places[ours] for ours in pair.ours]), strict=True)
    }
    for name in family.zero_if_missing - tensors.keys():
        tensors[name] = torch.zeros(expected[name])
    check(tensors, expected, where)
    ours: dict[str, Tensor] = {}
    for pair in pairs:
        ours |= zip(pair.ours, pair.read([tensors.pop(name) for name in pair.theirs]), strict=True)
    return ours

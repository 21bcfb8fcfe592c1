"""From a Hugging Face folder to a model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from paribus.errors import RecordError, SpecError, UnsupportedError
from paribus.interop.config_keys import Config, content_problems, split_config
from paribus.interop.family import ModelFamily
from paribus.interop.ignored_keys import ignored_key_notes, ignored_keys
from paribus.interop.recorded_objective import (
    choose_objective,
    require_askable,
    write_objective,
)
from paribus.interop.registry import find_family
from paribus.interop.safetensors_folder import read_safetensors_folder
from paribus.interop.tensor_pairs import TensorPair
from paribus.interop.tokenizer import copy_tokenizer
from paribus.model import Transformer, build_empty
from paribus.model.weights import (
    atomic_folder,
    fill_weights,
    read_json,
    require_tensors,
    write_checkpoint,
)
from paribus.spec import Architecture, parse_architecture

CONFIG_FILE = "config.json"


class ImportedModel(NamedTuple):
    """A model, and the keys of its config that the spec has no place for; hand both to `save`
    or `export`.
    """

    model: Transformer
    extra_config: dict[str, Any]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know: the keys that were passed over, and why."""
        return tuple(ignored_key_notes(self.extra_config))


def import_(
    folder: str | Path,
    dtype: torch.dtype = torch.float32,
    out: str | Path | None = None,
    objective: str | None = None,
) -> ImportedModel:
    """The model of a folder with config.json and safetensors, its weights in `dtype` whatever
    they are stored in.

    With `out`, a checkpoint is written there, with the tokenizer: `restore`, `generate_text`,
    `export` … take it. It records what the model was trained to predict: the objective of this
    kind, by default that of its family.
    """
    if objective is not None and out is None:
        raise SpecError(
            f"objective is {objective!r} without out, but only a checkpoint records it; give out"
        )
    config = read_json(Path(folder) / CONFIG_FILE)
    family = find_family(config, Path(folder) / CONFIG_FILE)
    chosen = choose_objective(family, objective, Path(folder))
    result = _read_model(Path(folder), config, family, dtype)
    if out is None:
        return result
    require_askable(chosen, result.model.spec)
    with atomic_folder(out) as draft:
        write_checkpoint(draft, result.model, result.extra_config)
        copy_tokenizer(Path(folder), draft)
        write_objective(draft, chosen)
    return result


def _read_model(
    folder: Path, config: dict[str, Any], family: ModelFamily, dtype: torch.dtype
) -> ImportedModel:
    ignored_config = ignored_keys(config, family.class_name)
    read_keys = {name: value for name, value in config.items() if name not in ignored_config}
    filled_config, extra_config = split_config(read_keys, family.config_keys, folder / CONFIG_FILE)
    problems = [*content_problems(filled_config), *family.problems(filled_config)]
    if problems:
        raise UnsupportedError(f"{folder / CONFIG_FILE} cannot be imported: {'; '.join(problems)}")
    tensors = canonical_tensors(
        read_safetensors_folder(folder, family.class_name), family, filled_config, folder
    )
    tied = _detect_tied_head(tensors, family, filled_config)
    model = build_empty(
        architecture_from_config(family, filled_config, tied, folder / CONFIG_FILE),
        device="meta",
        dtype=dtype,
    )
    ours = convert_tensors(
        tensors, model, list(family.tensor_pairs(model.spec, filled_config)), family, folder
    )
    return ImportedModel(fill_weights(model, ours, "cpu"), extra_config | ignored_config)


def architecture_from_config(
    family: ModelFamily, config: Config, tied: bool, where: Path
) -> Architecture:
    """The spec a config describes."""
    try:
        return parse_architecture(family.architecture(config, tied))
    except SpecError as fault:
        raise RecordError(f"{where} does not describe a {family.title} model: {fault}") from fault
    except UnsupportedError as fault:
        raise UnsupportedError(f"{where} cannot be imported: {fault}") from fault


def canonical_tensors(
    tensors: Mapping[str, Tensor], family: ModelFamily, config: Config, where: Path
) -> dict[str, Tensor]:
    """Tensors by the names that `tensor_pairs` of the family knows: prefixed, unfused, without
    copies and without what is passed over.
    """
    bare = not any(name.startswith(family.prefix) for name in tensors)
    tensors_by_name: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        inner = bare and not name.startswith(family.outside_prefix)
        for plain, part in family.canonical_names(family.prefix + name if inner else name, tensor):
            if plain in tensors_by_name:
                raise RecordError(
                    f"{where}: {name} is another name of {plain}, which is there too; give one of"
                    " them"
                )
            tensors_by_name[plain] = part
    for pattern in family.ignored_tensors(config):
        tensors_by_name = {
            name: tensor
            for name, tensor in tensors_by_name.items()
            if not re.fullmatch(pattern, name)
        }
    for name, stands_for in family.overrides.items():
        if name in tensors_by_name:
            tensors_by_name[stands_for] = tensors_by_name.pop(name)
    return _without_copies(tensors_by_name, family, where)


def _without_copies(
    tensors: dict[str, Tensor], family: ModelFamily, where: Path
) -> dict[str, Tensor]:
    """A copy may stand alone, as the table it is a copy of; beside it, it must equal it."""
    for name, source in family.copies.items():
        copy = tensors.pop(name, None)
        if copy is not None and not _equal(tensors.setdefault(source, copy), copy):
            raise RecordError(
                f"{where}: {name} differs from {source}, but both stacks here read one table; give"
                " equal ones"
            )
    return tensors


def _detect_tied_head(tensors: dict[str, Tensor], family: ModelFamily, config: Config) -> bool:
    """Read off the weights: a head without a table of its own, or with an equal one, is tied.

    The config is asked only where the table is missing: one that says the head has a table has lost
    it.
    """
    head, words = tensors.get(family.head), tensors.get(family.embedding)
    if head is None:
        return family.always_tied or config["tie_word_embeddings"]
    if words is None:
        # Older files may hold a tied table under the head's name alone.
        if config["tie_word_embeddings"] is not False:
            tensors[family.embedding] = tensors.pop(family.head)
            return True
        return False
    if _equal(head, words):
        del tensors[family.head]
        return True
    return False


def _equal(left: Tensor, right: Tensor) -> bool:
    return left.dtype == right.dtype and torch.equal(left, right)


def convert_tensors(
    tensors: dict[str, Tensor],
    model: Transformer,
    pairs: list[TensorPair],
    family: ModelFamily,
    where: Path,
) -> dict[str, Tensor]:
    """Their tensors as ours, for a model of shapes alone; RecordError names every one that is
    missing or misshapen.
    """
    places = model.state_dict()
    expected = {
        name: tuple(tensor.shape)
        for pair in pairs
        for name, tensor in zip(
            pair.theirs, pair.write([places[ours] for ours in pair.ours]), strict=True
        )
    }
    for name in family.zero_if_missing - tensors.keys():
        tensors[name] = torch.zeros(expected[name])
    require_tensors(tensors, expected, where)
    ours: dict[str, Tensor] = {}
    for pair in pairs:
        ours |= zip(pair.ours, pair.read([tensors.pop(name) for name in pair.theirs]), strict=True)
    return ours

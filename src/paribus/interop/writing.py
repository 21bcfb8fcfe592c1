"""From a model to a folder that transformers loads."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from paribus.corpus import Tokenizer
from paribus.corpus.built import vocabulary_of
from paribus.errors import SpecError
from paribus.interop.choice import chosen
from paribus.interop.config import COMMON
from paribus.interop.family import Family
from paribus.interop.loaded import Loaded, load_checkpoint
from paribus.interop.reading import CONFIG_FILE
from paribus.interop.shards import TENSORS_FILE
from paribus.interop.tokenizer import copy_tokenizer, token_ids, write_tokenizer
from paribus.model import Transformer
from paribus.model.weights import whole, write_json, write_tensors
from paribus.record import RUNS

# A config that leaves these out would get the published model's, which mean nothing in another vocabulary.
TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")
DECODER_TOKENS = ("decoder_start_token_id", "forced_eos_token_id")


def export(
    model: Transformer | str | Path,
    folder: str | Path,
    kept: Mapping[str, Any] | None = None,
    tokenizer: Tokenizer | None = None,
    runs: str | Path = RUNS,
) -> None:
    """Write config.json and model.safetensors into a new or empty folder, for `AutoModelFor….from_pretrained`.

    A run, named or by its folder, or a checkpoint may stand for the model: its tokenizer and origin go along. `kept`
    is what `import_` kept of a config, or `origin` found in a checkpoint; what the spec says prevails over it.
    UnsupportedError where transformers has no class with the same mask and wiring. Of the spec, only what no logit
    depends on is left behind: start, dropout, balance loss and the rate of a selection bias. A tokenizer is written
    beside, for `AutoTokenizer`, and config.json then names our signs.
    """
    if isinstance(model, Transformer):
        _write(model, folder, kept, tokenizer, None)
        return
    if kept is not None or tokenizer is not None:
        raise SpecError(f"kept or tokenizer is given beside {model}, which has its own; leave them out")
    loaded = load_checkpoint(model, runs)
    for note in loaded.notes:
        warnings.warn(note, stacklevel=2)
    export_loaded(loaded, loaded.restore(), folder)


def export_loaded(loaded: Loaded, model: Transformer, folder: str | Path) -> None:
    """Write a checkpoint with its tokenizer: ours with our special tokens, an imported one as it came."""
    imported = loaded.origin is not None
    source = loaded.tokenizer_file.parent if imported and loaded.tokenizer_file else None
    tokenizer = loaded.tokenizer if loaded.tokenizer_file and not imported else None
    _write(model, folder, loaded.origin, tokenizer, source)


def _write(
    model: Transformer,
    folder: str | Path,
    kept: Mapping[str, Any] | None,
    tokenizer: Tokenizer | None,
    source: Path | None,
) -> None:
    """The folder, with a tokenizer of ours or the files of an imported one in `source`."""
    family, config, given = chosen(model.spec)
    if tokenizer is not None:
        kept = {**(kept or {}), **token_ids(vocabulary_of(tokenizer), model.spec)}
    with whole(folder) as draft:
        if tokenizer is not None:
            write_tokenizer(draft, tokenizer, model.spec.max_length)
        if source is not None:
            copy_tokenizer(source, draft)
        write_json(draft / CONFIG_FILE, {**_kept(family, model, kept or {}), **config, **_class(family, model)})
        write_tensors(draft / TENSORS_FILE, _tensors(family, model, given))


def _kept(family: Family, model: Transformer, kept: Mapping[str, Any]) -> dict[str, Any]:
    """The kept keys this family knows too, over the absence of special tokens."""
    tokens = TOKENS if model.spec.encoder is None else TOKENS + DECODER_TOKENS
    known = COMMON.kept | family.tables.kept
    return {**dict.fromkeys(tokens), **{name: value for name, value in kept.items() if name in known}}


def _class(family: Family, model: Transformer) -> dict[str, Any]:
    dtype = str(model.embedding.weight.dtype).removeprefix("torch.")
    return {"architectures": [family.classname], "dtype": dtype}


def _tensors(family: Family, model: Transformer, given: Mapping[str, Any]) -> dict[str, Tensor]:
    ours = model.state_dict()
    tensors: dict[str, Tensor] = {}
    for pair in family.pairs(model.spec, given):
        tensors |= zip(pair.theirs, pair.write([ours[name] for name in pair.ours]), strict=True)
    if not model.spec.head.tied:
        tensors |= {name: tensors[source].clone() for name, source in family.written_untied.items()}
    return tensors

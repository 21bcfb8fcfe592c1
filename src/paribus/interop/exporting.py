"""From a model to a folder that transformers loads."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from paribus.corpus import Tokenizer
from paribus.corpus.dataset import vocabulary_of
from paribus.errors import SpecError
from paribus.interop.config_keys import COMMON_KEYS
from paribus.interop.family import ModelFamily
from paribus.interop.family_choice import choose_family
from paribus.interop.importing import CONFIG_FILE
from paribus.interop.loaded_checkpoint import LoadedCheckpoint, load_checkpoint
from paribus.interop.safetensors_folder import TENSORS_FILE
from paribus.interop.tokenizer import (
    add_special_tokens,
    copy_tokenizer,
    special_token_ids,
    write_chat_template,
    write_tokenizer,
)
from paribus.model import Transformer
from paribus.model.weights import atomic_folder, write_json, write_tensors
from paribus.record import RUNS

# A config that leaves these out would get the published model's, which mean nothing in another
# vocabulary.
TOKEN_ID_KEYS = ("bos_token_id", "eos_token_id", "pad_token_id")
DECODER_TOKEN_ID_KEYS = ("decoder_start_token_id", "forced_eos_token_id")


def export(
    model: Transformer | str | Path,
    folder: str | Path,
    extra_config: Mapping[str, Any] | None = None,
    tokenizer: Tokenizer | None = None,
    runs: str | Path = RUNS,
) -> None:
    """Write config.json and model.safetensors into a new or empty folder, for
    `AutoModelFor….from_pretrained`.

    A run, named or by its folder, or a checkpoint may stand for the model: its tokenizer and origin
    go along. `extra_config` is what `import_` kept of a config, or `origin` of a checkpoint; what
    the spec says prevails over it. UnsupportedError where transformers has no class with the same
    mask and wiring. Of the spec, only what no logit depends on is left behind: init, dropout,
    balance loss and the rate of a selection bias. A tokenizer is written beside, for
    `AutoTokenizer`, and config.json then names our special tokens. A model that was trained on
    conversations takes its chat template along.
    """
    if isinstance(model, Transformer):
        with _folder_draft(model, folder, extra_config, tokenizer):
            pass
        return
    if extra_config is not None or tokenizer is not None:
        raise SpecError(
            f"extra_config or tokenizer is given beside {model}, which has its own; leave them out"
        )
    checkpoint = load_checkpoint(model, runs)
    for note in checkpoint.notes:
        warnings.warn(note, stacklevel=2)
    export_checkpoint(checkpoint, checkpoint.restore(), folder)


def export_checkpoint(checkpoint: LoadedCheckpoint, model: Transformer, folder: str | Path) -> None:
    """Write a checkpoint with its tokenizer: ours with our special tokens, an imported one as
    it came.
    """
    is_imported = checkpoint.origin is not None
    if is_imported and checkpoint.tokenizer_file:
        source = checkpoint.tokenizer_file.parent
    else:
        source = None
    if checkpoint.tokenizer_file and not is_imported:
        tokenizer = checkpoint.tokenizer
    else:
        tokenizer = None
    with _folder_draft(model, folder, checkpoint.origin, tokenizer) as draft:
        vocabulary = checkpoint.vocabulary if checkpoint.tokenizer_file else None
        if source is not None:
            copy_tokenizer(source, draft)
            if vocabulary is not None:
                add_special_tokens(draft, vocabulary)
        if checkpoint.chat_template is not None and vocabulary is not None:
            write_chat_template(draft, checkpoint.chat_template, vocabulary, model.spec)


@contextmanager
def _folder_draft(
    model: Transformer,
    folder: str | Path,
    extra_config: Mapping[str, Any] | None,
    tokenizer: Tokenizer | None,
) -> Iterator[Path]:
    """The folder with config, weights and a tokenizer of ours, to which more may be written."""
    family, config, filled_config = choose_family(model.spec)
    if tokenizer is not None:
        extra_config = {
            **(extra_config or {}),
            **special_token_ids(vocabulary_of(tokenizer), model.spec),
        }
    with atomic_folder(folder) as draft:
        if tokenizer is not None:
            write_tokenizer(draft, tokenizer, model.spec.max_length)
        write_json(
            draft / CONFIG_FILE,
            {
                **_known_extra_keys(family, model, extra_config or {}),
                **config,
                **_class_keys(family, model),
            },
        )
        write_tensors(draft / TENSORS_FILE, _transformers_tensors(family, model, filled_config))
        yield draft


def _known_extra_keys(
    family: ModelFamily, model: Transformer, extra_config: Mapping[str, Any]
) -> dict[str, Any]:
    """The kept keys this family knows too, over the absence of special tokens."""
    if model.spec.encoder is None:
        tokens = TOKEN_ID_KEYS
    else:
        tokens = TOKEN_ID_KEYS + DECODER_TOKEN_ID_KEYS
    known_keys = COMMON_KEYS.extra | family.config_keys.extra
    return {
        **dict.fromkeys(tokens),
        **{name: value for name, value in extra_config.items() if name in known_keys},
    }


def _class_keys(family: ModelFamily, model: Transformer) -> dict[str, Any]:
    dtype = str(model.embedding.weight.dtype).removeprefix("torch.")
    return {"architectures": [family.class_name], "dtype": dtype}


def _transformers_tensors(
    family: ModelFamily, model: Transformer, config: Mapping[str, Any]
) -> dict[str, Tensor]:
    ours = model.state_dict()
    tensors: dict[str, Tensor] = {}
    for pair in family.tensor_pairs(model.spec, config):
        tensors |= zip(pair.theirs, pair.write([ours[name] for name in pair.ours]), strict=True)
    if not model.spec.head.tied:
        tensors |= {
            name: tensors[source].clone() for name, source in family.copies_if_untied.items()
        }
    return tensors

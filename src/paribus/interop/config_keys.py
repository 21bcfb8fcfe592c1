"""Every key of a config.json in one of three tables; a key in none is refused by name.

*modelled*: changes the logits or says what the files hold; read into the spec, and written anew
at export.
*extra*: training, generation or bookkeeping; carried through to export as it came.
*unsupported*: would change the logits in a way we do not model; let through only at the values
that mean nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paribus.errors import RecordError, UnsupportedError, describe_first
from paribus.nearest import nearest
from paribus.spec.architecture import Activation

Config = Mapping[str, Any]

REQUIRED = "required"
TYPE_DESCRIPTIONS: dict[type, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    dict: "a table",
    list: "a list",
}


@dataclass(frozen=True)
class ModelledKey:
    """What a key holds, and what transformers takes where it is absent.

    `nullable` only where null and absence mean the same to transformers: often a key that is
    written as null takes the place of what its class had derived.
    """

    kind: type
    default: Any = REQUIRED
    nullable: bool = False


@dataclass(frozen=True)
class UnsupportedKey:
    """A key that may stand only at values that change nothing, and why."""

    allowed_values: tuple[Any, ...]
    reason: str


@dataclass(frozen=True)
class ConfigKeys:
    """The three tables of a family; those common to all families are added to them."""

    modelled: Mapping[str, ModelledKey]
    extra: frozenset[str]
    unsupported: Mapping[str, UnsupportedKey]


BOOKKEEPING = (
    "transformers_version",
    "_name_or_path",
    "name_or_path",
    "_commit_hash",
    "attn_implementation",
    "_attn_implementation_autoset",
    "tokenizer_class",
    "use_cache",
    "return_dict",
    "output_hidden_states",
    "output_attentions",
    "output_past",
    "torchscript",
    "use_bfloat16",
    "tf_legacy_loss",
    "chunk_size_feed_forward",
    "gradient_checkpointing",
    "tie_last_hidden_states",
    "initializer_range",
)
SPECIAL_TOKEN_IDS = (
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "sep_token_id",
    "cls_token_id",
    "mask_token_id",
    "unk_token_id",
    "decoder_start_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
)
GENERATION = (
    "max_length",
    "min_length",
    "do_sample",
    "early_stopping",
    "num_beams",
    "num_beam_groups",
    "diversity_penalty",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    "repetition_penalty",
    "length_penalty",
    "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size",
    "bad_words_ids",
    "num_return_sequences",
    "output_scores",
    "prefix",
    "return_dict_in_generate",
    "remove_invalid_values",
    "exponential_decay_length_penalty",
    "suppress_tokens",
    "begin_suppress_tokens",
    "task_specific_params",
)
CLASSIFICATION = (
    "finetuning_task",
    "id2label",
    "label2id",
    "num_labels",
    "problem_type",
    "classifier_dropout",
)

COMMON_KEYS = ConfigKeys(
    modelled={
        "model_type": ModelledKey(str),
        "architectures": ModelledKey(list, None, nullable=True),
        "dtype": ModelledKey(str, None, nullable=True),
        "torch_dtype": ModelledKey(str, None, nullable=True),
        "vocab_size": ModelledKey(int),
    },
    extra=frozenset({*BOOKKEEPING, *SPECIAL_TOKEN_IDS, *GENERATION, *CLASSIFICATION}),
    unsupported={
        "auto_map": UnsupportedKey(
            (None, {}), "it names code of the checkpoint's own, and no remote code is run"
        ),
        "rope_interleaved": UnsupportedKey(
            (None, False), "rotary channels in pairs of neighbours are not modelled"
        ),
        "quantization_config": UnsupportedKey((None,), "quantised weights are not read"),
        "per_layer_config": UnsupportedKey(
            (None, {}), "layers that differ in size are not modelled"
        ),
        "pruned_heads": UnsupportedKey((None, {}), "layers with fewer heads are not modelled"),
        "tie_encoder_decoder": UnsupportedKey(
            (None, False), "encoder and decoder read here never share weights"
        ),
        "is_encoder_decoder": UnsupportedKey((None, False), "its class has no encoder"),
        "is_decoder": UnsupportedKey(
            (None, False), "a stack made to serve as another's decoder is not modelled"
        ),
        "add_cross_attention": UnsupportedKey(
            (None, False), "cross-attention without an encoder is not modelled"
        ),
        "cross_attention_hidden_size": UnsupportedKey(
            (None,), "a source of another width is not modelled"
        ),
    },
)

CLASS_ENDINGS = (
    "Model",
    "ForCausalLM",
    "ForMaskedLM",
    "ForPreTraining",
    "ForConditionalGeneration",
)  # endings of a class
STORED_DTYPES = ("float64", "float32", "float16", "bfloat16")


def content_problems(config: Config) -> Iterator[str]:
    """What a config says its files hold, where that is not a language model's floats."""
    names = config["architectures"] or []
    if names and not any(isinstance(name, str) and name.endswith(CLASS_ENDINGS) for name in names):
        yield (
            f"architectures is {_as_json(names)}, no class with a language-model head; use a base"
            " or language model"
        )
    for key in ("dtype", "torch_dtype"):
        if config[key] is not None and str(config[key]).removeprefix("torch.") not in STORED_DTYPES:
            yield (
                f"{key} is {_as_json(config[key])}, which we do not read; use"
                f" {', '.join(STORED_DTYPES)}"
            )


ALWAYS_ENCODER_DECODER = UnsupportedKey((True,), "its class always has an encoder")

# transformers' names of an activation; the first is the one we write.
ACTIVATIONS: dict[Activation, tuple[str, ...]] = {
    "relu": ("relu",),
    "gelu": ("gelu", "gelu_python"),
    "gelu_tanh": ("gelu_new", "gelu_pytorch_tanh", "gelu_fast"),
    "silu": ("silu", "swish"),
}


def split_config(
    config: Config, own: ConfigKeys, where: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The obeyed keys with every default filled in, and the kept ones; everything refused is
    said at once.
    """
    modelled_keys = {**COMMON_KEYS.modelled, **own.modelled}
    extra_keys = (COMMON_KEYS.extra | own.extra) - modelled_keys.keys()
    unsupported = {
        name: why
        for name, why in {**COMMON_KEYS.unsupported, **own.unsupported}.items()
        if name not in modelled_keys
    }
    faults = list(_unsupported_keys(config, [*modelled_keys, *extra_keys], unsupported))
    if faults:
        raise UnsupportedError(f"{where} cannot be imported: {'; '.join(faults)}")
    values = {name: _config_value(name, key, config, where) for name, key in modelled_keys.items()}
    return values, {name: value for name, value in config.items() if name in extra_keys}


def _unsupported_keys(
    config: Config, known_keys: list[str], unsupported: Mapping[str, UnsupportedKey]
) -> Iterator[str]:
    for name, value in config.items():
        if name in unsupported and not any(
            _equal_values(value, harmless) for harmless in unsupported[name].allowed_values
        ):
            use = " or ".join(map(_as_json, unsupported[name].allowed_values))
            yield f"{name} is {_as_json(value)}, but {unsupported[name].reason}; use {use}"
    names = {*known_keys, *unsupported}

    def say(name: str) -> str:
        near = nearest(name, [*known_keys, *unsupported])
        advice = f"did you mean {near}? " if near else ""
        return (
            f"{name} is {_as_json(config[name])}, a key we do not know; {advice}take it out if it"
            " changes nothing"
        )

    yield from describe_first(
        [name for name in config if name not in names], say, "keys that we do not know"
    )


def _config_value(name: str, key: ModelledKey, config: Config, where: Path) -> Any:
    if name not in config:
        if key.default is REQUIRED:
            raise RecordError(f"{where} has no {name}; give {TYPE_DESCRIPTIONS[key.kind]}")
        return key.default
    value = config[name]
    if value is None and key.nullable:
        return None
    if isinstance(value, bool) == (key.kind is bool):
        if key.kind is float and isinstance(value, int | float):
            return as_float(value)
        if isinstance(value, key.kind):
            return value
    raise RecordError(f"{where}: {name} is {_as_json(value)}; give {TYPE_DESCRIPTIONS[key.kind]}")


def as_float(value: float) -> float:
    """A number of JSON as a float; a whole number beyond every float is infinite, which no spec
    accepts.
    """
    try:
        return float(value)
    except OverflowError:
        return math.inf


def activation_of(name: str, config: Config, key: str) -> Activation:
    """Our activation by transformers' name for it."""
    for ours, theirs in ACTIVATIONS.items():
        if name in theirs:
            return ours
    names = ", ".join(word for words in ACTIVATIONS.values() for word in words)
    raise UnsupportedError(f"{key} is {config[key]!r}, which we do not model; use one of {names}")


def transformers_activation(activation: Activation) -> str:
    """transformers' name of an activation."""
    return ACTIVATIONS[activation][0]


def _equal_values(left: Any, right: Any) -> bool:
    """Equal and of one kind: 0 is not false."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _as_json(value: Any) -> str:
    """A value as JSON writes it."""
    return json.dumps(value, ensure_ascii=False)

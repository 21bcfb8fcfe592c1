"""Every key of a config.json in one of three tables; a key in none is refused by name.

*obeyed*: changes the logits or says what the files hold; read into the spec, and written anew at export.
*kept*: training, generation or bookkeeping; carried through to export as it came.
*refused*: would change the logits in a way we do not model; let through only at the values that mean nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paribus.errors import RecordError, UnsupportedError, name_few
from paribus.nearest import nearest
from paribus.spec.architecture import Activation

Config = Mapping[str, Any]

REQUIRED = "required"
KINDS: dict[type, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    dict: "a table",
    list: "a list",
}


@dataclass(frozen=True)
class Obeyed:
    """What a key holds, and what transformers takes where it is absent.

    `nullable` only where null and absence mean the same to transformers: often a key that is written as null takes the
    place of what its class had derived.
    """

    kind: type
    default: Any = REQUIRED
    nullable: bool = False


@dataclass(frozen=True)
class Refused:
    """A key that may stand only at values that change nothing, and why."""

    harmless: tuple[Any, ...]
    reason: str


@dataclass(frozen=True)
class Tables:
    """The three tables of a family; those common to all families are added to them."""

    obeyed: Mapping[str, Obeyed]
    kept: frozenset[str]
    refused: Mapping[str, Refused]


BOOKKEEPING = (
    "transformers_version", "_name_or_path", "name_or_path", "_commit_hash", "attn_implementation",
    "_attn_implementation_autoset", "tokenizer_class", "use_cache", "return_dict", "output_hidden_states",
    "output_attentions", "output_past", "torchscript", "use_bfloat16", "tf_legacy_loss", "chunk_size_feed_forward",
    "gradient_checkpointing", "tie_last_hidden_states", "initializer_range",
)  # fmt: skip
TOKENS = (
    "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "cls_token_id", "mask_token_id", "unk_token_id",
    "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id",
)  # fmt: skip
GENERATION = (
    "max_length", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups", "diversity_penalty",
    "temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences", "output_scores", "prefix",
    "return_dict_in_generate", "remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens",
    "begin_suppress_tokens", "task_specific_params",
)  # fmt: skip
LABELS = (
    "finetuning_task", "id2label", "label2id", "num_labels", "problem_type", "classifier_dropout",
)  # fmt: skip

COMMON = Tables(
    obeyed={
        "model_type": Obeyed(str),
        "architectures": Obeyed(list, None, nullable=True),
        "dtype": Obeyed(str, None, nullable=True),
        "torch_dtype": Obeyed(str, None, nullable=True),
        "vocab_size": Obeyed(int),
    },
    kept=frozenset({*BOOKKEEPING, *TOKENS, *GENERATION, *LABELS}),
    refused={
        "auto_map": Refused((None, {}), "it names code of the checkpoint's own, and no remote code is run"),
        "rope_interleaved": Refused((None, False), "rotary channels in pairs of neighbours are not modelled"),
        "quantization_config": Refused((None,), "quantised weights are not read"),
        "per_layer_config": Refused((None, {}), "layers that differ in size are not modelled"),
        "pruned_heads": Refused((None, {}), "layers with fewer heads are not modelled"),
        "tie_encoder_decoder": Refused((None, False), "encoder and decoder read here never share weights"),
        "is_encoder_decoder": Refused((None, False), "its class has no encoder"),
        "is_decoder": Refused((None, False), "a stack made to serve as another's decoder is not modelled"),
        "add_cross_attention": Refused((None, False), "cross-attention without an encoder is not modelled"),
        "cross_attention_hidden_size": Refused((None,), "a source of another width is not modelled"),
    },
)

SPEAKING = ("Model", "ForCausalLM", "ForMaskedLM", "ForPreTraining", "ForConditionalGeneration")  # endings of a class
STORED = ("float64", "float32", "float16", "bfloat16")


def undescribed(given: Config) -> Iterator[str]:
    """What a config says its files hold, where that is not a language model's floats."""
    names = given["architectures"] or []
    if names and not any(isinstance(name, str) and name.endswith(SPEAKING) for name in names):
        yield f"architectures is {_written(names)}, no class with a language-model head; use a base or language model"
    for key in ("dtype", "torch_dtype"):
        if given[key] is not None and str(given[key]).removeprefix("torch.") not in STORED:
            yield f"{key} is {_written(given[key])}, which we do not read; use {', '.join(STORED)}"


ENCODES = Refused((True,), "its class always has an encoder")

# transformers' names of an activation; the first is the one we write.
ACTIVATIONS: dict[Activation, tuple[str, ...]] = {
    "relu": ("relu",),
    "gelu": ("gelu", "gelu_python"),
    "gelu_tanh": ("gelu_new", "gelu_pytorch_tanh", "gelu_fast"),
    "silu": ("silu", "swish"),
}


def sorted_keys(config: Config, own: Tables, where: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The obeyed keys with every default filled in, and the kept ones; everything refused is said at once."""
    obeyed = {**COMMON.obeyed, **own.obeyed}
    kept = (COMMON.kept | own.kept) - obeyed.keys()
    refused = {name: why for name, why in {**COMMON.refused, **own.refused}.items() if name not in obeyed}
    faults = list(_refusals(config, [*obeyed, *kept], refused))
    if faults:
        raise UnsupportedError(f"{where} cannot be obeyed: {'; '.join(faults)}")
    given = {name: _given(name, key, config, where) for name, key in obeyed.items()}
    return given, {name: value for name, value in config.items() if name in kept}


def _refusals(config: Config, known: list[str], refused: Mapping[str, Refused]) -> Iterator[str]:
    for name, value in config.items():
        if name in refused and not any(_same(value, harmless) for harmless in refused[name].harmless):
            use = " or ".join(map(_written, refused[name].harmless))
            yield f"{name} is {_written(value)}, but {refused[name].reason}; use {use}"
    names = {*known, *refused}

    def say(name: str) -> str:
        near = nearest(name, [*known, *refused])
        advice = f"did you mean {near}? " if near else ""
        return f"{name} is {_written(config[name])}, a key we do not know; {advice}take it out if it changes nothing"

    yield from name_few([name for name in config if name not in names], say, "keys that we do not know")


def _given(name: str, key: Obeyed, config: Config, where: Path) -> Any:
    if name not in config:
        if key.default is REQUIRED:
            raise RecordError(f"{where} has no {name}; give {KINDS[key.kind]}")
        return key.default
    value = config[name]
    if value is None and key.nullable:
        return None
    if isinstance(value, bool) == (key.kind is bool):
        if key.kind is float and isinstance(value, int | float):
            return as_float(value)
        if isinstance(value, key.kind):
            return value
    raise RecordError(f"{where}: {name} is {_written(value)}; give {KINDS[key.kind]}")


def as_float(value: float) -> float:
    """A number of JSON as a float; a whole number beyond every float is infinite, which no spec accepts."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def activation_of(name: str, given: Config, key: str) -> Activation:
    """Our activation by transformers' name for it."""
    for ours, theirs in ACTIVATIONS.items():
        if name in theirs:
            return ours
    known = ", ".join(word for words in ACTIVATIONS.values() for word in words)
    raise UnsupportedError(f"{key} is {given[key]!r}, which we do not model; use one of {known}")


def theirs(activation: Activation) -> str:
    """transformers' name of an activation."""
    return ACTIVATIONS[activation][0]


def _same(left: Any, right: Any) -> bool:
    """Equal and of one kind: 0 is not false."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _written(value: Any) -> str:
    """A value as JSON writes it."""
    return json.dumps(value, ensure_ascii=False)

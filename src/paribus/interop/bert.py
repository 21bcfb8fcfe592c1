"""BERT: post-norm, every token sees every token, segments, a head with a layer of its own."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from paribus.interop.config_keys import (
    Config,
    ConfigKeys,
    ModelledKey,
    UnsupportedKey,
    activation_of,
    transformers_activation,
)
from paribus.interop.family import ModelFamily, NamedTensors, feed_forward_shape
from paribus.interop.tensor_pairs import TensorPairs, linear_pairs, same_tensor
from paribus.spec import ResolvedArchitecture


def _problems(config: Config) -> Iterator[str]:
    if config["type_vocab_size"] < 1:
        yield (
            f"type_vocab_size is {config['type_vocab_size']}, but BERT always adds a segment; use 1"
            " or more"
        )


def _architecture_from_config(config: Config, tied: bool) -> dict[str, Any]:
    """The table of a spec that a config of the family describes."""
    activation = activation_of(config["hidden_act"], config, "hidden_act")
    return {
        "n_vocab": config["vocab_size"],
        "max_length": config["max_position_embeddings"],
        "d_model": config["hidden_size"],
        "n_layers": config["num_hidden_layers"],
        "mask": "full",
        "placement": "post",
        "positions": "learned",
        "norm": {"kind": "layer", "eps": config["layer_norm_eps"]},
        "attention": {"kind": "multi_head", "n_heads": config["num_attention_heads"], "bias": True},
        "feed_forward": {
            "kind": "dense",
            "d_ff": config["intermediate_size"],
            "activation": activation,
            "bias": True,
        },
        "embedding": {"norm": True, "n_segments": config["type_vocab_size"]},
        "head": {"tied": tied, "bias": True, "transform": activation},
    }


def _config_from_architecture(spec: ResolvedArchitecture) -> dict[str, Any]:
    """The keys of a config that describe this architecture."""
    width, activation = feed_forward_shape(spec)
    return {
        "vocab_size": spec.n_vocab,
        "max_position_embeddings": spec.max_length,
        "hidden_size": spec.d_model,
        "num_hidden_layers": len(spec.stack.layers),
        "num_attention_heads": spec.stack.layers[0].attention.n_heads,
        "intermediate_size": width,
        "hidden_act": transformers_activation(activation),
        "layer_norm_eps": spec.norm.eps,
        "type_vocab_size": spec.embedding.n_segments,
        "tie_word_embeddings": spec.head.tied,
    }


def _tensor_pairs(spec: ResolvedArchitecture, config: Config) -> TensorPairs:
    """Each tensor of ours with the one of transformers that holds it."""
    yield same_tensor("embedding.weight", "bert.embeddings.word_embeddings.weight")
    yield same_tensor("segments.weight", "bert.embeddings.token_type_embeddings.weight")
    yield same_tensor("stack.positions.weight", "bert.embeddings.position_embeddings.weight")
    yield from linear_pairs("stack.embedding_norm", "bert.embeddings.LayerNorm", bias=True)
    for number in range(len(spec.stack.layers)):
        yield from _block(f"stack.layers.{number}", f"bert.encoder.layer.{number}")
    yield from linear_pairs("head.transform", "cls.predictions.transform.dense", bias=True)
    yield from linear_pairs("head.norm", "cls.predictions.transform.LayerNorm", bias=True)
    yield same_tensor("head.bias", "cls.predictions.bias")
    if not spec.head.tied:
        yield same_tensor("head.weight", "cls.predictions.decoder.weight")


def _block(ours: str, theirs: str) -> TensorPairs:
    for role in ("query", "key", "value"):
        yield from linear_pairs(
            f"{ours}.attention.{role}", f"{theirs}.attention.self.{role}", bias=True
        )
    yield from linear_pairs(
        f"{ours}.attention.output", f"{theirs}.attention.output.dense", bias=True
    )
    yield from linear_pairs(
        f"{ours}.attention_norm", f"{theirs}.attention.output.LayerNorm", bias=True
    )
    yield from linear_pairs(f"{ours}.feed_forward.up", f"{theirs}.intermediate.dense", bias=True)
    yield from linear_pairs(f"{ours}.feed_forward.down", f"{theirs}.output.dense", bias=True)
    yield from linear_pairs(f"{ours}.feed_forward_norm", f"{theirs}.output.LayerNorm", bias=True)


def _ignored_tensors(config: Config) -> tuple[str, ...]:
    """Counted positions, and what other heads than that of words read."""
    return (
        r"bert\.embeddings\.position_ids",
        r"bert\.pooler\.dense\.\w+",
        r"cls\.seq_relationship\.\w+",
    )


def _canonical_tensors(name: str, tensor: Tensor) -> NamedTensors:
    """Files converted from TensorFlow have gamma and beta."""
    return (
        (
            name.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
                "LayerNorm.beta", "LayerNorm.bias"
            ),
            tensor,
        ),
    )


# The bias that is added is the decoder's; a tied file holds it under the other name alone.
BIAS_COPIES = {"cls.predictions.decoder.bias": "cls.predictions.bias"}

EXTRA_KEYS = frozenset(
    {
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "directionality",
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
    }
)

BERT = ModelFamily(
    model_type="bert",
    title="BERT",
    class_name="BertForMaskedLM",
    objective="masked",
    config_keys=ConfigKeys(
        modelled={
            "hidden_size": ModelledKey(int),
            "num_hidden_layers": ModelledKey(int),
            "num_attention_heads": ModelledKey(int),
            "intermediate_size": ModelledKey(int),
            "max_position_embeddings": ModelledKey(int),
            "type_vocab_size": ModelledKey(int, 2),
            "hidden_act": ModelledKey(str, "gelu"),
            "layer_norm_eps": ModelledKey(float, 1e-12),
            "tie_word_embeddings": ModelledKey(bool, True),
        },
        extra=EXTRA_KEYS,
        unsupported={
            "position_embedding_type": UnsupportedKey(
                (None, "absolute"), "relative positions in BERT are not modelled"
            )
        },
    ),
    architecture=_architecture_from_config,
    config=_config_from_architecture,
    tensor_pairs=_tensor_pairs,
    embedding="bert.embeddings.word_embeddings.weight",
    head="cls.predictions.decoder.weight",
    prefix="bert.",
    outside_prefix=("cls.",),
    overrides=BIAS_COPIES,
    copies_if_untied=BIAS_COPIES,
    problems=_problems,
    ignored_tensors=_ignored_tensors,
    canonical_names=_canonical_tensors,
)

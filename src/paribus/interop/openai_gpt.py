"""GPT: post-norm, causal, learned positions, a feed-forward of four times the model's width."""

from typing import Any

from paribus.errors import UnsupportedError
from paribus.interop.config_keys import Config, ConfigKeys, ModelledKey
from paribus.interop.family import ModelFamily, feed_forward_shape
from paribus.interop.gpt2 import DROPOUT_KEYS, SUMMARY_KEYS, block_pairs, causal_mask_patterns
from paribus.interop.tensor_pairs import TensorPairs, same_tensor
from paribus.spec import ResolvedArchitecture
from paribus.spec.architecture import Activation

# What this class calls gelu is GELU's tanh form; the exact one it does not have.
ACTIVATIONS: dict[str, Activation] = {
    "gelu": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


def _architecture_from_config(config: Config, tied: bool) -> dict[str, Any]:
    """The table of a spec that a config of the family describes."""
    if config["afn"] not in ACTIVATIONS:
        raise UnsupportedError(f"afn is {config['afn']!r}; use one of {', '.join(ACTIVATIONS)}")
    return {
        "n_vocab": config["vocab_size"],
        "max_length": config["n_positions"],
        "d_model": config["n_embd"],
        "n_layers": config["n_layer"],
        "placement": "post",
        "positions": "learned",
        "norm": {"kind": "layer", "eps": config["layer_norm_epsilon"]},
        "attention": {"kind": "multi_head", "n_heads": config["n_head"], "bias": True},
        "feed_forward": {"kind": "dense", "activation": ACTIVATIONS[config["afn"]], "bias": True},
        "head": {"tied": tied},
    }


def _config_from_architecture(spec: ResolvedArchitecture) -> dict[str, Any]:
    """The keys of a config that describe this architecture."""
    _, activation = feed_forward_shape(spec)
    return {
        "vocab_size": spec.n_vocab,
        "n_positions": spec.max_length,
        "n_embd": spec.d_model,
        "n_layer": len(spec.stack.layers),
        "n_head": spec.stack.layers[0].attention.n_heads,
        "afn": {"relu": "relu", "silu": "silu"}.get(activation, "gelu"),
        "layer_norm_epsilon": spec.norm.eps,
        "tie_word_embeddings": spec.head.tied,
    }


def _tensor_pairs(spec: ResolvedArchitecture, config: Config) -> TensorPairs:
    """Each tensor of ours with the one of transformers that holds it."""
    yield same_tensor("embedding.weight", "transformer.tokens_embed.weight")
    yield same_tensor("stack.positions.weight", "transformer.positions_embed.weight")
    yield from block_pairs(spec)
    if not spec.head.tied:
        yield same_tensor("head.weight", "lm_head.weight")


def _ignored_tensors(config: Config) -> tuple[str, ...]:
    return (*causal_mask_patterns(config), r"transformer\.position_ids")


OPENAI_GPT = ModelFamily(
    model_type="openai-gpt",
    title="GPT",
    class_name="OpenAIGPTLMHeadModel",
    objective="causal",
    config_keys=ConfigKeys(
        modelled={
            "n_positions": ModelledKey(int),
            "n_embd": ModelledKey(int),
            "n_layer": ModelledKey(int),
            "n_head": ModelledKey(int),
            "afn": ModelledKey(str, "gelu"),
            "layer_norm_epsilon": ModelledKey(float, 1e-5),
            "tie_word_embeddings": ModelledKey(bool, True),
        },
        extra=frozenset(
            {*SUMMARY_KEYS, *DROPOUT_KEYS, "n_ctx", "n_special", "predict_special_tokens"}
        ),
        unsupported={},
    ),
    architecture=_architecture_from_config,
    config=_config_from_architecture,
    tensor_pairs=_tensor_pairs,
    embedding="transformer.tokens_embed.weight",
    head="lm_head.weight",
    prefix="transformer.",
    ignored_tensors=_ignored_tensors,
)

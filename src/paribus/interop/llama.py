"""Llama: pre-norm with RMS norms, rotary positions, grouped heads, a gated feed-forward."""

from collections.abc import Iterator
from typing import Any

from paribus.interop.config_keys import (
    Config,
    ConfigKeys,
    ModelledKey,
    UnsupportedKey,
    activation_of,
    transformers_activation,
)
from paribus.interop.family import ModelFamily, d_head, feed_forward_shape, n_kv_heads
from paribus.interop.rope import ROPE_KEYS, read_theta, rope_config
from paribus.interop.tensor_pairs import TensorPairs, linear_pairs, same_tensor
from paribus.spec import MultiHead, ResolvedArchitecture

SHARED_KEYS = {
    "hidden_size": ModelledKey(int),
    "intermediate_size": ModelledKey(int),
    "num_hidden_layers": ModelledKey(int),
    "num_attention_heads": ModelledKey(int),
    "num_key_value_heads": ModelledKey(int, None, nullable=True),
    "max_position_embeddings": ModelledKey(int),
    "hidden_act": ModelledKey(str, "silu"),
    "tie_word_embeddings": ModelledKey(bool, False),
    **ROPE_KEYS,
}
TENSOR_PARALLEL = UnsupportedKey((None, 1), "matrices cut for tensor parallelism are not read")


def shared_architecture(config: Config, tied: bool, theta: float) -> dict[str, Any]:
    """What Llama, Mixtral and DeepSeek-V3 have in common."""
    return {
        "n_vocab": config["vocab_size"],
        "max_length": config["max_position_embeddings"],
        "d_model": config["hidden_size"],
        "n_layers": config["num_hidden_layers"],
        "positions": {"kind": "rotary", "theta": read_theta(config, theta)},
        "norm": {"kind": "rms", "eps": config["rms_norm_eps"]},
        "head": {"tied": tied},
    }


def attention_table(config: Config, bias: bool) -> dict[str, Any]:
    """Grouped heads of any width."""
    return {
        "kind": "multi_head",
        "n_heads": config["num_attention_heads"],
        "n_kv_heads": config["num_key_value_heads"],
        "d_head": config["head_dim"],
        "bias": bias,
    }


def shared_config(spec: ResolvedArchitecture) -> dict[str, Any]:
    """The keys of `shared_architecture` and `attention`, written."""
    width, activation = feed_forward_shape(spec)
    return {
        "vocab_size": spec.n_vocab,
        "max_position_embeddings": spec.max_length,
        "hidden_size": spec.d_model,
        "intermediate_size": width,
        "num_hidden_layers": len(spec.stack.layers),
        "num_attention_heads": spec.stack.layers[0].attention.n_heads,
        "num_key_value_heads": n_kv_heads(spec),
        "hidden_act": transformers_activation(activation),
        "rms_norm_eps": spec.norm.eps,
        "tie_word_embeddings": spec.head.tied,
        **rope_config(spec),
    }


def embedding_and_norm_pairs(spec: ResolvedArchitecture) -> TensorPairs:
    """Everything but attention and feed-forward."""
    yield same_tensor("embedding.weight", "model.embed_tokens.weight")
    for number in range(len(spec.stack.layers)):
        ours, here = f"stack.layers.{number}", f"model.layers.{number}"
        yield same_tensor(f"{ours}.attention_norm.weight", f"{here}.input_layernorm.weight")
        yield same_tensor(
            f"{ours}.feed_forward_norm.weight", f"{here}.post_attention_layernorm.weight"
        )
    yield same_tensor("stack.final_norm.weight", "model.norm.weight")
    if not spec.head.tied:
        yield same_tensor("head.weight", "lm_head.weight")


def attention_pairs(spec: ResolvedArchitecture, bias: bool) -> TensorPairs:
    """The four matrices of every layer's attention."""
    roles = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj"}
    for number in range(len(spec.stack.layers)):
        for ours, here in roles.items():
            yield from linear_pairs(
                f"stack.layers.{number}.attention.{ours}",
                f"model.layers.{number}.self_attn.{here}",
                bias,
            )


def gated_feed_forward_pairs(ours: str, theirs: str, bias: bool) -> TensorPairs:
    """A gated feed-forward."""
    for role in ("gate", "up", "down"):
        yield from linear_pairs(f"{ours}.{role}", f"{theirs}.{role}_proj", bias)


def rotary_frequency_patterns(config: Config) -> tuple[str, ...]:
    """Older files hold the rotary frequencies, which follow from theta."""
    return (r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq",)


def _problems(config: Config) -> Iterator[str]:
    d_model, n_heads = config["hidden_size"], config["num_attention_heads"]
    if n_heads > 0 and d_model % n_heads:
        yield (
            f"hidden_size is {d_model}, no multiple of num_attention_heads {n_heads}, which"
            " transformers' Llama refuses; use a multiple"
        )


def _architecture_from_config(config: Config, tied: bool) -> dict[str, Any]:
    """The table of a spec that a config of the family describes."""
    return {
        **shared_architecture(config, tied, theta=10000.0),
        "attention": attention_table(config, config["attention_bias"]),
        "feed_forward": {
            "kind": "dense",
            "d_ff": config["intermediate_size"],
            "activation": activation_of(config["hidden_act"], config, "hidden_act"),
            "gated": True,
            "bias": config["mlp_bias"],
        },
    }


def _config_from_architecture(spec: ResolvedArchitecture) -> dict[str, Any]:
    """The keys of a config that describe this architecture."""
    first = spec.stack.layers[0]
    return {
        **shared_config(spec),
        "head_dim": d_head(spec),
        "attention_bias": isinstance(first.attention, MultiHead) and first.attention.bias,
        "mlp_bias": first.feed_forward.kind == "dense" and first.feed_forward.bias,
    }


def _tensor_pairs(spec: ResolvedArchitecture, config: Config) -> TensorPairs:
    """Each tensor of ours with the one of transformers that holds it."""
    yield from embedding_and_norm_pairs(spec)
    yield from attention_pairs(spec, config["attention_bias"])
    for number in range(len(spec.stack.layers)):
        yield from gated_feed_forward_pairs(
            f"stack.layers.{number}.feed_forward", f"model.layers.{number}.mlp", config["mlp_bias"]
        )


LLAMA = ModelFamily(
    model_type="llama",
    title="Llama",
    class_name="LlamaForCausalLM",
    objective="causal",
    config_keys=ConfigKeys(
        modelled={
            **SHARED_KEYS,
            "rms_norm_eps": ModelledKey(float, 1e-6),
            "head_dim": ModelledKey(int, None, nullable=True),
            "attention_bias": ModelledKey(bool, False),
            "mlp_bias": ModelledKey(bool, False),
        },
        extra=frozenset({"attention_dropout"}),
        unsupported={"pretraining_tp": TENSOR_PARALLEL},
    ),
    architecture=_architecture_from_config,
    config=_config_from_architecture,
    tensor_pairs=_tensor_pairs,
    embedding="model.embed_tokens.weight",
    head="lm_head.weight",
    prefix="model.",
    problems=_problems,
    ignored_tensors=rotary_frequency_patterns,
)

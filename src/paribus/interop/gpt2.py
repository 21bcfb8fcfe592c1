"""GPT-2: pre-norm, causal, learned positions, matrices held as (inputs, outputs)."""

from typing import Any

from paribus.interop.config_keys import (
    Config,
    ConfigKeys,
    ModelledKey,
    UnsupportedKey,
    activation_of,
    transformers_activation,
)
from paribus.interop.family import ModelFamily, feed_forward_shape
from paribus.interop.tensor_pairs import TensorPairs, conv1d_pairs, linear_pairs, same_tensor
from paribus.spec import MultiHead, ResolvedArchitecture

SUMMARY_KEYS = (
    "summary_type",
    "summary_use_proj",
    "summary_activation",
    "summary_proj_to_labels",
    "summary_first_dropout",
)
DROPOUT_KEYS = ("resid_pdrop", "embd_pdrop", "attn_pdrop")


def _architecture_from_config(config: Config, tied: bool) -> dict[str, Any]:
    """The table of a spec that a config of the family describes."""
    activation = activation_of(config["activation_function"], config, "activation_function")
    return {
        "n_vocab": config["vocab_size"],
        "max_length": config["n_positions"],
        "d_model": config["n_embd"],
        "n_layers": config["n_layer"],
        "positions": "learned",
        "norm": {"kind": "layer", "eps": config["layer_norm_epsilon"]},
        "attention": {
            "kind": "multi_head",
            "n_heads": config["n_head"],
            "bias": True,
            "score_scale": None if config["scale_attn_weights"] else 1.0,
        },
        "feed_forward": {
            "kind": "dense",
            "d_ff": config["n_inner"],
            "activation": activation,
            "bias": True,
        },
        "head": {"tied": tied},
        "init": {"kind": "normal", "residual": True},
    }


def _config_from_architecture(spec: ResolvedArchitecture) -> dict[str, Any]:
    """The keys of a config that describe this architecture."""
    width, activation = feed_forward_shape(spec)
    attention = spec.stack.layers[0].attention
    return {
        "vocab_size": spec.n_vocab,
        "n_positions": spec.max_length,
        "n_embd": spec.d_model,
        "n_layer": len(spec.stack.layers),
        "n_head": attention.n_heads,
        "n_inner": width,
        "activation_function": transformers_activation(activation),
        "layer_norm_epsilon": spec.norm.eps,
        "scale_attn_weights": not (
            isinstance(attention, MultiHead) and attention.score_scale == 1.0
        ),
        "tie_word_embeddings": spec.head.tied,
    }


def block_pairs(spec: ResolvedArchitecture) -> TensorPairs:
    """The layers, as GPT and GPT-2 both name them."""
    for number in range(len(spec.stack.layers)):
        ours, here = f"stack.layers.{number}", f"transformer.h.{number}"
        projections = [f"{ours}.attention.{role}" for role in ("query", "key", "value")]
        yield from linear_pairs(f"{ours}.attention_norm", f"{here}.ln_1", bias=True)
        yield from conv1d_pairs(projections, f"{here}.attn.c_attn")
        yield from conv1d_pairs([f"{ours}.attention.output"], f"{here}.attn.c_proj")
        yield from linear_pairs(f"{ours}.feed_forward_norm", f"{here}.ln_2", bias=True)
        yield from conv1d_pairs([f"{ours}.feed_forward.up"], f"{here}.mlp.c_fc")
        yield from conv1d_pairs([f"{ours}.feed_forward.down"], f"{here}.mlp.c_proj")


def _tensor_pairs(spec: ResolvedArchitecture, config: Config) -> TensorPairs:
    """Each tensor of ours with the one of transformers that holds it."""
    yield same_tensor("embedding.weight", "transformer.wte.weight")
    yield same_tensor("stack.positions.weight", "transformer.wpe.weight")
    yield from block_pairs(spec)
    yield from linear_pairs("stack.final_norm", "transformer.ln_f", bias=True)
    if not spec.head.tied:
        yield same_tensor("head.weight", "lm_head.weight")


def causal_mask_patterns(config: Config) -> tuple[str, ...]:
    """Older files hold the causal mask of each layer under the name of a bias."""
    return (r"transformer\.h\.\d+\.attn\.(bias|masked_bias)",)


GPT2 = ModelFamily(
    model_type="gpt2",
    title="GPT-2",
    class_name="GPT2LMHeadModel",
    objective="causal",
    config_keys=ConfigKeys(
        modelled={
            "n_positions": ModelledKey(int),
            "n_embd": ModelledKey(int),
            "n_layer": ModelledKey(int),
            "n_head": ModelledKey(int),
            "n_inner": ModelledKey(int, None, nullable=True),
            "activation_function": ModelledKey(str, "gelu_new"),
            "layer_norm_epsilon": ModelledKey(float, 1e-5),
            "scale_attn_weights": ModelledKey(bool, True),
            "tie_word_embeddings": ModelledKey(bool, True),
        },
        extra=frozenset({*SUMMARY_KEYS, *DROPOUT_KEYS, "n_ctx", "reorder_and_upcast_attn"}),
        unsupported={
            "scale_attn_by_inverse_layer_idx": UnsupportedKey(
                (None, False), "scores scaled by layer are not modelled"
            ),
        },
    ),
    architecture=_architecture_from_config,
    config=_config_from_architecture,
    tensor_pairs=_tensor_pairs,
    embedding="transformer.wte.weight",
    head="lm_head.weight",
    prefix="transformer.",
    ignored_tensors=causal_mask_patterns,
)

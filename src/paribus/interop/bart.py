"""BART: encoder-decoder, post-norm, learned positions read from the third row on, a bias on the
logits.
"""

from collections.abc import Iterator
from typing import Any

from paribus.errors import UnsupportedError
from paribus.interop.config_keys import (
    ALWAYS_ENCODER_DECODER,
    Config,
    ConfigKeys,
    ModelledKey,
    UnsupportedKey,
    activation_of,
    transformers_activation,
)
from paribus.interop.family import ModelFamily, feed_forward_shape
from paribus.interop.tensor_pairs import TensorPairs, linear_pairs, same_tensor, single_row
from paribus.spec import ResolvedArchitecture

OFFSET = 2
NORM_EPS = 1e-5  # fixed in its class


def _architecture_from_config(config: Config, tied: bool) -> dict[str, Any]:
    """The table of a spec that a config of the family describes."""
    return {
        "n_vocab": config["vocab_size"],
        "max_length": config["max_position_embeddings"],
        "d_model": config["d_model"],
        "n_layers": config["decoder_layers"],
        "placement": "post",
        "positions": {"kind": "learned", "offset": OFFSET},
        "norm": {"kind": "layer", "eps": NORM_EPS},
        "attention": {
            "kind": "multi_head",
            "n_heads": config["decoder_attention_heads"],
            "bias": True,
        },
        "feed_forward": {
            "kind": "dense",
            "d_ff": config["decoder_ffn_dim"],
            "activation": activation_of(
                config["activation_function"], config, "activation_function"
            ),
            "bias": True,
        },
        "embedding": {"norm": True, "scale": "sqrt_d_model" if config["scale_embedding"] else 1.0},
        "head": {"tied": tied, "bias": True},
        "encoder": {"n_layers": config["encoder_layers"]},
    }


def _problems(config: Config) -> Iterator[str]:
    """Encoder and decoder may differ in their number of layers alone."""
    for left, right in (
        ("encoder_attention_heads", "decoder_attention_heads"),
        ("encoder_ffn_dim", "decoder_ffn_dim"),
        ("num_hidden_layers", "encoder_layers"),
    ):
        if config[left] not in (None, config[right]):
            yield f"{left} is {config[left]} and {right} is {config[right]}; give the same"


def _config_from_architecture(spec: ResolvedArchitecture) -> dict[str, Any]:
    """The keys of a config that describe this architecture."""
    if spec.encoder is None:
        raise UnsupportedError(
            "encoder is missing, but BART has one; add encoder = { n_layers = … }"
        )
    width, activation = feed_forward_shape(spec)
    n_heads = spec.stack.layers[0].attention.n_heads
    return {
        "vocab_size": spec.n_vocab,
        "max_position_embeddings": spec.max_length,
        "d_model": spec.d_model,
        "encoder_layers": len(spec.encoder.layers),
        "decoder_layers": len(spec.stack.layers),
        "encoder_attention_heads": n_heads,
        "decoder_attention_heads": n_heads,
        "encoder_ffn_dim": width,
        "decoder_ffn_dim": width,
        "activation_function": transformers_activation(activation),
        "scale_embedding": spec.embedding.scale != 1.0,
        "tie_word_embeddings": spec.head.tied,
        "is_encoder_decoder": True,
    }


def _tensor_pairs(spec: ResolvedArchitecture, config: Config) -> TensorPairs:
    """Each tensor of ours with the one of transformers that holds it."""
    assert spec.encoder
    yield same_tensor("embedding.weight", "model.shared.weight")
    for ours, here, stack in (
        ("encoder", "model.encoder", spec.encoder),
        ("stack", "model.decoder", spec.stack),
    ):
        yield same_tensor(f"{ours}.positions.weight", f"{here}.embed_positions.weight")
        yield from linear_pairs(f"{ours}.embedding_norm", f"{here}.layernorm_embedding", bias=True)
        for number, layer in enumerate(stack.layers):
            yield from _block(
                f"{ours}.layers.{number}", f"{here}.layers.{number}", layer.cross is not None
            )
    yield single_row("head.bias", "final_logits_bias")
    if not spec.head.tied:
        yield same_tensor("head.weight", "lm_head.weight")


def _block(ours: str, theirs: str, crosses: bool) -> TensorPairs:
    roles = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
    for branch, name in (("attention", "self_attn"), ("cross", "encoder_attn"))[
        : 2 if crosses else 1
    ]:
        for role, matrix in roles.items():
            yield from linear_pairs(
                f"{ours}.{branch}.{role}", f"{theirs}.{name}.{matrix}", bias=True
            )
        yield from linear_pairs(f"{ours}.{branch}_norm", f"{theirs}.{name}_layer_norm", bias=True)
    yield from linear_pairs(f"{ours}.feed_forward.up", f"{theirs}.fc1", bias=True)
    yield from linear_pairs(f"{ours}.feed_forward.down", f"{theirs}.fc2", bias=True)
    yield from linear_pairs(f"{ours}.feed_forward_norm", f"{theirs}.final_layer_norm", bias=True)


def _ignored_tensors(config: Config) -> tuple[str, ...]:
    """fairseq's version marks."""
    return (r"model\.(encoder|decoder)\.version",)


# Untied, transformers holds a table of words in each stack beside the shared one.
EMBEDDING_COPIES = {
    "model.encoder.embed_tokens.weight": "model.shared.weight",
    "model.decoder.embed_tokens.weight": "model.shared.weight",
}

EXTRA_KEYS = frozenset(
    {
        "dropout",
        "attention_dropout",
        "activation_dropout",
        "classif_dropout",
        "encoder_layerdrop",
        "decoder_layerdrop",
        "init_std",
        "force_bos_token_to_be_generated",
    }
)

BART = ModelFamily(
    model_type="bart",
    title="BART",
    class_name="BartForConditionalGeneration",
    objective="seq2seq",
    config_keys=ConfigKeys(
        modelled={
            "d_model": ModelledKey(int),
            "max_position_embeddings": ModelledKey(int),
            "encoder_layers": ModelledKey(int),
            "decoder_layers": ModelledKey(int),
            "num_hidden_layers": ModelledKey(int, None),
            "encoder_attention_heads": ModelledKey(int),
            "decoder_attention_heads": ModelledKey(int),
            "encoder_ffn_dim": ModelledKey(int),
            "decoder_ffn_dim": ModelledKey(int),
            "activation_function": ModelledKey(str, "gelu"),
            "scale_embedding": ModelledKey(bool, False),
            "tie_word_embeddings": ModelledKey(bool, True),
        },
        extra=EXTRA_KEYS,
        unsupported={
            "is_encoder_decoder": ALWAYS_ENCODER_DECODER,
            "normalize_before": UnsupportedKey(
                (None, False), "its class has its norms after the branches"
            ),
            "normalize_embedding": UnsupportedKey(
                (None, True), "its class always has a norm on the embeddings"
            ),
            "add_final_layer_norm": UnsupportedKey((None, False), "its class has no final norm"),
            "add_bias_logits": UnsupportedKey(
                (None, False), "its class adds final_logits_bias alone"
            ),
            "static_position_embeddings": UnsupportedKey(
                (None, False), "its class learns its positions"
            ),
            "extra_pos_embeddings": UnsupportedKey(
                (None, OFFSET), "its class has two unread positions"
            ),
        },
    ),
    architecture=_architecture_from_config,
    config=_config_from_architecture,
    tensor_pairs=_tensor_pairs,
    embedding="model.shared.weight",
    head="lm_head.weight",
    prefix="model.",
    outside_prefix=("lm_head.", "final_logits_bias"),
    copies=EMBEDDING_COPIES,
    copies_if_untied=EMBEDDING_COPIES,
    zero_if_missing=frozenset({"final_logits_bias"}),
    problems=_problems,
    ignored_tensors=_ignored_tensors,
)

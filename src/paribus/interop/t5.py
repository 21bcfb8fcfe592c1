"""T5 and T5 v1.1: encoder-decoder, pre-norm with RMS norms, a relative bias in the first layer
of each stack.
"""

from typing import Any

from paribus.errors import UnsupportedError
from paribus.interop.config_keys import (
    ALWAYS_ENCODER_DECODER,
    Config,
    ConfigKeys,
    ModelledKey,
    activation_of,
    transformers_activation,
)
from paribus.interop.family import ModelFamily, d_head, feed_forward_shape
from paribus.interop.tensor_pairs import TensorPairs, linear_pairs, same_tensor
from paribus.spec import Dense, RelativeBias, ResolvedArchitecture
from paribus.spec.architecture import Activation

SHARED_EMBEDDING = "shared.weight"


def _architecture_from_config(config: Config, tied: bool) -> dict[str, Any]:
    """The table of a spec that a config of the family describes."""
    activation, gated = _feed_forward_kind(config)
    return {
        "n_vocab": config["vocab_size"],
        "max_length": config["n_positions"],
        "d_model": config["d_model"],
        "n_layers": (
            config["num_layers"]
            if config["num_decoder_layers"] is None
            else config["num_decoder_layers"]
        ),
        "norm": {"kind": "rms", "eps": config["layer_norm_epsilon"]},
        "positions": {
            "kind": "relative_bias",
            "n_buckets": config["relative_attention_num_buckets"],
            "max_distance": config["relative_attention_max_distance"],
        },
        "attention": {
            "kind": "multi_head",
            "n_heads": config["num_heads"],
            "d_head": config["d_kv"],
            "score_scale": 1.0,
        },
        "feed_forward": {
            "kind": "dense",
            "d_ff": config["d_ff"],
            "activation": activation,
            "gated": gated,
        },
        "head": {"tied": tied, "scale": "rsqrt_d_model" if _scales_outputs(config) else 1.0},
        "init": "fan_in",
        "encoder": {"n_layers": config["num_layers"]},
    }


def _feed_forward_kind(config: Config) -> tuple[Activation, bool]:
    """`gated-gelu` means the tanh form; the two derived keys prevail where they are written, as
    in transformers.
    """
    words = config["feed_forward_proj"].split("-")
    if config["feed_forward_proj"] == "gated-gelu":
        activation_name = "gelu_new"
    else:
        activation_name = words[-1]
    if len(words) > 2 or (len(words) == 2 and words[0] != "gated"):
        raise UnsupportedError(
            f"feed_forward_proj is {config['feed_forward_proj']!r}; use an activation or 'gated-'"
            " and one"
        )
    if config["dense_act_fn"] is None:
        key = "feed_forward_proj"
    else:
        key = "dense_act_fn"
    if config["is_gated_act"] is None:
        gated = words[0] == "gated"
    else:
        gated = config["is_gated_act"]
    return activation_of(config["dense_act_fn"] or activation_name, config, key), gated


def _scales_outputs(config: Config) -> bool:
    """Are the decoder's outputs scaled? Before this had a key of its own, an untied head told
    T5 v1.1 apart.
    """
    if config["scale_decoder_outputs"] is not None:
        return config["scale_decoder_outputs"]
    return config["tie_word_embeddings"] is not False


def _config_from_architecture(spec: ResolvedArchitecture) -> dict[str, Any]:
    """The keys of a config that describe this architecture."""
    if spec.encoder is None:
        raise UnsupportedError("encoder is missing, but T5 has one; add encoder = { n_layers = … }")
    width, activation = feed_forward_shape(spec)
    branch, positions = spec.stack.layers[0].feed_forward, spec.stack.positions
    gated = isinstance(branch, Dense) and branch.gated
    if isinstance(positions, RelativeBias):
        buckets = positions
    else:
        buckets = RelativeBias()
    # 'gated-gelu' would be read as the tanh form.
    if gated:
        word = {"gelu": "gelu_python", "gelu_tanh": "gelu"}.get(activation, activation)
    else:
        word = transformers_activation(activation)
    return {
        "vocab_size": spec.n_vocab,
        "n_positions": spec.max_length,
        "d_model": spec.d_model,
        "num_layers": len(spec.encoder.layers),
        "num_decoder_layers": len(spec.stack.layers),
        "num_heads": spec.stack.layers[0].attention.n_heads,
        "d_kv": d_head(spec),
        "d_ff": width,
        "feed_forward_proj": f"gated-{word}" if gated else word,
        "layer_norm_epsilon": spec.norm.eps,
        "relative_attention_num_buckets": buckets.n_buckets,
        "relative_attention_max_distance": buckets.max_distance,
        "scale_decoder_outputs": spec.head.scale != 1.0,
        "tie_word_embeddings": spec.head.tied,
        "is_encoder_decoder": True,
    }


def _tensor_pairs(spec: ResolvedArchitecture, config: Config) -> TensorPairs:
    """Each tensor of ours with the one of transformers that holds it."""
    assert spec.encoder
    yield same_tensor("embedding.weight", SHARED_EMBEDDING)
    gated = _feed_forward_kind(config)[1]
    for ours, here, n_layers in (
        ("encoder", "encoder", len(spec.encoder.layers)),
        ("stack", "decoder", len(spec.stack.layers)),
    ):
        bias = f"{here}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        yield same_tensor(f"{ours}.positions.weight", bias)
        for number in range(n_layers):
            yield from _block(
                f"{ours}.layers.{number}", f"{here}.block.{number}.layer", here == "decoder", gated
            )
        yield same_tensor(f"{ours}.final_norm.weight", f"{here}.final_layer_norm.weight")
    if not spec.head.tied:
        yield same_tensor("head.weight", "lm_head.weight")


def _block(ours: str, theirs: str, crosses: bool, gated: bool) -> TensorPairs:
    branches = (("attention", "SelfAttention"), ("cross", "EncDecAttention"))[: 2 if crosses else 1]
    for place, (branch, name) in enumerate(branches):
        yield same_tensor(f"{ours}.{branch}_norm.weight", f"{theirs}.{place}.layer_norm.weight")
        for role in ("query", "key", "value", "output"):
            yield from linear_pairs(
                f"{ours}.{branch}.{role}", f"{theirs}.{place}.{name}.{role[0]}", bias=False
            )
    last = f"{theirs}.{len(branches)}"
    yield same_tensor(f"{ours}.feed_forward_norm.weight", f"{last}.layer_norm.weight")
    if gated:
        roles = {"gate": "wi_0", "up": "wi_1", "down": "wo"}
    else:
        roles = {"up": "wi", "down": "wo"}
    for role, name in roles.items():
        yield from linear_pairs(
            f"{ours}.feed_forward.{role}", f"{last}.DenseReluDense.{name}", bias=False
        )


def _ignored_tensors(config: Config) -> tuple[str, ...]:
    """The first checkpoints hold a bias for the first cross-attention that was never read."""
    return (r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",)


T5 = ModelFamily(
    model_type="t5",
    title="T5",
    class_name="T5ForConditionalGeneration",
    objective="spans",
    config_keys=ConfigKeys(
        modelled={
            "n_positions": ModelledKey(
                int, 512
            ),  # transformers' T5 has no limit; published configs name the one trained at
            "d_model": ModelledKey(int),
            "num_layers": ModelledKey(int),
            "num_decoder_layers": ModelledKey(int, None, nullable=True),
            "num_heads": ModelledKey(int),
            "d_kv": ModelledKey(int),
            "d_ff": ModelledKey(int),
            "feed_forward_proj": ModelledKey(str, "relu"),
            "dense_act_fn": ModelledKey(str, None),
            "is_gated_act": ModelledKey(bool, None),
            "layer_norm_epsilon": ModelledKey(float, 1e-6),
            "relative_attention_num_buckets": ModelledKey(int, 32),
            "relative_attention_max_distance": ModelledKey(int, 128),
            "scale_decoder_outputs": ModelledKey(bool, None),
            "tie_word_embeddings": ModelledKey(bool, None, nullable=True),
        },
        extra=frozenset({"dropout_rate", "initializer_factor"}),
        unsupported={"is_encoder_decoder": ALWAYS_ENCODER_DECODER},
    ),
    architecture=_architecture_from_config,
    config=_config_from_architecture,
    tensor_pairs=_tensor_pairs,
    embedding=SHARED_EMBEDDING,
    head="lm_head.weight",
    copies={
        "encoder.embed_tokens.weight": SHARED_EMBEDDING,
        "decoder.embed_tokens.weight": SHARED_EMBEDDING,
    },
    always_tied=True,
    ignored_tensors=_ignored_tensors,
)

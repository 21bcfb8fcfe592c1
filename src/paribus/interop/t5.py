"""T5 and T5 v1.1: encoder-decoder, pre-norm with RMS norms, a relative bias in the first layer of each stack."""

from typing import Any

from paribus.errors import UnsupportedError
from paribus.interop.config import ENCODES, Config, Obeyed, Tables, activation_of, theirs
from paribus.interop.family import Family, d_head, feed_forward
from paribus.interop.names import Pairs, linear, same
from paribus.spec import Dense, RelativeBias, Resolved
from paribus.spec.architecture import Activation

SHARED = "shared.weight"


def _architecture(given: Config, tied: bool) -> dict[str, Any]:
    activation, gated = _branch(given)
    return {
        "n_vocab": given["vocab_size"],
        "max_length": given["n_positions"],
        "d_model": given["d_model"],
        "n_layers": given["num_layers"] if given["num_decoder_layers"] is None else given["num_decoder_layers"],
        "norm": {"kind": "rms", "eps": given["layer_norm_epsilon"]},
        "positions": {
            "kind": "relative_bias",
            "n_buckets": given["relative_attention_num_buckets"],
            "max_distance": given["relative_attention_max_distance"],
        },
        "attention": {
            "kind": "multi_head",
            "n_heads": given["num_heads"],
            "d_head": given["d_kv"],
            "score_scale": 1.0,
        },
        "feed_forward": {"kind": "dense", "d_ff": given["d_ff"], "activation": activation, "gated": gated},
        "head": {"tied": tied, "scale": "rsqrt_d_model" if _scales(given) else 1.0},
        "start": "fan_in",
        "encoder": {"n_layers": given["num_layers"]},
    }


def _branch(given: Config) -> tuple[Activation, bool]:
    """`gated-gelu` means the tanh form; the two derived keys prevail where they are written, as in transformers."""
    words = given["feed_forward_proj"].split("-")
    implied = "gelu_new" if given["feed_forward_proj"] == "gated-gelu" else words[-1]
    if len(words) > 2 or (len(words) == 2 and words[0] != "gated"):
        raise UnsupportedError(
            f"feed_forward_proj is {given['feed_forward_proj']!r}; use an activation or 'gated-' and one"
        )
    key = "feed_forward_proj" if given["dense_act_fn"] is None else "dense_act_fn"
    gated = words[0] == "gated" if given["is_gated_act"] is None else given["is_gated_act"]
    return activation_of(given["dense_act_fn"] or implied, given, key), gated


def _scales(given: Config) -> bool:
    """Are the decoder's outputs scaled? Before this had a key of its own, an untied head told T5 v1.1 apart."""
    if given["scale_decoder_outputs"] is not None:
        return given["scale_decoder_outputs"]
    return given["tie_word_embeddings"] is not False


def _config(spec: Resolved) -> dict[str, Any]:
    if spec.encoder is None:
        raise UnsupportedError("encoder is missing, T5 has one; add encoder = { n_layers = … }")
    width, activation = feed_forward(spec)
    branch, positions = spec.stack.layers[0].feed_forward, spec.stack.positions
    gated = isinstance(branch, Dense) and branch.gated
    buckets = positions if isinstance(positions, RelativeBias) else RelativeBias()
    # 'gated-gelu' would be read as the tanh form.
    word = {"gelu": "gelu_python", "gelu_tanh": "gelu"}.get(activation, activation) if gated else theirs(activation)
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


def _pairs(spec: Resolved, given: Config) -> Pairs:
    assert spec.encoder
    yield same("embedding.weight", SHARED)
    gated = _branch(given)[1]
    for ours, here, n_layers in (
        ("encoder", "encoder", len(spec.encoder.layers)),
        ("stack", "decoder", len(spec.stack.layers)),
    ):
        bias = f"{here}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        yield same(f"{ours}.positions.weight", bias)
        for number in range(n_layers):
            yield from _block(f"{ours}.layers.{number}", f"{here}.block.{number}.layer", here == "decoder", gated)
        yield same(f"{ours}.final_norm.weight", f"{here}.final_layer_norm.weight")
    if not spec.head.tied:
        yield same("head.weight", "lm_head.weight")


def _block(ours: str, here: str, crosses: bool, gated: bool) -> Pairs:
    branches = (("attention", "SelfAttention"), ("cross", "EncDecAttention"))[: 2 if crosses else 1]
    for place, (branch, name) in enumerate(branches):
        yield same(f"{ours}.{branch}_norm.weight", f"{here}.{place}.layer_norm.weight")
        for role in ("query", "key", "value", "output"):
            yield from linear(f"{ours}.{branch}.{role}", f"{here}.{place}.{name}.{role[0]}", bias=False)
    last = f"{here}.{len(branches)}"
    yield same(f"{ours}.feed_forward_norm.weight", f"{last}.layer_norm.weight")
    roles = {"gate": "wi_0", "up": "wi_1", "down": "wo"} if gated else {"up": "wi", "down": "wo"}
    for role, name in roles.items():
        yield from linear(f"{ours}.feed_forward.{role}", f"{last}.DenseReluDense.{name}", bias=False)


def _passed_over(given: Config) -> tuple[str, ...]:
    """The first checkpoints hold a bias for the first cross-attention that was never read."""
    return (r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",)


T5 = Family(
    model_type="t5",
    title="T5",
    classname="T5ForConditionalGeneration",
    tables=Tables(
        obeyed={
            "n_positions": Obeyed(int, 512),  # transformers' T5 has no limit; published configs name the one trained at
            "d_model": Obeyed(int),
            "num_layers": Obeyed(int),
            "num_decoder_layers": Obeyed(int, None, nullable=True),
            "num_heads": Obeyed(int),
            "d_kv": Obeyed(int),
            "d_ff": Obeyed(int),
            "feed_forward_proj": Obeyed(str, "relu"),
            "dense_act_fn": Obeyed(str, None),
            "is_gated_act": Obeyed(bool, None),
            "layer_norm_epsilon": Obeyed(float, 1e-6),
            "relative_attention_num_buckets": Obeyed(int, 32),
            "relative_attention_max_distance": Obeyed(int, 128),
            "scale_decoder_outputs": Obeyed(bool, None),
            "tie_word_embeddings": Obeyed(bool, None, nullable=True),
        },
        kept=frozenset({"dropout_rate", "initializer_factor"}),
        refused={"is_encoder_decoder": ENCODES},
    ),
    architecture=_architecture,
    config=_config,
    pairs=_pairs,
    embedding=SHARED,
    head="lm_head.weight",
    copies={"encoder.embed_tokens.weight": SHARED, "decoder.embed_tokens.weight": SHARED},
    always_tied=True,
    passed_over=_passed_over,
)

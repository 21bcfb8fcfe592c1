"""BART: encoder-decoder, post-norm, learned positions read from the third row on, a bias on the logits."""

from collections.abc import Iterator
from typing import Any

from paribus.errors import UnsupportedError
from paribus.interop.config import ENCODES, Config, Obeyed, Refused, Tables, activation_of, theirs
from paribus.interop.family import Family, feed_forward
from paribus.interop.names import Pairs, linear, row, same
from paribus.spec import Resolved

OFFSET = 2
EPS = 1e-5  # fixed in its class


def _architecture(given: Config, tied: bool) -> dict[str, Any]:
    return {
        "n_vocab": given["vocab_size"],
        "max_length": given["max_position_embeddings"],
        "d_model": given["d_model"],
        "n_layers": given["decoder_layers"],
        "placement": "post",
        "positions": {"kind": "learned", "offset": OFFSET},
        "norm": {"kind": "layer", "eps": EPS},
        "attention": {"kind": "multi_head", "n_heads": given["decoder_attention_heads"], "bias": True},
        "feed_forward": {
            "kind": "dense",
            "d_ff": given["decoder_ffn_dim"],
            "activation": activation_of(given["activation_function"], given, "activation_function"),
            "bias": True,
        },
        "embedding": {"norm": True, "scale": "sqrt_d_model" if given["scale_embedding"] else 1.0},
        "head": {"tied": tied, "bias": True},
        "encoder": {"n_layers": given["encoder_layers"]},
    }


def _problems(given: Config) -> Iterator[str]:
    """Encoder and decoder may differ in their number of layers alone."""
    for left, right in (
        ("encoder_attention_heads", "decoder_attention_heads"),
        ("encoder_ffn_dim", "decoder_ffn_dim"),
        ("num_hidden_layers", "encoder_layers"),
    ):
        if given[left] not in (None, given[right]):
            yield f"{left} is {given[left]} and {right} is {given[right]}; give the same"


def _config(spec: Resolved) -> dict[str, Any]:
    if spec.encoder is None:
        raise UnsupportedError("encoder is missing, BART has one; add encoder = { n_layers = … }")
    width, activation = feed_forward(spec)
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
        "activation_function": theirs(activation),
        "scale_embedding": spec.embedding.scale != 1.0,
        "tie_word_embeddings": spec.head.tied,
        "is_encoder_decoder": True,
    }


def _pairs(spec: Resolved, given: Config) -> Pairs:
    assert spec.encoder
    yield same("embedding.weight", "model.shared.weight")
    for ours, here, stack in (("encoder", "model.encoder", spec.encoder), ("stack", "model.decoder", spec.stack)):
        yield same(f"{ours}.positions.weight", f"{here}.embed_positions.weight")
        yield from linear(f"{ours}.embedding_norm", f"{here}.layernorm_embedding", bias=True)
        for number, layer in enumerate(stack.layers):
            yield from _block(f"{ours}.layers.{number}", f"{here}.layers.{number}", layer.cross is not None)
    yield row("head.bias", "final_logits_bias")
    if not spec.head.tied:
        yield same("head.weight", "lm_head.weight")


def _block(ours: str, here: str, crosses: bool) -> Pairs:
    roles = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
    for branch, name in (("attention", "self_attn"), ("cross", "encoder_attn"))[: 2 if crosses else 1]:
        for role, matrix in roles.items():
            yield from linear(f"{ours}.{branch}.{role}", f"{here}.{name}.{matrix}", bias=True)
        yield from linear(f"{ours}.{branch}_norm", f"{here}.{name}_layer_norm", bias=True)
    yield from linear(f"{ours}.feed_forward.up", f"{here}.fc1", bias=True)
    yield from linear(f"{ours}.feed_forward.down", f"{here}.fc2", bias=True)
    yield from linear(f"{ours}.feed_forward_norm", f"{here}.final_layer_norm", bias=True)


def _passed_over(given: Config) -> tuple[str, ...]:
    """fairseq's version marks."""
    return (r"model\.(encoder|decoder)\.version",)


# Untied, transformers holds a table of words in each stack beside the shared one.
EMBEDDINGS = {
    "model.encoder.embed_tokens.weight": "model.shared.weight",
    "model.decoder.embed_tokens.weight": "model.shared.weight",
}

KEPT = frozenset({
    "dropout", "attention_dropout", "activation_dropout", "classif_dropout", "encoder_layerdrop", "decoder_layerdrop",
    "init_std", "force_bos_token_to_be_generated",
})  # fmt: skip

BART = Family(
    model_type="bart",
    title="BART",
    classname="BartForConditionalGeneration",
    tables=Tables(
        obeyed={
            "d_model": Obeyed(int),
            "max_position_embeddings": Obeyed(int),
            "encoder_layers": Obeyed(int),
            "decoder_layers": Obeyed(int),
            "num_hidden_layers": Obeyed(int, None),
            "encoder_attention_heads": Obeyed(int),
            "decoder_attention_heads": Obeyed(int),
            "encoder_ffn_dim": Obeyed(int),
            "decoder_ffn_dim": Obeyed(int),
            "activation_function": Obeyed(str, "gelu"),
            "scale_embedding": Obeyed(bool, False),
            "tie_word_embeddings": Obeyed(bool, True),
        },
        kept=KEPT,
        refused={
            "is_encoder_decoder": ENCODES,
            "normalize_before": Refused((None, False), "its class has its norms after the branches"),
            "normalize_embedding": Refused((None, True), "its class always has a norm on the embeddings"),
            "add_final_layer_norm": Refused((None, False), "its class has no final norm"),
            "add_bias_logits": Refused((None, False), "its class adds final_logits_bias alone"),
            "static_position_embeddings": Refused((None, False), "its class learns its positions"),
            "extra_pos_embeddings": Refused((None, OFFSET), "its class has two unread positions"),
        },
    ),
    architecture=_architecture,
    config=_config,
    pairs=_pairs,
    embedding="model.shared.weight",
    head="lm_head.weight",
    prefix="model.",
    outer=("lm_head.", "final_logits_bias"),
    copies=EMBEDDINGS,
    written_untied=EMBEDDINGS,
    zero_if_missing=frozenset({"final_logits_bias"}),
    problems=_problems,
    passed_over=_passed_over,
)

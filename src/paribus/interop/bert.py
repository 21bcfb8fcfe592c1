"""BERT: post-norm, every token sees every token, segments, a head with a layer of its own."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from paribus.interop.config import Config, Obeyed, Refused, Tables, activation_of, theirs
from paribus.interop.family import Family, Spelled, feed_forward
from paribus.interop.names import Pairs, linear, same
from paribus.spec import Resolved


def _problems(given: Config) -> Iterator[str]:
    if given["type_vocab_size"] < 1:
        yield f"type_vocab_size is {given['type_vocab_size']}, but BERT always adds a segment; use 1 or more"


def _architecture(given: Config, tied: bool) -> dict[str, Any]:
    activation = activation_of(given["hidden_act"], given, "hidden_act")
    return {
        "n_vocab": given["vocab_size"],
        "max_length": given["max_position_embeddings"],
        "d_model": given["hidden_size"],
        "n_layers": given["num_hidden_layers"],
        "mask": "full",
        "placement": "post",
        "positions": "learned",
        "norm": {"kind": "layer", "eps": given["layer_norm_eps"]},
        "attention": {"kind": "multi_head", "n_heads": given["num_attention_heads"], "bias": True},
        "feed_forward": {
            "kind": "dense",
            "d_ff": given["intermediate_size"],
            "activation": activation,
            "bias": True,
        },
        "embedding": {"norm": True, "n_segments": given["type_vocab_size"]},
        "head": {"tied": tied, "bias": True, "transform": activation},
    }


def _config(spec: Resolved) -> dict[str, Any]:
    width, activation = feed_forward(spec)
    return {
        "vocab_size": spec.n_vocab,
        "max_position_embeddings": spec.max_length,
        "hidden_size": spec.d_model,
        "num_hidden_layers": len(spec.stack.layers),
        "num_attention_heads": spec.stack.layers[0].attention.n_heads,
        "intermediate_size": width,
        "hidden_act": theirs(activation),
        "layer_norm_eps": spec.norm.eps,
        "type_vocab_size": spec.embedding.n_segments,
        "tie_word_embeddings": spec.head.tied,
    }


def _pairs(spec: Resolved, given: Config) -> Pairs:
    yield same("embedding.weight", "bert.embeddings.word_embeddings.weight")
    yield same("segments.weight", "bert.embeddings.token_type_embeddings.weight")
    yield same("stack.positions.weight", "bert.embeddings.position_embeddings.weight")
    yield from linear("stack.embedding_norm", "bert.embeddings.LayerNorm", bias=True)
    for number in range(len(spec.stack.layers)):
        yield from _block(f"stack.layers.{number}", f"bert.encoder.layer.{number}")
    yield from linear("head.transform", "cls.predictions.transform.dense", bias=True)
    yield from linear("head.norm", "cls.predictions.transform.LayerNorm", bias=True)
    yield same("head.bias", "cls.predictions.bias")
    if not spec.head.tied:
        yield same("head.weight", "cls.predictions.decoder.weight")


def _block(ours: str, here: str) -> Pairs:
    for role in ("query", "key", "value"):
        yield from linear(f"{ours}.attention.{role}", f"{here}.attention.self.{role}", bias=True)
    yield from linear(f"{ours}.attention.output", f"{here}.attention.output.dense", bias=True)
    yield from linear(f"{ours}.attention_norm", f"{here}.attention.output.LayerNorm", bias=True)
    yield from linear(f"{ours}.feed_forward.up", f"{here}.intermediate.dense", bias=True)
    yield from linear(f"{ours}.feed_forward.down", f"{here}.output.dense", bias=True)
    yield from linear(f"{ours}.feed_forward_norm", f"{here}.output.LayerNorm", bias=True)


def _passed_over(given: Config) -> tuple[str, ...]:
    """Counted positions, and what other heads than that of words read."""
    return (r"bert\.embeddings\.position_ids", r"bert\.pooler\.dense\.\w+", r"cls\.seq_relationship\.\w+")


def _spelled(name: str, tensor: Tensor) -> Spelled:
    """Files converted from TensorFlow have gamma and beta."""
    return ((name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias"), tensor),)


# The bias that is added is the decoder's; a tied file holds it under the other name alone.
BIAS = {"cls.predictions.decoder.bias": "cls.predictions.bias"}

KEPT = frozenset({
    "hidden_dropout_prob", "attention_probs_dropout_prob", "directionality", "pooler_fc_size",
    "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type",
})  # fmt: skip

BERT = Family(
    model_type="bert",
    title="BERT",
    classname="BertForMaskedLM",
    tables=Tables(
        obeyed={
            "hidden_size": Obeyed(int),
            "num_hidden_layers": Obeyed(int),
            "num_attention_heads": Obeyed(int),
            "intermediate_size": Obeyed(int),
            "max_position_embeddings": Obeyed(int),
            "type_vocab_size": Obeyed(int, 2),
            "hidden_act": Obeyed(str, "gelu"),
            "layer_norm_eps": Obeyed(float, 1e-12),
            "tie_word_embeddings": Obeyed(bool, True),
        },
        kept=KEPT,
        refused={"position_embedding_type": Refused((None, "absolute"), "relative positions in BERT are not modelled")},
    ),
    architecture=_architecture,
    config=_config,
    pairs=_pairs,
    embedding="bert.embeddings.word_embeddings.weight",
    head="cls.predictions.decoder.weight",
    prefix="bert.",
    outer=("cls.",),
    prevails=BIAS,
    written_untied=BIAS,
    problems=_problems,
    passed_over=_passed_over,
    spelled=_spelled,
)

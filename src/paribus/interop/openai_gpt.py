"""GPT: post-norm, causal, learned positions, a feed-forward of four times the model's width."""

from typing import Any

from paribus.errors import UnsupportedError
from paribus.interop.config import Config, Obeyed, Tables
from paribus.interop.family import Family, feed_forward
from paribus.interop.gpt2 import DROPOUT, SUMMARY, blocks, causal_masks
from paribus.interop.names import Pairs, same
from paribus.spec import Resolved
from paribus.spec.architecture import Activation

# What this class calls gelu is GELU's tanh form; the exact one it does not have.
ACTIVATIONS: dict[str, Activation] = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}


def _architecture(given: Config, tied: bool) -> dict[str, Any]:
    if given["afn"] not in ACTIVATIONS:
        raise UnsupportedError(f"afn is {given['afn']!r}; use one of {', '.join(ACTIVATIONS)}")
    return {
        "n_vocab": given["vocab_size"],
        "max_length": given["n_positions"],
        "d_model": given["n_embd"],
        "n_layers": given["n_layer"],
        "placement": "post",
        "positions": "learned",
        "norm": {"kind": "layer", "eps": given["layer_norm_epsilon"]},
        "attention": {"kind": "multi_head", "n_heads": given["n_head"], "bias": True},
        "feed_forward": {"kind": "dense", "activation": ACTIVATIONS[given["afn"]], "bias": True},
        "head": {"tied": tied},
    }


def _config(spec: Resolved) -> dict[str, Any]:
    _, activation = feed_forward(spec)
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


def _pairs(spec: Resolved, given: Config) -> Pairs:
    yield same("embedding.weight", "transformer.tokens_embed.weight")
    yield same("stack.positions.weight", "transformer.positions_embed.weight")
    yield from blocks(spec)
    if not spec.head.tied:
        yield same("head.weight", "lm_head.weight")


def _passed_over(given: Config) -> tuple[str, ...]:
    return (*causal_masks(given), r"transformer\.position_ids")


OPENAI_GPT = Family(
    model_type="openai-gpt",
    title="GPT",
    classname="OpenAIGPTLMHeadModel",
    tables=Tables(
        obeyed={
            "n_positions": Obeyed(int),
            "n_embd": Obeyed(int),
            "n_layer": Obeyed(int),
            "n_head": Obeyed(int),
            "afn": Obeyed(str, "gelu"),
            "layer_norm_epsilon": Obeyed(float, 1e-5),
            "tie_word_embeddings": Obeyed(bool, True),
        },
        kept=frozenset({*SUMMARY, *DROPOUT, "n_ctx", "n_special", "predict_special_tokens"}),
        refused={},
    ),
    architecture=_architecture,
    config=_config,
    pairs=_pairs,
    embedding="transformer.tokens_embed.weight",
    head="lm_head.weight",
    prefix="transformer.",
    passed_over=_passed_over,
)

"""Llama: pre-norm with RMS norms, rotary positions, grouped heads, a gated feed-forward."""

from collections.abc import Iterator
from typing import Any

from paribus.interop.config import Config, Obeyed, Refused, Tables, activation_of, theirs
from paribus.interop.family import Family, d_head, feed_forward, n_kv_heads
from paribus.interop.names import Pairs, linear, same
from paribus.interop.rope import ROPE, theta_of, written
from paribus.spec import MultiHead, Resolved

SIZES = {
    "hidden_size": Obeyed(int),
    "intermediate_size": Obeyed(int),
    "num_hidden_layers": Obeyed(int),
    "num_attention_heads": Obeyed(int),
    "num_key_value_heads": Obeyed(int, None, nullable=True),
    "max_position_embeddings": Obeyed(int),
    "hidden_act": Obeyed(str, "silu"),
    "tie_word_embeddings": Obeyed(bool, False),
    **ROPE,
}
TENSOR_PARALLEL = Refused((None, 1), "matrices cut for tensor parallelism are not read")


def trunk(given: Config, tied: bool, theta: float) -> dict[str, Any]:
    """What Llama, Mixtral and DeepSeek-V3 have in common."""
    return {
        "n_vocab": given["vocab_size"],
        "max_length": given["max_position_embeddings"],
        "d_model": given["hidden_size"],
        "n_layers": given["num_hidden_layers"],
        "positions": {"kind": "rotary", "theta": theta_of(given, theta)},
        "norm": {"kind": "rms", "eps": given["rms_norm_eps"]},
        "head": {"tied": tied},
    }


def attention(given: Config, bias: bool) -> dict[str, Any]:
    """Grouped heads of any width."""
    return {
        "kind": "multi_head",
        "n_heads": given["num_attention_heads"],
        "n_kv_heads": given["num_key_value_heads"],
        "d_head": given["head_dim"],
        "bias": bias,
    }


def sizes(spec: Resolved) -> dict[str, Any]:
    """The keys of `trunk` and `attention`, written."""
    width, activation = feed_forward(spec)
    return {
        "vocab_size": spec.n_vocab,
        "max_position_embeddings": spec.max_length,
        "hidden_size": spec.d_model,
        "intermediate_size": width,
        "num_hidden_layers": len(spec.stack.layers),
        "num_attention_heads": spec.stack.layers[0].attention.n_heads,
        "num_key_value_heads": n_kv_heads(spec),
        "hidden_act": theirs(activation),
        "rms_norm_eps": spec.norm.eps,
        "tie_word_embeddings": spec.head.tied,
        **written(spec),
    }


def around(spec: Resolved) -> Pairs:
    """Everything but attention and feed-forward."""
    yield same("embedding.weight", "model.embed_tokens.weight")
    for number in range(len(spec.stack.layers)):
        ours, here = f"stack.layers.{number}", f"model.layers.{number}"
        yield same(f"{ours}.attention_norm.weight", f"{here}.input_layernorm.weight")
        yield same(f"{ours}.feed_forward_norm.weight", f"{here}.post_attention_layernorm.weight")
    yield same("stack.final_norm.weight", "model.norm.weight")
    if not spec.head.tied:
        yield same("head.weight", "lm_head.weight")


def projections(spec: Resolved, bias: bool) -> Pairs:
    """The four matrices of every layer's attention."""
    roles = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj"}
    for number in range(len(spec.stack.layers)):
        for ours, here in roles.items():
            yield from linear(
                f"stack.layers.{number}.attention.{ours}", f"model.layers.{number}.self_attn.{here}", bias
            )


def gated(ours: str, here: str, bias: bool) -> Pairs:
    """A gated feed-forward."""
    for role in ("gate", "up", "down"):
        yield from linear(f"{ours}.{role}", f"{here}.{role}_proj", bias)


def frequencies(given: Config) -> tuple[str, ...]:
    """Older files hold the rotary frequencies, which follow from theta."""
    return (r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq",)


def _problems(given: Config) -> Iterator[str]:
    d_model, n_heads = given["hidden_size"], given["num_attention_heads"]
    if n_heads > 0 and d_model % n_heads:
        yield (
            f"hidden_size is {d_model}, no multiple of num_attention_heads {n_heads}, which transformers' Llama "
            "refuses; use a multiple"
        )


def _architecture(given: Config, tied: bool) -> dict[str, Any]:
    return {
        **trunk(given, tied, theta=10000.0),
        "attention": attention(given, given["attention_bias"]),
        "feed_forward": {
            "kind": "dense",
            "d_ff": given["intermediate_size"],
            "activation": activation_of(given["hidden_act"], given, "hidden_act"),
            "gated": True,
            "bias": given["mlp_bias"],
        },
    }


def _config(spec: Resolved) -> dict[str, Any]:
    first = spec.stack.layers[0]
    return {
        **sizes(spec),
        "head_dim": d_head(spec),
        "attention_bias": isinstance(first.attention, MultiHead) and first.attention.bias,
        "mlp_bias": first.feed_forward.kind == "dense" and first.feed_forward.bias,
    }


def _pairs(spec: Resolved, given: Config) -> Pairs:
    yield from around(spec)
    yield from projections(spec, given["attention_bias"])
    for number in range(len(spec.stack.layers)):
        yield from gated(f"stack.layers.{number}.feed_forward", f"model.layers.{number}.mlp", given["mlp_bias"])


LLAMA = Family(
    model_type="llama",
    title="Llama",
    classname="LlamaForCausalLM",
    tables=Tables(
        obeyed={
            **SIZES,
            "rms_norm_eps": Obeyed(float, 1e-6),
            "head_dim": Obeyed(int, None, nullable=True),
            "attention_bias": Obeyed(bool, False),
            "mlp_bias": Obeyed(bool, False),
        },
        kept=frozenset({"attention_dropout"}),
        refused={"pretraining_tp": TENSOR_PARALLEL},
    ),
    architecture=_architecture,
    config=_config,
    pairs=_pairs,
    embedding="model.embed_tokens.weight",
    head="lm_head.weight",
    prefix="model.",
    problems=_problems,
    passed_over=frequencies,
)

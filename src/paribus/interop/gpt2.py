"""GPT-2: pre-norm, causal, learned positions, matrices held as (inputs, outputs)."""

from typing import Any

from paribus.interop.config import Config, Obeyed, Refused, Tables, activation_of, theirs
from paribus.interop.family import Family, feed_forward
from paribus.interop.names import Pairs, conv1d, linear, same
from paribus.spec import MultiHead, Resolved

SUMMARY = ("summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels", "summary_first_dropout")
DROPOUT = ("resid_pdrop", "embd_pdrop", "attn_pdrop")


def _architecture(given: Config, tied: bool) -> dict[str, Any]:
    activation = activation_of(given["activation_function"], given, "activation_function")
    return {
        "n_vocab": given["vocab_size"],
        "max_length": given["n_positions"],
        "d_model": given["n_embd"],
        "n_layers": given["n_layer"],
        "positions": "learned",
        "norm": {"kind": "layer", "eps": given["layer_norm_epsilon"]},
        "attention": {
            "kind": "multi_head",
            "n_heads": given["n_head"],
            "bias": True,
            "score_scale": None if given["scale_attn_weights"] else 1.0,
        },
        "feed_forward": {
            "kind": "dense",
            "d_ff": given["n_inner"],
            "activation": activation,
            "bias": True,
        },
        "head": {"tied": tied},
        "start": {"kind": "normal", "residual": True},
    }


def _config(spec: Resolved) -> dict[str, Any]:
    width, activation = feed_forward(spec)
    attention = spec.stack.layers[0].attention
    return {
        "vocab_size": spec.n_vocab,
        "n_positions": spec.max_length,
        "n_embd": spec.d_model,
        "n_layer": len(spec.stack.layers),
        "n_head": attention.n_heads,
        "n_inner": width,
        "activation_function": theirs(activation),
        "layer_norm_epsilon": spec.norm.eps,
        "scale_attn_weights": not (isinstance(attention, MultiHead) and attention.score_scale == 1.0),
        "tie_word_embeddings": spec.head.tied,
    }


def blocks(spec: Resolved) -> Pairs:
    """The layers, as GPT and GPT-2 both name them."""
    for number in range(len(spec.stack.layers)):
        ours, here = f"stack.layers.{number}", f"transformer.h.{number}"
        projections = [f"{ours}.attention.{role}" for role in ("query", "key", "value")]
        yield from linear(f"{ours}.attention_norm", f"{here}.ln_1", bias=True)
        yield from conv1d(projections, f"{here}.attn.c_attn")
        yield from conv1d([f"{ours}.attention.output"], f"{here}.attn.c_proj")
        yield from linear(f"{ours}.feed_forward_norm", f"{here}.ln_2", bias=True)
        yield from conv1d([f"{ours}.feed_forward.up"], f"{here}.mlp.c_fc")
        yield from conv1d([f"{ours}.feed_forward.down"], f"{here}.mlp.c_proj")


def _pairs(spec: Resolved, given: Config) -> Pairs:
    yield same("embedding.weight", "transformer.wte.weight")
    yield same("stack.positions.weight", "transformer.wpe.weight")
    yield from blocks(spec)
    yield from linear("stack.final_norm", "transformer.ln_f", bias=True)
    if not spec.head.tied:
        yield same("head.weight", "lm_head.weight")


def causal_masks(given: Config) -> tuple[str, ...]:
    """Older files hold the causal mask of each layer under the name of a bias."""
    return (r"transformer\.h\.\d+\.attn\.(bias|masked_bias)",)


GPT2 = Family(
    model_type="gpt2",
    title="GPT-2",
    classname="GPT2LMHeadModel",
    tables=Tables(
        obeyed={
            "n_positions": Obeyed(int),
            "n_embd": Obeyed(int),
            "n_layer": Obeyed(int),
            "n_head": Obeyed(int),
            "n_inner": Obeyed(int, None, nullable=True),
            "activation_function": Obeyed(str, "gelu_new"),
            "layer_norm_epsilon": Obeyed(float, 1e-5),
            "scale_attn_weights": Obeyed(bool, True),
            "tie_word_embeddings": Obeyed(bool, True),
        },
        kept=frozenset({*SUMMARY, *DROPOUT, "n_ctx", "reorder_and_upcast_attn"}),
        refused={
            "scale_attn_by_inverse_layer_idx": Refused((None, False), "scores scaled by layer are not modelled"),
        },
    ),
    architecture=_architecture,
    config=_config,
    pairs=_pairs,
    embedding="transformer.wte.weight",
    head="lm_head.weight",
    prefix="transformer.",
    passed_over=causal_masks,
)

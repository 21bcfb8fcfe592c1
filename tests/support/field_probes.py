"""For every field of an architecture, a change that must show."""

from typing import Any, get_args

from pydantic import BaseModel

EXPERTS = {"kind": "experts", "n_experts": 8, "n_active": 2, "d_expert": 13}


BIASED = {"feed_forward.router.bias_rate": 0.01}


MULTI_HEAD = {"kind": "multi_head", "n_heads": 6, "d_head": 6}


NORMAL = {"init": {"kind": "normal", "std": 0.5, "residual": False}}


# field → preset, what is set in both, what is set in one
PROBES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "n_vocab": ("gpt2", {}, {"n_vocab": 41}),
    "max_length": ("llama", {}, {"max_length": 31}),
    "d_model": ("gpt2", {}, {"d_model": 17}),
    "n_layers": ("gpt2", {}, {"n_layers": 3}),
    "mask": ("gpt2", {}, {"mask": "prefix"}),
    "placement": ("gpt2", {}, {"placement": "parallel"}),
    "dropout": ("gpt2", {}, {"dropout": 0.1}),
    "attention[multi_head].kind": ("deepseek-v3", {}, {"attention": MULTI_HEAD}),
    "attention[multi_head].n_heads": ("gpt2", {}, {"attention.n_heads": 12}),
    "attention[multi_head].n_kv_heads": ("gpt2", {}, {"attention.n_kv_heads": 3}),
    "attention[multi_head].d_head": ("gpt2", {}, {"attention.d_head": 5}),
    "attention[multi_head].bias": ("gpt2", {}, {"attention.bias": False}),
    "attention[multi_head].qk_norm": ("gpt2", {}, {"attention.qk_norm": True}),
    "attention[multi_head].value_norm": ("gpt2", {}, {"attention.value_norm": True}),
    "attention[multi_head].output_norm": ("gpt2", {}, {"attention.output_norm": True}),
    "attention[multi_head].score_scale": ("gpt2", NORMAL, {"attention.score_scale": 1.0}),
    "attention[latent].kind": ("deepseek-v3", {}, {"attention": MULTI_HEAD}),
    "attention[latent].n_heads": ("deepseek-v3", {}, {"attention.n_heads": 5}),
    "attention[latent].d_latent": ("deepseek-v3", {}, {"attention.d_latent": 13}),
    "attention[latent].d_query_latent": ("deepseek-v3", {}, {"attention.d_query_latent": None}),
    "attention[latent].d_content": ("deepseek-v3", {}, {"attention.d_content": 7}),
    "attention[latent].d_rotary": ("deepseek-v3", {}, {"attention.d_rotary": 6}),
    "attention[latent].d_value": ("deepseek-v3", {}, {"attention.d_value": 5}),
    "feed_forward[dense].kind": ("gpt2", {}, {"feed_forward": EXPERTS}),
    "feed_forward[dense].d_ff": ("gpt2", {}, {"feed_forward.d_ff": 13}),
    "feed_forward[dense].activation": ("gpt2", {}, {"feed_forward.activation": "gelu"}),
    "feed_forward[dense].gated": ("gpt2", {}, {"feed_forward.gated": True}),
    "feed_forward[dense].bias": ("gpt2", {}, {"feed_forward.bias": False}),
    "feed_forward[experts].kind": ("mixtral", {}, {"feed_forward": {"kind": "dense"}}),
    "feed_forward[experts].n_experts": ("mixtral", {}, {"feed_forward.n_experts": 7}),
    "feed_forward[experts].n_active": ("mixtral", {}, {"feed_forward.n_active": 3}),
    "feed_forward[experts].n_shared": ("mixtral", {}, {"feed_forward.n_shared": 1}),
    "feed_forward[experts].d_expert": ("mixtral", {}, {"feed_forward.d_expert": 11}),
    "feed_forward[experts].activation": ("mixtral", {}, {"feed_forward.activation": "relu"}),
    "feed_forward[experts].gated": ("mixtral", {}, {"feed_forward.gated": False}),
    "feed_forward[experts].n_dense_layers": ("mixtral", {}, {"feed_forward.n_dense_layers": 1}),
    "feed_forward[experts].every": ("mixtral", {}, {"feed_forward.every": 2}),
    "feed_forward[experts].d_ff": ("mixtral", {"feed_forward.every": 2}, {"feed_forward.d_ff": 11}),
    "feed_forward[experts].router.scores": (
        "mixtral",
        {},
        {"feed_forward.router.scores": "sigmoid"},
    ),
    "feed_forward[experts].router.normalise": (
        "mixtral",
        {},
        {"feed_forward.router.normalise": False},
    ),
    "feed_forward[experts].router.scale": ("mixtral", {}, {"feed_forward.router.scale": 2.0}),
    "feed_forward[experts].router.n_groups": ("mixtral", {}, {"feed_forward.router.n_groups": 4}),
    "feed_forward[experts].router.n_active_groups": (
        "mixtral",
        {"feed_forward.router.n_groups": 4},
        {"feed_forward.router.n_active_groups": 2},
    ),
    "feed_forward[experts].router.bias_rate": (
        "mixtral",
        BIASED,
        {"feed_forward.router.bias_rate": 0.02},
    ),
    "feed_forward[experts].balance[none].kind": ("mixtral", {}, {"feed_forward.balance": "batch"}),
    "feed_forward[experts].balance[sequence].kind": (
        "deepseek-v3",
        {},
        {"feed_forward.balance": "batch"},
    ),
    "feed_forward[experts].balance[sequence].weight": (
        "deepseek-v3",
        {},
        {"feed_forward.balance.weight": 1e-3},
    ),
    "feed_forward[experts].balance[batch].kind": ("switch", {}, {"feed_forward.balance": "none"}),
    "feed_forward[experts].balance[batch].weight": (
        "switch",
        {},
        {"feed_forward.balance.weight": 1e-3},
    ),
    "positions[none].kind": ("gpt2", {"positions": "none"}, {"positions": "learned"}),
    "positions[learned].kind": ("gpt2", {}, {"positions": "none"}),
    "positions[learned].offset": ("gpt2", {}, {"positions.offset": 2}),
    "positions[sinusoidal].kind": ("gpt2", {"positions": "sinusoidal"}, {"positions": "none"}),
    "positions[sinusoidal].theta": ("gpt2", {"positions": "sinusoidal"}, {"positions.theta": 9.0}),
    "positions[rotary].kind": ("llama", {}, {"positions": "none"}),
    "positions[rotary].theta": ("llama", {}, {"positions.theta": 9.0}),
    "positions[relative_bias].kind": ("t5", {}, {"positions": "none"}),
    "positions[relative_bias].n_buckets": ("t5", {}, {"positions.n_buckets": 8}),
    "positions[relative_bias].max_distance": (
        "t5",
        {"positions": {"kind": "relative_bias", "n_buckets": 8}},
        {"positions.max_distance": 5},
    ),
    "positions[alibi].kind": ("gpt2", {"positions": "alibi"}, {"positions": "none"}),
    "norm[layer].kind": ("gpt2", {}, {"norm": "rms"}),
    "norm[layer].eps": ("gpt2", {}, {"norm.eps": 0.1}),
    "norm[layer].bias": ("gpt2", {}, {"norm.bias": False}),
    "norm[rms].kind": ("llama", {}, {"norm": "layer"}),
    "norm[rms].eps": ("llama", {}, {"norm.eps": 0.1}),
    "embedding.scale": ("gpt2", {}, {"embedding.scale": "sqrt_d_model"}),
    "embedding.norm": ("gpt2", {}, {"embedding.norm": True}),
    "embedding.n_segments": ("gpt2", {}, {"embedding.n_segments": 2}),
    "head.tied": ("gpt2", {}, {"head.tied": False}),
    "head.bias": ("gpt2", {}, {"head.bias": True}),
    "head.scale": ("gpt2", {}, {"head.scale": 2.0}),
    "head.transform": ("gpt2", {}, {"head.transform": "relu"}),
    "init[normal].kind": ("gpt2", NORMAL, {"init": "fan_in"}),
    "init[normal].std": ("gpt2", NORMAL, {"init.std": 0.25}),
    "init[normal].residual": ("gpt2", NORMAL, {"init.residual": True}),
    "init[fan_in].kind": ("gpt2", {}, NORMAL),
    "init[fan_in].gain": ("gpt2", {}, {"init.gain": 2.0}),
    "init[mup].kind": ("gpt2", {"init": "mup"}, NORMAL),
    "init[mup].std": ("gpt2", {"init": "mup"}, {"init.std": 0.5}),
    "init[mup].d_head_base": ("gpt2", {"init": "mup"}, {"init.d_head_base": 8}),
    "encoder.n_layers": ("t5", {}, {"encoder.n_layers": 3}),
    "encoder.mask": ("t5", {}, {"encoder.mask": "causal"}),
    "encoder.cross": (
        "t5",
        {"encoder.mask": "same_document"},
        {"encoder.cross": "documents_so_far"},
    ),
    "encoder.cross_positions": (
        "t5",
        {"positions": "rotary"},
        {"encoder.cross_positions": "rotary"},
    ),
    "encoder.cross_form": ("bart", {}, {"encoder.cross_form": "merged"}),
    "encoder.shared": ("t5", {}, {"encoder.shared": True}),
}


def models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models(part)]

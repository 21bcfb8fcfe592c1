"""Nothing is dropped: changing any field changes what the model does, or is refused.

The test walks the schema. A field without a probe fails, so a new one cannot be added and
forgotten.
"""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
import torch
from pydantic import BaseModel
from tiny_model import random_tokens, tiny_architecture, tiny_batch

from paribus.batch import Batch
from paribus.errors import ParibusError
from paribus.model import DropoutKey, balance_loss, build, updated_selection_bias
from paribus.spec import Architecture, Experts

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
    "encoder.n_layers": ("t5", {}, {"encoder.n_layers": 3}),
    "encoder.mask": ("t5", {}, {"encoder.mask": "causal"}),
    "encoder.shared": ("t5", {}, {"encoder.shared": True}),
}
# What leaves numbers alone on its own, and why that is obedience: it shows in the parameters
# instead.
IN_PARAMETERS = {
    "head.bias",
    "feed_forward[dense].bias",
    "attention[multi_head].bias",
    "norm[layer].bias",
}


def fields(model: type[BaseModel], path: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = models(field.annotation)
        for kind in inner:
            tag = f"[{kind.model_fields['kind'].default}]" if "kind" in kind.model_fields else ""
            yield from fields(kind, f"{path}{name}{tag}.")
        if not inner:
            yield path + name


def models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models(part)]


def observed(spec: Architecture) -> dict[str, Any]:
    """Everything a run could notice: logits, parameters, balance loss, moved bias, the longest
    text it reads.
    """
    model = build(spec)
    out = model(tiny_batch(spec), DropoutKey(seed=1, step=2))
    seen: dict[str, Any] = {
        "logits": out.logits_BTV,
        "parameters": {n: p.shape for n, p in model.named_parameters()},
    }
    if isinstance(spec.feed_forward, Experts):
        loss = balance_loss(list(out.loads.values()), spec.feed_forward)
        seen["balance"] = 0.0 if loss is None else loss.item()
        rate = spec.feed_forward.router.bias_rate
        counts = [load.choices_BN.sum(0) for load in out.loads.values()]
        seen["bias"] = (
            None
            if rate is None
            else [updated_selection_bias(torch.zeros_like(n), n, rate).tolist() for n in counts]
        )
    source = None if spec.encoder is None else random_tokens(1, 3)
    try:
        model(Batch.of(random_tokens(1, 30), source=source))
        seen["reads 30"] = True
    except ParibusError:
        seen["reads 30"] = False
    return seen


def differs(left: dict[str, Any], right: dict[str, Any]) -> set[str]:
    def same(a: Any, b: Any) -> bool:
        return a.shape == b.shape and torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b

    return {
        name for name in left.keys() | right.keys() if not same(left.get(name), right.get(name))
    }


def test_every_field_of_the_schema_has_a_probe() -> None:
    assert set(fields(Architecture)) == PROBES.keys()


@pytest.mark.parametrize("field", PROBES)
def test_changing_a_field_changes_what_the_model_does(field: str) -> None:
    preset, both, one = PROBES[field]
    changed = differs(
        observed(tiny_architecture(preset, both)), observed(tiny_architecture(preset, both | one))
    )
    training_only = field.startswith("feed_forward[experts].balance") or field.endswith("bias_rate")
    if training_only:
        assert changed & {"balance", "bias"}
    elif field in IN_PARAMETERS:
        assert "parameters" in changed
    elif field == "max_length":
        assert changed == {"reads 30"}
    else:
        assert "logits" in changed


def test_a_bias_matters_as_soon_as_it_moves_from_zero() -> None:
    for preset, path in (("gpt2", "stack.layers.0.feed_forward.up.bias"), ("bert", "head.bias")):
        spec = tiny_architecture(preset)
        model = build(spec)
        before = model(tiny_batch(spec)).logits_BTV
        with torch.no_grad():
            model.get_parameter(path)[3] += 1.0
        assert not torch.equal(before, model(tiny_batch(spec)).logits_BTV)

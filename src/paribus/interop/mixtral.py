"""Mixtral: Llama with experts in every layer, the gates of the chosen summing to one."""

from typing import Any

from torch import Tensor

from paribus.errors import UnsupportedError
from paribus.interop.config import Config, Obeyed, Refused, Tables, activation_of
from paribus.interop.experts import routed, unfused
from paribus.interop.family import Family, Spelled, d_head
from paribus.interop.llama import SIZES, around, attention, frequencies, projections, sizes, trunk
from paribus.interop.names import Pairs, same
from paribus.spec import Experts, Resolved

ROLES = {"gate": "w1", "up": "w3", "down": "w2"}


def _architecture(given: Config, tied: bool) -> dict[str, Any]:
    return {
        **trunk(given, tied, theta=1e6),
        "attention": attention(given, bias=False),
        "feed_forward": {
            "kind": "experts",
            "n_experts": given["num_local_experts"],
            "n_active": given["num_experts_per_tok"],
            "d_expert": given["intermediate_size"],
            "activation": activation_of(given["hidden_act"], given, "hidden_act"),
        },
    }


def _config(spec: Resolved) -> dict[str, Any]:
    experts = spec.stack.layers[0].feed_forward
    if not isinstance(experts, Experts):
        raise UnsupportedError("feed_forward.kind is 'dense', Mixtral has experts; use 'experts'")
    return {
        **sizes(spec),
        "head_dim": d_head(spec),
        "num_local_experts": experts.n_experts,
        "num_experts_per_tok": experts.n_active,
    }


def _pairs(spec: Resolved, given: Config) -> Pairs:
    yield from around(spec)
    yield from projections(spec, bias=False)
    for number in range(len(spec.stack.layers)):
        ours, here = f"stack.layers.{number}.feed_forward", f"model.layers.{number}.block_sparse_moe"
        yield same(f"{ours}.router.weight", f"{here}.gate.weight")
        yield from routed(ours, f"{here}.experts", given["num_local_experts"], ROLES)


def _spelled(name: str, tensor: Tensor) -> Spelled:
    """transformers 5 calls the branch `mlp` in memory, and on disk too where asked not to convert."""
    return unfused(name.replace(".mlp.", ".block_sparse_moe."), tensor, ROLES)


MIXTRAL = Family(
    model_type="mixtral",
    title="Mixtral",
    classname="MixtralForCausalLM",
    tables=Tables(
        obeyed={
            **SIZES,
            "rms_norm_eps": Obeyed(float, 1e-5),
            "num_key_value_heads": Obeyed(int, 8, nullable=True),
            "head_dim": Obeyed(int, None, nullable=True),
            "num_local_experts": Obeyed(int, 8),
            "num_experts_per_tok": Obeyed(int, 2),
        },
        kept=frozenset({"attention_dropout", "output_router_logits", "router_aux_loss_coef", "router_jitter_noise"}),
        refused={"sliding_window": Refused((None,), "a window in its attention is not read")},
    ),
    architecture=_architecture,
    config=_config,
    pairs=_pairs,
    embedding="model.embed_tokens.weight",
    head="lm_head.weight",
    prefix="model.",
    passed_over=frequencies,
    spelled=_spelled,
)

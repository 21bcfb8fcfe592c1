"""DeepSeek-V3: latent attention, dense first layers, then shared and routed experts with a selection bias."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from paribus.errors import UnsupportedError
from paribus.interop.config import Config, Obeyed, Refused, Tables, activation_of
from paribus.interop.experts import routed, unfused
from paribus.interop.family import Family, Spelled
from paribus.interop.llama import SIZES, TENSOR_PARALLEL, around, frequencies, gated, sizes, trunk
from paribus.interop.names import Pairs, reordered, same
from paribus.spec import Dense, Experts, Latent, Resolved

ROLES = {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"}
# The norms inside its attention have this eps whatever rms_norm_eps says; ours have one eps for all.
LATENT_EPS = 1e-6
BIAS_RATE = 1e-3  # the paper's; a config does not say, and no logit depends on it


def _architecture(given: Config, tied: bool) -> dict[str, Any]:
    dense = {
        "kind": "dense",
        "d_ff": given["intermediate_size"],
        "activation": activation_of(given["hidden_act"], given, "hidden_act"),
        "gated": True,
    }
    all_dense = given["first_k_dense_replace"] >= given["num_hidden_layers"]
    return {
        **trunk(given, tied, theta=10000.0),
        "attention": {
            "kind": "latent",
            "n_heads": given["num_attention_heads"],
            "d_latent": given["kv_lora_rank"],
            "d_query_latent": given["q_lora_rank"],
            "d_content": given["qk_nope_head_dim"],
            "d_rotary": given["qk_rope_head_dim"],
            "d_value": given["v_head_dim"],
        },
        "feed_forward": dense if all_dense else _experts(given, dense),
    }


def _experts(given: Config, dense: dict[str, Any]) -> dict[str, Any]:
    return {
        **dense,
        "kind": "experts",
        "d_ff": dense["d_ff"] if given["first_k_dense_replace"] else None,
        "n_experts": given["n_routed_experts"],
        "n_active": given["num_experts_per_tok"],
        "n_shared": given["n_shared_experts"],
        "d_expert": given["moe_intermediate_size"],
        "n_dense_layers": given["first_k_dense_replace"],
        "router": {
            "scores": "sigmoid",
            "normalise": given["norm_topk_prob"],
            "scale": given["routed_scaling_factor"],
            "n_groups": given["n_group"],
            "n_active_groups": given["topk_group"],
            "bias_rate": BIAS_RATE,
        },
    }


def _problems(given: Config) -> Iterator[str]:
    d_rotary = given["qk_rope_head_dim"]
    for key, value, why in (
        ("rms_norm_eps", LATENT_EPS, f"the norms within its attention always have {LATENT_EPS}"),
        ("num_key_value_heads", given["num_attention_heads"], "the latent serves every head"),
        ("head_dim", d_rotary, "it is another name for qk_rope_head_dim"),
        ("qk_head_dim", given["qk_nope_head_dim"] + d_rotary, "it is the sum of its two parts"),
    ):
        if given[key] not in (None, value):
            yield f"{key} is {given[key]}, but {why}; use {value}"
    if given["n_shared_experts"] < 1:
        yield f"n_shared_experts is {given['n_shared_experts']}, but there is always one; use 1 or more"
    if given["n_group"] > 0 and given["n_routed_experts"] // given["n_group"] < 2:
        yield (
            f"n_group is {given['n_group']} of n_routed_experts {given['n_routed_experts']}, but a group is judged by "
            "its two best experts; use groups of 2 or more"
        )


def _config(spec: Resolved) -> dict[str, Any]:
    attention = spec.stack.layers[0].attention
    branches = [layer.feed_forward for layer in spec.stack.layers]
    if not isinstance(attention, Latent):
        raise UnsupportedError("attention.kind is 'multi_head', DeepSeek-V3 has latent attention; use 'latent'")
    # Where no layer has experts, their numbers are never read.
    idle = Experts(n_experts=2, n_active=1, n_shared=1, d_expert=1)
    experts = next((branch for branch in branches if isinstance(branch, Experts)), idle)
    dense = next((branch for branch in branches if isinstance(branch, Dense)), Dense(d_ff=experts.d_expert))
    n_dense = next((place for place, branch in enumerate(branches) if isinstance(branch, Experts)), len(branches))
    return {
        **sizes(spec),
        "intermediate_size": dense.d_ff,
        "num_key_value_heads": attention.n_heads,
        "kv_lora_rank": attention.d_latent,
        "q_lora_rank": attention.d_query_latent,
        "qk_nope_head_dim": attention.d_content,
        "qk_rope_head_dim": attention.d_rotary,
        "v_head_dim": attention.d_value,
        "rope_interleave": True,
        "first_k_dense_replace": n_dense,
        "n_routed_experts": experts.n_experts,
        "num_experts_per_tok": experts.n_active,
        "n_shared_experts": experts.n_shared,
        "moe_intermediate_size": experts.d_expert,
        "norm_topk_prob": experts.router.normalise,
        "routed_scaling_factor": experts.router.scale,
        "n_group": experts.router.n_groups,
        "topk_group": experts.router.n_active_groups,
        "num_nextn_predict_layers": 0,
    }


def _pairs(spec: Resolved, given: Config) -> Pairs:
    yield from around(spec)
    for number, layer in enumerate(spec.stack.layers):
        ours, here = f"stack.layers.{number}", f"model.layers.{number}"
        assert isinstance(layer.attention, Latent)
        yield from _attention(f"{ours}.attention", f"{here}.self_attn", layer.attention, given["rope_interleave"])
        if isinstance(layer.feed_forward, Dense):
            yield from gated(f"{ours}.feed_forward", f"{here}.mlp", bias=False)
            continue
        yield same(f"{ours}.feed_forward.router.weight", f"{here}.mlp.gate.weight")
        yield same(f"{ours}.feed_forward.router.selection_bias", f"{here}.mlp.gate.e_score_correction_bias")
        yield from routed(f"{ours}.feed_forward", f"{here}.mlp.experts", given["n_routed_experts"], ROLES)
        yield from gated(f"{ours}.feed_forward.shared", f"{here}.mlp.shared_experts", bias=False)


def _attention(ours: str, here: str, latent: Latent, interleaved: bool | None) -> Pairs:
    query = "q_proj"
    if latent.d_query_latent is not None:
        query = "q_b_proj"
        yield same(f"{ours}.query_down.weight", f"{here}.q_a_proj.weight")
        yield same(f"{ours}.query_norm.weight", f"{here}.q_a_layernorm.weight")
    halves = _halves(latent.d_rotary) if interleaved else list(range(latent.d_rotary))
    of_query = _behind(latent.d_content, halves)
    rows = [head * len(of_query) + row for head in range(latent.n_heads) for row in of_query]
    yield reordered(f"{ours}.query.weight", f"{here}.{query}.weight", rows)
    yield reordered(f"{ours}.latent.weight", f"{here}.kv_a_proj_with_mqa.weight", _behind(latent.d_latent, halves))
    yield same(f"{ours}.latent_norm.weight", f"{here}.kv_a_layernorm.weight")
    yield same(f"{ours}.key_value.weight", f"{here}.kv_b_proj.weight")
    yield same(f"{ours}.output.weight", f"{here}.o_proj.weight")


def _halves(width: int) -> list[int]:
    """Their rotary channels turn in pairs (2i, 2i + 1), ours in pairs (i, i + width/2)."""
    return [*range(0, width, 2), *range(1, width, 2)]


def _behind(width: int, order: list[int]) -> list[int]:
    """`width` rows as they are, then rows in an order."""
    return [*range(width), *(width + place for place in order)]


def _passed_over(given: Config) -> tuple[str, ...]:
    """Also the layers that predict further tokens: they take no part in the next one's logits."""
    first = given["num_hidden_layers"]
    further = "|".join(str(first + extra) for extra in range(given["num_nextn_predict_layers"]))
    return (*frequencies(given), rf"model\.layers\.({further})\..*") if further else frequencies(given)


def _spelled(name: str, tensor: Tensor) -> Spelled:
    return unfused(name, tensor, ROLES)


DEEPSEEK_V3 = Family(
    model_type="deepseek_v3",
    title="DeepSeek-V3",
    classname="DeepseekV3ForCausalLM",
    tables=Tables(
        obeyed={
            **SIZES,
            "rms_norm_eps": Obeyed(float, LATENT_EPS),
            "head_dim": Obeyed(int, None),  # null would be hidden_size // num_attention_heads
            "qk_head_dim": Obeyed(int, None, nullable=True),
            "kv_lora_rank": Obeyed(int),
            "q_lora_rank": Obeyed(int, nullable=True),
            "qk_nope_head_dim": Obeyed(int),
            "qk_rope_head_dim": Obeyed(int),
            "v_head_dim": Obeyed(int),
            "rope_interleave": Obeyed(bool, True),
            "first_k_dense_replace": Obeyed(int, 3),
            "n_routed_experts": Obeyed(int),
            "num_experts_per_tok": Obeyed(int),
            "n_shared_experts": Obeyed(int, 1),
            "moe_intermediate_size": Obeyed(int),
            "norm_topk_prob": Obeyed(bool, True),
            "routed_scaling_factor": Obeyed(float, 2.5),
            "n_group": Obeyed(int, 8),
            "topk_group": Obeyed(int, 4),
            "num_nextn_predict_layers": Obeyed(int, 1),
        },
        kept=frozenset({"attention_dropout", "output_router_logits", "ep_size", "aux_loss_alpha", "seq_aux"}),
        refused={
            "attention_bias": Refused((None, False), "biases in latent attention are not modelled"),
            "pretraining_tp": TENSOR_PARALLEL,
            "moe_layer_freq": Refused((None, 1), "its class has experts in every layer after the first dense ones"),
            "scoring_func": Refused((None, "sigmoid"), "its class scores experts by sigmoid"),
            "topk_method": Refused((None, "noaux_tc"), "its class chooses by score and bias"),
        },
    ),
    architecture=_architecture,
    config=_config,
    pairs=_pairs,
    embedding="model.embed_tokens.weight",
    head="lm_head.weight",
    prefix="model.",
    problems=_problems,
    passed_over=_passed_over,
    spelled=_spelled,
)

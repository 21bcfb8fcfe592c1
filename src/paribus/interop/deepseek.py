"""DeepSeek-V3: latent attention, dense first layers, then shared and routed experts with a
selection bias.
"""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from paribus.errors import UnsupportedError
from paribus.interop.config_keys import (
    Config,
    ConfigKeys,
    ModelledKey,
    UnsupportedKey,
    activation_of,
)
from paribus.interop.experts import routed_expert_pairs, split_fused_experts
from paribus.interop.family import ModelFamily, NamedTensors
from paribus.interop.llama import (
    SHARED_KEYS,
    TENSOR_PARALLEL,
    embedding_and_norm_pairs,
    gated_feed_forward_pairs,
    rotary_frequency_patterns,
    shared_architecture,
    shared_config,
)
from paribus.interop.tensor_pairs import TensorPairs, reordered_rows, same_tensor
from paribus.spec import Dense, Experts, Latent, ResolvedArchitecture

EXPERT_WEIGHT_NAMES = {
    "gate": "gate_proj",
    "up": "up_proj",
    "down": "down_proj",
}  # ours: DeepSeek's
# The norms inside its attention have this eps whatever rms_norm_eps says; ours have one eps for
# all.
LATENT_EPS = 1e-6
BIAS_RATE = 1e-3  # the paper's; a config does not say, and no logit depends on it


def _architecture_from_config(config: Config, tied: bool) -> dict[str, Any]:
    """The table of a spec that a config of the family describes."""
    dense = {
        "kind": "dense",
        "d_ff": config["intermediate_size"],
        "activation": activation_of(config["hidden_act"], config, "hidden_act"),
        "gated": True,
    }
    all_dense = config["first_k_dense_replace"] >= config["num_hidden_layers"]
    return {
        **shared_architecture(config, tied, theta=10000.0),
        "attention": {
            "kind": "latent",
            "n_heads": config["num_attention_heads"],
            "d_latent": config["kv_lora_rank"],
            "d_query_latent": config["q_lora_rank"],
            "d_content": config["qk_nope_head_dim"],
            "d_rotary": config["qk_rope_head_dim"],
            "d_value": config["v_head_dim"],
        },
        "feed_forward": dense if all_dense else _experts(config, dense),
    }


def _experts(config: Config, dense: dict[str, Any]) -> dict[str, Any]:
    return {
        **dense,
        "kind": "experts",
        "d_ff": dense["d_ff"] if config["first_k_dense_replace"] else None,
        "n_experts": config["n_routed_experts"],
        "n_active": config["num_experts_per_tok"],
        "n_shared": config["n_shared_experts"],
        "d_expert": config["moe_intermediate_size"],
        "n_dense_layers": config["first_k_dense_replace"],
        "router": {
            "scores": "sigmoid",
            "normalise": config["norm_topk_prob"],
            "scale": config["routed_scaling_factor"],
            "n_groups": config["n_group"],
            "n_active_groups": config["topk_group"],
            "bias_rate": BIAS_RATE,
        },
    }


def _problems(config: Config) -> Iterator[str]:
    d_rotary = config["qk_rope_head_dim"]
    for key, value, why in (
        ("rms_norm_eps", LATENT_EPS, f"the norms within its attention always have {LATENT_EPS}"),
        ("num_key_value_heads", config["num_attention_heads"], "the latent serves every head"),
        ("head_dim", d_rotary, "it is another name for qk_rope_head_dim"),
        ("qk_head_dim", config["qk_nope_head_dim"] + d_rotary, "it is the sum of its two parts"),
    ):
        if config[key] not in (None, value):
            yield f"{key} is {config[key]}, but {why}; use {value}"
    if config["n_shared_experts"] < 1:
        yield (
            f"n_shared_experts is {config['n_shared_experts']}, but there is always one; use 1 or"
            " more"
        )
    if config["n_group"] > 0 and config["n_routed_experts"] // config["n_group"] < 2:
        yield (
            f"n_group is {config['n_group']} of n_routed_experts {config['n_routed_experts']}, but"
            " a group is judged by its two best experts; use groups of 2 or more"
        )


def _config_from_architecture(spec: ResolvedArchitecture) -> dict[str, Any]:
    """The keys of a config that describe this architecture."""
    attention = spec.stack.layers[0].attention
    branches = [layer.feed_forward for layer in spec.stack.layers]
    if not isinstance(attention, Latent):
        raise UnsupportedError(
            "attention.kind is 'multi_head', but DeepSeek-V3 has latent attention; use 'latent'"
        )
    # Where no layer has experts, their numbers are never read.
    idle = Experts(n_experts=2, n_active=1, n_shared=1, d_expert=1)
    experts = next((branch for branch in branches if isinstance(branch, Experts)), idle)
    dense = next(
        (branch for branch in branches if isinstance(branch, Dense)), Dense(d_ff=experts.d_expert)
    )
    n_dense = next(
        (place for place, branch in enumerate(branches) if isinstance(branch, Experts)),
        len(branches),
    )
    return {
        **shared_config(spec),
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


def _tensor_pairs(spec: ResolvedArchitecture, config: Config) -> TensorPairs:
    """Each tensor of ours with the one of transformers that holds it."""
    yield from embedding_and_norm_pairs(spec)
    for number, layer in enumerate(spec.stack.layers):
        ours, here = f"stack.layers.{number}", f"model.layers.{number}"
        assert isinstance(layer.attention, Latent)
        yield from _attention(
            f"{ours}.attention", f"{here}.self_attn", layer.attention, config["rope_interleave"]
        )
        if isinstance(layer.feed_forward, Dense):
            yield from gated_feed_forward_pairs(f"{ours}.feed_forward", f"{here}.mlp", bias=False)
            continue
        yield same_tensor(f"{ours}.feed_forward.router.weight", f"{here}.mlp.gate.weight")
        yield same_tensor(
            f"{ours}.feed_forward.router.selection_bias", f"{here}.mlp.gate.e_score_correction_bias"
        )
        yield from routed_expert_pairs(
            f"{ours}.feed_forward",
            f"{here}.mlp.experts",
            config["n_routed_experts"],
            EXPERT_WEIGHT_NAMES,
        )
        yield from gated_feed_forward_pairs(
            f"{ours}.feed_forward.shared", f"{here}.mlp.shared_experts", bias=False
        )


def _attention(ours: str, theirs: str, latent: Latent, interleaved: bool | None) -> TensorPairs:
    query = "q_proj"
    if latent.d_query_latent is not None:
        query = "q_b_proj"
        yield same_tensor(f"{ours}.query_down.weight", f"{theirs}.q_a_proj.weight")
        yield same_tensor(f"{ours}.query_norm.weight", f"{theirs}.q_a_layernorm.weight")
    if interleaved:
        halves = _rotary_order(latent.d_rotary)
    else:
        halves = list(range(latent.d_rotary))
    of_query = _order_after(latent.d_content, halves)
    rows = [head * len(of_query) + row for head in range(latent.n_heads) for row in of_query]
    yield reordered_rows(f"{ours}.query.weight", f"{theirs}.{query}.weight", rows)
    yield reordered_rows(
        f"{ours}.latent.weight",
        f"{theirs}.kv_a_proj_with_mqa.weight",
        _order_after(latent.d_latent, halves),
    )
    yield same_tensor(f"{ours}.latent_norm.weight", f"{theirs}.kv_a_layernorm.weight")
    yield same_tensor(f"{ours}.key_value.weight", f"{theirs}.kv_b_proj.weight")
    yield same_tensor(f"{ours}.output.weight", f"{theirs}.o_proj.weight")


def _rotary_order(width: int) -> list[int]:
    """Their rotary channels turn in pairs (2i, 2i + 1), ours in pairs (i, i + width/2)."""
    return [*range(0, width, 2), *range(1, width, 2)]


def _order_after(width: int, order: list[int]) -> list[int]:
    """`width` rows as they are, then rows in an order."""
    return [*range(width), *(width + place for place in order)]


def _ignored_tensors(config: Config) -> tuple[str, ...]:
    """Also the layers that predict further tokens: they take no part in the next one's logits."""
    first = config["num_hidden_layers"]
    further = "|".join(str(first + extra) for extra in range(config["num_nextn_predict_layers"]))
    if further:
        return (*rotary_frequency_patterns(config), rf"model\.layers\.({further})\..*")
    return rotary_frequency_patterns(config)


def _canonical_tensors(name: str, tensor: Tensor) -> NamedTensors:
    return split_fused_experts(name, tensor, EXPERT_WEIGHT_NAMES)


DEEPSEEK_V3 = ModelFamily(
    model_type="deepseek_v3",
    title="DeepSeek-V3",
    class_name="DeepseekV3ForCausalLM",
    objective="causal",
    config_keys=ConfigKeys(
        modelled={
            **SHARED_KEYS,
            "rms_norm_eps": ModelledKey(float, LATENT_EPS),
            "head_dim": ModelledKey(int, None),  # null would be hidden_size // num_attention_heads
            "qk_head_dim": ModelledKey(int, None, nullable=True),
            "kv_lora_rank": ModelledKey(int),
            "q_lora_rank": ModelledKey(int, nullable=True),
            "qk_nope_head_dim": ModelledKey(int),
            "qk_rope_head_dim": ModelledKey(int),
            "v_head_dim": ModelledKey(int),
            "rope_interleave": ModelledKey(bool, True),
            "first_k_dense_replace": ModelledKey(int, 3),
            "n_routed_experts": ModelledKey(int),
            "num_experts_per_tok": ModelledKey(int),
            "n_shared_experts": ModelledKey(int, 1),
            "moe_intermediate_size": ModelledKey(int),
            "norm_topk_prob": ModelledKey(bool, True),
            "routed_scaling_factor": ModelledKey(float, 2.5),
            "n_group": ModelledKey(int, 8),
            "topk_group": ModelledKey(int, 4),
            "num_nextn_predict_layers": ModelledKey(int, 1),
        },
        extra=frozenset(
            {"attention_dropout", "output_router_logits", "ep_size", "aux_loss_alpha", "seq_aux"}
        ),
        unsupported={
            "attention_bias": UnsupportedKey(
                (None, False), "biases in latent attention are not modelled"
            ),
            "pretraining_tp": TENSOR_PARALLEL,
            "moe_layer_freq": UnsupportedKey(
                (None, 1), "its class has experts in every layer after the first dense ones"
            ),
            "scoring_func": UnsupportedKey(
                (None, "sigmoid"), "its class scores experts by sigmoid"
            ),
            "topk_method": UnsupportedKey(
                (None, "noaux_tc"), "its class chooses by score and bias"
            ),
        },
    ),
    architecture=_architecture_from_config,
    config=_config_from_architecture,
    tensor_pairs=_tensor_pairs,
    embedding="model.embed_tokens.weight",
    head="lm_head.weight",
    prefix="model.",
    problems=_problems,
    ignored_tensors=_ignored_tensors,
    canonical_names=_canonical_tensors,
)

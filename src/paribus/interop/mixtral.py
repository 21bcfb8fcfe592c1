"""Mixtral: Llama with experts in every layer; the router weights of the selected experts are
normalised to sum to one.
"""

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
from paribus.interop.family import ModelFamily, NamedTensors, d_head
from paribus.interop.llama import (
    SHARED_KEYS,
    attention_pairs,
    attention_table,
    embedding_and_norm_pairs,
    rotary_frequency_patterns,
    shared_architecture,
    shared_config,
)
from paribus.interop.tensor_pairs import TensorPairs, same_tensor
from paribus.spec import Experts, ResolvedArchitecture

EXPERT_WEIGHT_NAMES = {"gate": "w1", "up": "w3", "down": "w2"}  # ours: Mixtral's


def _architecture_from_config(config: Config, tied: bool) -> dict[str, Any]:
    """The table of a spec that a config of the family describes."""
    return {
        **shared_architecture(config, tied, theta=1e6),
        "attention": attention_table(config, bias=False),
        "feed_forward": {
            "kind": "experts",
            "n_experts": config["num_local_experts"],
            "n_active": config["num_experts_per_tok"],
            "d_expert": config["intermediate_size"],
            "activation": activation_of(config["hidden_act"], config, "hidden_act"),
        },
    }


def _config_from_architecture(spec: ResolvedArchitecture) -> dict[str, Any]:
    """The keys of a config that describe this architecture."""
    experts = spec.stack.layers[0].feed_forward  # layers that differ are refused later
    if not isinstance(experts, Experts):
        raise UnsupportedError(
            "feed_forward.kind is 'dense', but Mixtral has experts; use 'experts'"
        )
    return {
        **shared_config(spec),
        "head_dim": d_head(spec),
        "num_local_experts": experts.n_experts,
        "num_experts_per_tok": experts.n_active,
    }


def _tensor_pairs(spec: ResolvedArchitecture, config: Config) -> TensorPairs:
    """Each tensor of ours with the one of transformers that holds it."""
    yield from embedding_and_norm_pairs(spec)
    yield from attention_pairs(spec, bias=False)
    n_experts = config["num_local_experts"]
    for layer in range(len(spec.stack.layers)):
        our_prefix = f"stack.layers.{layer}.feed_forward"
        their_prefix = f"model.layers.{layer}.block_sparse_moe"
        yield same_tensor(f"{our_prefix}.router.weight", f"{their_prefix}.gate.weight")
        yield from routed_expert_pairs(
            our_prefix, f"{their_prefix}.experts", n_experts, EXPERT_WEIGHT_NAMES
        )


def _canonical_tensors(name: str, tensor: Tensor) -> NamedTensors:
    """Renames `mlp` to `block_sparse_moe` and splits fused expert tensors.

    transformers 5 uses `mlp` in memory, and on disk too if told not to convert.
    """
    canonical_name = name.replace(".mlp.", ".block_sparse_moe.")
    return split_fused_experts(canonical_name, tensor, EXPERT_WEIGHT_NAMES)


MIXTRAL = ModelFamily(
    model_type="mixtral",
    title="Mixtral",
    class_name="MixtralForCausalLM",
    objective="causal",
    config_keys=ConfigKeys(
        modelled={
            **SHARED_KEYS,
            "rms_norm_eps": ModelledKey(float, 1e-5),
            "num_key_value_heads": ModelledKey(int, 8, nullable=True),
            "head_dim": ModelledKey(int, None, nullable=True),
            "num_local_experts": ModelledKey(int, 8),
            "num_experts_per_tok": ModelledKey(int, 2),
        },
        extra=frozenset(
            {
                "attention_dropout",
                "output_router_logits",
                "router_aux_loss_coef",
                "router_jitter_noise",
            }
        ),
        unsupported={
            "sliding_window": UnsupportedKey((None,), "a window in its attention is not read")
        },
    ),
    architecture=_architecture_from_config,
    config=_config_from_architecture,
    tensor_pairs=_tensor_pairs,
    embedding="model.embed_tokens.weight",
    head="lm_head.weight",
    prefix="model.",
    ignored_tensors=rotary_frequency_patterns,
    canonical_names=_canonical_tensors,
)

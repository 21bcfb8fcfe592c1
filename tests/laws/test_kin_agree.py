"""Kin agree: our models equal transformers' after weight copy, both ways, and any one tensor
out of place shows.

At transformers' own start much could be wrong unseen: scores are nearly flat there. So every tensor
of the reference is redrawn until logits are of order one and attention is far from uniform, and
both are asserted.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from kin_models import (
    BART_SIZES,
    BERT_SIZES,
    BROKEN,
    CAUSAL,
    CLOSE,
    DEEPSEEK_SIZES,
    EAGER_EXPERTS,
    KIN,
    LLAMA_SIZES,
    MASKED,
    MIXTRAL_SIZES,
    SEQ2SEQ,
    T5_SIZES,
    Inputs,
    Kin,
    apart,
    inputs,
    named,
    ours,
    reference,
    theirs,
)
from torch import Tensor

from paribus.batch import Batch
from paribus.interop import export, import_
from paribus.model import Transformer
from paribus.model.attention import LatentAttention, MultiHeadAttention
from paribus.spec import RotaryPositions

transformers = pytest.importorskip("transformers")


# The other values of what the families above obey.
COUSINS = (
    Kin(
        "gpt2 unscaled and untied",
        "GPT2Config",
        CAUSAL,
        {
            "n_embd": 15,
            "n_layer": 1,
            "n_head": 5,
            "n_positions": 17,
            "scale_attn_weights": False,
            "tie_word_embeddings": False,
            "activation_function": "relu",
            "layer_norm_epsilon": 0.1,
        },
    ),
    Kin(
        "gpt with silu",
        "OpenAIGPTConfig",
        CAUSAL,
        {
            "n_embd": 15,
            "n_layer": 1,
            "n_head": 3,
            "n_positions": 17,
            "afn": "silu",
            "layer_norm_epsilon": 0.1,
        },
    ),
    Kin(
        "llama with biases and tied",
        "LlamaConfig",
        CAUSAL,
        LLAMA_SIZES
        | {
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
            "hidden_act": "gelu",
            "num_key_value_heads": 3,
            "rms_norm_eps": 0.1,
        },
    ),
    Kin(
        "bert untied",
        "BertConfig",
        MASKED,
        BERT_SIZES
        | {"tie_word_embeddings": False, "hidden_act": "gelu_new", "layer_norm_eps": 0.1},
    ),
    Kin(
        "t5 gated, tied and scaled",
        "T5Config",
        SEQ2SEQ,
        T5_SIZES | {"feed_forward_proj": "gated-silu"},
    ),
    Kin(
        "t5 with the derived keys written",
        "T5Config",
        SEQ2SEQ,
        T5_SIZES | {"feed_forward_proj": "relu", "dense_act_fn": "gelu", "is_gated_act": True},
    ),
    Kin(
        "bart scaled and untied",
        "BartConfig",
        SEQ2SEQ,
        BART_SIZES
        | {"scale_embedding": True, "tie_word_embeddings": False, "activation_function": "silu"},
    ),
    Kin(
        "mixtral tied",
        "MixtralConfig",
        CAUSAL,
        MIXTRAL_SIZES | {"tie_word_embeddings": True, "num_experts_per_tok": 1},
        EAGER_EXPERTS,
    ),
    Kin(
        "deepseek plain",
        "DeepseekV3Config",
        CAUSAL,
        DEEPSEEK_SIZES
        | {
            "q_lora_rank": None,
            "rope_interleave": False,
            "norm_topk_prob": False,
            "n_group": 1,
            "topk_group": 1,
            "first_k_dense_replace": 0,
        },
        EAGER_EXPERTS,
    ),
    Kin(
        "deepseek without experts",
        "DeepseekV3Config",
        CAUSAL,
        DEEPSEEK_SIZES | {"num_hidden_layers": 2, "first_k_dense_replace": 2},
        EAGER_EXPERTS,
    ),
)


@dataclass(frozen=True)
class Met:
    """A reference, our model of its weights, a batch and the reference's logits."""

    kin: Kin
    reference: Any
    model: Transformer
    given: Inputs
    logits: Tensor
    folder: Path

    def change(self, model: Transformer, positions: Tensor | None = None) -> float:
        return apart(self.logits, ours(model, self.given, positions), self.given)


def meet(kin: Kin, folder: Path, left: bool = False) -> Met:
    model = reference(kin)
    model.save_pretrained(folder)
    given = inputs(kin, left)
    return Met(kin, model, import_(folder).model, given, theirs(model, given), folder)


@pytest.fixture(scope="module", params=KIN, ids=named)
def met(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Met:
    return meet(request.param, tmp_path_factory.mktemp("kin") / "theirs")


def test_the_reference_is_far_from_flat(met: Met):
    assert 0.3 < met.logits[met.given.real].std() < 30
    with torch.no_grad():
        out = met.reference(**met.given.theirs, output_attentions=True)
    kinds = (
        ("encoder_attentions", "decoder_attentions", "cross_attentions")
        if met.kin.encodes
        else ("attentions",)
    )
    for kind in kinds:
        for weights in out[kind]:
            assert (
                peak(
                    weights, met.given.source_real if kind.startswith("encoder") else met.given.real
                )
                > 0.2
            )


def peak(weights_BHTS: Tensor, real_BT: Tensor | None) -> float:
    """How far the largest weight of a query lies above uniform, on average over real queries
    that see several keys.
    """
    assert real_BT is not None
    visible = (weights_BHTS > 0).sum(-1)
    above = weights_BHTS.max(-1).values - 1 / visible.clamp(min=1)
    return float(above[(visible > 1) & real_BT[:, None]].mean())


def test_logits_agree(met: Met):
    assert met.change(met.model) < CLOSE


@pytest.mark.parametrize("kin", KIN, ids=named)
def test_logits_agree_when_padded_on_the_left(kin: Kin, tmp_path: Path):
    met = meet(kin, tmp_path / "theirs", left=True)
    assert met.change(met.model) < CLOSE


@pytest.mark.parametrize("kin", COUSINS, ids=named)
def test_cousins_agree_and_come_back(kin: Kin, tmp_path: Path):
    met = meet(kin, tmp_path / "theirs")
    assert 0.3 < met.logits[met.given.real].std() < 30
    assert met.change(met.model) < CLOSE
    assert (
        apart(met.logits, theirs(came_back(met, tmp_path / "ours"), met.given), met.given) < CLOSE
    )


def test_exported_weights_load_and_agree(met: Met, tmp_path: Path):
    assert (
        apart(met.logits, theirs(came_back(met, tmp_path / "ours"), met.given), met.given) < CLOSE
    )


@pytest.mark.parametrize(
    "met", [kin for kin in KIN if kin.eager is EAGER_EXPERTS], indirect=True, ids=named
)
def test_shards_and_fused_experts_of_transformers_are_read(met: Met, tmp_path: Path):
    met.reference.save_pretrained(
        tmp_path / "theirs", max_shard_size="4KB", save_original_format=False
    )
    assert len(list((tmp_path / "theirs").glob("model-*.safetensors"))) > 1
    assert met.change(import_(tmp_path / "theirs").model) < CLOSE


def test_weights_stored_in_bfloat16_agree(met: Met, tmp_path: Path):
    copy.deepcopy(met.reference).to(torch.bfloat16).save_pretrained(tmp_path / "theirs")
    auto = getattr(transformers, met.kin.auto)
    rounded = auto.from_pretrained(tmp_path / "theirs", dtype=torch.float32, **met.kin.eager).eval()
    logits = theirs(rounded, met.given)
    assert apart(logits, ours(import_(tmp_path / "theirs").model, met.given), met.given) < CLOSE


def came_back(met: Met, folder: Path) -> Any:
    """Our model, exported and loaded by transformers without a word."""
    export(met.model, folder)
    auto = getattr(transformers, met.kin.auto)
    model, report = auto.from_pretrained(folder, output_loading_info=True, **met.kin.eager)
    assert not any(report.values()), report
    return model.eval()


def test_every_tensor_survives_the_way_there_and_back(met: Met, tmp_path: Path):
    export(met.model, tmp_path / "ours")
    again = import_(tmp_path / "ours").model
    assert again.spec == met.model.spec
    for name, tensor in met.model.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name


def without_effect(name: str, model: Transformer) -> bool:
    """A bias of the keys adds the same to all scores of a query, unless keys are turned by
    their position.
    """
    return name.endswith(".key.bias") and not isinstance(
        model.spec.stack.positions, RotaryPositions
    )


@torch.no_grad()
def test_zeroing_any_one_tensor_breaks_parity(met: Met):
    model = copy.deepcopy(met.model)
    for name, tensor in model.state_dict().items():
        before = tensor.clone()
        tensor.zero_()
        change = met.change(model)
        assert change < CLOSE if without_effect(name, model) else change > BROKEN, (
            f"{name}: {change}"
        )
        tensor.copy_(before)
    assert met.change(model) < CLOSE


@torch.no_grad()
def test_swapping_any_two_tensors_breaks_parity(met: Met):
    model = copy.deepcopy(met.model)
    for (left, one), (right, other) in combinations(model.state_dict().items(), 2):
        if one.shape != other.shape or (
            without_effect(left, model) and without_effect(right, model)
        ):
            continue
        swap(one, other)
        assert met.change(model) > BROKEN, f"{left} and {right}"
        swap(one, other)


def swap(one: Tensor, other: Tensor) -> None:
    before = one.clone()
    one.copy_(other)
    other.copy_(before)


def attentions(model: Transformer) -> Iterator[MultiHeadAttention | LatentAttention]:
    for module in model.modules():
        if isinstance(module, MultiHeadAttention | LatentAttention):
            yield module


def test_another_score_scale_breaks_parity(met: Met):
    for place, _ in enumerate(attentions(met.model)):
        model = copy.deepcopy(met.model)
        module = list(attentions(model))[place]
        if isinstance(module, LatentAttention):
            module.d_query = 1  # its scale is 1/√d_query
        else:
            module.scale = module.d_head**-0.5 if module.scale == 1.0 else 1.0
        assert met.change(model) > BROKEN


def test_positions_shifted_by_one_break_parity(met: Met):
    model = copy.deepcopy(met.model)
    if isinstance(model.spec.stack.positions, RotaryPositions):
        places = torch.arange(met.given.tokens.shape[1]).expand(3, -1)
        # Turning everything by one place turns nothing against anything; a step in the middle does.
        assert met.change(model, places + 1) < CLOSE
        assert met.change(model, places + (places > 2).long()) > BROKEN
        return
    for stack in (model.stack, model.encoder):
        if stack is not None:
            assert stack.positions.weight is not None
            with torch.no_grad():
                stack.positions.weight.copy_(stack.positions.weight.roll(1, 0))
            assert met.change(model) > BROKEN


@pytest.mark.parametrize("met", [kin for kin in KIN if not kin.encodes], indirect=True, ids=named)
def test_given_positions_agree(met: Met):
    places = torch.tensor([[2, 3, 5, 7, 11, 13, 16]]).expand(3, -1)
    with torch.no_grad():
        logits = met.reference(**met.given.theirs, position_ids=places).logits
    given = met.given.batch
    batch = Batch.of(given.tokens_BT, real_BT=met.given.real, positions_BT=places)
    batch = batch.with_segments(given.segments_BT)
    with torch.no_grad():
        assert apart(logits, met.model(batch).logits_BTV, met.given) < CLOSE
    assert apart(met.logits, logits, met.given) > BROKEN


def test_rotary_positions_agree_over_thousands_of_them(tmp_path: Path):
    """Far out, the angle of a position shows every rounding of its rate."""
    config = transformers.LlamaConfig(
        vocab_size=37,
        hidden_size=48,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=3000,
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
    )
    generator = torch.Generator().manual_seed(5)
    model = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(
                torch.randn(parameter.shape, generator=generator)
                * 2.2
                * parameter.shape[-1] ** -0.5
            )
    model.save_pretrained(tmp_path / "theirs")
    tokens = torch.randint(37, (1, 3000), generator=generator)
    with torch.no_grad():
        exact, mine = model(tokens).logits, import_(tmp_path / "theirs").model(tokens).logits_BTV
    assert 0.3 < exact.std() < 30
    assert (mine - exact).abs().max() <= 1e-4 * exact.std()

"""Tiny models of transformers with redrawn weights, and ours beside them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from paribus.batch import Batch
from paribus.model import Transformer
from paribus.runtime import torch_generator

transformers = pytest.importorskip("transformers")


CLOSE, BROKEN = 1e-4, 1e-2  # of the standard deviation of the logits


N_VOCAB, LENGTHS, SOURCE_LENGTHS = 37, (7, 5, 3), (11, 4, 8)


EAGER = {"attn_implementation": "eager"}


EAGER_EXPERTS = {"attn_implementation": "eager", "experts_implementation": "eager"}


@dataclass(frozen=True)
class Kin:
    """A tiny reference of odd sizes: its config, and which AutoModel class has its head."""

    name: str
    config: str
    auto: str
    sizes: dict[str, Any]
    eager: dict[str, str] = field(default_factory=lambda: EAGER)
    own_head: bool = False  # T5's config cannot say that the head is not tied

    @property
    def encodes(self) -> bool:
        return self.auto == "AutoModelForSeq2SeqLM"


BERT_SIZES = {
    "hidden_size": 15,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 23,
    "max_position_embeddings": 17,
    "type_vocab_size": 3,
}


BART_SIZES = {
    "d_model": 15,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 23,
    "decoder_ffn_dim": 23,
    "max_position_embeddings": 17,
}


T5_SIZES = {
    "d_model": 13,
    "d_kv": 7,
    "num_heads": 3,
    "d_ff": 23,
    "num_layers": 1,
    "num_decoder_layers": 2,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 10,
}


LLAMA_SIZES = {
    "hidden_size": 15,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 14,
    "intermediate_size": 23,
    "max_position_embeddings": 17,
    "rope_parameters": {"rope_type": "default", "rope_theta": 50.0},
}


MIXTRAL_SIZES = {
    "hidden_size": 13,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 3,
    "head_dim": 10,
    "intermediate_size": 11,
    "num_local_experts": 5,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 17,
    "rope_parameters": {"rope_type": "default", "rope_theta": 50.0},
}


DEEPSEEK_SIZES = {
    "hidden_size": 13,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "num_key_value_heads": 3,
    "intermediate_size": 19,
    "moe_intermediate_size": 11,
    "first_k_dense_replace": 1,
    "n_routed_experts": 6,
    "num_experts_per_tok": 2,
    "n_shared_experts": 2,
    "n_group": 3,
    "topk_group": 2,
    "routed_scaling_factor": 1.7,
    "kv_lora_rank": 5,
    "q_lora_rank": 7,
    "qk_nope_head_dim": 3,
    "qk_rope_head_dim": 6,
    "v_head_dim": 4,
    "max_position_embeddings": 17,
    "rope_parameters": {"rope_type": "default", "rope_theta": 50.0},
}


CAUSAL, MASKED, SEQ2SEQ = "AutoModelForCausalLM", "AutoModelForMaskedLM", "AutoModelForSeq2SeqLM"


KIN = (
    Kin(
        "gpt",
        "OpenAIGPTConfig",
        CAUSAL,
        {"n_embd": 15, "n_layer": 2, "n_head": 3, "n_positions": 17},
    ),
    Kin(
        "gpt2",
        "GPT2Config",
        CAUSAL,
        {"n_embd": 21, "n_layer": 2, "n_head": 3, "n_inner": 23, "n_positions": 17},
    ),
    Kin("llama", "LlamaConfig", CAUSAL, LLAMA_SIZES),
    Kin("bert", "BertConfig", MASKED, BERT_SIZES),
    Kin("t5", "T5Config", SEQ2SEQ, T5_SIZES),
    Kin(
        "t5-v1.1",
        "T5Config",
        SEQ2SEQ,
        T5_SIZES | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        own_head=True,
    ),
    Kin("bart", "BartConfig", SEQ2SEQ, BART_SIZES),
    Kin("mixtral", "MixtralConfig", CAUSAL, MIXTRAL_SIZES, EAGER_EXPERTS),
    Kin("deepseek-v3", "DeepseekV3Config", CAUSAL, DEEPSEEK_SIZES, EAGER_EXPERTS),
)


@dataclass(frozen=True)
class Inputs:
    """A padded batch, as both sides read it."""

    tokens: Tensor
    real: Tensor
    segments: Tensor | None
    source: Tensor | None
    source_real: Tensor | None

    @property
    def batch(self) -> Batch:
        source = None if self.source is None else Batch.of(self.source, real_BT=self.source_real)
        batch = Batch.of(self.tokens, real_BT=self.real, source=source)
        return batch.with_segments(self.segments)

    @property
    def theirs(self) -> dict[str, Tensor]:
        if self.source is not None and self.source_real is not None:
            return {
                "input_ids": self.source,
                "attention_mask": self.source_real.long(),
                "decoder_input_ids": self.tokens,
                "decoder_attention_mask": self.real.long(),
            }
        given = {"input_ids": self.tokens, "attention_mask": self.real.long()}
        return given if self.segments is None else given | {"token_type_ids": self.segments}


def inputs(kin: Kin, left: bool) -> Inputs:
    """Rows of unequal length, padded on one side."""
    rng = torch_generator(3, kin.name)
    source = (
        torch.randint(N_VOCAB, (3, max(SOURCE_LENGTHS)), generator=rng) if kin.encodes else None
    )
    tokens = torch.randint(N_VOCAB, (3, max(LENGTHS)), generator=rng)
    segments = torch.randint(3, tokens.shape, generator=rng) if kin.auto == MASKED else None
    return Inputs(
        tokens,
        padded(LENGTHS, left),
        segments,
        source,
        padded(SOURCE_LENGTHS, left) if kin.encodes else None,
    )


def padded(lengths: tuple[int, ...], left: bool) -> Tensor:
    places = torch.arange(max(lengths)).expand(len(lengths), -1)
    real = places < torch.tensor(lengths)[:, None]
    return real.flip(1) if left else real


def reference(kin: Kin) -> Any:
    config = getattr(transformers, kin.config)(
        vocab_size=N_VOCAB, bos_token_id=1, eos_token_id=2, pad_token_id=0, **kin.sizes, **kin.eager
    )
    model = getattr(transformers, kin.auto).from_config(config).eval()
    if kin.own_head:
        model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())
    redraw(model, kin)
    return model


@torch.no_grad()
def redraw(model: nn.Module, kin: Kin) -> None:
    """Every tensor anew: matrices by their inputs, queries and keys wider, norms about one,
    biases about zero.
    """
    tensors = {
        tensor.data_ptr(): (name, tensor) for name, tensor in reversed(model.state_dict().items())
    }
    for name, tensor in tensors.values():  # of tied ones, the first name
        drawn = torch.randn(tensor.shape, generator=torch_generator(1, kin.name, name))
        part = name.split(".")[-2] if "." in name else name
        vector = tensor.dim() == 1 or name == "final_logits_bias"
        if vector and "norm" not in part.lower() and not part.startswith("ln_"):
            tensor.copy_(0.5 * drawn)
        elif vector:
            tensor.copy_(0.3 * drawn + (1.0 if name.endswith("weight") else 0.0))
        elif "embed" in name or part in ("wte", "wpe", "shared", "relative_attention_bias"):
            tensor.copy_(drawn)
        else:
            inward = tensor.shape[0] if "c_" in part else tensor.shape[-1]
            sharp = part in (
                "q",
                "k",
                "query",
                "key",
                "q_proj",
                "k_proj",
                "q_b_proj",
                "kv_b_proj",
                "c_attn",
                "gate",
            )
            tensor.copy_(drawn * (2.0 if sharp else 1.0) * inward**-0.5)
    if kin.config == "BartConfig" and not kin.sizes.get("tie_word_embeddings", True):
        for stack in (model.model.encoder, model.model.decoder):  # ours have one table of words
            stack.embed_tokens.weight.copy_(model.model.shared.weight)


@torch.no_grad()
def theirs(model: Any, given: Inputs) -> Tensor:
    return model(**given.theirs).logits


@torch.no_grad()
def ours(model: Transformer, given: Inputs, positions: Tensor | None = None) -> Tensor:
    batch = given.batch
    if positions is not None:
        batch = Batch.of(batch.tokens_BT, real_BT=given.real, positions_BT=positions)
    return model(batch).logits_BTV


def apart(left: Tensor, right: Tensor, given: Inputs) -> float:
    """The largest difference at real positions, in standard deviations of the left one's logits."""
    left, right = left[given.real], right[given.real]
    return float((left - right).abs().max() / left.std())


def named(kin: Kin) -> str:
    return kin.name

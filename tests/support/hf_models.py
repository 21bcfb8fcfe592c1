"""Tiny models of transformers with redrawn weights and small tokenizers of their own, one a
family.
"""

from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from kin_models import DEEPSEEK_SIZES, MIXTRAL_SIZES
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from paribus.runtime import torch_generator

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TEXT = ["abc abd the other words, reverse this and that: a b c d e f g h " * 3, LETTERS * 2]
N_SENTINELS = 7


class TinyFamily(NamedTuple):
    """How a family's model and its tokenizer are made."""

    config: str
    auto: str
    sizes: dict[str, Any]
    special_tokens: list[str]  # in the order of their ids
    template: str  # what the tokenizer puts around a text
    names: dict[str, str]  # of the special tokens, for the tokenizer's config
    ids: dict[str, int]  # of the special tokens, for the model's config
    has_experts: bool = False


_DECODER = {"n_embd": 20, "n_layer": 2, "n_head": 2, "n_positions": 90}
_LLAMA = {
    "hidden_size": 20,
    "intermediate_size": 23,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 90,
}
_T5 = {
    "d_model": 20,
    "d_kv": 7,
    "d_ff": 23,
    "num_layers": 2,
    "num_heads": 3,
    "n_positions": 90,
    "relative_attention_num_buckets": 8,
}
_BART = {
    "d_model": 20,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 23,
    "decoder_ffn_dim": 23,
    "max_position_embeddings": 90,
}
_BERT = {
    "hidden_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 23,
    "max_position_embeddings": 90,
}
_MIXTRAL = {**MIXTRAL_SIZES, "max_position_embeddings": 90}
_DEEPSEEK = {**DEEPSEEK_SIZES, "max_position_embeddings": 90}


def _llama_like(config: str, sizes: dict[str, Any], has_experts: bool = False) -> TinyFamily:
    """A decoder whose tokenizer begins every text."""
    return TinyFamily(
        config=config,
        auto="AutoModelForCausalLM",
        sizes=sizes,
        special_tokens=["<unk>", "<s>", "</s>"],
        template="<s> $A",
        names={"eos_token": "</s>", "bos_token": "<s>"},
        ids={"bos_token_id": 1, "eos_token_id": 2},
        has_experts=has_experts,
    )


# T5 numbers its sentinels backwards: the first hidden span has the largest id.
_SENTINELS = [f"<extra_id_{number}>" for number in reversed(range(N_SENTINELS))]
FAMILIES = {
    "gpt2": TinyFamily(
        config="GPT2Config",
        auto="AutoModelForCausalLM",
        sizes=_DECODER,
        special_tokens=["<|endoftext|>"],
        template="$A",
        names={"eos_token": "<|endoftext|>", "bos_token": "<|endoftext|>"},
        ids={"bos_token_id": 0, "eos_token_id": 0},
    ),
    "llama": _llama_like("LlamaConfig", _LLAMA),
    "mixtral": _llama_like("MixtralConfig", _MIXTRAL, has_experts=True),
    "deepseek-v3": _llama_like("DeepseekV3Config", _DEEPSEEK, has_experts=True),
    "t5": TinyFamily(
        config="T5Config",
        auto="AutoModelForSeq2SeqLM",
        sizes=_T5,
        special_tokens=["<pad>", "</s>", *_SENTINELS],
        template="$A </s>",
        names={"eos_token": "</s>", "pad_token": "<pad>"},
        ids={"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0},
    ),
    "bart": TinyFamily(
        config="BartConfig",
        auto="AutoModelForSeq2SeqLM",
        sizes=_BART,
        special_tokens=["<s>", "<pad>", "</s>", "<mask>"],
        template="<s> $A </s>",
        names={
            "bos_token": "<s>",
            "pad_token": "<pad>",
            "eos_token": "</s>",
            "mask_token": "<mask>",
        },
        ids={
            "bos_token_id": 0,
            "pad_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 2,
            "forced_eos_token_id": 2,
        },
    ),
    "bert": TinyFamily(
        config="BertConfig",
        auto="AutoModelForMaskedLM",
        sizes=_BERT,
        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        template="[CLS] $A [SEP]",
        names={
            "pad_token": "[PAD]",
            "unk_token": "[UNK]",
            "cls_token": "[CLS]",
            "sep_token": "[SEP]",
            "mask_token": "[MASK]",
        },
        ids={"pad_token_id": 0},
    ),
}


def write_family(name: str, folder: Path, is_talkative: bool = False) -> Any:
    """A folder as transformers saves it, and its model in float64; a talkative one does not say
    the same token again and again.
    """
    family = FAMILIES[name]
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=_library(name, family), **family.names
    )
    config = getattr(transformers, family.config)(
        vocab_size=len(tokenizer), **family.ids, **family.sizes
    )
    if family.has_experts:
        config._experts_implementation = "eager"  # others cannot do float64
    model = getattr(transformers, family.auto).from_config(config).eval()
    _redraw(model, is_talkative)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model.double()


@torch.no_grad()
def _redraw(model: Any, is_talkative: bool) -> None:
    """Every parameter anew. In a talkative model, what every token adds to all logits is small:
    its own embedding where it is tied, a norm's bias, and what a source says.
    """
    for name, parameter in model.named_parameters():
        drawn = torch.randn(parameter.shape, generator=torch_generator(1, name))
        is_norm = "norm" in name.lower() or ".ln_" in name
        if is_talkative and is_norm and name.endswith("bias"):
            parameter.copy_(0.2 * drawn)
        elif is_norm:
            parameter.copy_(1 + 0.2 * drawn)
        else:
            parameter.copy_((_talkative_scale(name) if is_talkative else 0.4) * drawn)


def _talkative_scale(name: str) -> float:
    scales = {
        ("embed", "shared", "wte", "wpe", "bias"): 0.1,
        ("encoder_attn.out_proj", "EncDecAttention.o"): 0.05,
        ("self_attn.out_proj", "SelfAttention.o"): 0.2,
    }
    for parts, scale in scales.items():
        if any(part in name for part in parts):
            return scale
    return 0.8


def _library(name: str, family: TinyFamily) -> Library:
    library = _word_pieces() if name == "bert" else _byte_pieces()
    trainer_type = trainers.WordPieceTrainer if name == "bert" else trainers.BpeTrainer
    alphabet = list(LETTERS + "=:,")
    if name != "bert":
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainer_type(
        vocab_size=290,
        initial_alphabet=alphabet,
        show_progress=False,
        special_tokens=family.special_tokens,
    )
    library.train_from_iterator(TEXT, trainer)
    ids = {token: library.token_to_id(token) for token in family.special_tokens}
    library.post_processor = processors.TemplateProcessing(
        family.template, special_tokens=list(ids.items())
    )
    return library


def _byte_pieces() -> Library:
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    return library


def _word_pieces() -> Library:
    library = Library(models.WordPiece(unk_token="[UNK]"))
    library.normalizer = normalizers.BertNormalizer(lowercase=True)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece()
    return library

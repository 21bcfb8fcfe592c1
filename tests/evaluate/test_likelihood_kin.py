"""The yardstick equals a direct computation with transformers on the same weights, item by item.

Weights are redrawn wide enough that tokens differ in their chances, and the reference is computed
in float64.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from byte_models import BYTE_TOKENIZER, ITEMS, VOCABULARY
from torch import Tensor

from paribus.evaluate import Item, likelihoods
from paribus.evaluate.likelihood import AskedModel
from paribus.interop import import_
from paribus.runtime import torch_generator
from paribus.spec.objectives import UL2, CausalLM, Objective, PrefixLM, Seq2Seq, SpanCorruption

transformers = pytest.importorskip("transformers")

CLOSE = 1e-4  # nats
GPT2 = {"n_embd": 21, "n_layer": 2, "n_head": 3, "n_positions": 83}
T5 = {
    "d_model": 13,
    "d_kv": 7,
    "num_heads": 3,
    "d_ff": 23,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 10,
}


def reference(config: Any, auto: str) -> Any:
    model = getattr(transformers, auto).from_config(config).eval()
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            drawn = torch.randn(tensor.shape, generator=torch_generator(2, name))
            tensor.copy_(1 + 0.3 * drawn if "norm" in name or ".ln_" in name else 0.4 * drawn)
    return model


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY.size, bos_token_id=1, eos_token_id=2, **GPT2
    )
    return both(reference(config, "AutoModelForCausalLM"), tmp_path_factory.mktemp("gpt2"))


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    config = transformers.T5Config(vocab_size=VOCABULARY.size, decoder_start_token_id=0, **T5)
    return both(reference(config, "AutoModelForSeq2SeqLM"), tmp_path_factory.mktemp("t5"))


def both(theirs: Any, folder: Path) -> tuple[Any, Any]:
    theirs.save_pretrained(folder)
    return theirs.double(), import_(folder).model


@torch.no_grad()
def summed(logits_TV: Tensor, target: bytes) -> float:
    """Nats of a target whose tokens the last outputs are for."""
    chances = logits_TV.log_softmax(-1)[-len(target) :]
    return -chances.gather(1, torch.tensor(list(target))[:, None]).sum().item()


def assert_equal(found: list[float], wanted: list[float]) -> None:
    assert len(found) == len(ITEMS)
    assert max(abs(one - other) for one, other in zip(found, wanted, strict=True)) < CLOSE
    each = [nats / len(one.target) for nats, one in zip(wanted, ITEMS, strict=True)]
    assert max(each) - min(each) > 0.5  # far from flat


@pytest.mark.parametrize("n_sequences", [1, 3, 100])
def test_gpt2_gives_what_transformers_gives(gpt2: tuple[Any, Any], n_sequences: int) -> None:
    theirs, ours = gpt2
    found = likelihoods(
        AskedModel(ours, CausalLM(), BYTE_TOKENIZER), ITEMS, n_sequences=n_sequences
    )
    wanted = []
    for one in ITEMS:
        text = torch.tensor([[VOCABULARY.eos, *one.context.encode(), *one.target.encode()]])
        wanted.append(summed(theirs(text).logits[0, :-1], one.target.encode()))
    assert_equal([answer.nats for answer in found], wanted)


def framed(objective: Objective, one: Item) -> tuple[list[int], list[int]]:
    """What a T5 trained so reads: its encoder, and its decoder up to the last token."""
    gap, end = [int(VOCABULARY.sentinel(0))], [VOCABULARY.eos]
    match objective:
        case SpanCorruption():
            return [*end, *one.context.encode(), *gap], gap
        case UL2():
            return [VOCABULARY.mode_tokens["S"], *end, *one.context.encode()], []
        case Seq2Seq():
            return [*one.context.encode()], []
        case _:
            return [*end, *one.context.encode()], []


@pytest.mark.parametrize("n_sequences", [1, 3, 100])
@pytest.mark.parametrize(
    "objective", [PrefixLM(), SpanCorruption(), UL2(), Seq2Seq()], ids=lambda one: one.kind
)
def test_t5_gives_what_transformers_gives(
    t5: tuple[Any, Any], objective: Objective, n_sequences: int
) -> None:
    theirs, ours = t5
    found = likelihoods(AskedModel(ours, objective, BYTE_TOKENIZER), ITEMS, n_sequences=n_sequences)
    wanted = []
    for one in ITEMS:
        source, opens = framed(objective, one)
        told = torch.tensor([[VOCABULARY.decoder_start, *opens, *one.target.encode()[:-1]]])
        logits = theirs(input_ids=torch.tensor([source]), decoder_input_ids=told).logits[0]
        wanted.append(summed(logits, one.target.encode()))
    assert_equal([answer.nats for answer in found], wanted)


def test_a_cut_context_gives_what_transformers_gives_the_rest(gpt2: tuple[Any, Any]) -> None:
    theirs, ours = gpt2
    (answer,) = likelihoods(AskedModel(ours, CausalLM(), BYTE_TOKENIZER, window=31), [ITEMS[4]])
    text = torch.tensor([[*ITEMS[4].context.encode()[-24:], *ITEMS[4].target.encode()]])
    assert answer.n_truncated_tokens == 67 - 24
    assert abs(answer.nats - summed(theirs(text).logits[0, :-1], ITEMS[4].target.encode())) < CLOSE

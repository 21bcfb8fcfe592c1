"""The same nats on CUDA as on the CPU, with the kernel that evaluation uses there."""

from pathlib import Path

import pytest
from byte_models import BYTE_TOKENIZER, ITEMS, byte_model

from paribus.evaluate import likelihoods
from paribus.evaluate.likelihood import AskedModel
from paribus.model import restore, save
from paribus.spec.objectives import CausalLM, LastToken, Objective, PrefixLM, SpanCorruption

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("preset", "objective"),
    [
        ("gpt2", CausalLM()),
        ("unilm", PrefixLM()),
        ("t5", SpanCorruption()),
        ("mixtral", CausalLM()),
        ("bert", LastToken()),
    ],
)
def test_cuda_gives_what_the_cpu_gives(preset: str, objective: Objective, tmp_path: Path) -> None:
    model = byte_model(preset)
    save(model, tmp_path / "arm")
    moved = restore(tmp_path / "arm", "cuda", kernel="masked")
    here = likelihoods(AskedModel(model, objective, BYTE_TOKENIZER), ITEMS)
    there = likelihoods(AskedModel(moved, objective, BYTE_TOKENIZER), ITEMS, n_sequences=3)
    assert [one.nats for one in there] == pytest.approx([one.nats for one in here], rel=1e-4)

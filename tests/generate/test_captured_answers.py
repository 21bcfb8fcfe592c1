"""A device that says answers on its own says what the host would have it say."""

from typing import Any

import pytest
import torch
from tiny_model import tiny_architecture

from paribus.batch import N_SPECIAL_TOKENS, Vocabulary
from paribus.generate import Engine, Sampling, TokenRequest, answer_stream, continuation, row_steps
from paribus.generate.choosing import RowStream
from paribus.generate.requests import RowRequests
from paribus.generate.sampling import GeneratedTokens, continue_rows
from paribus.model import Transformer, build
from paribus.objectives.framing import ItemLayout, plain_layout

pytestmark = pytest.mark.gpu

WORDS = Vocabulary(13, torch.zeros(13 + N_SPECIAL_TOKENS, dtype=torch.int64))
N_TOKENS = 40
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "drawn": {"temperature": 1.0, "seed": 3},
    "filtered": {"temperature": 1.3, "top_k": 9, "top_p": 0.9, "min_p": 0.02, "seed": 4},
    "penalised": {"repetition_penalty": 1.4},
}


def model_of(preset: str) -> Transformer:
    changes = {"n_vocab": WORDS.size, "d_model": 48, "attention.d_head": 16, "max_length": 64}
    return build(tiny_architecture(preset, changes), device="cuda").eval()


def layout_of(model: Transformer) -> ItemLayout:
    return plain_layout(model.spec, WORDS, model.spec.max_length, context_is_prefix=False)


def answers(model: Transformer, sampling: Sampling) -> GeneratedTokens:
    generator = torch.Generator().manual_seed(2)
    inputs_BT = torch.randint(13, (4, 30), generator=generator).cuda()
    lengths_B = torch.tensor([5, 30, 7, 12]).cuda()
    return continuation(model, layout_of(model), inputs_BT, sampling, lengths_B)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("preset", ["gpt2", "llama", "unilm", "t5", "bart"])
def test_a_device_says_what_the_host_would(
    preset: str, settings: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of(preset)
    sampling = Sampling(n_tokens=N_TOKENS, **SETTINGS[settings])
    alone = [answers(model, sampling) for _ in range(2)]  # the second by the same graph
    monkeypatch.setattr(answer_stream, "MIN_TOKENS", 10**6)
    watched = answers(model, sampling)
    for found in alone:
        assert found.lengths_B.tolist() == watched.lengths_B.tolist()
        assert found.tokens_BT.tolist() == watched.tokens_BT.tolist()


@pytest.mark.parametrize("preset", ["gpt2", "llama", "unilm"])
def test_an_engine_with_captured_steps_says_what_each_answer_is_alone(
    preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_steps, "MIN_TOKENS", 3)
    model, sampling = model_of(preset), Sampling(n_tokens=30, temperature=1.0)
    layout, handles = layout_of(model), []
    engine = Engine(model, budget_bytes=1 << 20)
    contexts = [tuple(range(n % 13 + 1)) for n in range(6)]
    for row, context in enumerate(contexts):
        handles.append(engine.submit(TokenRequest(context, layout, sampling, RowStream(0, row))))
    engine.close()
    monkeypatch.setattr(answer_stream, "MIN_TOKENS", 10**6)
    for row, (context, handle) in enumerate(zip(contexts, handles, strict=True)):
        requests = RowRequests([sampling], [RowStream(0, row)])
        alone = continue_rows(model, layout, torch.tensor([context]).cuda(), requests)
        tokens = alone.tokens_BT[0, : alone.lengths_B[0]].tolist()
        assert handle.finish_reason in ("stop", "length")
        assert without_end([one.token for one in handle], layout) == without_end(tokens, layout)


def without_end(tokens: list[int], layout: ItemLayout) -> list[int]:
    return [token for token in tokens if token not in layout.end_tokens]

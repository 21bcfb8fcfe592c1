"""Recorded steps give what a model gives that reads everything again."""

from typing import Any

import pytest
import torch
from tiny_model import PRESETS, random_tokens, tiny_architecture

from paribus.batch import Batch
from paribus.generate import answer_steps, model_steps
from paribus.generate.answer_steps import AnswerSteps
from paribus.generate.model_steps import can_prepare
from paribus.model import Transformer, build

MASKS = ["window(3)", "by_head(causal, window(2))", "by_layer(window(5), causal)", "prefix"]
N_STEPS = 9
LENGTHS = [5, 2, 4]  # of the texts, before


def recordable(name: str) -> Transformer | None:
    model = build(tiny_architecture(name))
    return model if model.is_appendable and can_prepare(model, 64) else None


def batch_of(tokens: torch.Tensor, lengths: list[int], source: torch.Tensor | None) -> Batch:
    longest = max(lengths)
    real_BT = torch.arange(longest) < torch.tensor(lengths)[:, None]
    return Batch.of(
        tokens[:, :longest], prefix=torch.tensor([3, 0, 1]), real_BT=real_BT, source=source
    )


@torch.no_grad()
def largest_difference(model: Transformer, seed: int = 0) -> float:
    tokens = random_tokens(len(LENGTHS), 16, seed)
    source = None if model.encoder is None else random_tokens(len(LENGTHS), 6, seed + 1)
    cache = model.read(batch_of(tokens, LENGTHS, source)).cache
    steps, largest = AnswerSteps(model, cache), 0.0
    for number in range(N_STEPS):
        next_B = torch.tensor(
            [row[length + number] for row, length in zip(tokens, LENGTHS, strict=True)]
        )
        found = steps.logits(next_B)
        lengths = [length + number + 1 for length in LENGTHS]
        fresh = model.hidden_states(batch_of(tokens, lengths, source)).states_BTD
        last = fresh[torch.arange(len(lengths)), torch.tensor(lengths) - 1]
        largest = max(largest, float((found - model.logits(last)).abs().max()))
    return largest


@pytest.fixture(autouse=True)
def short_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_steps, "MIN_SLOTS", 8)  # so that they grow on the way
    monkeypatch.setattr(answer_steps, "SLOTS_READ", 3)


@pytest.mark.parametrize("name", [name for name in PRESETS if recordable(name) is not None])
def test_recorded_steps_of_a_preset_are_those_of_a_fresh_pass(name: str) -> None:
    model = recordable(name)
    assert model is not None
    assert largest_difference(model) < 1e-4


@pytest.mark.parametrize("mask", MASKS)
def test_recorded_steps_under_a_mask_are_those_of_a_fresh_pass(mask: str) -> None:
    assert largest_difference(build(tiny_architecture("gpt2", {"mask": mask}))) < 1e-4


@pytest.mark.parametrize("preset", ["gpt2", "llama"])
def test_recorded_steps_of_queries_without_gains_are_those_of_a_fresh_pass(preset: str) -> None:
    model = build(tiny_architecture(preset, {"attention.qk_norm": "fixed"}))
    assert largest_difference(model) < 1e-4


def test_answers_of_one_shape_share_a_recording_until_a_weight_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded = []

    def record_and_note(*arguments: Any) -> Any:
        recorded.append(arguments)
        return original(*arguments)

    original = model_steps.record
    monkeypatch.setattr(model_steps, "record", record_and_note)
    model = build(tiny_architecture("gpt2"))
    assert largest_difference(model) < 1e-4
    assert largest_difference(model, seed=7) < 1e-4
    assert len(recorded) == 1
    model.get_parameter("stack.layers.0.attention.query.weight").data.add_(0.1)
    assert largest_difference(model) < 1e-4
    assert len(recorded) == 2
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_recordings_of_a_model_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_steps, "MAX_RECORDINGS", 1)
    model = build(tiny_architecture("gpt2"))
    with torch.no_grad():
        for n_rows in (1, 2, 3, 1):
            cache = model.read(Batch.of(random_tokens(n_rows, 4, 0))).cache
            AnswerSteps(model, cache)
    assert len(model_steps.model_steps(model).recordings) == 1


@pytest.mark.parametrize("name", ["mixtral", "deepseek-v3"])
def test_experts_are_not_recorded(name: str) -> None:
    assert not can_prepare(build(tiny_architecture(name)), 64)


def test_long_texts_whose_windows_free_keys_are_not_recorded() -> None:
    model = build(tiny_architecture("gpt2", {"mask": "window(4)"}))
    assert can_prepare(model, 64)
    assert not can_prepare(model, 5000)

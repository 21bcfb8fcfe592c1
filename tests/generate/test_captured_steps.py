"""Captured steps on CUDA give what a model gives that reads everything again."""

from typing import Any

import pytest
import torch
from cross_forms import CROSS_FORMS
from tiny_model import PRESETS, random_tokens, tiny_architecture

from paribus.batch import Batch
from paribus.generate import captured_steps
from paribus.generate.captured_steps import CapturedStep, CapturedSteps
from paribus.generate.model_steps import can_prepare
from paribus.model import Transformer, build
from paribus.model.fused_step import can_fuse_step
from paribus.spec import Architecture

pytestmark = pytest.mark.gpu

MASKS = ["window(3)", "by_head(causal, window(2))", "by_layer(window(5), causal)", "prefix"]
N_STEPS = 9


def wide(preset: str, changes: dict[str, object] | None = None) -> Architecture:
    """Heads of a width that the kernels of a step accept."""
    if tiny_architecture(preset).attention.kind == "multi_head":
        changes = {"d_model": 48, "attention.d_head": 16, **(changes or {})}
    return tiny_architecture(preset, changes)


def recordable(name: str) -> bool:
    model = build(wide(name))
    return model.is_appendable and can_prepare(model, 64)


def batch_of(tokens: torch.Tensor, lengths: list[int], source: torch.Tensor | None) -> Batch:
    longest = max(lengths)
    real_BT = torch.arange(longest, device="cuda") < torch.tensor(lengths).cuda()[:, None]
    prefix = torch.tensor([3, 0, 1][: len(lengths)]).cuda()
    return Batch.of(tokens[:, :longest], prefix=prefix, real_BT=real_BT, source=source)


@torch.no_grad()
def largest_difference(model: Transformer, lengths: list[int], seed: int = 0) -> float:
    tokens, source = random_tokens(len(lengths), 16, seed).cuda(), None
    if model.encoder is not None:
        source = random_tokens(len(lengths), 6, seed + 1).cuda()
    steps = CapturedSteps(model, model.read(batch_of(tokens, lengths, source)).cache)
    largest, rows = 0.0, torch.arange(len(lengths)).cuda()
    for number in range(N_STEPS):
        found = steps.logits(tokens[rows, torch.tensor(lengths).cuda() + number])
        longer = [length + number + 1 for length in lengths]
        fresh = model.hidden_states(batch_of(tokens, longer, source)).states_BTD
        last = fresh[rows, torch.tensor(longer).cuda() - 1]
        largest = max(largest, float((found - model.logits(last)).abs().max()))
    return largest


@pytest.fixture(autouse=True)
def short_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured_steps, "MIN_SLOTS", 8)  # so that they grow on the way


@pytest.mark.parametrize("lengths", [[5], [5, 2, 4]])
@pytest.mark.parametrize("name", [name for name in PRESETS if recordable(name)])
def test_captured_steps_of_a_preset_are_those_of_a_fresh_pass(
    name: str, lengths: list[int]
) -> None:
    model = build(wide(name), device="cuda")
    assert can_fuse_step(model, len(lengths))
    assert largest_difference(model, lengths) < 1e-4


@pytest.mark.parametrize("form", CROSS_FORMS)
def test_captured_steps_of_every_form_of_cross_attention_are_those_of_a_fresh_pass(
    form: str,
) -> None:
    preset, changes = CROSS_FORMS[form]
    model = build(wide(preset, changes), device="cuda")
    assert can_fuse_step(model, 3) == (form in ("rotary", "cut"))
    assert largest_difference(model, [5, 2, 4]) < 1e-4


@pytest.mark.parametrize("mask", MASKS)
def test_captured_steps_under_a_mask_are_those_of_a_fresh_pass(mask: str) -> None:
    model = build(wide("gpt2", {"mask": mask}), device="cuda")
    assert can_fuse_step(model, 3)
    assert largest_difference(model, [5, 2, 4]) < 1e-4


@pytest.mark.parametrize("qk_norm", [True, "fixed"])
def test_steps_of_normalised_queries_are_captured_and_not_fused(qk_norm: bool | str) -> None:
    model = build(wide("llama", {"attention.qk_norm": qk_norm}), device="cuda")
    assert not can_fuse_step(model, 3)
    assert largest_difference(model, [5, 2, 4]) < 1e-4


def test_many_rows_and_long_texts_go_through_the_same_kernels() -> None:
    model = build(wide("llama", {"max_length": 700}), device="cuda")
    tokens = random_tokens(40, 600).cuda()
    with torch.no_grad():
        cache = model.read(Batch.of(tokens[:, :599])).cache
        found = CapturedSteps(model, cache).logits(tokens[:, 599])
        fresh = model(Batch.of(tokens)).logits_BTV[:, -1]
    assert float((found - fresh).abs().max()) < 1e-4


def test_two_answers_of_one_shape_do_not_share_buffers() -> None:
    model = build(wide("gpt2"), device="cuda")
    tokens = random_tokens(2, 12).cuda()
    with torch.no_grad():
        one = CapturedSteps(model, model.read(Batch.of(tokens[:1, :4])).cache)
        other = CapturedSteps(model, model.read(Batch.of(tokens[1:, :4])).cache)
        found = []
        for place in range(4, 8):
            found = [one.logits(tokens[:1, place]).clone(), other.logits(tokens[1:, place]).clone()]
        fresh = model(Batch.of(tokens[:, :8])).logits_BTV[:, -1]
    assert float((torch.cat(found) - fresh).abs().max()) < 1e-4


def test_answers_of_one_shape_use_one_capture_and_see_changes_of_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    captured = []

    class NotedStep(CapturedStep):
        def __init__(self, *arguments: Any):
            captured.append(arguments)
            super().__init__(*arguments)

    monkeypatch.setattr(captured_steps, "MIN_SLOTS", 16)
    monkeypatch.setattr(captured_steps, "CapturedStep", NotedStep)
    model = build(wide("gpt2"), device="cuda")
    assert largest_difference(model, [5, 2, 4]) < 1e-4
    for name in ("embedding.weight", "stack.layers.0.attention.key.weight"):
        model.get_parameter(name).data.mul_(1.5)
        assert largest_difference(model, [5, 2, 4], seed=7) < 1e-4
    assert len(captured) == 1

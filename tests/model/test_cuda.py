"""Every preset on CUDA: the same answers as on the CPU, in float32 and under bf16, eager and
compiled.
"""

from dataclasses import replace
from typing import Any

import pytest
import torch
from cross_forms import CROSS_FORMS
from tiny_model import PRESETS, tiny_architecture, tiny_batch
from torch.utils._pytree import tree_map_only

from paribus.batch import Batch
from paribus.model import DropoutKey, Transformer, build
from paribus.spec import Architecture

pytestmark = pytest.mark.gpu


def moved(given: Batch) -> Batch:
    source = None if given.source is None else given.source.tokens_BT.cuda()
    return Batch.of(given.tokens_BT.cuda(), prefix=given.layout.prefix, source=source)


def answer(model: Transformer, given: Batch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    logits = model(given, DropoutKey(seed=1, step=2)).logits_BTV
    logits.float().pow(2).mean().backward()
    grads = {name: p.grad.cpu() for name, p in model.named_parameters() if p.grad is not None}
    return logits.detach().float().cpu(), tree_map_only(torch.Tensor, lambda t: t.clone(), grads)


def aligned(preset: str, form: dict[str, Any] | None = None) -> Architecture:
    """Widths every fast kernel accepts."""
    changes: dict[str, object] = {"d_model": 32, "dropout": 0.1, **(form or {})}
    spec = tiny_architecture(preset)
    if spec.attention.kind == "multi_head":
        changes |= {"attention.d_head": 16}
    else:
        changes |= {
            "attention.d_content": 16,
            "attention.d_rotary": 16,
            "attention.d_value": 16,
            "attention.d_latent": 16,
        }
    changes |= (
        {"feed_forward.d_expert": 24}
        if spec.feed_forward.kind == "experts"
        else {"feed_forward.d_ff": 48}
    )
    return tiny_architecture(preset, changes)


@pytest.mark.parametrize("preset", PRESETS)
def test_cuda_agrees_with_cpu_in_float32(preset: str) -> None:
    spec = tiny_architecture(preset, {"dropout": 0.1})
    here, there = (
        answer(build(spec), tiny_batch(spec)),
        answer(build(spec, device="cuda"), moved(tiny_batch(spec))),
    )
    torch.testing.assert_close(here[0], there[0], atol=2e-4, rtol=2e-4)
    for name, grad in here[1].items():
        torch.testing.assert_close(
            there[1][name],
            grad,
            atol=2e-4,
            rtol=2e-3,
            msg=lambda text, name=name: f"{name}: {text}",
        )


@pytest.mark.parametrize("preset", PRESETS)
def test_bf16_autocast_stays_near_float32(preset: str) -> None:
    spec = aligned(preset)
    exact, _ = answer(build(spec, device="cuda"), moved(tiny_batch(spec)))
    with torch.autocast("cuda", torch.bfloat16):
        rough, grads = answer(build(spec, device="cuda"), moved(tiny_batch(spec)))
    assert all(grad.isfinite().all() for grad in grads.values())
    if spec.feed_forward.kind == "dense":  # routing is a hard choice, which rounding may flip
        assert (rough - exact).pow(2).mean().sqrt() <= 0.1 * exact.std()


@pytest.mark.parametrize(
    "preset", ["gpt2", "bert", "unilm", "mixed-heads", "t5", "mixtral", "deepseek-v3"]
)
def test_a_compiled_model_agrees_with_the_eager_one(preset: str) -> None:
    spec = aligned(preset)
    eager, compiled = build(spec, device="cuda"), build(spec, device="cuda")
    given = moved(tiny_batch(spec))
    fast = torch.compile(compiled, dynamic=False)
    plain, grads = answer(eager, given)
    logits = fast(given, DropoutKey(seed=1, step=2)).logits_BTV
    logits.float().pow(2).mean().backward()
    torch.testing.assert_close(logits.detach().cpu(), plain, atol=2e-4, rtol=2e-3)
    for name, parameter in compiled.named_parameters():
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad.cpu(), grads[name], atol=5e-4, rtol=5e-3)


@pytest.mark.parametrize("form", CROSS_FORMS)
def test_every_form_of_cross_attention_agrees_with_the_cpu(form: str) -> None:
    spec = aligned(*CROSS_FORMS[form])
    batch, here = tiny_batch(spec), build(spec)
    assert batch.source is not None
    real_BS = torch.arange(7) < torch.tensor([7, 4])[:, None]
    for source in (batch.source, Batch.of(batch.source.tokens_BT, real_BT=real_BS)):
        given = replace(batch, source=source)
        here.zero_grad()
        truth = answer(here, given)
        for compiles in (False, source is not batch.source):
            there = build(spec, device="cuda")
            model = torch.compile(there, dynamic=False) if compiles else there
            logits = model(given.to(torch.device("cuda")), DropoutKey(seed=1, step=2)).logits_BTV
            logits.float().pow(2).mean().backward()
            torch.testing.assert_close(logits.detach().cpu(), truth[0], atol=2e-4, rtol=2e-3)
            for name, parameter in there.named_parameters():
                assert parameter.grad is not None
                true = truth[1][name]
                torch.testing.assert_close(parameter.grad.cpu(), true, atol=5e-4, rtol=5e-3)
        with torch.autocast("cuda", torch.bfloat16):
            there = build(spec, device="cuda")
            rough, grads = answer(there, given.to(torch.device("cuda")))
        assert all(grad.isfinite().all() for grad in grads.values())
        assert (rough - truth[0]).pow(2).mean().sqrt() <= 0.1 * truth[0].std()


def test_grouped_experts_run_the_grouped_product_on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = aligned("mixtral")
    calls: list[torch.dtype] = []
    product = torch.nn.functional.grouped_mm

    def spy(rows: torch.Tensor, matrices: torch.Tensor, *, offs: torch.Tensor) -> torch.Tensor:
        calls.append(rows.dtype)
        return product(rows, matrices, offs=offs)

    monkeypatch.setattr(torch.nn.functional, "grouped_mm", spy)
    grouped, gathered = (
        build(spec, device="cuda", compute=compute) for compute in ("grouped", "gathered")
    )
    with torch.autocast("cuda", torch.bfloat16):
        one, two = (
            model(moved(tiny_batch(spec))).logits_BTV.float() for model in (grouped, gathered)
        )
    assert calls == [torch.bfloat16] * 3 * spec.n_layers
    assert ((one - two).abs() > 0.1 * two.std()).any(-1).float().mean() <= 0.1

"""What is observed is what the run's kernel computes, and observing changes nothing: in float32 on
the CPU, and under bf16 autocast on CUDA.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import pytest
import torch
from peak_memory import peak_bytes
from tiny_model import PRESETS, random_tokens, tiny_architecture, tiny_batch
from torch import Tensor

from paribus.batch import Batch
from paribus.model import Observer, Transformer, attention, build
from paribus.model.kernels import (
    AttentionMask,
    KernelChoice,
    ScoreChange,
    attend,
    choose_kernel,
)
from paribus.probe.flow_probe import AttentionObserver
from paribus.probe.mean_values import MeanValues
from paribus.probe.rank_probe import SpectraObserver
from paribus.spec import Architecture
from paribus.spec.probes import RankProbe
from paribus.watcher import Watcher

T, S, PREFIX = 40, 24, 13
# of a kernel's output, as in the law that kernels agree
TOLERANCES = {torch.float32: 2e-5, torch.bfloat16: 4e-2}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "causal": ("gpt2", {"mask": "causal"}),
    "prefix": ("gpt2", {"mask": "prefix"}),
    "full": ("gpt2", {"mask": "full"}),
    "mixed heads": ("gpt2", {"mask": "by_head(causal, reverse)"}),
    "cross": ("bart", {"encoder.n_layers": 2}),
    "latent": ("deepseek-v3", {}),
}
KERNELS = {"cpu": ("dense", "masked", "fused"), "cuda": ("dense", "masked", "fused", "flex")}
DEVICES = [pytest.param("cpu"), pytest.param("cuda", marks=pytest.mark.gpu)]
DEVICE_KERNELS = [
    *[pytest.param("cpu", kernel, id=f"cpu {kernel}") for kernel in KERNELS["cpu"]],
    *[
        pytest.param("cuda", kernel, id=f"cuda {kernel}", marks=pytest.mark.gpu)
        for kernel in KERNELS["cuda"]
    ],
]


def precision(device: str) -> AbstractContextManager[object]:
    """As a run trains there."""
    if device == "cuda":
        return torch.autocast(device, torch.bfloat16)
    return nullcontext()


def architecture(case: str) -> Architecture:
    """Widths that every kernel accepts."""
    preset, changes = CASES[case]
    sizes: dict[str, Any] = {"d_model": 32, "n_layers": 2, "max_length": 64, "dropout": 0.0}
    if case == "latent":
        channels = ("d_content", "d_rotary", "d_value", "d_latent")
        sizes |= {f"attention.{name}": 16 for name in channels}
    else:
        sizes |= {"attention.n_heads": 4, "attention.n_kv_heads": 4, "attention.d_head": 16}
    return tiny_architecture(preset, {**sizes, **changes})


def batch_of(spec: Architecture, device: str) -> Batch:
    source = None if spec.encoder is None else random_tokens(2, S, seed=1)
    return Batch.of(random_tokens(2, T), prefix=PREFIX, source=source).to(torch.device(device))


class Attended(NamedTuple):
    """What one call of a kernel was given and gave."""

    values_BGSE: Tensor
    outputs_BHTE: Tensor
    kernel: str


def spied_attend(calls: list[Attended]) -> Callable[..., Tensor]:
    """The dispatch of kernels, and a list of what they did."""

    def spy(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: AttentionMask,
        scores: ScoreChange,
        kernel: KernelChoice = "auto",
    ) -> Tensor:
        out = attend(query, key, value, mask, scores, kernel)
        narrowest = min(query.shape[-1], value.shape[-1])
        chosen = choose_kernel(mask, query.dtype, narrowest, scores.bias is not None, kernel)
        calls.append(Attended(value, out, chosen))
        return out

    return spy


class WeightsRecorder:
    """Keeps the weights of every attention in the order of the forward pass."""

    def __init__(self) -> None:
        self.weights: list[Tensor] = []

    def wants(self, name: str, layer: int) -> bool:
        return name.endswith("_weights")

    def see(self, name: str, layer: int, value: Tensor) -> None:
        self.weights.append(value)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("device", "kernel"), DEVICE_KERNELS)
def test_observed_weights_times_values_are_the_output_of_the_kernel(
    device: str, kernel: KernelChoice, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, calls, recorder = architecture(case), list[Attended](), WeightsRecorder()
    model = build(spec, seed=3, device=device, kernel=kernel)
    monkeypatch.setattr(attention, "attend", spied_attend(calls))
    with torch.no_grad(), precision(device):
        model(batch_of(spec, device), observer=recorder)
    n_attentions = 3 if case == "cross" else 1  # of the encoder, the decoder, and between them
    assert len(calls) == len(recorder.weights) == 2 * n_attentions
    assert {call.kernel for call in calls} == {kernel}
    assert {call.outputs_BHTE.dtype for call in calls} == {
        torch.bfloat16 if device == "cuda" else torch.float32
    }
    for weights_BHTS, call in zip(recorder.weights, calls, strict=True):
        values_BHSE = call.values_BGSE.float()
        found = weights_BHTS @ values_BHSE
        tolerance = TOLERANCES[call.outputs_BHTE.dtype] * found.abs().max()
        assert (found - call.outputs_BHTE.float()).abs().max() <= tolerance
        assert (weights_BHTS.sum(-1) - 1).abs().max() < 1e-5


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("device", "kernel"), DEVICE_KERNELS)
def test_observing_changes_no_bit_of_the_logits_of_any_kernel(
    device: str, kernel: KernelChoice, case: str
) -> None:
    spec, recorder = architecture(case), WeightsRecorder()
    model = build(spec, seed=3, device=device, kernel=kernel)
    batch = batch_of(spec, device)
    with torch.no_grad(), precision(device):
        without = model(batch).logits_BTV
        observed = model(batch, observer=recorder).logits_BTV
    assert recorder.weights
    assert torch.equal(observed, without)


@pytest.mark.gpu
@pytest.mark.parametrize("preset", PRESETS)
def test_observing_changes_no_bit_on_cuda(preset: str) -> None:
    spec, recorder = tiny_architecture(preset), WeightsRecorder()
    model = build(spec, seed=3, device="cuda")
    batch = tiny_batch(spec).to(torch.device("cuda"))
    with torch.no_grad():  # in float32: widths are odd
        without = model(batch).logits_BTV
        observed = model(batch, observer=recorder).logits_BTV
    assert recorder.weights
    assert torch.equal(observed, without)


class WeightSums:
    """Looks at weights, and keeps a number of each."""

    def __init__(self) -> None:
        self.sums: list[float] = []

    def wants(self, name: str, layer: int) -> bool:
        return name.endswith("_weights")

    def see(self, name: str, layer: int, value: Tensor) -> None:
        self.sums.append(value.sum().item())


OBSERVERS: dict[str, Callable[[], Observer]] = {
    "sums": WeightSums,
    "flow": lambda: AttentionObserver(MeanValues("flow")),
    "rank": lambda: SpectraObserver(RankProbe(), MeanValues("rank"), Watcher()),
}
MEMORY_LENGTH, MEMORY_HEADS = 192, 4
LAYER_BYTES = 2 * MEMORY_HEADS * MEMORY_LENGTH**2 * 4  # attention of one layer, in float32


def peak_of_observing(device: str, n_layers: int, observer: Observer) -> int:
    changes = {"n_layers": n_layers, "max_length": MEMORY_LENGTH, "dropout": 0.0}
    heads = {"attention.n_heads": MEMORY_HEADS, "attention.n_kv_heads": MEMORY_HEADS}
    spec = tiny_architecture("gpt2", {**changes, **heads})
    model: Transformer = build(spec, seed=3, device=device, kernel="masked")
    batch = Batch.of(random_tokens(2, MEMORY_LENGTH)).to(torch.device(device))

    def observe() -> None:
        with torch.no_grad(), precision(device):
            model.hidden_states(batch, observer=observer)

    return peak_bytes(observe, device)


@pytest.mark.parametrize("name", OBSERVERS)
@pytest.mark.parametrize("device", DEVICES)
def test_the_attention_of_one_layer_is_held_at_a_time(device: str, name: str) -> None:
    peaks = {}
    for n_layers in (1, 2, 6):  # the first also warms up what a library keeps
        peaks[n_layers] = peak_of_observing(device, n_layers, OBSERVERS[name]())
    assert peaks[2] > LAYER_BYTES
    assert abs(peaks[6] - peaks[2]) < LAYER_BYTES


@pytest.mark.parametrize("device", DEVICES)
def test_an_observer_that_keeps_attention_takes_a_layer_more_for_each(device: str) -> None:
    """The measurement sees what is held."""
    peaks = {n: peak_of_observing(device, n, WeightsRecorder()) for n in (1, 2, 6)}
    assert peaks[6] - peaks[2] >= 4 * LAYER_BYTES

"""The probe of flow on models whose attention and gradients are known."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from byte_models import byte_model
from probed_models import (
    found_values,
    probed,
    random_texts,
    with_planted_attention,
    with_uniform_attention,
)

from paribus.model import Transformer
from paribus.probe.flow_probe import n_readings, probe_flow
from paribus.probe.position_gradients import gradient_path, position_gradients
from paribus.record.probe_rows import ProbeRow
from paribus.spec.probe_variants import UNIFORM_ATTENTION
from paribus.spec.probes import FlowProbe
from paribus.watcher import Watcher

T = 12
HEAD_QUANTITIES = (
    "attention distance",
    "attention entropy",
    "weight on the first token",
    "weight on itself",
    "weight on the most attended token",
)


def flow_rows(model: Transformer, tmp_path: Path) -> list[ProbeRow]:
    spec = FlowProbe(n_texts=3)
    return list(probe_flow(probed(model, tmp_path), random_texts(3, T), spec, Watcher()))


@pytest.mark.parametrize("preset", ["gpt2", "bert", "unilm"])
def test_uniform_attention_is_what_the_mask_alone_gives(preset: str, tmp_path: Path) -> None:
    rows = flow_rows(with_uniform_attention(byte_model(preset, max_length=T)), tmp_path)
    for quantity in HEAD_QUANTITIES:
        own = found_values(rows, quantity, variant="")
        assert own
        assert own == pytest.approx(
            found_values(rows, quantity, variant=UNIFORM_ATTENTION), rel=1e-4
        )


def test_uniform_causal_attention_looks_back_by_half_of_the_text(tmp_path: Path) -> None:
    rows = flow_rows(with_uniform_attention(byte_model("gpt2", max_length=T)), tmp_path)
    distances = found_values(rows, "attention distance", variant="")
    assert distances == pytest.approx([(T - 1) / 4] * len(distances), rel=1e-5)
    first = found_values(rows, "weight on the first token", variant="")
    expected = sum(1 / n for n in range(1, T + 1)) / T
    assert first == pytest.approx([expected] * len(first), rel=1e-5)


def test_planted_attention_is_found(tmp_path: Path) -> None:
    """Heads that look at themselves, at the token before, and at the third token."""
    itself, before = list(range(T)), [0, *range(T - 1)]
    model = byte_model("gpt2", max_length=T, changes={"n_layers": 1})
    third = [min(t, 2) for t in range(T)]
    rows = flow_rows(with_planted_attention(model, [itself, before, third]), tmp_path)
    by_head = [found_values(rows, name, variant="", head=0)[0] for name in HEAD_QUANTITIES]
    assert by_head == pytest.approx([0, 0, 1 / T, 1, 1 / T], abs=1e-4)
    assert found_values(rows, "attention distance", variant="", head=1) == pytest.approx(
        [(T - 1) / T], abs=1e-4
    )
    assert found_values(rows, "attention entropy", variant="", head=1) == pytest.approx(
        [0], abs=1e-4
    )
    sinks = found_values(rows, "weight on the most attended token", variant="", head=2)
    assert sinks == pytest.approx([(T - 2) / T], abs=1e-4)


def test_masks_let_through_half_of_the_pairs_or_all(tmp_path: Path) -> None:
    causal = flow_rows(byte_model("gpt2", max_length=T), tmp_path / "causal")
    shares = found_values(causal, "reached pairs")
    assert shares == pytest.approx([1 / T] + [(T + 1) / (2 * T)] * (len(shares) - 1))
    both = flow_rows(byte_model("bert", max_length=T), tmp_path / "full")
    shares = found_values(both, "reached pairs")
    assert shares == pytest.approx([1 / T] + [1.0] * (len(shares) - 1))


def test_an_encoder_decoder_has_cross_attention_without_a_distance(tmp_path: Path) -> None:
    rows = flow_rows(byte_model("bart", max_length=T), tmp_path)
    assert found_values(rows, "attention entropy", branch="cross", stack="stack")
    assert not found_values(rows, "attention distance", branch="cross")
    assert found_values(rows, "reached pairs", stack="encoder")[1] == 1.0
    curve = [row for row in rows if row.quantity == "gradient norm"]
    assert [row.x for row in curve] == list(range(1, T // 2 + 1))  # from the source
    assert min(row.value for row in curve) > 0


def test_without_attention_a_state_depends_on_its_own_token_alone(tmp_path: Path) -> None:
    model = byte_model("gpt2", max_length=T)
    with torch.no_grad():
        for block in model.stack.layers:
            block.attention.value.weight.zero_()
    rows = flow_rows(model, tmp_path)
    own, *others = found_values(rows, "gradient norm")
    assert own > 0
    assert others == [0.0] * len(others)
    assert found_values(rows, "gradient distance") == [0.0]


@pytest.mark.parametrize("preset", ["gpt2", "bart", "bert"])
def test_gradient_norms_are_those_of_the_whole_jacobian(preset: str, tmp_path: Path) -> None:
    """Held against a Jacobian by finite differences of the embedding, in float64."""
    model = byte_model(preset, max_length=T).double()
    subject = probed(model, tmp_path)
    subject.model.double()
    tokens, path = random_texts(1, T).tokens_BT, gradient_path(subject)
    d_model = model.spec.d_model
    exact = position_gradients(subject, tokens, path, n_directions=d_model, seed=0)
    place = 2  # an input
    jacobian = jacobian_by_differences(subject, tokens, path, place)
    assert exact[0, place].item() == pytest.approx(jacobian.norm().item(), rel=1e-5)
    estimates = []
    for seed in range(40):
        found = position_gradients(subject, tokens, path, n_directions=4, seed=seed)
        estimates.append(found[0, place] ** 2)
    assert torch.stack(estimates).mean().sqrt().item() == pytest.approx(
        exact[0, place].item(), rel=0.1
    )


def jacobian_by_differences(subject, tokens, path, place: int) -> torch.Tensor:
    """∂h/∂x by central differences, with hooks in place of the probe's observer."""
    name = path.inputs.split(".")[0]
    stack = subject.model.encoder if name == "encoder" else subject.model.stack
    top = subject.model.encoder if path.outputs.startswith("encoder") else subject.model.stack
    states: dict[str, torch.Tensor] = {}
    shift = torch.zeros(subject.spec.d_model, dtype=torch.float64)

    def move(module, arguments):
        hidden = arguments[0].clone()
        hidden[:, place] += shift
        return (hidden, *arguments[1:])

    def keep(module, arguments, output):
        states["top"] = output.states_BTD[0, path.position]

    handles = [stack.layers[0].register_forward_pre_hook(move), top.register_forward_hook(keep)]
    columns, step = [], 1e-6
    for dimension in range(subject.spec.d_model):
        ends = []
        for sign in (1, -1):
            shift.zero_()
            shift[dimension] = sign * step
            subject.show(tokens, _Nobody())
            ends.append(states["top"])
        columns.append((ends[0] - ends[1]) / (2 * step))
    for handle in handles:
        handle.remove()
    return torch.stack(columns, 1)


class _Nobody:
    def wants(self, name: str, layer: int) -> bool:
        return False

    def see(self, name: str, layer: int, value: torch.Tensor) -> None:
        raise AssertionError("nothing was wanted")


def test_the_cost_is_what_is_done(tmp_path: Path) -> None:
    done: list[int] = []

    class Steps(Watcher):
        def advance(self, amount: int) -> None:
            done.append(amount)

    texts, subject = random_texts(5, T), probed(byte_model("gpt2", max_length=T), tmp_path)
    list(probe_flow(subject, texts, FlowProbe(), Steps()))
    assert sum(done) == n_readings(texts) == 10

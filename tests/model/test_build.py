import pytest
import torch
from tiny_model import tiny_architecture

from paribus.errors import SpecError
from paribus.model import build, build_empty
from paribus.spec import load, parameters, parse_architecture, presets, price, resolve

SMALL = {
    "n_vocab": 13,
    "max_length": 11,
    "d_model": 6,
    "n_layers": 2,
    "attention": {"kind": "multi_head", "n_heads": 3},
}


@pytest.mark.parametrize("name", presets())
def test_a_model_on_meta_has_the_priced_parameters_and_no_memory(name):
    spec = load(name)
    model = build(spec, device="meta")
    tensors = [*model.parameters(), *model.buffers()]
    assert all(tensor.is_meta for tensor in tensors)
    resolved = resolve(spec)
    assert {n: tuple(p.shape) for n, p in model.named_parameters()} == {
        n: p.shape for n, p in parameters(resolved).items()
    }
    assert sum(p.numel() for p in model.parameters()) == price(resolved, length=3).parameters


def test_building_does_not_touch_the_global_generator():
    before = torch.random.get_rng_state()
    build(parse_architecture(SMALL), seed=3)
    build_empty(parse_architecture(SMALL))
    build(parse_architecture(SMALL), device="meta")
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_global_generator_does_not_touch_the_model():
    torch.manual_seed(1)
    left = build(parse_architecture(SMALL), seed=3)
    torch.manual_seed(2)
    right = build(parse_architecture(SMALL), seed=3)
    assert all(
        torch.equal(a, b) for a, b in zip(left.parameters(), right.parameters(), strict=True)
    )
    other = build(parse_architecture(SMALL), seed=5)
    assert not torch.equal(left.embedding.weight, other.embedding.weight)


def test_a_model_in_another_precision_is_the_same_model_rounded():
    full, half = (
        build(parse_architecture(SMALL), seed=3),
        build(parse_architecture(SMALL), seed=3, dtype=torch.bfloat16),
    )
    for a, b in zip(full.parameters(), half.parameters(), strict=True):
        assert b.dtype == torch.bfloat16
        assert torch.equal(a.bfloat16(), b)
    out = half(torch.arange(10).view(2, 5)).logits_BTV
    assert out.dtype == torch.bfloat16


def test_an_empty_model_is_on_the_device_and_waits_for_its_weights():
    model = build_empty(parse_architecture(SMALL), dtype=torch.float64)
    assert all(p.device.type == "cpu" and p.dtype == torch.float64 for p in model.parameters())


def test_an_unknown_kernel_is_refused():
    with pytest.raises(
        SpecError, match=r"^kernel is 'flash'; use one of auto, dense, masked, fused, flex$"
    ):
        build(parse_architecture(SMALL), kernel="flash")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("kernel", ["dense", "masked", "fused"])
def test_a_model_runs_on_the_kernel_it_was_built_with(kernel, monkeypatch):
    wanted = []
    true = __import__("paribus.model.attention", fromlist=["attend"]).attend
    monkeypatch.setattr(
        "paribus.model.attention.attend", lambda *given: wanted.append(given[-1]) or true(*given)
    )
    model = build(parse_architecture(SMALL), kernel=kernel)
    model(torch.arange(10).view(2, 5))
    assert wanted == [kernel] * 2


def test_an_unknown_compute_is_refused():
    with pytest.raises(SpecError, match="compute is 'groped'; use one of grouped, gathered"):
        build(tiny_architecture("mixtral"), compute="groped")


def test_selection_biases_stay_in_float32():
    state = build(tiny_architecture("deepseek-v3"), dtype=torch.bfloat16).state_dict()
    biases = [tensor for name, tensor in state.items() if name.endswith("selection_bias")]
    assert biases
    assert all(tensor.dtype == torch.float32 for tensor in biases)
    assert state["embedding.weight"].dtype == torch.bfloat16

"""Same name, same start: equal bit for bit in any two architectures, on CPU and CUDA."""

from itertools import combinations

import pytest
import torch
from tiny_model import PRESETS, tiny_architecture

from paribus.model import build
from paribus.model.initialise import initial_std
from paribus.spec import parameters, resolve


@pytest.mark.parametrize(("left", "right"), list(combinations(PRESETS, 2)))
def test_shared_parameters_start_equal(left: str, right: str) -> None:
    specs = [resolve(tiny_architecture(name)) for name in (left, right)]
    tables = [parameters(spec) for spec in specs]
    models = [
        dict(build(tiny_architecture(name), seed=5).named_parameters()) for name in (left, right)
    ]
    shared = [
        name
        for name in tables[0].keys() & tables[1].keys()
        if tables[0][name] == tables[1][name]
        and initial_std(tables[0][name], specs[0]) == initial_std(tables[1][name], specs[1])
    ]
    assert "embedding.weight" in shared
    for name in shared:
        assert torch.equal(models[0][name], models[1][name]), name


def test_different_seeds_and_different_names_start_differently() -> None:
    one, two = (
        dict(build(tiny_architecture("gpt2"), seed=seed).named_parameters()) for seed in (1, 2)
    )
    assert not torch.equal(one["embedding.weight"], two["embedding.weight"])
    query, key = (one[f"stack.layers.0.attention.{name}.weight"] for name in ("query", "key"))
    assert query.shape == key.shape
    assert not torch.equal(query, key)


def test_the_scale_of_a_start_moves_no_draw() -> None:
    small, large = (
        dict(
            build(
                tiny_architecture("gpt2", {"init": {"kind": "normal", "std": std}})
            ).named_parameters()
        )
        for std in (0.25, 0.5)
    )
    assert torch.equal(small["embedding.weight"] * 2, large["embedding.weight"])


@pytest.mark.gpu
@pytest.mark.parametrize("preset", PRESETS)
def test_cuda_starts_with_the_same_bits(preset: str) -> None:
    here, there = build(tiny_architecture(preset)), build(tiny_architecture(preset), device="cuda")
    for (name, left), right in zip(
        here.state_dict().items(), there.state_dict().values(), strict=True
    ):
        assert torch.equal(left, right.cpu()), name

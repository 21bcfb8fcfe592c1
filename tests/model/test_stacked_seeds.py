"""Many seeds of one model at once: the dense path works under torch.func, so parameters can be
stacked.
"""

import pytest
import torch
from tiny_model import PRESETS, tiny_architecture, tiny_batch
from torch.func import functional_call, grad, stack_module_state, vmap

from paribus.model import build


@pytest.mark.parametrize("preset", PRESETS)
def test_stacked_seeds_give_each_seeds_own_gradient(preset: str) -> None:
    spec = tiny_architecture(preset)
    given = tiny_batch(spec)
    models = [build(spec, seed=seed, kernel="dense", compute="gathered") for seed in (1, 2, 3)]
    parameters, buffers = stack_module_state(models)

    def loss(weights: dict[str, torch.Tensor], state: dict[str, torch.Tensor]) -> torch.Tensor:
        return functional_call(models[0], (weights, state), (given,)).logits_BTV.pow(2).mean()

    stacked = vmap(grad(loss))(parameters, buffers)
    for place, model in enumerate(models):
        model(given).logits_BTV.pow(2).mean().backward()
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(stacked[name][place], parameter.grad, atol=1e-5, rtol=1e-4)

import ast
from collections import Counter
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from tiny_model import PRESETS, tiny_architecture, tiny_batch
from torch import Tensor

from paribus.model import DropoutKey, build

B, T, S, D, N_LAYERS = 2, 11, 7, 23, 4
NAMES = ("attention_input", "attention_output", "feed_forward_output", "block_output")


class Recorder:
    """Keeps all it sees, in order."""

    def __init__(self) -> None:
        self.activations: list[tuple[str, int, Tensor]] = []

    def see(self, name: str, layer: int, value: Tensor) -> None:
        self.activations.append((name, layer, value))


@pytest.mark.parametrize("preset", PRESETS)
def test_an_observer_sees_each_layer_once_and_changes_no_logit(preset: str) -> None:
    spec = tiny_architecture(preset)
    model, batch, recorder = build(spec, seed=3), tiny_batch(spec), Recorder()
    with torch.no_grad():
        without = model(batch).logits_BTV
        with_observer = model(batch, observer=recorder).logits_BTV
    assert torch.equal(with_observer, without)
    expected = {}
    for layer in range(N_LAYERS):
        expected |= dict.fromkeys([(f"stack.{name}", layer) for name in NAMES], (B, T, D))
        if spec.encoder is not None:
            expected[("stack.cross_output", layer)] = (B, T, D)
            expected |= dict.fromkeys([(f"encoder.{name}", layer) for name in NAMES], (B, S, D))
    shapes = {(name, layer): tuple(value.shape) for name, layer, value in recorder.activations}
    assert shapes == expected
    counts = Counter((name, layer) for name, layer, _ in recorder.activations)
    assert set(counts.values()) == {1}


def test_an_observer_sees_layers_from_the_bottom_up_and_the_encoder_first() -> None:
    spec = tiny_architecture("bart")
    recorder = Recorder()
    build(spec)(tiny_batch(spec), observer=recorder)
    blocks = [
        (name, layer) for name, layer, _ in recorder.activations if name.endswith("block_output")
    ]
    assert blocks == [
        *[("encoder.block_output", layer) for layer in range(N_LAYERS)],
        *[("stack.block_output", layer) for layer in range(N_LAYERS)],
    ]


def test_activations_are_those_of_the_modules() -> None:
    spec = tiny_architecture("gpt2", {"dropout": 0.0})
    model, batch, recorder = build(spec, seed=3), tiny_batch(spec), Recorder()
    with torch.no_grad():
        states = model.hidden_states(batch, None, recorder).states_BTD
    values = {(name, layer): value for name, layer, value in recorder.activations}
    for layer in range(1, N_LAYERS):
        below, block = values["stack.block_output", layer - 1], model.stack.layers[layer]
        branches = (
            values["stack.attention_output", layer] + values["stack.feed_forward_output", layer]
        )
        torch.testing.assert_close(values["stack.block_output", layer], below + branches)
        normed = block.attention_norm(below)
        assert torch.equal(values["stack.attention_input", layer], normed)
    last = values["stack.block_output", N_LAYERS - 1]
    assert model.stack.final_norm is not None
    assert torch.equal(model.stack.final_norm(last), states)


def test_an_observer_sees_what_dropout_has_not_touched() -> None:
    spec = tiny_architecture("gpt2", {"dropout": 0.5, "n_layers": 1})
    model, batch, recorder = build(spec, seed=3), tiny_batch(spec), Recorder()
    key = DropoutKey(1, 2)
    with torch.no_grad():
        without = model(batch, key).logits_BTV
        assert torch.equal(model(batch, key, recorder).logits_BTV, without)
    values = {name: value for name, _, value in recorder.activations}
    assert not bool((values["stack.attention_output"] == 0).any())
    assert not bool((values["stack.feed_forward_output"] == 0).any())


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("preset", ["gpt2", "bart"])
def test_a_compiled_model_stays_one_graph(preset: str, observed: bool) -> None:
    spec = tiny_architecture(preset, {"n_layers": 2, "dropout": 0.0})
    model, batch = build(spec, seed=3), tiny_batch(spec)
    recorder = Recorder() if observed else None
    torch.compiler.reset()
    compiled = torch.compile(model.hidden_states, backend="eager", fullgraph=True)
    with torch.no_grad():
        got = compiled(batch, None, recorder).states_BTD
        assert torch.equal(got, model.hidden_states(batch).states_BTD)
    if recorder is not None:
        assert [layer for name, layer, _ in recorder.activations if name == "stack.block_output"]


def test_the_probe_of_the_recipe_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    recipe = page.split("## Add a probe")[1].split("```python\n")[1].split("```")[0]
    exec(compile(dedent(recipe), "CONTRIBUTING.md", "exec"), {})
    norms = ast.literal_eval(capsys.readouterr().out)
    assert list(norms) == [0, 1]
    assert all(norm > 0 for norm in norms.values())

import ast
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from tiny_model import PRESETS, tiny_architecture, tiny_batch
from torch import Tensor

from paribus.model import DropoutKey, attention, build
from paribus.model.attention import MultiHeadAttention
from paribus.model.observed_places import PLACES, places_of

B, T, S, D, N_LAYERS = 2, 11, 7, 23, 4
STATES = ("attention_input", "attention_output", "feed_forward_output", "block_output")


class Recorder:
    """Keeps all it sees of the places that it wants, in order."""

    def __init__(self, places: Collection[str] = tuple(PLACES)) -> None:
        self.places = places
        self.activations: list[tuple[str, int, Tensor]] = []

    def wants(self, name: str, layer: int) -> bool:
        return name.split(".")[1] in self.places

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
    expected = {(name, layer) for name, layers in places_of(model.spec).items() for layer in layers}
    assert {(name, layer) for name, layer, _ in recorder.activations} == expected
    for name, _, value in recorder.activations:
        n_tokens, place = (S if name.startswith("encoder") else T), name.split(".")[1]
        if place.endswith("_mask"):
            assert value.dtype == torch.bool
            continue
        assert value.shape[:1] == (B,)
        if place.endswith(("_scores", "_weights")) and place != "router_scores":
            n_keys = S if place.startswith("cross") else n_tokens
            assert value.shape[2:] == (n_tokens, n_keys)
            assert value.dtype == torch.float32
        elif place in ("router_scores", "expert_choice", "expert_gates"):
            assert value.shape[1] == n_tokens
        else:
            assert value.shape == (B, n_tokens, D)
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
    recorder = Recorder(STATES) if observed else None
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


@pytest.mark.parametrize("preset", PRESETS)
def test_weights_are_those_of_the_kernel(preset: str) -> None:
    """Weights times values, by the modules of the layer, are what attention gave."""
    spec = tiny_architecture(preset, {"dropout": 0.0})
    model, batch, recorder = build(spec, seed=3), tiny_batch(spec), Recorder()
    with torch.no_grad():
        model(batch, observer=recorder)
    values = {(name, layer): value for name, layer, value in recorder.activations}
    for layer, block in enumerate(model.stack.layers):
        attention = block.attention
        if not isinstance(attention, MultiHeadAttention):
            continue
        weights = values["stack.attention_weights", layer]
        value_BTO = attention.value(values["stack.attention_input", layer])
        heads = value_BTO.unflatten(-1, (-1, attention.d_head)).transpose(1, 2)
        heads = heads.repeat_interleave(weights.shape[1] // heads.shape[1], 1)
        out = attention.output((weights @ heads).transpose(1, 2).flatten(2))
        torch.testing.assert_close(out, values["stack.attention_output", layer])
        assert bool((weights.sum(-1) - 1).abs().max() < 1e-5)


def test_hidden_keys_take_nothing_and_a_query_that_sees_none_takes_nothing() -> None:
    spec = tiny_architecture("gpt2")
    recorder = Recorder(["attention_weights"])
    with torch.no_grad():
        build(spec, seed=3)(tiny_batch(spec), observer=recorder)
    for _, _, weights in recorder.activations:
        assert torch.equal(weights, weights.tril())


def test_what_nobody_wants_is_not_computed() -> None:
    spec = tiny_architecture("gpt2")
    recorder = Recorder([])
    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "attention_scores", None)  # calling it would fail
        build(spec)(tiny_batch(spec), observer=recorder)
    assert recorder.activations == []


@pytest.mark.parametrize("placement", ["pre", "post", "parallel"])
def test_without_skips_and_feed_forward_a_block_is_its_attention(placement: str) -> None:
    spec = tiny_architecture("gpt2", {"dropout": 0.0, "placement": placement})
    model, batch, recorder = build(spec, seed=3), tiny_batch(spec), Recorder()
    with torch.no_grad():
        model.hidden_states(batch, None, recorder, left_out=["skips", "feed_forward"])
    values = {(name, layer): value for name, layer, value in recorder.activations}
    assert ("stack.feed_forward_output", 0) not in values
    for layer, block in enumerate(model.stack.layers):
        out = values["stack.attention_output", layer]
        if placement == "post":
            out = block.attention_norm(out)
        assert torch.equal(values["stack.block_output", layer], out)


def test_skips_alone_or_feed_forward_alone_can_be_left_out() -> None:
    spec = tiny_architecture("bart", {"dropout": 0.0})
    model, batch = build(spec, seed=3), tiny_batch(spec)
    with torch.no_grad():
        whole = model.hidden_states(batch).states_BTD
        assert torch.equal(model.hidden_states(batch, left_out=[]).states_BTD, whole)
        for left_out in (["skips"], ["feed_forward"]):
            assert not torch.equal(model.hidden_states(batch, left_out=left_out).states_BTD, whole)


def test_weights_that_are_observed_are_those_that_make_the_output() -> None:
    """Of self-attention and of cross-attention: weights × values, projected, are its output."""
    spec = tiny_architecture("bart")
    model, recorder = build(spec, seed=3), Recorder()
    with torch.no_grad():
        model(tiny_batch(spec), observer=recorder)
    seen = {(name, layer): value for name, layer, value in recorder.activations}
    read = [(number, "attention", ("stack.attention_input", number)) for number in (0, 1)]
    source = ("encoder.output", len(model.spec.encoder.layers) - 1)
    for number, branch, of_values in [*read, (0, "cross", source), (1, "cross", source)]:
        module = getattr(model.stack.layers[number], branch)
        weights_BHTS = seen[f"stack.{branch}_weights", number]
        with torch.no_grad():
            value_BHSE = module.value(seen[of_values]).unflatten(-1, (weights_BHTS.shape[1], -1))
            out_BTD = (weights_BHTS @ value_BHSE.transpose(1, 2)).transpose(1, 2).flatten(2)
            expected = module.output(out_BTD)
        torch.testing.assert_close(seen[f"stack.{branch}_output", number], expected)

"""Code for a length is the same whichever lengths came first, where determinism is asked: so a
resumed run repeats.
"""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny_model import N_VOCAB, tiny_architecture

import paribus.train.model_loss as work
from paribus.batch import Batch
from paribus.model import DropoutKey, Transformer, build
from paribus.model.dropout import dropout_site_keys, uniform_integers
from paribus.train.determinism import deterministic_algorithms

Forms = list[tuple[tuple[int, ...], ...]]


class Owner:
    """Whoever has the blocks of a model compiled."""


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
def forms(monkeypatch: pytest.MonkeyPatch) -> Forms:
    """The forms that were run, each as the shapes it was made for."""
    ran: Forms = []

    def backend(graph: Any, inputs: list[Any]) -> Callable[..., Any]:
        own = tuple(
            tuple(map(int, one.shape))
            for one in inputs
            if isinstance(one, torch.Tensor) and one.dim() == 2
        )

        def run(*given: Any) -> Any:
            ran.append(own)
            return graph.forward(*given)

        return run

    plain = torch.compile
    torch.compiler.reset()
    monkeypatch.setattr(work.torch, "compile", lambda function: plain(function, backend=backend))
    return ran


def small(preset: str, mask: str) -> Transformer:
    return build(tiny_architecture(preset, {"dropout": 0.1, "n_layers": 1, "mask": mask}))


def numbered(forms: Forms) -> list[int]:
    """For each form the place where it was first run; two may be made for the same shapes."""
    numbers = [id(form) for form in forms]
    return [numbers.index(number) for number in numbers]


def answered(
    model: Transformer, ask: Callable[..., Any], length: int, prefix: int, seed: int = 1
) -> None:
    batch = Batch.of(torch.randint(N_VOCAB, (3, length)), prefix=prefix)
    keys = dropout_site_keys(seed, model.dropout_sites, torch.device("cpu"))
    ask(batch, DropoutKey(seed, torch.tensor(2), site_keys=keys))


def test_each_length_has_one_form_whatever_came_before(forms: Forms) -> None:
    model = small("bert", "full")
    ask = work._compile(model.hidden_states, work._VARYING)
    with deterministic_algorithms(True):
        for length in (10, 14, 10, 12, 14, 10):
            answered(model, ask, length, 0)
    # the model is one piece, dropout and all
    assert numbered(forms) == [0, 1, 0, 3, 1, 0]
    assert len(set(forms)) == 3


@pytest.mark.parametrize("positions", ["rotary", "alibi"])
@pytest.mark.parametrize("mask", ["prefix", "causal", "full", "by_head(causal, prefix)"])
def test_all_splits_and_seeds_share_a_form(forms: Forms, mask: str, positions: str) -> None:
    changes = {"mask": mask, "positions": positions, "dropout": 0.1, "n_layers": 2}
    model = build(tiny_architecture("unilm", changes))
    ask = work._compile(model.hidden_states, work._VARYING)
    with deterministic_algorithms(True):
        for prefix, seed in ((3, 1), (5, 1), (3, 2), (7, 3)):
            answered(model, ask, 12, prefix, seed)
    assert numbered(forms) == [0, 0, 0, 0]


def test_a_sharded_block_is_one_form_for_each_length(forms: Forms, owner: Owner) -> None:
    model = small("unilm", "prefix")
    work._compile_blocks(model, owner)
    with deterministic_algorithms(True), torch.no_grad():
        for length, prefix, seed in ((12, 3, 1), (12, 5, 2), (10, 5, 1), (12, 7, 3)):
            answered(model, model.hidden_states, length, prefix, seed)
    assert numbered(forms) == [0, 0, 2, 0]  # a block is one piece, dropout and all


def test_all_layers_share_the_form_of_a_block(forms: Forms, owner: Owner) -> None:
    model = build(tiny_architecture("gpt2", {"n_layers": 3, "dropout": 0.0}))
    work._compile_blocks(model, owner)
    with deterministic_algorithms(True), torch.no_grad():
        for prefix, seed in ((3, 1), (5, 2)):
            answered(model, model.hidden_states, 12, prefix, seed)
    assert numbered(forms) == [0] * 6  # two texts, three layers


# Two splits, a block of the encoder and of the decoder. With a bias on scores the first layer
# computes what of the mask is empty, and the others have it, so theirs is another form.
@pytest.mark.parametrize(("preset", "n_forms"), [("bart", 4), ("encdec-shared", 8)])
def test_blocks_of_an_encoder_decoder_share_forms(forms: Forms, preset: str, n_forms: int) -> None:
    changes = {"dropout": 0.0, "n_layers": 2, "encoder.n_layers": 2}
    architecture = tiny_architecture(preset, changes)
    model, plain = build(architecture), build(architecture)
    assert work._compiles_by_block(model)
    work._compile_blocks(model, owner)
    with deterministic_algorithms(True), torch.no_grad():
        for split in (4, 7, 4):
            batch = Batch.of(
                torch.randint(N_VOCAB, (3, 11 - split)), source=torch.randint(N_VOCAB, (3, split))
            )
            ours = model.hidden_states(batch, None).states_BTD
            assert torch.allclose(ours, plain.hidden_states(batch, None).states_BTD, atol=1e-6)
    assert len(set(numbered(forms))) == n_forms


def test_a_model_whose_blocks_were_compiled_is_freed_at_once(forms: Forms) -> None:
    changes = {"dropout": 0.0, "n_layers": 1, "encoder.n_layers": 1}
    model, owner = build(tiny_architecture("bart", changes)), Owner()
    work._compile_blocks(model, owner)
    batch = Batch.of(torch.randint(N_VOCAB, (3, 7)), source=torch.randint(N_VOCAB, (3, 5)))
    with torch.no_grad():
        model.hidden_states(batch, None)
    gc.collect()
    gc.disable()
    try:
        del owner
        assert forms
        assert not any("forward" in block.__dict__ for block in model.modules())
        freed = weakref.ref(model)
        del model
        assert freed() is None
    finally:
        gc.enable()


def test_with_dropout_an_encoder_decoder_is_compiled_whole() -> None:
    assert not work._compiles_by_block(build(tiny_architecture("bart", {"dropout": 0.1})))


def test_keys_made_ahead_give_the_same_draws() -> None:
    like, place = torch.empty(2, 5, 3), "stack.layers.0.attention"
    keys = dropout_site_keys(7, [place], torch.device("cpu"))
    assert uniform_integers(like, DropoutKey(7, 3, site_keys=keys), place).equal(
        uniform_integers(like, DropoutKey(7, 3), place)
    )
    assert not uniform_integers(like, DropoutKey(8, 3), place).equal(
        uniform_integers(like, DropoutKey(7, 3), place)
    )


@pytest.mark.parametrize("preset", ["bart", "gpt2", "encdec-shared"])
def test_every_place_of_dropout_is_known(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(tiny_architecture(preset, {"dropout": 0.1}))
    source = None if model.encoder is None else torch.randint(N_VOCAB, (2, 7))
    batch = Batch.of(torch.randint(N_VOCAB, (2, 9)), source=source)
    keys = dropout_site_keys(1, model.dropout_sites, torch.device("cpu"))
    with torch.no_grad():
        ours, plain = (
            model.hidden_states(batch, draws)
            for draws in (DropoutKey(1, 4, site_keys=keys), DropoutKey(1, 4))
        )
    assert ours.states_BTD.equal(plain.states_BTD)

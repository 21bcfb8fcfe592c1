"""Sizes against built models and sums written out here."""

import re

import pytest
import torch
from tiny_model import PRESETS, tiny_architecture
from torch.utils.flop_counter import FlopCounterMode

from paribus.batch import Batch
from paribus.design import architecture_size
from paribus.errors import SpecError
from paribus.model import build
from paribus.spec import Architecture, price, resolve

N_INPUT, N_TARGET = 7, 11


def _built(spec: Architecture) -> int:
    """FLOPs of one text on the reference path, forward and backward, words at the targets alone."""
    model = build(spec, device="meta", kernel="dense", compute="gathered")
    length = N_TARGET if spec.encoder else N_INPUT + N_TARGET
    tokens = torch.zeros(1, length, dtype=torch.long, device="meta")
    source = torch.zeros(1, N_INPUT, dtype=torch.long, device="meta") if spec.encoder else None
    with FlopCounterMode(display=False) as counter:
        states = model.hidden_states(
            Batch.of(tokens, prefix=0 if spec.encoder else N_INPUT, source=source)
        ).states_BTD
        model.logits(states[:, -N_TARGET:]).sum().backward()
    return counter.get_total_flops()


@pytest.mark.parametrize("preset", PRESETS)
def test_training_flops_are_those_a_built_model_spends_on_one_text(preset: str) -> None:
    spec = tiny_architecture(preset)
    assert architecture_size(spec, "training_flops", N_INPUT, N_TARGET) * (
        N_INPUT + N_TARGET
    ) == pytest.approx(_built(spec))


MASKS = [
    ("gpt2", "window(3)"),
    ("gpt2", "strided(3)"),
    ("bert", "by_head(causal, reverse & window(3))"),
]


@pytest.mark.parametrize(("preset", "mask"), [*((preset, None) for preset in PRESETS), *MASKS])
def test_inference_flops_are_the_prefill_and_every_token_after_it(
    preset: str, mask: str | None
) -> None:
    spec = tiny_architecture(preset, {"mask": mask} if mask else {})
    resolved = resolve(spec)
    source, prefix, first = (None, N_INPUT, N_INPUT) if spec.encoder is None else (N_INPUT, 0, 1)
    steps = [
        price(resolved, length, source, prefix).decode.dense
        for length in range(first + 1, first + N_TARGET)
    ]
    whole = price(resolved, first, source, prefix).prefill.dense + sum(steps)
    assert architecture_size(spec, "inference_flops", N_INPUT, N_TARGET) == pytest.approx(whole)


@pytest.mark.parametrize("n_target", [1, 2, 5, 6])
def test_short_targets_are_counted_too(n_target: int) -> None:
    resolved = resolve(tiny_architecture("bert"))
    steps = [
        price(resolved, length, None, N_INPUT).decode.dense
        for length in range(N_INPUT + 1, N_INPUT + n_target)
    ]
    whole = price(resolved, N_INPUT, None, N_INPUT).prefill.dense + sum(steps)
    assert architecture_size(
        tiny_architecture("bert"), "inference_flops", N_INPUT, n_target
    ) == pytest.approx(whole)


def test_parameters_are_counted_as_the_price_does() -> None:
    for preset in PRESETS:
        spec = tiny_architecture(preset)
        cost = price(resolve(spec))
        assert architecture_size(spec, "parameters", 1, 1) == cost.parameters
        assert (
            architecture_size(spec, "non_embedding_parameters", 1, 1)
            == cost.non_embedding_parameters
        )
        assert architecture_size(spec, "active_parameters", 1, 1) == cost.active_parameters


def test_by_nothing_all_are_of_one_size() -> None:
    assert (
        architecture_size(tiny_architecture("gpt2"), "nothing", 1, 1)
        == architecture_size(tiny_architecture("t5"), "nothing", 3, 5)
        == 1
    )


@pytest.mark.parametrize(
    ("preset", "lengths", "message"),
    [
        ("gpt2", (0, 5), "match reads 0 input and 5 target tokens; use 1 or more of each"),
        ("t5", (5, 0), "match reads 5 input and 0 target tokens; use 1 or more of each"),
        (
            "gpt2",
            (20, 10),
            (
                "match reads 20 input and 10 target tokens as one sequence, but max_length is 29;"
                " use shorter ones, or set max_length to 30 or more"
            ),
        ),
        (
            "t5",
            (31, 10),
            (
                "match reads 31 input and 10 target tokens one beside the other, but max_length is"
                " 29; use shorter ones, or set max_length to 31 or more"
            ),
        ),
    ],
)
def test_texts_that_cannot_be_read_are_refused(
    preset: str, lengths: tuple[int, int], message: str
) -> None:
    for by in ("training_flops", "inference_flops"):
        with pytest.raises(SpecError, match=f"^{re.escape(message)}$"):
            architecture_size(tiny_architecture(preset), by, *lengths)

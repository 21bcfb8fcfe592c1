"""Texts that share rows are read as each is alone, in whatever order they join, grow and leave."""

import numpy as np
import pytest
import torch
from tiny_model import random_tokens, tiny_architecture

from paribus.batch import Batch
from paribus.model import Transformer, build
from paribus.model.linear import JoinedWeights
from paribus.model.rows_pass import RowsPass
from paribus.model.text_rows import TextRows

MASKS = [
    "causal",
    "prefix",
    "window(3)",
    "by_head(causal, window(2))",
    "alternate(causal, window(5))",
]
N_STEPS = 14


def fresh_state(model: Transformer, tokens: list[int], prefix: int, source: torch.Tensor | None):
    batch = Batch.of(torch.tensor([tokens]), prefix=prefix, source=source)
    return model.hidden_states(batch).states_BTD[0, -1]


@torch.no_grad()
def require_equal_to_alone(model: Transformer, seed: int) -> None:
    """Random texts join, grow together or one alone, and leave."""
    rng = np.random.default_rng(seed)
    rows = TextRows(model.spec.stack.masks, torch.device("cpu"), min_slots=3)
    texts: list[tuple[list[int], int, torch.Tensor | None]] = []
    for step in range(N_STEPS):
        if len(texts) < 4 and rng.random() < 0.6:
            tokens = random_tokens(1, int(rng.integers(1, 8)), 100 * seed + step)[0].tolist()
            prefix = int(rng.integers(0, len(tokens) + 1))
            row, source = rows.join(prefix), None
            if model.encoder is not None:
                source = random_tokens(1, int(rng.integers(1, 9)), step)
                keys = model.read_source(Batch.of(source, prefix=source.shape[1]), JoinedWeights())
                own = {n: tuple(one[0] for one in each) for n, each in keys.layers.items()}
                rows.set_source(row, own)
            states = model.read_rows(
                torch.tensor([tokens]), RowsPass(rows, range(row, row + 1), [len(tokens)])
            )
            texts.append((tokens, prefix, source))
            torch.testing.assert_close(states[0, -1], fresh_state(model, *texts[row]))
        if texts and rng.random() < 0.8:
            first = int(rng.integers(0, len(texts))) if rng.random() < 0.3 else 0
            n_new = rng.integers(1, 3, len(texts) - first).tolist()
            if rng.random() < 0.5:
                n_new = [1] * len(n_new)
            tokens_BT = random_tokens(len(n_new), max(n_new), 7 * seed + step)
            states = model.read_rows(tokens_BT, RowsPass(rows, range(first, len(texts)), n_new))
            for row, (own, n_own) in enumerate(zip(tokens_BT.tolist(), n_new, strict=True)):
                texts[first + row][0].extend(own[:n_own])
                rows.mark_saved(first + row, rows.length(first + row))
                expected = fresh_state(model, *texts[first + row])
                torch.testing.assert_close(states[row, n_own - 1], expected)
        if texts and rng.random() < 0.3:
            row = int(rng.integers(0, len(texts)))
            rows.leave(row)
            last = texts.pop()
            if row < len(texts):
                texts[row] = last


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("preset", ["gpt2", "llama", "t5", "deepseek-v3"])
def test_rows_are_read_as_alone(preset: str, mask: str) -> None:
    model = build(tiny_architecture(preset, {"mask": mask, "max_length": 41})).double()
    for seed in range(2):
        require_equal_to_alone(model, seed)


@torch.no_grad()
def test_slots_that_nobody_sees_are_used_again() -> None:
    model = build(tiny_architecture("gpt2", {"mask": "alternate(causal, window(3))"}))
    rows = TextRows(model.spec.stack.masks, torch.device("cpu"), min_slots=3)
    rows.join()
    for place in range(23):
        model.read_rows(torch.tensor([[place]]), RowsPass(rows, range(1), [1]))
        rows.mark_saved(0, place + 1)
    capacities = [rows.slots[rule].capacity for rule in model.spec.stack.masks[:2]]
    assert capacities == [24, 3]


@torch.no_grad()
def test_what_is_not_saved_stays_though_nobody_sees_it() -> None:
    model = build(tiny_architecture("gpt2", {"mask": "window(2)"}))
    rows = TextRows(model.spec.stack.masks, torch.device("cpu"), min_slots=3)
    rows.join()
    for place in range(7):
        model.read_rows(torch.tensor([[place]]), RowsPass(rows, range(1), [1]))
    keys = rows.keys(0, 0, 7)
    rows.leave(0)
    rows.join()
    rows.fill(0, np.arange(4, 7), 7, [tuple(one[:, 4:7] for one in layer) for layer in keys])
    states = model.read_rows(torch.tensor([[7]]), RowsPass(rows, range(1), [1]))
    expected = fresh_state(model, list(range(8)), 0, None)
    torch.testing.assert_close(states[0, 0], expected)

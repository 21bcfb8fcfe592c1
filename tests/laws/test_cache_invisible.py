"""A cache cannot be told from its absence: in any split into turns and batches the states equal
those of one fresh pass, nothing is read that the plan does not name, and what is kept is what the
plan keeps.
"""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from tiny_model import MAX_LENGTH, PRESETS, random_tokens, tiny_architecture

from paribus.batch import Batch
from paribus.masks import SequenceLayout, plan_growth
from paribus.model import Transformer, build
from paribus.spec import Architecture, resolve

N_CONVERSATIONS, N_TURNS, MAX_ROWS = 4, 4, 3
LEAVES = ["causal", "prefix", "window(2)", "window(5)", "causal & strided(2)", "causal & same_side"]
N_RANDOM_MASKS = 24


def random_mask(rng: np.random.Generator) -> str:
    """A mask for four layers of six heads."""
    one, two = rng.choice(LEAVES, 2)
    forms = [
        f"({one}) & ({two})",
        f"({one}) | ({two})",
        f"by_head({one}, {two})",
        f"by_layer({one}, {two})",
        f"alternate({one}, by_head({two}, {one}))",
        f"by_layer(({one}) | window(3), {two})",
    ]
    return str(rng.choice(forms))


def turns(rng: np.random.Generator, n_rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """How long each text is after each turn, and where its prefix ends: fixed, or at the end of
    what was said so far.
    """
    lengths = rng.integers(1, 6, n_rows)
    prefixes, is_growing = rng.integers(0, lengths + 1), rng.random() < 0.5
    for _ in range(N_TURNS):
        yield lengths, prefixes
        grown = lengths + rng.integers(1, 6, n_rows)
        if is_growing:
            prefixes = rng.integers(lengths, grown + 1)
        lengths = grown


def batch_of(
    tokens: torch.Tensor, lengths: np.ndarray, prefixes: np.ndarray, source: torch.Tensor | None
) -> Batch:
    longest = int(lengths.max())
    real_BT = torch.arange(longest) < torch.from_numpy(lengths)[:, None]
    is_padded = not bool(real_BT.all())
    return Batch.of(
        tokens[:, :longest],
        prefix=torch.from_numpy(prefixes),
        real_BT=real_BT if is_padded else None,
        source=source,
    )


def largest_difference(model: Transformer, seed: int) -> float:
    """Over a conversation of several texts at once; the plan is checked on the way."""
    rng = np.random.default_rng(seed)
    n_rows, masks = int(rng.integers(1, MAX_ROWS + 1)), model.spec.stack.masks
    tokens = random_tokens(n_rows, MAX_LENGTH, seed)
    source = None if model.encoder is None else random_tokens(n_rows, 6, seed + 1)
    cache, largest = None, 0.0
    old = [SequenceLayout(0)] * n_rows
    for lengths, prefixes in turns(rng, n_rows):
        fresh = model.hidden_states(batch_of(tokens, lengths, prefixes, source)).states_BTD
        first_source = source if cache is None else None
        out = model.read(batch_of(tokens, lengths, prefixes, first_source), cache)
        cache = out.cache
        for row in range(n_rows):
            new = SequenceLayout(int(lengths[row]), int(prefixes[row]))
            plan, places = plan_growth(masks, old[row], new), out.places_BT[row]
            places = places[places >= 0]
            assert places.tolist() == np.flatnonzero(plan.is_read).tolist()
            for layer, kept in enumerate(plan.is_kept):
                assert cache.stack.kept_places(layer, row) == np.flatnonzero(kept).tolist()
            ours = out.states_BTD[row, : len(places)]
            largest = max(largest, float((ours - fresh[row, places]).abs().max()))
            old[row] = new
    return largest


def require_invisible(spec: Architecture, first_seed: int) -> None:
    model = build(spec)
    # the routing of experts jumps where two are as good, so rounding must be small
    exact = resolve(spec).stack.layers[-1].feed_forward.kind == "experts"
    model = model.double() if exact else model
    with torch.no_grad():
        for seed in range(first_seed, first_seed + N_CONVERSATIONS):
            assert largest_difference(model, seed) < 1e-4


@pytest.mark.parametrize("preset", PRESETS)
def test_of_every_preset(preset: str) -> None:
    require_invisible(tiny_architecture(preset), 0)


@pytest.mark.parametrize("number", range(N_RANDOM_MASKS))
def test_of_random_masks(number: int) -> None:
    rng = np.random.default_rng(number)
    preset = str(rng.choice(["gpt2", "llama", "t5-v1.1", "deepseek-v3"]))
    require_invisible(tiny_architecture(preset, {"mask": random_mask(rng)}), 100 * number)

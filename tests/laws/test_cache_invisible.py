"""A cache cannot be told from its absence: in any split into turns and batches the states equal
those of one fresh pass, nothing is read that the plan does not name, and what is kept is what the
plan keeps.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from cross_forms import CROSS_FORMS
from random_masks import random_mask
from tiny_model import MAX_LENGTH, PRESETS, random_tokens, tiny_architecture

from paribus.batch import Batch
from paribus.masks import (
    SequenceLayout,
    TextBesideSource,
    plan_growth,
    plan_source_growth,
    same_source_views,
)
from paribus.model import Transformer, build
from paribus.objectives.problem_layout import document_positions
from paribus.spec import Architecture, resolve

N_CONVERSATIONS, N_TURNS, MAX_ROWS = 2, 4, 3
N_RANDOM_MASKS = 24
ENCODER_MASKS = [
    "full",
    "causal",
    "prefix",
    "window(3)",
    "by_head(causal, window(2))",
    "by_layer(causal, full)",
    "same_document",
    "same_document & window(2)",
    "by_head(same_document, causal & same_document)",
    "alternate(same_document, documents_so_far)",
]
CROSS_MASKS = ["full", "same_document", "documents_so_far", "by_head(documents_so_far, full)"]
DECODER_MASKS = ["causal", "window(3)", "causal & same_document", "by_layer(window(2), causal)"]


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
        if rng.random() < 0.5:  # what is not needed goes at once, and not when room is short
            cache = replace(cache, stack=cache.stack.compact())
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
    require_invisible(tiny_architecture(preset), 2)  # a prefix that stays, and one that grows


@pytest.mark.parametrize("form", CROSS_FORMS)
def test_of_every_form_of_cross_attention(form: str) -> None:
    preset, changes = CROSS_FORMS[form]
    require_invisible(tiny_architecture(preset, changes), 2)


@pytest.mark.parametrize("number", range(N_RANDOM_MASKS))
def test_of_random_masks(number: int) -> None:
    rng = np.random.default_rng(number)
    preset = str(rng.choice(["gpt2", "llama", "t5-v1.1", "deepseek-v3"]))
    require_invisible(tiny_architecture(preset, {"mask": random_mask(rng)}), 100 * number)


class Growing:
    """Texts of several documents, a few more tokens in each turn. A turn may go on with the last
    document; positions begin anew with each, or go on.
    """

    def __init__(self, rng: np.random.Generator, n_rows: int, seed: int):
        self.tokens, self.lengths = random_tokens(n_rows, MAX_LENGTH, seed), np.zeros(n_rows, int)
        self.documents = np.zeros((n_rows, MAX_LENGTH), np.int64)
        self.restarts = rng.random() < 0.5

    def grow(self, n_new: np.ndarray, documents: np.ndarray) -> None:
        for row, (length, n) in enumerate(zip(self.lengths, n_new, strict=True)):
            self.documents[row, length : length + n] = documents[row]
        self.lengths = self.lengths + n_new

    def batch(self, has_documents: bool, is_source: bool, source: Batch | None = None) -> Batch:
        longest, documents, positions = int(self.lengths.max()), None, None
        real_BT = torch.arange(longest) < torch.from_numpy(self.lengths)[:, None]
        if has_documents:
            documents = torch.from_numpy(self.documents[:, :longest])
        if has_documents and self.restarts:
            positions = document_positions(documents)
        return Batch.of(
            self.tokens[:, :longest],
            prefix=torch.from_numpy(self.lengths) if is_source else 0,
            real_BT=None if bool(real_BT.all()) else real_BT,
            documents_BT=documents,
            positions_BT=positions,
            source=source,
        )

    def layout(self, row: int, has_documents: bool, is_source: bool) -> SequenceLayout:
        length = int(self.lengths[row])
        documents = self.documents[row, :length] if has_documents else None
        return SequenceLayout(length, length if is_source else 0, documents)


def largest_difference_beside_sources(model: Transformer, seed: int) -> float:
    """Over a conversation in which sources grow with the texts; both plans are checked on the
    way.
    """
    rng = np.random.default_rng(seed)
    n_rows, has_documents = int(rng.integers(1, MAX_ROWS + 1)), model.spec.asks_for_documents
    assert model.spec.encoder is not None
    cross = [block.cross for block in model.spec.stack.layers]
    source, text = Growing(rng, n_rows, seed), Growing(rng, n_rows, seed + 1)
    empty = TextBesideSource(SequenceLayout(0), SequenceLayout(0))
    cache, old, largest = None, [empty] * n_rows, 0.0
    turns_of_rows = np.zeros(n_rows, np.int64)
    for turn in range(N_TURNS):
        source.grow(rng.integers(turn == 0, 6, n_rows), turns_of_rows)
        text.grow(rng.integers(1, 6, n_rows), turns_of_rows)
        turns_of_rows = turns_of_rows + (rng.random(n_rows) < 0.7)
        batch = text.batch(has_documents, False, source.batch(has_documents, True))
        fresh = model.hidden_states(batch).states_BTD
        out = model.read(batch, cache)
        is_first, cache = cache is None, out.cache
        if rng.random() < 0.5:
            cache = replace(cache, stack=cache.stack.compact())
        assert out.source_places_BS is not None
        for row in range(n_rows):
            new = TextBesideSource(
                text.layout(row, has_documents, False), source.layout(row, has_documents, True)
            )
            sources = plan_source_growth(model.spec.encoder.masks, old[row].source, new.source)
            views = None
            if not is_first:
                views = same_source_views(cross, old[row], new, sources.is_unchanged)
            plan = plan_growth(model.spec.stack.masks, old[row].text, new.text, views)
            for places_BT, planned in (
                (out.source_places_BS, sources.is_read),
                (out.places_BT, plan.is_read),
            ):
                assert (
                    places_BT[row][places_BT[row] >= 0].tolist() == np.flatnonzero(planned).tolist()
                )
            places = np.flatnonzero(plan.is_read)
            ours = out.states_BTD[row, : len(places)]
            largest = max(largest, float((ours - fresh[row, places]).abs().max()))
            old[row] = new
    return largest


@pytest.mark.parametrize("encoder_mask", ENCODER_MASKS)
@pytest.mark.parametrize("cross", [None, *CROSS_MASKS])
def test_of_sources_that_grow(encoder_mask: str, cross: str | None) -> None:
    number = ENCODER_MASKS.index(encoder_mask) * 7 + len(cross or "")
    rng = np.random.default_rng(number)
    preset = str(rng.choice(["t5", "t5-v1.1", "bart"]))
    changes = {"encoder.mask": encoder_mask, "mask": str(rng.choice(DECODER_MASKS))}
    if cross is not None:
        changes["encoder.cross"] = cross
    model = build(tiny_architecture(preset, changes))
    with torch.no_grad():
        for seed in range(N_CONVERSATIONS):
            assert largest_difference_beside_sources(model, 100 * number + seed) < 1e-4


@pytest.mark.parametrize("form", CROSS_FORMS)
@pytest.mark.parametrize("encoder_mask", ENCODER_MASKS)
def test_of_sources_that_grow_in_every_form(encoder_mask: str, form: str) -> None:
    number = ENCODER_MASKS.index(encoder_mask)
    preset, changes = CROSS_FORMS[form]
    masks = {
        "mask": DECODER_MASKS[number % len(DECODER_MASKS)],
        "encoder.mask": encoder_mask,
        "encoder.cross": CROSS_MASKS[number % 3],  # one rule for all heads
    }
    model = build(tiny_architecture(preset, masks | changes))
    with torch.no_grad():
        for seed in range(N_CONVERSATIONS):
            assert largest_difference_beside_sources(model, 1000 + 10 * number + seed) < 1e-4

"""Rows are independent: packed equals unpacked, a row alone equals its place in the batch."""

from typing import Any

import pytest
import torch
from cross_forms import CROSS_FORMS
from tiny_model import PRESETS, random_tokens, tiny_architecture, tiny_batch

from paribus.batch import Batch
from paribus.model import build
from paribus.objectives.problem_layout import document_positions

FORMS = list(CROSS_FORMS.values())
ONE_STACK = [preset for preset in PRESETS if tiny_architecture(preset).encoder is None]


@pytest.mark.parametrize(("preset", "changes"), [*((name, {}) for name in PRESETS), *FORMS])
def test_a_row_alone_equals_its_place_in_the_batch(preset: str, changes: dict[str, Any]) -> None:
    spec = tiny_architecture(preset, changes)
    model, given = build(spec), tiny_batch(spec, n_sequences=5)
    together = model(given).logits_BTV
    for row in range(5):
        source = None if given.source is None else given.source.tokens_BT[row : row + 1]
        alone = model(Batch.of(given.tokens_BT[row : row + 1], prefix=4, source=source)).logits_BTV
        torch.testing.assert_close(alone[0], together[row], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("preset", ONE_STACK)
def test_packed_documents_equal_each_document_alone(preset: str) -> None:
    written = tiny_architecture(preset).mask
    spec = tiny_architecture(preset, {"mask": f"({written}) & same_document"})
    model, plain = build(spec), build(tiny_architecture(preset))
    first, second = random_tokens(2, 5, seed=1), random_tokens(2, 8, seed=2)
    documents = torch.tensor([0] * 5 + [1] * 8).expand(2, -1)
    packed = Batch.of(
        torch.cat([first, second], 1),
        documents_BT=documents,
        positions_BT=document_positions(documents),
    )
    logits = model(packed).logits_BTV
    torch.testing.assert_close(logits[:, :5], plain(first).logits_BTV, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(logits[:, 5:], plain(second).logits_BTV, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("preset", "changes"), [*((name, {}) for name in PRESETS), *FORMS])
def test_padding_on_either_side_changes_no_real_row(preset: str, changes: dict[str, Any]) -> None:
    spec = tiny_architecture(preset, changes)
    model, text = build(spec), random_tokens(2, 6)
    source = None if spec.encoder is None else random_tokens(2, 7, seed=1)
    alone = model(Batch.of(text, source=source)).logits_BTV
    padded = torch.cat([text, torch.zeros(2, 3, dtype=torch.int64)], 1)
    real = (torch.arange(9) < 6).expand(2, -1)
    right = model(Batch.of(padded, real_BT=real, source=source)).logits_BTV[:, :6]
    torch.testing.assert_close(right, alone, atol=1e-5, rtol=1e-5)
    place = (torch.arange(9) - 3).clamp(min=0).expand(2, -1)
    left = model(
        Batch.of(padded.roll(3, 1), real_BT=real.roll(3, 1), positions_BT=place, source=source)
    ).logits_BTV
    torch.testing.assert_close(left[:, 3:], alone, atol=1e-5, rtol=1e-5)

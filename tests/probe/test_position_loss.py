"""Loss by position: that of likelihoods token by token, and lower where the context tells."""

from pathlib import Path

import pytest
from byte_models import random_item
from probed_checkpoint import probed_checkpoint

from paribus.errors import SpecError
from paribus.evaluate import Item
from paribus.evaluate.likelihood import AskedModel, likelihoods
from paribus.probe.item_answers import ItemReader
from paribus.probe.position_loss import position_loss_rows

TEXT = {"kind": "copy", "form": "text"}
TEXTS = [random_item(23, 1, seed).context for seed in range(3)]


@pytest.mark.parametrize(
    ("preset", "objective"),
    [("gpt2", "causal"), ("unilm", "prefix"), ("t5", "prefix"), ("bert", "last_token")],
)
def test_the_nats_of_all_positions_add_up_to_those_of_the_text(
    preset: str, objective: str, tmp_path: Path
) -> None:
    checkpoint, model = probed_checkpoint(tmp_path, preset, TEXT, objective)
    reader = ItemReader.of(checkpoint, model)
    rows = list(position_loss_rows(reader, TEXTS, n_tokens=19, n_context=5))
    assert [row.x for row in rows] == list(range(5, 19))
    assert {(row.n, row.x_name) for row in rows} == {(3, "position")}
    items = [Item(str(n), "", text[:5], text[5:19]) for n, text in enumerate(TEXTS)]
    asked = AskedModel(model, checkpoint.objective(), checkpoint.tokenizer, window=61)
    whole = sum(answer.nats for answer in likelihoods(asked, items)) / 3
    assert sum(row.value for row in rows) == pytest.approx(whole, rel=1e-5)
    one_more = Item("one", "", TEXTS[0][:5], TEXTS[0][5:6])
    (first,) = likelihoods(asked, [one_more])
    (row,) = position_loss_rows(reader, TEXTS[:1], n_tokens=6, n_context=5)
    assert row.value == pytest.approx(first.nats, rel=1e-5)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    reader = ItemReader.of(*probed_checkpoint(tmp_path, "gpt2", TEXT, "causal"))
    with pytest.raises(SpecError, match="there is no text to read; give at least one"):
        list(position_loss_rows(reader, [], n_tokens=5))
    with pytest.raises(SpecError, match="has 23 tokens, but n_tokens is 24; give longer texts"):
        list(position_loss_rows(reader, TEXTS, n_tokens=24))
    with pytest.raises(SpecError, match="n_context is 5 of n_tokens 5; use at least 1, and fewer"):
        list(position_loss_rows(reader, TEXTS, n_tokens=5, n_context=5))
    with pytest.raises(SpecError, match="n_tokens is 62, which does not fit the window of 61"):
        list(position_loss_rows(reader, ["a" * 70], n_tokens=62, n_context=50))

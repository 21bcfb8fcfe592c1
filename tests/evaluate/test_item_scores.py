"""Scores of items in rows that they share equal those of each item by itself."""

import math

import pytest
from byte_models import BYTE_TOKENIZER, ITEMS, VOCABULARY, byte_model

from paribus.evaluate import Item, likelihoods
from paribus.evaluate.item_rows import item_rows
from paribus.evaluate.item_scores import item_scores
from paribus.evaluate.likelihood import AskedModel
from paribus.model import Transformer
from paribus.objectives.framing import ItemLayout, LaidItem, generation_layout, lay_item
from paribus.spec.objectives import (
    UL2,
    CausalLM,
    LastToken,
    Objective,
    PrefixLM,
    Seq2Seq,
    SpanCorruption,
)

CASES: list[tuple[str, Objective]] = [
    ("gpt2", CausalLM()),
    ("llama", CausalLM()),
    ("bert", LastToken()),
    ("unilm", PrefixLM()),
    ("unilm", SpanCorruption()),
    ("unilm", UL2()),
    ("unilm", Seq2Seq()),
    ("t5", SpanCorruption()),
    ("t5", Seq2Seq()),
    ("bart", UL2()),
]


def layout_of(model: Transformer, objective: Objective) -> ItemLayout:
    return generation_layout(objective, model.spec, VOCABULARY, model.spec.max_length)


def lay(layout: ItemLayout, items: tuple[Item, ...]) -> list[LaidItem]:
    laid_items = []
    for item in items:
        context, target = BYTE_TOKENIZER.encode(item.context), BYTE_TOKENIZER.encode(item.target)
        laid_items.append(lay_item(layout, item.name, context, target))
    return laid_items


@pytest.mark.parametrize("n_sequences", [1, 3, None])
@pytest.mark.parametrize(("preset", "objective"), CASES)
def test_scores_are_those_of_the_yardstick(
    preset: str, objective: Objective, n_sequences: int | None
) -> None:
    model = byte_model(preset)
    layout = layout_of(model, objective)
    items = (*ITEMS, ITEMS[0], Item("other end", "", ITEMS[0].context, ITEMS[0].target[:-1] + "!"))
    scores = item_scores(model, layout, lay(layout, items), n_sequences)
    exact = likelihoods(AskedModel(model, objective, BYTE_TOKENIZER), items)
    expected = [answer.nats for answer in exact]
    assert [score.nats for score in scores] == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(("preset", "objective"), CASES)
def test_a_target_is_greedy_if_each_of_its_tokens_is_the_likeliest(
    preset: str, objective: Objective
) -> None:
    model = byte_model(preset)
    layout = layout_of(model, objective)
    context = list(b"abc abc")
    target: list[int] = []
    for _ in range(3):
        candidates = range(VOCABULARY.size)
        laid = [lay_item(layout, "it", context, [*target, token]) for token in candidates]
        scores = item_scores(model, layout, laid)
        best = min(candidates, key=lambda token, scores=scores: scores[token].nats)
        assert [token for token in candidates if scores[token].is_greedy] == [best]
        target.append(best)
    wrong_start = [target[0] + 1, *target[1:]]
    (score,) = item_scores(model, layout, [lay_item(layout, "it", context, wrong_start)])
    assert not score.is_greedy


def test_items_that_read_the_same_share_a_row() -> None:
    model = byte_model("gpt2")
    layout = layout_of(model, CausalLM())
    laid = []
    for target in (b"a", b"b", b"c", b"ab", b"ac", b"xb"):
        laid.append(lay_item(layout, "it", list(b"abc"), list(target)))
    rows = item_rows(layout, laid)
    assert [len(row.last_targets) for row in rows] == [3, 2, 1]
    assert [row.read.tokens[1:] for row in rows] == [
        tuple(b"abc"),
        tuple(b"abca"),
        tuple(b"abcx"),
    ]
    together = item_scores(model, layout, laid)
    for item, score in zip(laid, together, strict=True):
        (alone,) = item_scores(model, layout, [item])
        assert score.nats == pytest.approx(alone.nats, abs=1e-5)


def test_no_token_is_read_that_no_answer_needs() -> None:
    """A target that ends where the window does leaves its last token unread."""
    model = byte_model("gpt2", max_length=9)
    layout = generation_layout(CausalLM(), model.spec, VOCABULARY, 10)
    (row,) = item_rows(layout, [lay_item(layout, "it", list(b"abcde"), list(b"fghij"))])
    assert len(row.read.tokens) == 9
    laid = lay(layout, (Item("it", "", "ab", "cdefgh"),))
    assert math.isfinite(item_scores(model, layout, laid)[0].nats)

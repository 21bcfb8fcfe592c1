"""Nats of many targets at once: as the problems of `likelihoods` give them, in any order and any
batch.
"""

import random

import pytest
import torch
from byte_models import BYTE_TOKENIZER, ITEMS, VOCABULARY, byte_model, random_item

from paribus.evaluate import Item, likelihoods
from paribus.evaluate.likelihood import AskedModel
from paribus.evaluate.tasks import target_scores, task_arm
from paribus.evaluate.tasks.read_rows import shared_rows
from paribus.model import Transformer
from paribus.objectives.framing import LaidItem, lay_item
from paribus.spec.objectives import (
    UL2,
    CausalLM,
    LastToken,
    MaskedLM,
    Objective,
    PrefixLM,
    Seq2Seq,
    SpanCorruption,
)

ARMS = [
    ("gpt2", CausalLM()),
    ("llama", CausalLM()),
    ("unilm", PrefixLM()),
    ("unilm", UL2()),
    ("unilm", SpanCorruption()),
    ("mixtral", CausalLM()),
    ("t5", PrefixLM()),
    ("t5", SpanCorruption()),
    ("bart", Seq2Seq()),
    ("unilm", Seq2Seq()),
    ("bert", LastToken()),
    ("bert", MaskedLM()),
]
# one token beside sixty, and options that differ in their last token alone
SHARED = (
    Item("short", "", "the cat sat on the", "m"),
    Item("long", "", "the cat sat on", " " * 30 + "n" * 30),
    Item("other", "", "the cat sat on the", "n"),
    Item("again", "", "the cat sat on the", "n"),
)


def laid_items(
    model: Transformer, objective: Objective, items: tuple[Item, ...]
) -> tuple[list[LaidItem], object]:
    arm = task_arm(model.spec, objective, BYTE_TOKENIZER)
    contexts = arm.encode_contexts([item.context for item in items])
    targets = arm.encode_targets([item.target for item in items])
    laid = []
    for item, context, target in zip(items, contexts, targets, strict=True):
        laid.append(lay_item(arm.layout, item.name, context, target))
    return laid, arm.layout


@pytest.mark.parametrize(
    ("preset", "objective"), ARMS, ids=lambda value: getattr(value, "kind", value)
)
def test_scores_are_those_of_likelihoods_in_any_order_and_batch(
    preset: str, objective: Objective
) -> None:
    model = byte_model(preset)
    items = (*ITEMS, *SHARED)
    label = "pseudo-likelihood" if isinstance(objective, MaskedLM) else "likelihood"
    answers = likelihoods(AskedModel(model, objective, BYTE_TOKENIZER), items, label, n_sequences=1)
    alone = [answer.nats for answer in answers]
    laid, layout = laid_items(model, objective, items)
    shuffled = list(range(len(items)))
    random.Random(5).shuffle(shuffled)
    for max_positions in (1, 200, 100_000):
        scores = target_scores(model, layout, laid, max_positions)
        assert scores.nats.tolist() == pytest.approx(alone, rel=1e-5)
        moved = target_scores(model, layout, [laid[n] for n in shuffled], max_positions)
        assert moved.nats.tolist() == pytest.approx([alone[n] for n in shuffled], rel=1e-5)


def test_targets_that_differ_in_their_last_token_are_read_once() -> None:
    model = byte_model("gpt2")
    laid, layout = laid_items(model, CausalLM(), SHARED)
    rows = shared_rows(layout, laid)
    assert [len(row.scored) for row in rows] == [3, 1]
    scores = target_scores(model, layout, laid)
    assert scores.nats[2] == scores.nats[3]
    assert scores.is_greedy is None


def test_an_encoder_reads_a_shared_context_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = byte_model("t5")
    items = tuple(Item(str(n), "", "a long context", "x" * n) for n in (1, 5, 9))
    laid, layout = laid_items(model, PrefixLM(), items)
    n_sources = []
    assert model.encoder is not None
    model.encoder.register_forward_pre_hook(lambda _, args: n_sources.append(len(args[0])))
    together = target_scores(model, layout, laid).nats
    assert n_sources == [1]
    alone = [target_scores(model, layout, [one]).nats[0] for one in laid]
    assert together.tolist() == pytest.approx(alone, rel=1e-5)


@torch.no_grad()
def test_a_target_is_greedy_where_each_token_is_the_likeliest() -> None:
    model = byte_model("gpt2")
    layout = task_arm(model.spec, CausalLM(), BYTE_TOKENIZER).layout
    context = [1, 2, 3]
    said: list[int] = []
    for _ in range(4):
        tokens = torch.tensor([[VOCABULARY.bos, *context, *said]])
        said.append(int(model(tokens).logits_BTV[0, -1].argmax()))
    right = lay_item(layout, "right", context, said)
    wrong = lay_item(layout, "wrong", context, [*said[:-1], (said[-1] + 1) % 256])
    scores = target_scores(model, layout, [right, wrong], with_greedy=True)
    assert scores.is_greedy is not None
    assert scores.is_greedy.tolist() == [True, False]


def test_items_of_other_lengths_do_not_move_a_score() -> None:
    model = byte_model("unilm")
    items = (random_item(5, 60), random_item(40, 1))
    laid, layout = laid_items(model, PrefixLM(), items)
    both = target_scores(model, layout, laid).nats
    alone = [target_scores(model, layout, [one]).nats[0] for one in laid]
    assert both.tolist() == pytest.approx(alone, rel=1e-5)

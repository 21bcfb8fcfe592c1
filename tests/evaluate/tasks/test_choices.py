"""Choices: scored in four ways, as computed by hand; a floor for what needs no model."""

import math
from dataclasses import replace

import numpy as np
import pytest
from byte_models import BYTE_TOKENIZER, byte_model

from paribus.analyse.task_scores import macro_f1, matthews
from paribus.corpus.tasks import ChoiceItem
from paribus.evaluate import Item, likelihoods
from paribus.evaluate.likelihood import AskedModel
from paribus.evaluate.tasks import ask_choices, choice_floors
from paribus.evaluate.tasks.choices import chunk_items
from paribus.evaluate.tasks.floors import (
    choose_options,
    label_floors,
    option_scores,
    padded_options,
)
from paribus.spec.objectives import CausalLM, MaskedLM, Objective, PrefixLM, Seq2Seq

ITEMS = (
    ChoiceItem("one", "d", "The sea is", (" blue", " a very long option indeed", " g"), 0),
    ChoiceItem("two", "d", "Two and two are", (" four", " five"), 0),
    ChoiceItem("three", "e", "Who?", (" four", " five"), 1),
)
ARMS = [
    ("gpt2", CausalLM()),
    ("unilm", PrefixLM()),
    ("t5", PrefixLM()),
    ("bart", Seq2Seq()),
    ("bert", MaskedLM()),
]


@pytest.mark.parametrize(("preset", "objective"), ARMS, ids=lambda v: getattr(v, "kind", v))
def test_an_option_has_the_nats_that_likelihoods_give(preset: str, objective: Objective) -> None:
    asked = AskedModel(byte_model(preset), objective, BYTE_TOKENIZER)
    label = "pseudo-likelihood" if isinstance(objective, MaskedLM) else "likelihood"
    result = ask_choices(asked, ITEMS)
    for item, answer in zip(ITEMS, result.answers, strict=True):
        pairs = [Item(option, "", item.context, option) for option in item.options]
        alone = [Item(option, "", "Answer:", option) for option in item.options]
        for texts, nats in (
            (pairs, answer.option_nats),
            (alone, answer.option_unconditional_nats),
        ):
            expected = [one.nats for one in likelihoods(asked, texts, label)]
            assert nats == pytest.approx(expected, rel=1e-5)
        assert answer.option_bytes == tuple(len(option) for option in item.options)
        assert answer.option_tokens == answer.option_bytes
        best = min(
            range(len(item.options)), key=lambda n: answer.option_nats[n] / answer.option_bytes[n]
        )
        assert (answer.chosen, answer.key, answer.document) == (best, item.key, item.document)
        assert answer.score == float(best == item.key)
    assert set(result.accuracy) == {"by sum", "by token", "by byte", "by unconditional"}


@pytest.mark.parametrize(("preset", "objective"), ARMS, ids=lambda v: getattr(v, "kind", v))
def test_answers_do_not_depend_on_the_size_of_a_chunk(preset: str, objective: Objective) -> None:
    asked = AskedModel(byte_model(preset), objective, BYTE_TOKENIZER)
    again = ChoiceItem("four", "e", "The sea is", (" g", " four"), 1)
    items = (*ITEMS, again)
    whole = ask_choices(asked, items)
    for size in (1, 2, 3):
        parts = ask_choices(asked, items, chunk_size=size)
        assert parts.floors == whole.floors
        assert parts.accuracy == whole.accuracy
        for one, other in zip(parts.answers, whole.answers, strict=True):
            own = replace(
                one,
                option_nats=other.option_nats,
                option_unconditional_nats=other.option_unconditional_nats,
            )
            assert own == other
            assert one.option_nats == pytest.approx(other.option_nats, rel=1e-5)
            assert one.option_unconditional_nats == pytest.approx(
                other.option_unconditional_nats, rel=1e-5
            )


def test_items_of_one_context_are_in_one_chunk_and_empty_ones_are_not_kept_together() -> None:
    contexts = ("a", "", "b", "a", "", "c", "b")
    items = [ChoiceItem(str(n), "d", text, ("x", "y"), 0) for n, text in enumerate(contexts)]
    assert list(chunk_items(items, 2)) == [[0, 3], [1], [2, 6], [4, 5]]
    assert list(chunk_items(items, 1)) == [[0, 3], [1], [2, 6], [4], [5]]
    assert list(chunk_items(items, 100)) == [[0, 3, 1, 2, 6, 4, 5]]


def test_what_items_of_several_chunks_share_is_read_once() -> None:
    """The same options without a context, and one context of many items."""
    model = byte_model("gpt2")
    n_positions: list[int] = []
    model.stack.register_forward_pre_hook(
        lambda _, args: n_positions.append(args[0].shape[:2].numel())
    )
    asked = AskedModel(model, CausalLM(), BYTE_TOKENIZER)
    items = [ChoiceItem(str(n), "d", "One", (" yes", " no", f" {n}"), 0) for n in range(6)]
    ask_choices(asked, items, max_positions=1)
    whole = sum(n_positions)
    n_positions.clear()
    ask_choices(asked, items, max_positions=1, chunk_size=2)
    assert sum(n_positions) == whole
    others = [ChoiceItem(str(n), "d", f"Ask {n}", (" yes", " no"), 0) for n in range(6)]
    n_positions.clear()
    ask_choices(asked, others, max_positions=1, chunk_size=2)
    after_contexts = 6 * (len("<Ask 1 yes") - 1 + len("<Ask 1 no") - 1)
    after_unconditional = len("<Answer: yes") - 1 + len("<Answer: no") - 1
    assert sum(n_positions) == after_contexts + after_unconditional


def test_four_scores_as_computed_by_hand() -> None:
    nats, alone = np.array([6.0, 8.0]), np.array([7.0, 12.0])
    tokens, n_bytes = np.array([2.0, 4.0]), np.array([10.0, 10.0])
    scores = {}
    for way in ("sum", "token", "byte", "unconditional"):
        scores[way] = option_scores(nats, tokens, n_bytes, alone, way).tolist()
    assert scores == {
        "sum": [-6.0, -8.0],
        "token": [-3.0, -2.0],
        "byte": [-0.6, -0.8],
        "unconditional": [1.0, 4.0],
    }


def test_ties_are_split_and_options_that_are_not_there_never_chosen() -> None:
    scores = padded_options([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [-2.0, -1.0]], -math.inf)
    right, chosen = choose_options(scores, np.array([1, 2, 1]))
    assert right.tolist() == [0.5, 0.0, 1.0]
    assert chosen.tolist() == [0, 0, 1]


def test_floors_as_computed_by_hand() -> None:
    items = (
        ChoiceItem("1", "", "", ("yes", "no"), 0),
        ChoiceItem("2", "", "", ("yes", "no"), 0),
        ChoiceItem("3", "", "", ("yes", "no"), 1),
        ChoiceItem("4", "", "", ("a", "b", "c", "d"), 2),
    )
    tokens = [(1, 2), (1, 1), (1, 2), (1, 1, 1, 2)]
    n_bytes = [(3, 2)] * 3 + [(1, 1, 1, 1)]
    floors = choice_floors(items, tokens, n_bytes, "sum")
    # always "yes": right twice of three times, and a guess among four
    assert floors == {
        "uniform": pytest.approx((3 / 2 + 1 / 4) / 4),
        "majority": pytest.approx((2 + 1 / 4) / 4),
        "length": pytest.approx((1 + 1 / 2 + 0 + 1 / 3) / 4),
    }
    assert choice_floors(items, tokens, n_bytes, "token")["length"] == floors["uniform"]
    # 1/3 against 2/2, 1/3 against 1/2, and 1 against 2
    by_byte = choice_floors(items, tokens, n_bytes, "byte")["length"]
    assert by_byte == pytest.approx((1 + 1 + 0 + 1 / 3) / 4)


def test_floors_of_labels_are_by_their_own_measure() -> None:
    options = ("yes", "no")
    items = [ChoiceItem(str(n), "", "", options, int(n >= 3)) for n in range(4)]
    tokens, n_bytes = [(1, 1)] * 4, [(3, 2)] * 4
    floors = label_floors(items, tokens, n_bytes, "byte", matthews)
    assert floors == {"uniform": 0.0, "majority": 0.0, "length": 0.0}
    by_f1 = label_floors(items, tokens, n_bytes, "byte", macro_f1)
    # always "yes", which is right three times, and has the fewest tokens per byte
    assert by_f1["majority"] == by_f1["length"] == pytest.approx((2 * 3 / 7 + 0) / 2)
    assert by_f1["uniform"] == pytest.approx((2 * 1.5 / 5 + 2 * 0.5 / 3) / 2)


def test_without_a_context_nothing_is_unconditional() -> None:
    items = (ChoiceItem("1", "", "", ("A dog runs.", "A dog run."), 0),)
    for preset, objective in (("gpt2", CausalLM()), ("bart", Seq2Seq()), ("bert", MaskedLM())):
        asked = AskedModel(byte_model(preset), objective, BYTE_TOKENIZER)
        result = ask_choices(asked, items, "sum")
        assert result.answers[0].option_unconditional_nats == ()
        assert set(result.accuracy) == {"by sum", "by token", "by byte"}
        assert all(map(math.isfinite, result.answers[0].option_nats))


def test_the_answer_in_the_context_is_found_by_a_model_that_copies() -> None:
    """A model that gives back its input: after `x` it says `x` again."""
    model = byte_model("gpt2")
    # Every branch is silenced, so that a state is the embedding of its own token.
    for name, parameter in model.named_parameters():
        if "output" in name or "down" in name:
            parameter.data.zero_()
    items = []
    for key, letter in enumerate("abc"):
        items.append(ChoiceItem(letter, "", f"which? {letter}", ("a", "b", "c"), key))
    result = ask_choices(AskedModel(model, CausalLM(), BYTE_TOKENIZER), items, "sum")
    assert [answer.score for answer in result.answers] == [1.0, 1.0, 1.0]

"""Measures of choices, by hand: bits of the right option, alone and among all options."""

import math

import numpy as np
import pytest
from byte_models import BYTE_TOKENIZER, byte_model

from paribus.corpus.tasks import ChoiceItem
from paribus.evaluate.likelihood import AskedModel
from paribus.evaluate.tasks import ask_choices
from paribus.evaluate.tasks.choice_measures import log_loss_bits, measure_floors
from paribus.spec.objectives import CausalLM
from paribus.spec.tasks import ChoiceMeasure, Normalisation

ITEMS = (
    ChoiceItem("one", "d", "The sea is", (" blue", " a very long option indeed", " g"), 0),
    ChoiceItem("two", "d", "Two and two are", (" four", " five"), 0),
    ChoiceItem("three", "e", "Who?", (" four", " five"), 1),
)


def test_log_loss_is_the_share_of_the_right_option_in_bits() -> None:
    # Probabilities 1/8 and 3/8: the right option has a quarter of 1/2, which is 2 bits.
    nats = -np.log([[1 / 8, 3 / 8, 0.5], [0.25, 0.25, 0.5], [0.2, 0.6, 0.2]])
    scores = -nats
    scores[0, 2] = -math.inf  # an option that is not there
    bits = log_loss_bits(scores, np.array([0, 2, 1]))
    assert bits == pytest.approx([2.0, 1.0, math.log2(5 / 3)])


def test_options_that_cannot_be_told_apart_cost_what_a_guess_costs() -> None:
    assert log_loss_bits(np.full((1, 4), -700.0), np.array([3])) == pytest.approx([2.0])


def test_the_right_option_without_probability_costs_without_end() -> None:
    scores = np.array([[-math.inf, -1.0], [-math.inf, -math.inf]])
    bits = log_loss_bits(scores, np.array([0, 0]))
    assert bits[0] == math.inf
    assert math.isnan(bits[1])


def test_a_uniform_guess_is_the_floor_of_log_loss_and_the_bits_of_a_text_have_none() -> None:
    # three options, then two, then two
    expected = (math.log2(3) + 1 + 1) / 3
    assert measure_floors("log loss", ITEMS, {"length": 0.4}) == {
        "uniform": pytest.approx(expected)
    }
    assert measure_floors("bits per byte", ITEMS, {"length": 0.4}) == {}
    assert measure_floors("accuracy", ITEMS, {"length": 0.4}) == {"length": 0.4}


@pytest.mark.parametrize("way", ["sum", "token", "byte", "unconditional"])
def test_log_loss_shares_are_of_the_scores_that_choose(way: Normalisation) -> None:
    result = answers_by("log loss", way)
    for item, answer in zip(ITEMS, result.answers, strict=True):
        values = zip(
            answer.option_nats,
            answer.option_tokens,
            answer.option_bytes,
            answer.option_unconditional_nats,
            strict=True,
        )
        weights = []
        for nats, n_tokens, n_bytes, alone in values:
            scores = {
                "sum": -nats,
                "token": -nats / n_tokens,
                "byte": -nats / n_bytes,
                "unconditional": alone - nats,
            }
            weights.append(math.exp(scores[way]))
        expected = -math.log2(weights[item.key] / sum(weights))
        assert (answer.score, answer.count) == (pytest.approx(expected), 1.0)
        # The option with the largest share is the one that accuracy counts.
        assert answer.chosen == weights.index(max(weights))


def test_bits_per_byte_are_those_of_the_right_option_alone() -> None:
    result = answers_by("bits per byte", "byte")
    for item, answer in zip(ITEMS, result.answers, strict=True):
        assert answer.score == pytest.approx(answer.option_nats[item.key] / math.log(2))
        assert answer.count == len(item.options[item.key])


def test_every_measure_has_the_same_choices_and_accuracies() -> None:
    first = answers_by("accuracy", "byte")
    for measure in ("log loss", "bits per byte"):
        other = answers_by(measure, "byte")
        assert other.accuracy == first.accuracy
        assert [one.chosen for one in other.answers] == [one.chosen for one in first.answers]


def answers_by(measure: ChoiceMeasure, way: Normalisation):
    asked = AskedModel(byte_model("gpt2"), CausalLM(), BYTE_TOKENIZER)
    return ask_choices(asked, ITEMS, way, measure=measure)

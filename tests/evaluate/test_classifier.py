"""The linear classifier on states: its optimum, its choices, and what it says of texts."""

import numpy as np
import pytest
from byte_models import BYTE_TOKENIZER, byte_model

from paribus.corpus.tasks import LabelItem, TagItem
from paribus.errors import SpecError
from paribus.evaluate.classifier import (
    LabelledTexts,
    TaggedSentences,
    classify,
    classify_best_pooling,
    classify_words,
    fit_logistic_regression,
)
from paribus.evaluate.label_answers import label_answers, label_scores, label_text
from paribus.evaluate.likelihood import AskedModel
from paribus.spec.objectives import CausalLM

ASKED = AskedModel(byte_model("gpt2"), CausalLM(), BYTE_TOKENIZER)
ODD_LETTERS = "acegikmoqsuwy"
EVEN_LETTERS = "bdfhjlnprtvxz"


def text_item(name: str, text: str, label: int) -> LabelItem:
    return LabelItem(name=name, document=name, text=text, second=None, label=label)


def texts(n: int, seed: int, shuffled: bool = False) -> list[LabelItem]:
    """Texts of one half of the alphabet or of the other, two thirds of them of the second."""
    draws = np.random.default_rng(seed)
    items = []
    for number in range(n):
        label = int(draws.random() < 2 / 3)
        letters = list(ODD_LETTERS if label else EVEN_LETTERS)
        text = "".join(draws.choice(letters, 17))
        if shuffled:
            label = int(draws.random() < 2 / 3)
        items.append(text_item(f"{seed}.{number}", text, label))
    return items


def splits(shuffled: bool = False) -> LabelledTexts:
    names = ("even", "odd")
    return LabelledTexts(
        names, texts(90, 1, shuffled), texts(40, 2, shuffled), texts(60, 3, shuffled)
    )


def test_the_optimum_has_no_slope_and_is_the_same_every_time():
    draws = np.random.default_rng(5)
    states, labels = draws.normal(size=(53, 7)), draws.integers(3, size=53)
    model = fit_logistic_regression(states, labels, 3, 0.1)
    again = fit_logistic_regression(states, labels, 3, 0.1)
    assert np.array_equal(model.weight_DK, again.weight_DK)
    chances = np.exp(-model.nats(states))
    np.testing.assert_allclose(chances.sum(1), 1)
    slope = (chances - np.eye(3)[labels]) / 53
    standard = (states - states.mean(0)) / states.std(0)
    np.testing.assert_allclose(standard.T @ slope + 0.1 * model.weight_DK, 0, atol=1e-6)
    np.testing.assert_allclose(slope.sum(0), 0, atol=1e-6)


def test_a_value_that_never_changes_is_no_trouble():
    states = np.stack([np.array([-1.0, 1.0, -2.0, 2.0]), np.full(4, 3.0)], 1)
    model = fit_logistic_regression(states, np.array([0, 1, 0, 1]), 2, 0.01)
    assert np.isfinite(model.weight_DK).all()
    assert model.nats(states).argmin(1).tolist() == [0, 1, 0, 1]


def test_labels_that_the_text_tells_are_found():
    result = classify(ASKED, splits())
    assert label_scores(result.answers).accuracy > 0.95
    assert [answer.item for answer in result.answers] == [item.name for item in texts(60, 3)]
    assert result.pooling == "mean"


def test_shuffled_labels_bring_it_to_the_majority():
    result = classify(ASKED, splits(shuffled=True))
    keys = [answer.key for answer in result.answers]
    majority = max(keys.count(0), keys.count(1)) / len(keys)
    assert label_scores(result.answers).accuracy == pytest.approx(majority, abs=0.1)


def test_the_best_pooling_is_chosen_among_those_that_the_mask_permits():
    best = classify_best_pooling(ASKED, splits())
    assert best.pooling in ("mean", "last", "max")  # not the first token under a causal mask
    others = [classify(ASKED, splits(), pooling) for pooling in ("mean", "last", "max")]
    assert best.valid_nats == min(other.valid_nats for other in others)


def test_a_pair_of_texts_is_read_as_two_lines():
    item = LabelItem(name="1", document="1", text="first", second="second", label=0)
    assert label_text(item) == "first\nsecond"
    assert label_text(text_item("1", "first", 0)) == "first"


def test_words_are_tagged_by_their_letters():
    def sentences(n: int, seed: int) -> list[TagItem]:
        draws = np.random.default_rng(seed)
        items = []
        for number in range(n):
            tags = draws.integers(2, size=3).tolist()
            words = ["".join(draws.choice(list(("bd", "ac")[tag]), 4)) for tag in tags]
            name = f"{seed}.{number}"
            items.append(TagItem(name=name, document=name, words=tuple(words), tags=tuple(tags)))
        return items

    given = TaggedSentences(("E", "O"), sentences(40, 1), sentences(9, 2), sentences(9, 3))
    result = classify_words(ASKED, given)
    assert sum(answer.count for answer in result.answers) == 27
    assert label_scores(result.answers).accuracy > 0.9
    assert set(str(result.answers[0].key).split()) <= {"E", "O"}


def test_a_label_that_only_the_test_split_has_is_refused():
    whole = splits()
    odd = LabelledTexts(
        (*whole.names, "none"), whole.train, whole.valid, [text_item("1", "abc", 2)]
    )
    with pytest.raises(SpecError, match="split 'test' has the label 'none', which no training"):
        classify(ASKED, odd)


def test_too_few_labels_and_empty_splits_are_refused():
    whole = splits()
    one_label = [item for item in whole.train if item.label == 1]
    alone = LabelledTexts(whole.names, one_label, one_label, one_label)
    with pytest.raises(SpecError, match="split 'train' has the label 'odd' alone; give items"):
        classify(ASKED, alone)
    with pytest.raises(SpecError, match="split 'valid' has no item"):
        classify(ASKED, LabelledTexts(whole.names, whole.train, [], whole.test))


def test_scores_by_hand():
    items = [text_item(str(n), "t", label) for n, label in enumerate([0, 0, 0, 1, 1, 2])]
    chosen = np.array([0, 0, 1, 1, 0, 2])
    answers = label_answers(items, 1 - np.eye(3)[chosen], [0] * 6)
    scores = label_scores(answers)
    assert scores.accuracy == pytest.approx(4 / 6)
    # F1 of a: 2·2/(3+3); of b: 2·1/(2+2); of c: 1
    assert scores.macro_f1 == pytest.approx((2 / 3 + 1 / 2 + 1) / 3)
    # keys 3, 2, 1 and choices 3, 2, 1: (4·6 - 14) / (36 - 14)
    assert scores.matthews == pytest.approx(10 / 22)
    same = label_scores(label_answers(items, np.ones((6, 3)), [0] * 6))
    assert same.matthews == 0.0
    assert same.accuracy == pytest.approx(0.5)

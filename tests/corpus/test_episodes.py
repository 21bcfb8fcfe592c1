"""Examples of functions of numbers: by hand, as they are drawn, and what their values are."""

import math
import re
from random import Random

import numpy as np
import pytest
from pydantic import ValidationError

from paribus.corpus import language_answer
from paribus.corpus.languages.episodes import (
    BinGrid,
    Episode,
    draw_episode,
    episode_answer,
    episode_weights,
    input_numbers,
    read_episode,
    spell_episode,
    value_at,
    value_bins,
)
from paribus.corpus.languages.follow_ups import follow_up_answer
from paribus.corpus.languages.questions import language_documents, language_questions
from paribus.spec import ClassificationLanguage, RegressionLanguage
from paribus.spec.languages import VALUE_SYMBOLS
from paribus.watcher import Watcher


def test_numbers_are_symbols_of_a_grid():
    assert len(set(VALUE_SYMBOLS)) == 64
    assert all(len(symbol.encode()) == 1 for symbol in VALUE_SYMBOLS)
    assert input_numbers(RegressionLanguage(), "a/FG") == pytest.approx((-3.15, 3.15, -0.05, 0.05))


def test_bins_by_hand():
    bins = value_bins(RegressionLanguage())  # four inputs: a standard deviation of 2
    assert (bins.limit, bins.width) == (8, 0.25)
    assert [bins.index(y) for y in (-100, -8, -7.76, -0.01, 0, 0.26, 7.99, 100)] == [
        *(0, 0, 0, 31),
        *(32, 33, 63, 63),
    ]
    assert (bins.centre(0), bins.centre(32)) == (-7.875, 0.125)
    assert value_bins(RegressionLanguage(noise=math.sqrt(5), n_bins=3)) == BinGrid(
        3, pytest.approx(12)
    )


def test_a_source_is_read_by_hand():
    language = RegressionLanguage(n_inputs=2, min_length=1)
    episode = Episode(("ab", "cd"), "XY", "ef")
    assert read_episode(language, "ab=Xcd=Yef") == episode
    assert spell_episode(episode) == "ab=Xcd=Yef"
    assert read_episode(language, "ef") == Episode((), "", "ef")


@pytest.mark.parametrize("source", ["", "abc", "ab=X", "ab=Xc", "ab>Xcd", "ab=é=d", "a!=Xcd"])
def test_what_is_no_source_is_refused(source):
    says = "is no source of 'regression'; write examples of 2 symbols, '=' and one symbol each"
    with pytest.raises(ValueError, match=says):
        read_episode(RegressionLanguage(n_inputs=2, min_length=1), source)


def test_every_value_is_the_bin_of_the_product_of_inputs_and_weights():
    language = RegressionLanguage(n_documents=300, seed=3, n_inputs=3, n_levels=19, min_length=1)
    bins, n_examples = value_bins(language), set()
    for question in language_questions(language, Watcher()):
        episode = read_episode(language, question.source)
        (weights,) = episode_weights(language, question.source)
        n_examples.add(len(episode.inputs))
        values = np.array([input_numbers(language, x) for x in episode.all_inputs]) @ weights
        indices = [VALUE_SYMBOLS.index(symbol) for symbol in episode.values + question.answer]
        for value, index in zip(values, indices, strict=True):
            inner = np.clip(value, -bins.limit, bins.limit)
            assert abs(bins.centre(index) - inner) <= bins.width / 2 + 1e-9
    assert n_examples == set(range(1, 17))


def test_inputs_and_weights_are_standard_normal():
    language = RegressionLanguage(n_documents=1500, min_length=5, max_length=5)
    inputs, weights = [], []
    for question in language_questions(language, Watcher()):
        episode = read_episode(language, question.source)
        inputs += [input_numbers(language, x) for x in episode.all_inputs]
        weights += episode_weights(language, question.source)
    for sample in (np.array(inputs), np.array(weights)):
        n = len(sample)
        assert np.abs(sample.mean(0)).max() < 4 / math.sqrt(n)
        assert np.abs(np.cov(sample.T) - np.eye(4)).max() < 8 / math.sqrt(n)
    products = np.array(inputs[5::6]) * np.array(weights)  # a query and the function it is asked of
    assert np.abs(products.mean(0)).max() < 4 / math.sqrt(len(products))


def test_inputs_that_do_not_vary_are_at_zero_and_have_no_weight():
    language = RegressionLanguage(n_documents=50, n_varying=1, n_levels=16, min_length=4)
    bins = value_bins(language)
    assert bins == value_bins(RegressionLanguage())  # a symbol of y means the same
    for question in language_questions(language, Watcher()):
        episode = read_episode(language, question.source)
        assert {x[1:] for x in episode.all_inputs} == {VALUE_SYMBOLS[8] * 3}
        ((first, *others),) = episode_weights(language, question.source)
        assert others == [0, 0, 0]
        (x, *_) = input_numbers(language, episode.query)
        assert question.answer == VALUE_SYMBOLS[bins.index(first * x)]


def test_all_inputs_vary_unless_told():
    told, plain = RegressionLanguage(n_varying=4), RegressionLanguage()
    assert draw_episode(told, Random(1), 3) == draw_episode(plain, Random(1), 3)
    assert "n_varying" not in plain.model_dump()
    with pytest.raises(ValidationError, match="n_varying is 5, but there are n_inputs 4; use that"):
        RegressionLanguage(n_varying=5)
    with pytest.raises(ValidationError, match="with n_varying 1 and n_levels 16 use at least 4"):
        RegressionLanguage(n_varying=1, n_levels=16)


def test_few_values_lie_beyond_the_bins():
    language = RegressionLanguage(n_documents=4000, min_length=15, max_length=15)
    n_outer = n = 0
    for question in language_questions(language, Watcher()):
        values = read_episode(language, question.source).values + question.answer
        n += len(values)
        n_outer += values.count(VALUE_SYMBOLS[0]) + values.count(VALUE_SYMBOLS[-1])
    # P(|y| > t) = (2 + t) e^-t / 2 with four inputs; the outermost bins begin at 7.75
    assert n_outer / n == pytest.approx(9.75 * math.exp(-7.75) / 2, rel=0.25)


def test_noise_moves_values_and_leaves_inputs_and_weights():
    plain, noisy = RegressionLanguage(), RegressionLanguage(noise=1.0)
    n_moved = 0
    for number in range(40):
        sources = [draw_episode(language, Random(number), 8) for language in (plain, noisy)]
        one, other = map(read_episode, (plain, noisy), sources)
        assert one.all_inputs == other.all_inputs
        assert episode_weights(plain, sources[0]) == episode_weights(noisy, sources[1])
        n_moved += one.values != other.values
        assert episode_answer(noisy, sources[1]) == episode_answer(noisy, sources[1])
    assert n_moved == 40


def test_another_seed_has_other_functions_of_the_same_inputs():
    first, second = RegressionLanguage(seed=1), RegressionLanguage(seed=2)
    assert episode_weights(first, "abcd") != episode_weights(second, "abcd")


@pytest.mark.parametrize("n_labels", [2, 4])
def test_labels_are_the_sides_of_planes_and_drawn_for_each_document(n_labels):
    language = ClassificationLanguage(n_documents=400, n_labels=n_labels)
    n_values, pairs = 0, set()
    for question in language_questions(language, Watcher()):
        episode = read_episode(language, question.source)
        normals = np.array(episode_weights(language, question.source))
        assert normals.shape == (n_labels // 2, 4)
        label_of_side = {}
        for x, label in zip(episode.all_inputs, episode.values + question.answer, strict=True):
            side = tuple(normals @ input_numbers(language, x) > 0)
            assert label_of_side.setdefault(side, label) == label
        assert len(set(label_of_side.values())) == len(label_of_side) <= n_labels
        n_values += len(label_of_side) == n_labels
        pairs |= set(label_of_side.items())
    assert n_values > 150  # in many documents every class occurs
    assert len(pairs) > 100  # a side has many labels


def test_a_follow_up_asks_for_the_same_function():
    language = RegressionLanguage()
    source = draw_episode(language, Random(2), 3)
    (weights,) = episode_weights(language, source)
    value = np.dot(weights, input_numbers(language, "Rstu"))
    expected = VALUE_SYMBOLS[value_bins(language).index(value)]
    assert follow_up_answer(language, source, "x", "and Rstu?") == expected
    assert value_at(language, source, "Rstu") == expected
    with pytest.raises(ValueError, match="is no follow-up of 'regression'"):
        follow_up_answer(language, source, "x", "and Rst?")


def test_examples_that_were_not_drawn_have_no_answer():
    language = RegressionLanguage()
    source = draw_episode(language, Random(2), 3)
    episode = read_episode(language, source)
    changed = "a" if episode.values[0] != "a" else "b"
    wrong = spell_episode(Episode(episode.inputs, changed + episode.values[1:], episode.query))
    with pytest.raises(ValueError, match="has values that no document of 'regression' with seed 0"):
        language_answer(language, f"{wrong}=")


def test_as_text_every_value_follows_the_same_sign():
    language = RegressionLanguage(n_documents=20, form="text", min_length=2)
    for document in language_documents(language, Watcher()):
        assert re.fullmatch(r"(?:[a-zA-Z0-9+/]{4}=[a-zA-Z0-9+/]){3,17}", document.text.decode())


@pytest.mark.parametrize(
    ("kind", "fields", "says"),
    [
        (RegressionLanguage, {"n_bins": 65}, "less than or equal to 64"),
        (RegressionLanguage, {"noise": -1.0}, "greater than or equal to 0"),
        (RegressionLanguage, {"n_inputs": 0}, "greater than or equal to 1"),
        (RegressionLanguage, {"min_length": -1}, "greater than or equal to 0"),
        (RegressionLanguage, {"n_levels": 65}, "less than or equal to 64"),
        (
            RegressionLanguage,
            {"n_inputs": 1},
            "min_length is 0, but so few inputs come up again and again.*use at least 2",
        ),
        (RegressionLanguage, {"n_levels": 8}, "with n_inputs 4 and n_levels 8 use at least 1"),
        (RegressionLanguage, {"min_length": 17}, "min_length is 17, above max_length 16"),
        (ClassificationLanguage, {"n_labels": 3}, "Input should be 2 or 4"),
        (
            ClassificationLanguage,
            {"n_labels": 4, "n_inputs": 1, "min_length": 3},
            "n_labels is 4, but n_inputs 1 is a line, which 0 parts in two; use n_labels = 2",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(kind, fields, says):
    with pytest.raises(ValidationError, match=says):
        kind(**fields)

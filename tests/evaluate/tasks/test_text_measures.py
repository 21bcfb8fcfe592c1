"""Measures of text: as computed by hand, and those of the field's packages."""

import importlib

import pytest

from paribus.errors import UnsupportedError
from paribus.evaluate.tasks.text_measures import (
    corpus_score,
    exact_match,
    letter_reward,
    normalised_match,
    text_measure,
    word_f1,
)


def test_a_match_is_exact_but_for_spaces_around_it() -> None:
    assert exact_match(" yes\n", ["no", "yes"]) == 1.0
    assert exact_match("Yes", ["yes"]) == 0.0


def test_the_reward_counts_letters_in_their_places() -> None:
    assert letter_reward("abcd", ["abcd"]) == 1.0
    assert letter_reward("abxd", ["abcd"]) == 0.75
    assert letter_reward("abcdefgh", ["abcd"]) == 0.5  # what follows the answer counts against it
    assert letter_reward("bcd", ["abcd", "bca"]) == pytest.approx(2 / 3)
    assert text_measure("reward")("", ["a"]) == 0.0


def test_f1_counts_words_without_articles_and_punctuation() -> None:
    assert word_f1("The red house.", ["a red house"]) == 1.0
    assert word_f1("a red car", ["red house", "car park"]) == pytest.approx(0.5)
    assert word_f1("", ["house"]) == 0.0
    assert word_f1("the", ["a"]) == 1.0


def test_squads_match_leaves_out_case_punctuation_and_articles_and_the_exact_one_does_not() -> None:
    """As SQuAD's evaluation script does it; what it calls equal is not equal to the letter."""
    for text, reference in (("The Eiffel Tower.", "eiffel tower"), ("a\tdog!", "Dog"), ("", "the")):
        assert normalised_match(text, ["another", reference]) == 1.0
        assert exact_match(text, ["another", reference]) == 0.0
    assert normalised_match("theatre", ["atre"]) == 0.0
    assert normalised_match("red house", ["house red"]) == 0.0


def test_bleu_and_chrf_are_those_of_sacrebleu() -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    texts, references = ["the cat sat on the mat"], [["the cat sat on a mat", "a cat sat"]]
    columns = [["the cat sat on a mat"], ["a cat sat"]]
    assert corpus_score("bleu", texts, references) == pytest.approx(
        sacrebleu.corpus_bleu(texts, columns).score / 100
    )
    assert corpus_score("chrf", texts, references) == pytest.approx(
        sacrebleu.corpus_chrf(texts, columns).score / 100
    )
    more = corpus_score(
        "bleu", [*texts, "one two three four"], [*references, ["one two three four"]]
    )
    assert 0 < corpus_score("bleu", texts, references) < more
    assert text_measure("bleu")("a b c d", ["a b c d"]) == pytest.approx(1.0)
    assert text_measure("chrf")("a b c d", ["a b c d"]) == pytest.approx(1.0)


def test_rouge_is_of_the_nearest_reference() -> None:
    pytest.importorskip("rouge_score")
    rouge = text_measure("rouge-1")
    assert rouge("the cat", ["a dog", "the cat sat"]) == pytest.approx(
        2 * 1 * (2 / 3) / (1 + 2 / 3)
    )
    assert text_measure("rouge-2")("the cat sat", ["the cat sat"]) == pytest.approx(1.0)
    assert text_measure("rouge-l")("the sat", ["the cat sat"]) == pytest.approx(0.8)


def test_a_missing_package_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(UnsupportedError, match=r"'bleu' needs sacrebleu; install paribus\[eval\]"):
        text_measure("bleu")
    with pytest.raises(UnsupportedError, match="'rouge-l' needs rouge-score"):
        text_measure("rouge-l")

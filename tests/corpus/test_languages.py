"""Invented languages: answers by hand, and every drawn question answered."""

from random import Random

import pytest

from paribus.corpus import answer
from paribus.corpus.documents import Document
from paribus.corpus.grammar import lexicon
from paribus.corpus.languages import documents, question
from paribus.corpus.progress import Progress
from paribus.spec import Arithmetic, Copy, Linear, Recall, Reverse, Sort, Translation

LANGUAGES = (Copy, Reverse, Sort, Recall, Linear, Translation, Arithmetic)

BY_HAND = [
    (Copy(), "cab=", "cab"),
    (Reverse(), "cab=", "bac"),
    (Sort(n_symbols=62), "cZ0ab9=", "abcZ09"),
    (Recall(), "axbycz?b=", "y"),
    (Linear(modulus=11), "b>dc>fd>=", "h"),  # 2x + 1 at 1, 2, 3
    (Linear(modulus=11), "b>db>db>=", "d"),  # the asked x was shown
    (Linear(modulus=5, n_inputs=2, min_length=3), "ba>dab>eaa>bbb>=", "b"),  # 2x + 3y + 1 at (1, 1): 6 mod 5
    (Arithmetic(), "95+4=", "2"),
    (Arithmetic(operations="+-*"), "5-3*4+1=", "91"),
    (Arithmetic(modulus=7, operations="+-*"), "2*3*4-1=", "2"),
]


@pytest.mark.parametrize(("language", "asked", "expected"), BY_HAND)
def test_answers_worked_out_by_hand(language, asked, expected):
    assert answer(language, asked) == expected


def test_a_sentence_is_translated_word_by_word_turned_round_and_made_to_agree():
    language = Translation(n_symbols=20, seed=3)
    words = lexicon(20, 3)
    (a, the), (at, _), adjective, verb, noun, other = (
        words.articles, words.relations, words.adjectives[0], words.verbs[0], words.nouns[0], words.nouns[1],
    )  # fmt: skip
    into = words.meaning
    said = f"{a} {adjective} {noun} {at} {the} {other} {verb} {a} {other}="
    expected = [
        into[other], into[the], into[at], into[noun], into[adjective], into[a], into[other], into[a], into[verb] + "l",
    ]  # fmt: skip
    assert answer(language, said) == " ".join(expected)
    assert answer(language, f"{a} {other} {verb}=").endswith(into[verb] + "p")
    assert len(set(words.meaning)) == len(set(words.meaning.values())) == 20


@pytest.mark.parametrize("kind", LANGUAGES)
def test_a_seed_gives_the_same_documents_again_and_another_seed_others(kind):
    first = list(documents(kind(n_documents=1500, seed=5), Progress()))
    assert first == list(documents(kind(n_documents=1500, seed=5), Progress()))
    assert first != list(documents(kind(n_documents=1500, seed=6), Progress()))
    assert len(first) == 1500
    assert first[:1100] == list(documents(kind(n_documents=1100, seed=5), Progress()))
    for document in first[:50]:
        assert document.target == answer(kind(seed=5), document.text.decode()).encode()


@pytest.mark.parametrize("kind", LANGUAGES)
def test_as_text_a_question_and_its_answer_are_one_document(kind):
    pairs = documents(kind(n_documents=20), Progress())
    joined = [Document(pair.text + (pair.target or b"")) for pair in pairs]
    assert list(documents(kind(n_documents=20, form="text"), Progress())) == joined


def test_lengths_and_symbols_are_obeyed():
    draw = Random(1)
    for _ in range(300):
        assert 3 <= len(question(Copy(n_symbols=5, min_length=3, max_length=7), draw)) - 1 <= 7
        assert set(question(Sort(n_symbols=3), draw)) <= set("abc=")
        assert len(question(Recall(n_symbols=7, min_length=7, max_length=7), draw)) == 2 * 7 + 3
        assert len(question(Translation(min_length=5, max_length=9), draw).split()) in range(5, 10)
        assert question(Linear(min_length=5, max_length=5), draw).count(">") == 6
        assert question(Arithmetic(min_length=3, max_length=3, operations="+-*"), draw).strip("0123456789=") != ""


def test_all_lengths_are_drawn():
    draw = Random(1)
    lengths = {len(question(Translation(min_length=3, max_length=12), draw).split()) for _ in range(500)}
    assert lengths == set(range(3, 13))


WRONG = [
    (Copy(), "abc", "'abc' does not end with '='; a question of 'copy' does"),
    (Linear(), "b>dc>=", "'b>dc>' leaves its last value open; give 2 independent examples"),
    (Translation(), "=", "'' ends too early; a sentence is a phrase, a verb and perhaps a phrase"),
    (Translation(), "xyz=", "'xyz' is no word that may stand here; one of"),
]


@pytest.mark.parametrize(("language", "asked", "complaint"), WRONG)
def test_what_is_no_question_has_no_answer(language, asked, complaint):
    with pytest.raises(ValueError, match=complaint):
        answer(language, asked)


def test_a_sentence_that_goes_on_is_refused():
    words = lexicon(50, 0)
    sentence = f"{words.articles[0]} {words.nouns[0]} {words.verbs[0]}"
    with pytest.raises(ValueError, match=r"goes on with .* where it should end; leave that out"):
        answer(Translation(), f"{sentence} {words.articles[0]} {words.nouns[0]} {words.verbs[0]}=")

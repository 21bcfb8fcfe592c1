"""Invented languages: answers by hand, and every drawn question answered."""

import re
from random import Random

import pytest
from invented_languages import LANGUAGES
from pydantic import ValidationError

from paribus.corpus import language_answer
from paribus.corpus.documents import Document
from paribus.corpus.languages.grammar import make_lexicon
from paribus.corpus.languages.questions import (
    draw_source,
    language_documents,
    language_questions,
)
from paribus.corpus.progress import Progress
from paribus.corpus.splits import split_digest
from paribus.errors import SpecError
from paribus.spec import (
    ArithmeticLanguage,
    CopyLanguage,
    LinearLanguage,
    RecallLanguage,
    ReverseLanguage,
    SortLanguage,
    TranslationLanguage,
)

BY_HAND = [
    (CopyLanguage(), "cab=", "cab"),
    (ReverseLanguage(), "cab=", "bac"),
    (SortLanguage(n_symbols=62), "cZ0ab9=", "abcZ09"),
    (RecallLanguage(), "axbycz?b=", "y"),
    (LinearLanguage(modulus=11), "b>dc>fd>=", "h"),  # 2x + 1 at 1, 2, 3
    (LinearLanguage(modulus=11), "b>db>db>=", "d"),  # the asked x was shown
    (
        LinearLanguage(modulus=5, n_inputs=2, min_length=3),
        "ba>dab>eaa>bbb>=",
        "b",
    ),  # 2x + 3y + 1 at (1, 1): 6 mod 5
    (ArithmeticLanguage(), "95+4=", "2"),
    (ArithmeticLanguage(operations="+-*"), "5-3*4+1=", "91"),
    (ArithmeticLanguage(modulus=7, operations="+-*"), "2*3*4-1=", "2"),
]


@pytest.mark.parametrize(("language", "asked", "expected"), BY_HAND)
def test_answers_worked_out_by_hand(language, asked, expected):
    assert language_answer(language, asked) == expected


def test_a_sentence_is_translated_word_by_word_turned_round_and_made_to_agree():
    language = TranslationLanguage(n_symbols=20, seed=3)
    words = make_lexicon(20, 3)
    (a, the), (at, _), adjective, verb, noun, other = (
        words.articles,
        words.relations,
        words.adjectives[0],
        words.verbs[0],
        words.nouns[0],
        words.nouns[1],
    )
    into = words.translation
    said = f"{a} {adjective} {noun} {at} {the} {other} {verb} {a} {other}="
    expected = [
        into[other],
        into[the],
        into[at],
        into[noun],
        into[adjective],
        into[a],
        into[other],
        into[a],
        into[verb] + "l",
    ]
    assert language_answer(language, said) == " ".join(expected)
    assert language_answer(language, f"{a} {other} {verb}=").endswith(into[verb] + "p")
    assert len(set(words.translation)) == len(set(words.translation.values())) == 20


@pytest.mark.parametrize("kind", LANGUAGES)
def test_a_seed_gives_the_same_documents_again_and_another_seed_others(kind):
    first = list(language_documents(kind(n_documents=1500, seed=5), Progress()))
    assert first == list(language_documents(kind(n_documents=1500, seed=5), Progress()))
    assert first != list(language_documents(kind(n_documents=1500, seed=6), Progress()))
    assert len(first) == 1500
    assert first[:1100] == list(language_documents(kind(n_documents=1100, seed=5), Progress()))
    for document in first[:50]:
        assert document.target == language_answer(kind(seed=5), document.text.decode()).encode()


@pytest.mark.parametrize("kind", LANGUAGES)
def test_as_text_a_question_and_its_answer_are_one_document(kind):
    pairs = language_documents(kind(n_documents=20), Progress())
    joined = [Document(pair.text + (pair.target or b"")) for pair in pairs]
    assert list(language_documents(kind(n_documents=20, form="text"), Progress())) == joined


def test_lengths_and_symbols_are_obeyed():
    draw = Random(1)
    for _ in range(300):
        assert (
            3 <= len(draw_source(CopyLanguage(n_symbols=5, min_length=3, max_length=7), draw)) <= 7
        )
        assert set(draw_source(SortLanguage(n_symbols=3), draw)) <= set("abc")
        assert (
            len(draw_source(RecallLanguage(n_symbols=7, min_length=7, max_length=7), draw))
            == 2 * 7 + 2
        )
        assert len(
            draw_source(TranslationLanguage(min_length=5, max_length=9), draw).split()
        ) in range(5, 10)
        assert draw_source(LinearLanguage(min_length=5, max_length=5), draw).count(">") == 6
        assert (
            draw_source(
                ArithmeticLanguage(min_length=3, max_length=3, operations="+-*"), draw
            ).strip("0123456789")
            != ""
        )


def test_all_lengths_are_drawn():
    draw = Random(1)
    lengths = {
        len(draw_source(TranslationLanguage(min_length=3, max_length=12), draw).split())
        for _ in range(500)
    }
    assert lengths == set(range(3, 13))


WRONG = [
    (
        CopyLanguage(),
        "abc",
        "'abc' is no question of 'copy'; use one of its phrasings: '{source}='",
    ),
    (LinearLanguage(), "b>dc>=", "'b>dc>' leaves its last value open; give 2 independent examples"),
    (
        TranslationLanguage(),
        "=",
        "'' ends too early; a sentence is a phrase, a verb and perhaps a phrase",
    ),
    (TranslationLanguage(), "xyz=", "'xyz' cannot stand here; use one of"),
]


@pytest.mark.parametrize(("language", "asked", "complaint"), WRONG)
def test_what_is_no_question_has_no_answer(language, asked, complaint):
    with pytest.raises(ValueError, match=complaint):
        language_answer(language, asked)


def test_a_sentence_that_goes_on_is_refused():
    words = make_lexicon(50, 0)
    sentence = f"{words.articles[0]} {words.nouns[0]} {words.verbs[0]}"
    with pytest.raises(ValueError, match=r"continues with .* where it should end; leave that out"):
        language_answer(
            TranslationLanguage(),
            f"{sentence} {words.articles[0]} {words.nouns[0]} {words.verbs[0]}=",
        )


PHRASED = RecallLanguage(n_documents=300, phrasings=("look up {source}:", "{source} is "))


def test_a_phrasing_is_drawn_for_each_question_and_the_sources_stay_the_same():
    plain = list(language_questions(RecallLanguage(n_documents=300), Progress()))
    phrased = list(language_questions(PHRASED, Progress()))
    n_first = 0
    for one, other in zip(plain, phrased, strict=True):
        assert (one.source, one.answer) == (other.source, other.answer)
        assert one.question == f"{one.source}="
        assert other.question in (f"look up {one.source}:", f"{one.source} is ")
        assert language_answer(PHRASED, other.question) == one.answer
        n_first += other.question.startswith("look up")
    assert 100 < n_first < 200


@pytest.mark.parametrize("form", ["pairs", "text", "conversations", "preferences"])
def test_a_source_is_held_out_alike_in_every_phrasing_and_form(form):
    plain = list(language_documents(RecallLanguage(n_documents=300), Progress()))
    language = PHRASED.model_copy(update={"form": form})
    for pair, other in zip(plain, language_documents(language, Progress()), strict=True):
        assert split_digest(other) == split_digest(pair)


@pytest.mark.parametrize("form", ["conversations", "preferences"])
def test_a_plain_question_is_held_out_alike_as_a_pair_and_in_a_conversation(form):
    pairs = language_documents(CopyLanguage(n_documents=50), Progress())
    others = language_documents(CopyLanguage(n_documents=50, form=form), Progress())
    for pair, other in zip(pairs, others, strict=True):
        assert split_digest(other) == split_digest(pair)


@pytest.mark.parametrize(
    ("phrasings", "says"),
    [
        (["sort the letters:"], "write {source} once"),
        (["{source} {source}="], "write {source} once"),
        (["sort {source}"], "ends with its source"),
        (["sort {letters}="], "write {source} once"),
        ([], "empty list"),
        (["{source}=", "{source}="], "twice"),
    ],
)
def test_what_is_no_phrasing_is_refused(phrasings, says):
    with pytest.raises(ValidationError, match=re.escape(says)):
        SortLanguage(phrasings=phrasings)


def test_phrasings_that_cannot_be_told_apart_are_refused():
    language = CopyLanguage(n_documents=200, n_symbols=2, phrasings=("{source}=", "a{source}="))
    with pytest.raises(SpecError, match="of two different sources"):
        list(language_documents(language, Progress()))


def test_a_text_in_no_phrasing_is_no_question():
    with pytest.raises(ValueError, match=r"'look up {source}:', '{source} is '"):
        language_answer(PHRASED, "axby?a=")


def test_plain_phrasings_are_not_written_down():
    assert "phrasings" not in CopyLanguage().model_dump()
    assert PHRASED.model_dump()["phrasings"] == PHRASED.phrasings

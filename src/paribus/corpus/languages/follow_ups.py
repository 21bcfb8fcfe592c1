"""What a user asks next in a conversation of an invented language. Each message has one answer,
known to anyone who has read what came before it.

    letters      again, backwards, sorted: of the answer before
    translation  first word, last word: of the translation
    recall       and b? the value of another key of the first message
    linear       and bc? the function of the first message at another x
    regression and classification
                 and abcd? the function of the first message at another x
    arithmetic   plus 7: to the answer before
"""

from __future__ import annotations

from random import Random

from paribus.corpus.languages.episodes import draw_inputs, is_input, value_at
from paribus.corpus.languages.grammar import translate
from paribus.corpus.languages.linear import last_value
from paribus.spec.languages import (
    SYMBOLS,
    ArithmeticLanguage,
    EpisodeLanguage,
    InventedLanguage,
    LinearLanguage,
    RecallLanguage,
    TranslationLanguage,
)

LETTER_FOLLOW_UPS = ("again", "backwards", "sorted")
WORD_FOLLOW_UPS = {"first word": 0, "last word": -1}  # where the word stands
_AND, _PLUS = "and ", "plus "


def draw_follow_up(language: InventedLanguage, source: str, rng: Random) -> str:
    """What a user asks next, drawn at random; `source` is that of the first message."""
    match language:
        case RecallLanguage():
            return f"{_AND}{rng.choice(_recall_pairs(source)[0])}?"
        case LinearLanguage():
            return f"{_AND}{_draw_inputs(language, source, rng)}?"
        case EpisodeLanguage():
            return f"{_AND}{draw_inputs(language, rng)}?"
        case ArithmeticLanguage():
            return f"{_PLUS}{rng.randrange(language.modulus)}"
        case TranslationLanguage():
            return rng.choice(list(WORD_FOLLOW_UPS))
        case _:
            return rng.choice(LETTER_FOLLOW_UPS)


def follow_up_answer(language: InventedLanguage, source: str, before: str, message: str) -> str:
    """The one right answer to a message after the answer `before` it; ValueError where it is no
    follow-up of this language.
    """
    match language:
        case RecallLanguage():
            keys, values = _recall_pairs(source)
            key = message.removeprefix(_AND).removesuffix("?")
            if message == f"{_AND}{key}?" and len(key) == 1 and key in keys:
                return values[keys.index(key)]
        case LinearLanguage():
            inputs = message.removeprefix(_AND).removesuffix("?")
            if message == f"{_AND}{inputs}?":
                return last_value(language, _with_inputs(language, source, inputs))
        case EpisodeLanguage():
            inputs = message.removeprefix(_AND).removesuffix("?")
            if message == f"{_AND}{inputs}?" and is_input(language, inputs):
                return value_at(language, source, inputs)
        case ArithmeticLanguage():
            number = message.removeprefix(_PLUS)
            if message == f"{_PLUS}{number}" and number.isdecimal():
                return str((int(before) + int(number)) % language.modulus)
        case TranslationLanguage():
            if message in WORD_FOLLOW_UPS:
                return translate(language, source).split()[WORD_FOLLOW_UPS[message]]
        case _:
            if message in LETTER_FOLLOW_UPS:
                return _letter_answer(before, message)
    raise ValueError(f"{message!r} is no follow-up of {language.kind!r}")


def sort_letters(text: str) -> str:
    """Letters in the order of the alphabet of all languages."""
    return "".join(sorted(text, key=SYMBOLS.index))


def _letter_answer(before: str, message: str) -> str:
    match message:
        case "backwards":
            return before[::-1]
        case "sorted":
            return sort_letters(before)
    return before


def _recall_pairs(source: str) -> tuple[str, str]:
    """The keys and the values of a source."""
    pairs = source.partition("?")[0]
    return pairs[::2], pairs[1::2]


def _draw_inputs(language: LinearLanguage, source: str, rng: Random) -> str:
    """Another x whose value the examples determine."""
    while True:
        inputs = "".join(rng.choices(SYMBOLS[: language.modulus], k=language.n_inputs))
        try:
            last_value(language, _with_inputs(language, source, inputs))
        except ValueError:
            continue
        return inputs


def _with_inputs(language: LinearLanguage, source: str, inputs: str) -> str:
    """The examples of a source with another x at their end."""
    return f"{source[: -language.n_inputs - 1]}{inputs}>"

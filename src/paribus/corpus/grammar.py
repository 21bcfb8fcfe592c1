"""Two small probabilistic grammars, and the translation from one into the other.

    from:  sentence → phrase verb [phrase]              into:  sentence → phrase [phrase] verb
           phrase → article adjective* noun [at phrase]        phrase → [phrase at] noun adjective* article

Words are mapped one to one; a verb of the second language also agrees with the class of its subject's noun.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import islice
from random import Random

from paribus.runtime import key
from paribus.spec.corpus import Translation

SOURCE, TARGET = ("b", "d", "k", "l", "m", "t"), ("f", "g", "n", "r", "s", "v")  # consonants of each language
VOWELS = "aeiou"
N_ARTICLES = N_RELATIONS = 2
P_ADJECTIVE, P_RELATION, P_OBJECT = 0.4, 0.25, 0.7
AGREEMENT = ("l", "p")  # endings of a verb by the class of its subject


@dataclass(frozen=True)
class Phrase:
    article: str
    adjectives: tuple[str, ...]
    noun: str
    relation: str | None = None
    place: Phrase | None = None


@dataclass(frozen=True)
class Lexicon:
    """The words of the first language by their role, and what each is in the second."""

    articles: tuple[str, ...]
    relations: tuple[str, ...]
    adjectives: tuple[str, ...]
    verbs: tuple[str, ...]
    nouns: tuple[str, ...]
    meaning: dict[str, str]


@cache
def lexicon(n_words: int, seed: int) -> Lexicon:
    """Roles and meanings drawn from the seed."""
    draw = Random(key(seed, "corpus", "translation", "lexicon"))
    words, others = ([_word(number, sounds) for number in range(n_words)] for sounds in (SOURCE, TARGET))
    draw.shuffle(words)
    draw.shuffle(others)
    n_open = n_words - N_ARTICLES - N_RELATIONS
    left = iter(words)
    articles, relations, adjectives, verbs = (
        tuple(islice(left, n)) for n in (N_ARTICLES, N_RELATIONS, n_open // 4, n_open // 3)
    )
    return Lexicon(articles, relations, adjectives, verbs, tuple(left), dict(zip(words, others, strict=True)))


def sentence(language: Translation, draw: Random, length: int) -> str:
    """A sentence of exactly so many words; adjectives make up what is missing."""
    words = lexicon(language.n_symbols, language.seed)
    while True:
        said = [*_phrase(words, draw), draw.choice(words.verbs)]
        if draw.random() < P_OBJECT:
            said += _phrase(words, draw)
        if len(said) <= length:
            break
    while len(said) < length:
        nouns = [place for place, word in enumerate(said) if word in words.nouns]
        said.insert(draw.choice(nouns), draw.choice(words.adjectives))
    return " ".join(said)


def translated(language: Translation, said: str) -> str:
    """The sentence in the second language; ValueError where it is none of the first."""
    words = lexicon(language.n_symbols, language.seed)
    left = said.split()
    try:
        subject = _parsed(words, left)
        verb = _taken(words.verbs, left)
        object_ = _parsed(words, left) if left else None
    except IndexError:
        raise ValueError(f"{said!r} ends too early; a sentence is a phrase, a verb and perhaps a phrase") from None
    if left:
        raise ValueError(f"{said!r} goes on with {left[0]!r} where it should end; leave that out")
    ending = AGREEMENT[words.nouns.index(subject.noun) % len(AGREEMENT)]
    parts = [*_turned(words, subject), *(_turned(words, object_) if object_ else ()), words.meaning[verb] + ending]
    return " ".join(parts)


def _word(number: int, sounds: tuple[str, ...]) -> str:
    """Syllables of a consonant and a vowel, at least two, a different word for each number."""
    word, n_syllables = "", len(sounds) * len(VOWELS)
    while number or len(word) < 4:
        number, place = divmod(number, n_syllables)
        word += sounds[place // len(VOWELS)] + VOWELS[place % len(VOWELS)]
    return word


def _phrase(words: Lexicon, draw: Random) -> list[str]:
    said = [draw.choice(words.articles)]
    while draw.random() < P_ADJECTIVE:
        said.append(draw.choice(words.adjectives))
    said.append(draw.choice(words.nouns))
    if draw.random() < P_RELATION:
        said += [draw.choice(words.relations), *_phrase(words, draw)]
    return said


def _parsed(words: Lexicon, left: list[str]) -> Phrase:
    article, adjectives = _taken(words.articles, left), []
    while left[0] in words.adjectives:
        adjectives.append(left.pop(0))
    noun = _taken(words.nouns, left)
    if not left or left[0] not in words.relations:
        return Phrase(article, tuple(adjectives), noun)
    return Phrase(article, tuple(adjectives), noun, left.pop(0), _parsed(words, left))


def _taken(role: tuple[str, ...], left: list[str]) -> str:
    if left[0] not in role:
        raise ValueError(f"{left[0]!r} is no word that may stand here; one of {', '.join(role[:5])} … is")
    return left.pop(0)


def _turned(words: Lexicon, phrase: Phrase) -> list[str]:
    before = [*_turned(words, phrase.place), words.meaning[phrase.relation]] if phrase.place and phrase.relation else []
    return [*before, *(words.meaning[word] for word in (phrase.noun, *phrase.adjectives, phrase.article))]

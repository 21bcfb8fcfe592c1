"""Two small probabilistic grammars, and the translation from one into the other.

    from:  sentence → phrase verb [phrase]
           phrase → article adjective* noun [at phrase]
    into:  sentence → phrase [phrase] verb
           phrase → [phrase at] noun adjective* article

Words are mapped one to one; a verb of the second language also agrees with the class of its
subject's noun.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import islice
from random import Random

from paribus.runtime import derive_seed
from paribus.spec.languages import TranslationLanguage

# consonants of each language
SOURCE_CONSONANTS, TARGET_CONSONANTS = (
    ("b", "d", "k", "l", "m", "t"),
    ("f", "g", "n", "r", "s", "v"),
)
VOWELS = "aeiou"
N_ARTICLES = N_RELATIONS = 2
P_ADJECTIVE, P_RELATION, P_OBJECT = 0.4, 0.25, 0.7
VERB_ENDINGS = ("l", "p")  # endings of a verb by the class of its subject


@dataclass(frozen=True)
class Phrase:
    article: str
    adjectives: tuple[str, ...]
    noun: str
    relation: str | None = None
    location: Phrase | None = None


@dataclass(frozen=True)
class Lexicon:
    """The words of the first language by their role, and what each is in the second."""

    articles: tuple[str, ...]
    relations: tuple[str, ...]
    adjectives: tuple[str, ...]
    verbs: tuple[str, ...]
    nouns: tuple[str, ...]
    translation: dict[str, str]


@cache
def make_lexicon(n_words: int, seed: int) -> Lexicon:
    """Roles and meanings drawn from the seed."""
    draw = Random(derive_seed(seed, "corpus", "translation", "lexicon"))
    words = [_word(number, SOURCE_CONSONANTS) for number in range(n_words)]
    others = [_word(number, TARGET_CONSONANTS) for number in range(n_words)]
    draw.shuffle(words)
    draw.shuffle(others)
    n_open = n_words - N_ARTICLES - N_RELATIONS
    rest = iter(words)
    return Lexicon(
        articles=tuple(islice(rest, N_ARTICLES)),
        relations=tuple(islice(rest, N_RELATIONS)),
        adjectives=tuple(islice(rest, n_open // 4)),
        verbs=tuple(islice(rest, n_open // 3)),
        nouns=tuple(rest),
        translation=dict(zip(words, others, strict=True)),
    )


def draw_sentence(language: TranslationLanguage, rng: Random, length: int) -> str:
    """A sentence of exactly so many words; adjectives make up what is missing."""
    words = make_lexicon(language.n_symbols, language.seed)
    while True:
        sentence = [*_draw_phrase(words, rng), rng.choice(words.verbs)]
        if rng.random() < P_OBJECT:
            sentence += _draw_phrase(words, rng)
        if len(sentence) <= length:
            break
    while len(sentence) < length:
        nouns = [place for place, word in enumerate(sentence) if word in words.nouns]
        sentence.insert(rng.choice(nouns), rng.choice(words.adjectives))
    return " ".join(sentence)


def translate(language: TranslationLanguage, sentence: str) -> str:
    """The sentence in the second language; ValueError where it is none of the first."""
    words = make_lexicon(language.n_symbols, language.seed)
    rest = sentence.split()
    try:
        subject = _parse_phrase(words, rest)
        verb = _take_word(words.verbs, rest)
        object_ = _parse_phrase(words, rest) if rest else None
    except IndexError:
        raise ValueError(
            f"{sentence!r} ends too early; a sentence is a phrase, a verb and perhaps a phrase"
        ) from None
    if rest:
        raise ValueError(
            f"{sentence!r} continues with {rest[0]!r} where it should end; leave that out"
        )
    ending = VERB_ENDINGS[words.nouns.index(subject.noun) % len(VERB_ENDINGS)]
    parts = [
        *_translate_phrase(words, subject),
        *(_translate_phrase(words, object_) if object_ else ()),
        words.translation[verb] + ending,
    ]
    return " ".join(parts)


def _word(number: int, sounds: tuple[str, ...]) -> str:
    """Syllables of a consonant and a vowel, at least two, a different word for each number."""
    word, n_syllables = "", len(sounds) * len(VOWELS)
    while number or len(word) < 4:
        number, place = divmod(number, n_syllables)
        word += sounds[place // len(VOWELS)] + VOWELS[place % len(VOWELS)]
    return word


def _draw_phrase(lexicon: Lexicon, rng: Random) -> list[str]:
    words = [rng.choice(lexicon.articles)]
    while rng.random() < P_ADJECTIVE:
        words.append(rng.choice(lexicon.adjectives))
    words.append(rng.choice(lexicon.nouns))
    if rng.random() < P_RELATION:
        words += [rng.choice(lexicon.relations), *_draw_phrase(lexicon, rng)]
    return words


def _parse_phrase(lexicon: Lexicon, remaining: list[str]) -> Phrase:
    article, adjectives = _take_word(lexicon.articles, remaining), []
    while remaining[0] in lexicon.adjectives:
        adjectives.append(remaining.pop(0))
    noun = _take_word(lexicon.nouns, remaining)
    if not remaining or remaining[0] not in lexicon.relations:
        return Phrase(article=article, adjectives=tuple(adjectives), noun=noun)
    return Phrase(
        article=article,
        adjectives=tuple(adjectives),
        noun=noun,
        relation=remaining.pop(0),
        location=_parse_phrase(lexicon, remaining),
    )


def _take_word(role: tuple[str, ...], remaining: list[str]) -> str:
    if remaining[0] not in role:
        raise ValueError(f"{remaining[0]!r} cannot stand here; use one of {', '.join(role[:5])} …")
    return remaining.pop(0)


def _translate_phrase(lexicon: Lexicon, phrase: Phrase) -> list[str]:
    if phrase.location and phrase.relation:
        before = [
            *_translate_phrase(lexicon, phrase.location),
            lexicon.translation[phrase.relation],
        ]
    else:
        before = []
    return [
        *before,
        *(lexicon.translation[word] for word in (phrase.noun, *phrase.adjectives, phrase.article)),
    ]

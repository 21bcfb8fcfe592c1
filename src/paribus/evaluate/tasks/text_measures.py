"""How near a generated text comes to its references: exact match, the same of plain words,
reward by letters, F1 of words, BLEU, chrF, ROUGE.

All lie between 0 and 1. BLEU and chrF are sacrebleu's, with tokenizers that need no download; ROUGE
is that of rouge-score, without splitting into sentences.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from paribus.corpus.own_pairs import reward_of
from paribus.errors import UnsupportedError
from paribus.spec.tasks import GenerationMeasure

TextMeasure = Callable[[str, Sequence[str]], float]
CORPUS_MEASURES: tuple[GenerationMeasure, ...] = ("bleu", "chrf")
TEXT_MEASURES: tuple[GenerationMeasure, ...] = (
    "exact match",
    "normalised match",
    "reward",
    "f1",
    "rouge-1",
    "rouge-2",
    "rouge-l",
)
ROUGE = {"rouge-1": "rouge1", "rouge-2": "rouge2", "rouge-l": "rougeL"}
_PACKAGES = {"bleu": "sacrebleu", "chrf": "sacrebleu", **dict.fromkeys(ROUGE, "rouge_score")}
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def text_measure(measure: GenerationMeasure) -> TextMeasure:
    """The measure of one text; UnsupportedError where its package is not installed."""
    match measure:
        case "exact match":
            return exact_match
        case "normalised match":
            return normalised_match
        case "reward":
            return letter_reward
        case "f1":
            return word_f1
        case "bleu":
            bleu = _library(measure).BLEU(effective_order=True)
            return lambda text, references: bleu.sentence_score(text, references).score / 100
        case "chrf":
            chrf = _library(measure).CHRF()
            return lambda text, references: chrf.sentence_score(text, references).score / 100
        case "rouge-1" | "rouge-2" | "rouge-l":
            return _rouge_measure(measure)
    raise AssertionError(f"{measure} is not measured on text")


def is_installed(measure: GenerationMeasure) -> bool:
    """Whether the package of a measure is there, or it needs none."""
    package = _PACKAGES.get(measure)
    return package is None or importlib.util.find_spec(package) is not None


def corpus_score(
    measure: GenerationMeasure, texts: Sequence[str], references: Sequence[Sequence[str]]
) -> float:
    """BLEU or chrF of all texts at once, as papers report it."""
    library = _library(measure)
    scorer = library.BLEU() if measure == "bleu" else library.CHRF()
    most = max(map(len, references))
    # sacrebleu wants as many references of each item: one that is missing is None
    columns: list[list[str | None]] = []
    for number in range(most):
        columns.append([own[number] if number < len(own) else None for own in references])
    return scorer.corpus_score(list(texts), columns).score / 100


def exact_match(text: str, references: Sequence[str]) -> float:
    """1 where the text is one of the references to the letter, but for spaces around it."""
    return float(text.strip() in [reference.strip() for reference in references])


def normalised_match(text: str, references: Sequence[str]) -> float:
    """SQuAD's exact match: 1 where the words are those of a reference, without case, punctuation
    and articles.
    """
    return float(_plain_words(text) in [_plain_words(own) for own in references])


def letter_reward(text: str, references: Sequence[str]) -> float:
    """The reward of own samples, by the nearest reference: the share of letters that stand in
    their places.
    """
    return max(reward_of(text, reference) for reference in references)


def word_f1(text: str, references: Sequence[str]) -> float:
    """SQuAD's F1 of words, without case, punctuation and articles; of the nearest reference."""
    return max(_one_f1(_plain_words(text), _plain_words(own)) for own in references)


def _one_f1(words: list[str], reference: list[str]) -> float:
    if not words or not reference:
        return float(words == reference)
    common = sum((Counter(words) & Counter(reference)).values())
    return 2 * common / (len(words) + len(reference))


def _plain_words(text: str) -> list[str]:
    plain = text.lower().translate(str.maketrans("", "", string.punctuation))
    return _ARTICLES.sub(" ", plain).split()


def _rouge_measure(measure: GenerationMeasure) -> TextMeasure:
    name = ROUGE[measure]
    scorer = _library(measure).RougeScorer([name])
    return lambda text, references: max(
        scorer.score(reference, text)[name].fmeasure for reference in references
    )


def _library(measure: GenerationMeasure) -> Any:
    package = _PACKAGES[measure]
    try:
        if package == "sacrebleu":
            return importlib.import_module("sacrebleu.metrics")
        return importlib.import_module("rouge_score.rouge_scorer")
    except ImportError:
        raise UnsupportedError(
            f"the measure {measure!r} needs {package.replace('_', '-')}; install paribus[eval], or"
            " use 'exact match', 'normalised match', 'reward', 'f1' or 'bits per byte'"
        ) from None

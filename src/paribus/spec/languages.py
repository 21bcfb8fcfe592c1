"""Invented languages as sources: a seed gives documents, and every source has one known answer."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from paribus.spec.base import Count, NonNegative, Positive, Spec, as_tuple
from paribus.spec.templates import template_columns

SYMBOLS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
VALUE_SYMBOLS = SYMBOLS + "+/"  # of numbers on a grid: 64, each of them one byte
MAX_EXAMPLES = 256  # of one function, in a source
MIN_SOURCE_BITS = 18  # of all inputs of a source, so that few sources occur twice
SHORTEST_SENTENCE = 3  # words of the invented grammar: a, noun, verb
LanguageForm = Literal["pairs", "text", "conversations", "preferences"]

MAX_TURNS = 16  # of a user, in a conversation of an invented language
TurnCount = Annotated[int, Field(ge=1, le=MAX_TURNS, exclude_if=lambda n_turns: n_turns == 1)]
SymbolCount = Annotated[int, Field(ge=2, le=len(SYMBOLS))]
PLAIN_PHRASINGS = ("{source}=",)  # what a question is without a phrasing of its own


def _require_phrasing(phrasing: str) -> str:
    """ValueError unless a source can be put into it, and an answer can follow."""
    if template_columns(phrasing) != ("source",):
        raise ValueError(
            f"{phrasing!r} is no phrasing; write {{source}} once, where the source stands, as in"
            " 'sort {source}:'"
        )
    if phrasing.endswith("{source}"):
        raise ValueError(
            f"{phrasing!r} ends with its source, so that an answer after it could not be told"
            " apart; write a sign after it, as in 'sort {source}:'"
        )
    return phrasing


Phrasing = Annotated[str, AfterValidator(_require_phrasing)]


def _is_plain(phrasings: tuple[str, ...]) -> bool:
    return phrasings == PLAIN_PHRASINGS


class Language(Spec):
    """The base of invented languages: a seed gives sources, and every source has one known
    answer.
    """

    n_documents: Count = 100_000
    """Number of documents that are made. A conversation is one, however many answers it has."""
    seed: NonNegative = 0
    """Seed of the documents."""
    form: LanguageForm = "pairs"
    """Pairs of source and target, both as one document of running text, conversations that begin
    with a question and its answer, or preferences for the answer over one with a mistake.
    """
    min_turns: TurnCount = 1
    """The smallest number of a user's turns in a conversation."""
    max_turns: TurnCount = 1
    """The largest number of a user's turns in a conversation. After the first, the user asks about
    what was said: `backwards`, `again`, or in `recall` for another key, as in `and b?`. More than
    one needs form `conversations`.
    """
    phrasings: Annotated[
        tuple[Phrasing, ...],
        BeforeValidator(as_tuple),
        Field(min_length=1, exclude_if=_is_plain),
    ] = PLAIN_PHRASINGS
    """How a question is put: templates in which `{source}` is the source, one drawn for each
    question. Under phrasings of its own a question is held out by its source alone, whatever its
    form and its phrasing. One alone needs no list.
    """
    weight: Positive = 1.0
    """The source's share of the rows is its weight over the sum of all weights."""
    min_length: Count
    """The shortest source."""
    max_length: Count
    """The longest source."""

    @model_validator(mode="after")
    def _require_order(self) -> Language:
        if self.min_length > self.max_length:
            raise ValueError(
                f"min_length is {self.min_length}, above max_length {self.max_length}; use at most"
                " that"
            )
        if len(set(self.phrasings)) < len(self.phrasings):
            raise ValueError("phrasings has one of them twice; give each once")
        return self

    @model_validator(mode="after")
    def _require_turns(self) -> Language:
        if self.min_turns > self.max_turns:
            raise ValueError(
                f"min_turns is {self.min_turns}, above max_turns {self.max_turns}; use at most that"
            )
        if self.max_turns > 1 and self.form != "conversations":
            raise ValueError(
                f"max_turns is {self.max_turns}, but form {self.form!r} has one question each; use"
                " form = 'conversations', or leave it out"
            )
        return self


class CopyLanguage(Language):
    """`cab=` → `cab`."""

    kind: Literal["copy"] = "copy"
    n_symbols: SymbolCount = 26
    """Number of different letters."""
    min_length: Count = 20
    """Letters of the shortest source."""
    max_length: Count = 40
    """Letters of the longest source."""


class ReverseLanguage(Language):
    """`cab=` → `bac`."""

    kind: Literal["reverse"] = "reverse"
    n_symbols: SymbolCount = 26
    """Number of different letters."""
    min_length: Count = 20
    """Letters of the shortest source."""
    max_length: Count = 40
    """Letters of the longest source."""


class SortLanguage(Language):
    """`cab=` → `abc`."""

    kind: Literal["sort"] = "sort"
    n_symbols: SymbolCount = 26
    """Number of different letters."""
    min_length: Count = 20
    """Letters of the shortest source."""
    max_length: Count = 40
    """Letters of the longest source."""


class RecallLanguage(Language):
    """`axbycz?b=` → `y`: keys, each with its value, then one key again; the length counts the
    keys, all distinct.
    """

    kind: Literal["recall"] = "recall"
    n_symbols: SymbolCount = 26
    """Number of different letters."""
    min_length: Count = 4
    """The smallest number of keys."""
    max_length: Count = 16
    """The largest number of keys, at most `n_symbols`."""

    @model_validator(mode="after")
    def _require_distinct_keys(self) -> RecallLanguage:
        if self.max_length > self.n_symbols:
            raise ValueError(
                f"max_length is {self.max_length}, but n_symbols {self.n_symbols} gives no more"
                f" distinct keys; use at most {self.n_symbols}"
            )
        return self


def _primes_up_to(limit: int) -> list[int]:
    primes: list[int] = []
    for n in range(2, limit + 1):
        if all(n % prime for prime in primes):
            primes.append(n)
    return primes


class LinearLanguage(Language):
    """`b>dc>fd>=` → `h`: examples of y = w·x + b over the integers modulo a prime, then one more x.

    The length counts the examples; they always determine the answer.
    """

    kind: Literal["linear"] = "linear"
    modulus: int = 11
    """The prime that all sums are taken modulo, below 62."""
    n_inputs: Annotated[int, Field(ge=1, le=8)] = 1
    """Number of inputs x of each example."""
    min_length: Count = 4
    """The smallest number of examples, more than `n_inputs`."""
    max_length: Count = 12
    """The largest number of examples."""

    @field_validator("modulus")
    @classmethod
    def _require_prime(cls, value: int) -> int:
        primes = _primes_up_to(len(SYMBOLS))
        if value not in primes:
            raise ValueError(
                f"{value} is not a prime below {len(SYMBOLS)}; use one of"
                f" {', '.join(map(str, primes))}"
            )
        return value

    @model_validator(mode="after")
    def _require_enough_examples(self) -> LinearLanguage:
        if self.min_length <= self.n_inputs:
            raise ValueError(
                f"min_length is {self.min_length}, too few examples to know n_inputs"
                f" {self.n_inputs} weights and a constant; use at least {self.n_inputs + 1}"
            )
        return self


class TranslationLanguage(Language):
    """Sentences of one small probabilistic grammar and their translation into another: words,
    order, agreement.
    """

    kind: Literal["translation"] = "translation"
    n_symbols: Annotated[int, Field(ge=10, le=2000)] = 50
    """Words of each language."""
    min_length: Annotated[int, Field(ge=SHORTEST_SENTENCE)] = 4
    """Words of the shortest source."""
    max_length: Annotated[int, Field(ge=SHORTEST_SENTENCE)] = 16
    """Words of the longest source."""


class ArithmeticLanguage(Language):
    """`95+4=` → `2` modulo 97, in decimals, products before sums; the length counts the terms."""

    kind: Literal["arithmetic"] = "arithmetic"
    modulus: Annotated[int, Field(ge=2, le=10**9)] = 97
    """The number that results are taken modulo."""
    operations: Literal["+", "+-", "+-*"] = "+"
    """The operations that occur."""
    min_length: Annotated[int, Field(ge=2)] = 2
    """The smallest number of terms."""
    max_length: Annotated[int, Field(ge=2)] = 2
    """The largest number of terms."""


class EpisodeLanguage(Language):
    """The base of languages whose documents have a function each: examples of it, then a query.

    `abcd=Wefgh=Xijkl=` → `Y`: inputs x ~ N(0, I), each number a symbol, then the value at x. The
    examples need not determine the answer. The length counts them.
    """

    n_inputs: Annotated[int, Field(ge=1, le=16)] = 4
    """Number of inputs x of each example."""
    n_varying: Annotated[int | None, Field(ge=1, exclude_if=lambda n: n is None)] = None
    """Number of inputs that vary, the first ones; the others are all at 0 and have no weight. If
    left out, all vary. With few a function is learnt sooner, so an earlier stage may begin there.
    """
    n_levels: Annotated[int, Field(ge=2, le=len(VALUE_SYMBOLS))] = len(VALUE_SYMBOLS)
    """Numbers that an input is rounded to, a symbol each. They are equally far apart, from -3.2 to
    3.2 without half of that distance.
    """
    min_length: Annotated[int, Field(ge=0, le=MAX_EXAMPLES)] = 0
    """The smallest number of examples before the query; 0 is allowed."""
    max_length: Annotated[int, Field(ge=0, le=MAX_EXAMPLES)] = 16
    """The largest number of examples before the query."""

    @property
    def n_drawn(self) -> int:
        """Number of inputs that vary."""
        return self.n_varying or self.n_inputs

    @model_validator(mode="after")
    def _require_different_sources(self) -> EpisodeLanguage:
        if self.n_drawn > self.n_inputs:
            raise ValueError(
                f"n_varying is {self.n_varying}, but there are n_inputs {self.n_inputs}; use that"
                " or fewer"
            )
        n_needed = math.ceil(MIN_SOURCE_BITS / math.log2(self.n_levels) / self.n_drawn) - 1
        if self.min_length < n_needed:
            name = "n_inputs" if self.n_varying is None else "n_varying"
            raise ValueError(
                f"min_length is {self.min_length}, but so few inputs come up again and again, and"
                f" their answers could be learnt by heart; with {name} {self.n_drawn} and"
                f" n_levels {self.n_levels} use at least {n_needed}"
            )
        return self


class RegressionLanguage(EpisodeLanguage):
    """`abcd=Wefgh=Xijkl=` → `Y`: examples of y = w·x, with w and x ~ N(0, I), then one more x; y
    is the symbol of a bin. Each document has a w of its own, and the length counts the examples.
    """

    kind: Literal["regression"] = "regression"
    n_bins: Annotated[int, Field(ge=2, le=len(VALUE_SYMBOLS))] = len(VALUE_SYMBOLS)
    """Bins of y, a symbol each, all of one width. They cover four standard deviations of y on
    either side of 0; what lies beyond is in the outermost bin.
    """
    noise: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False), AfterValidator(abs)] = 0.0
    """Standard deviation of the noise that is added to every y, that of the query too."""


class ClassificationLanguage(EpisodeLanguage):
    """`abcd=Wefgh=Xijkl=` → `X`: points x ~ N(0, I), each with the label of its class, then one
    more point. Classes and labels are drawn for each document, and the length counts the examples.
    """

    kind: Literal["classification"] = "classification"
    n_labels: Literal[2, 4] = 2
    """Number of classes: 2 are the two sides of a random plane through 0; 4 are what two such
    planes part. Each class has a symbol of its own, drawn for each document.
    """

    @model_validator(mode="after")
    def _require_room_for_classes(self) -> ClassificationLanguage:
        if self.n_labels == 4 and self.n_inputs == 1:
            raise ValueError(
                "n_labels is 4, but n_inputs 1 is a line, which 0 parts in two; use n_labels = 2,"
                " or at least 2 inputs"
            )
        return self


EpisodeKind = RegressionLanguage | ClassificationLanguage
InventedLanguage = (
    CopyLanguage
    | ReverseLanguage
    | SortLanguage
    | RecallLanguage
    | LinearLanguage
    | TranslationLanguage
    | ArithmeticLanguage
    | RegressionLanguage
    | ClassificationLanguage
)


def common_phrasings(one: InventedLanguage, other: InventedLanguage) -> tuple[str, ...]:
    """The phrasings in which two languages ask the same; none where they are of different kinds."""
    if one.kind != other.kind:
        return ()
    return tuple(phrasing for phrasing in one.phrasings if phrasing in other.phrasings)

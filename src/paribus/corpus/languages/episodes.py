"""In-context learning of functions of numbers: examples of one function, then a query.

Numbers are written as symbols of a grid, one each. The function of a document is drawn from a
stream of its own, named by the inputs of all examples and of the query. So it is independent of
what the inputs are, and whoever has the language's seed can draw it again from the text alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from random import Random

from paribus.runtime import derive_seed
from paribus.spec.languages import (
    VALUE_SYMBOLS,
    ClassificationLanguage,
    EpisodeKind,
    RegressionLanguage,
)

VALUE_SIGN = "="  # before each value, as after the query of a plain question
INPUT_LIMIT = 3.2  # of the grid of inputs, on either side of 0
_INDEX = {symbol: index for index, symbol in enumerate(VALUE_SYMBOLS)}
Point = tuple[float, ...]


@dataclass(frozen=True)
class BinGrid:
    """Bins of one width from -limit to limit; what lies beyond is in the outermost."""

    n_bins: int
    limit: float

    @cached_property
    def width(self) -> float:
        return 2 * self.limit / self.n_bins

    def index(self, value: float) -> int:
        """The number of the bin that a value is in."""
        index = int((value + self.limit) / self.width)
        if index < 0:
            return 0
        return index if index < self.n_bins else self.n_bins - 1

    def centre(self, index: int) -> float:
        """The value that stands for a bin."""
        return (index + 0.5) * self.width - self.limit


@dataclass(frozen=True)
class Episode:
    """The inputs of examples, their values, and the input of the query, all as symbols."""

    inputs: tuple[str, ...]
    values: str
    query: str

    @property
    def all_inputs(self) -> tuple[str, ...]:
        return (*self.inputs, self.query)


def value_bins(language: RegressionLanguage) -> BinGrid:
    """The bins of y, four standard deviations to either side of 0."""
    return _grid(language.n_bins, 4 * math.hypot(math.sqrt(language.n_inputs), language.noise))


def input_bins(language: EpisodeKind) -> BinGrid:
    """The grid that inputs are rounded to."""
    return _grid(language.n_levels, INPUT_LIMIT)


@cache
def _grid(n_bins: int, limit: float) -> BinGrid:
    return BinGrid(n_bins, limit)


def input_numbers(language: EpisodeKind, inputs: str) -> Point:
    """The numbers that symbols of inputs stand for."""
    centres = _bin_centres(language.n_levels, INPUT_LIMIT)
    return tuple([centres[_INDEX[symbol]] for symbol in inputs])


@cache
def _bin_centres(n_bins: int, limit: float) -> tuple[float, ...]:
    return tuple(map(_grid(n_bins, limit).centre, range(n_bins)))


def is_input(language: EpisodeKind, text: str) -> bool:
    """Is a text the input of an example?"""
    return len(text) == language.n_inputs and set(text) <= set(VALUE_SYMBOLS[: language.n_levels])


def draw_inputs(language: EpisodeKind, rng: Random) -> str:
    """An x ~ N(0, I), each of its numbers at the nearest point of the grid; inputs that do not vary
    have the symbol of 0.
    """
    bins, n_drawn = input_bins(language), language.n_drawn
    drawn = [VALUE_SYMBOLS[bins.index(rng.gauss(0, 1))] for _ in range(n_drawn)]
    return "".join(drawn) + VALUE_SYMBOLS[bins.index(0)] * (language.n_inputs - n_drawn)


def draw_episode(language: EpisodeKind, rng: Random, n_examples: int) -> str:
    """`abcd=Wefgh=Xijkl`: examples of one function and a query."""
    inputs = tuple(draw_inputs(language, rng) for _ in range(n_examples + 1))
    values = _function_values(language, inputs, inputs)
    return spell_episode(Episode(inputs[:-1], values[:-1], inputs[-1]))


def read_episode(language: EpisodeKind, source: str) -> Episode:
    """The symbols of a source by their role; ValueError where it is none of this language."""
    d = language.n_inputs
    if not _episode_pattern(d, language.n_levels, episode_letters(language)).fullmatch(source):
        raise ValueError(
            f"{source!r} is no source of {language.kind!r}; write examples of {d} symbols,"
            f" {VALUE_SIGN!r} and one symbol each, then {d} symbols"
        )
    size = d + len(VALUE_SIGN) + 1
    examples = [source[at : at + size] for at in range(0, len(source) - d, size)]
    return Episode(
        inputs=tuple(example[:d] for example in examples),
        values="".join(example[-1] for example in examples),
        query=source[-d:],
    )


@cache
def _episode_pattern(n_inputs: int, n_levels: int, letters: str) -> re.Pattern[str]:
    inputs = f"[{VALUE_SYMBOLS[:n_levels]}]{{{n_inputs}}}"
    return re.compile(f"({inputs}{VALUE_SIGN}[{letters}])*{inputs}")


def spell_episode(episode: Episode) -> str:
    """The source that has these examples and this query."""
    examples = zip(episode.inputs, episode.values, strict=True)
    return "".join(f"{x}{VALUE_SIGN}{y}" for x, y in examples) + episode.query


def episode_answer(language: EpisodeKind, source: str) -> str:
    """The value at the query; ValueError where the examples are not of the function that is drawn
    for these inputs.
    """
    return value_at(language, source, read_episode(language, source).query)


def value_at(language: EpisodeKind, source: str, inputs: str) -> str:
    """The value of a source's function at other inputs."""
    episode = read_episode(language, source)
    values = _function_values(language, episode.all_inputs, (*episode.inputs, inputs))
    if values[:-1] != episode.values:
        raise ValueError(
            f"{source!r} has values that no document of {language.kind!r} with seed"
            f" {language.seed} has; use its own documents"
        )
    return values[-1]


def episode_letters(language: EpisodeKind) -> str:
    """The symbols that values are written in."""
    if isinstance(language, RegressionLanguage):
        return VALUE_SYMBOLS[: language.n_bins]
    return VALUE_SYMBOLS


def episode_weights(language: EpisodeKind, source: str) -> tuple[Point, ...]:
    """The vectors that the function of a source is made of: w of a regression, the normals of its
    planes of a classification.
    """
    rng = _function_stream(language, read_episode(language, source).all_inputs)
    return _draw_weights(language, rng)


def _function_stream(language: EpisodeKind, all_inputs: tuple[str, ...]) -> Random:
    name = VALUE_SIGN.join(all_inputs)
    return Random(derive_seed(language.seed, "corpus", language.kind, "function", name))


def _draw_weights(language: EpisodeKind, rng: Random) -> tuple[Point, ...]:
    n_vectors = 1
    if isinstance(language, ClassificationLanguage):
        n_vectors = language.n_labels // 2
    weights: list[Point] = []
    rest = (0.0,) * (language.n_inputs - language.n_drawn)
    for _ in range(n_vectors):
        weights.append((*(rng.gauss(0, 1) for _ in range(language.n_drawn)), *rest))
    return tuple(weights)


def _function_values(
    language: EpisodeKind, all_inputs: tuple[str, ...], asked: tuple[str, ...]
) -> str:
    """The values, at inputs that are asked, of the function that is drawn for `all_inputs`."""
    # a frozen spec has a hash, though its type does not say so
    return _drawn_values(language, all_inputs, asked)  # pyright: ignore[reportArgumentType]


@lru_cache(maxsize=1)  # whoever has drawn a source asks for its answer next
def _drawn_values(
    language: EpisodeKind, all_inputs: tuple[str, ...], asked: tuple[str, ...]
) -> str:
    rng = _function_stream(language, all_inputs)
    weights = _draw_weights(language, rng)
    points = (input_numbers(language, x) for x in asked)
    if isinstance(language, ClassificationLanguage):
        labels = rng.sample(VALUE_SYMBOLS, language.n_labels)
        return "".join(labels[_plane_sides(weights, x)] for x in points)
    bins, values = value_bins(language), ""
    for x in points:
        y = _dot(weights[0], x)
        if language.noise:
            y += rng.gauss(0, language.noise)
        values += VALUE_SYMBOLS[bins.index(y)]
    return values


def _dot(one: Point, other: Point) -> float:
    total = 0.0  # not by sum(), which rounds in another way from Python 3.12 on
    for a, b in zip(one, other, strict=True):
        total += a * b
    return total


def _plane_sides(normals: Sequence[Point], x: Point) -> int:
    """The number of a class: a bit for each plane that x lies above."""
    number = 0
    for normal in normals:
        number = 2 * number + (_dot(normal, x) > 0)
    return number

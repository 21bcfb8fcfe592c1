"""In-context linear functions: y = w·x + b over the integers modulo a prime, shown by examples."""

from __future__ import annotations

from functools import lru_cache
from random import Random

from paribus.spec.languages import SYMBOLS, LinearLanguage


def draw_examples(language: LinearLanguage, rng: Random, length: int) -> str:
    """`b>dc>fd>`: values of one function and one more x, drawn again until the last value is
    beyond doubt.
    """
    while True:
        *weights, constant = (rng.randrange(language.modulus) for _ in range(language.n_inputs + 1))
        question = ""
        for _ in range(length):
            x = [rng.randrange(language.modulus) for _ in weights]
            y = (sum(w * v for w, v in zip(weights, x, strict=True)) + constant) % language.modulus
            question += _spell(x) + ">" + SYMBOLS[y]
        question += _spell([rng.randrange(language.modulus) for _ in weights]) + ">"
        if _solve(language.n_inputs, language.modulus, question) is not None:
            return question


def last_value(language: LinearLanguage, question: str) -> str:
    """The last y."""
    value = _solve(language.n_inputs, language.modulus, question)
    if value is None:
        raise ValueError(
            f"{question!r} leaves its last value open; give {language.n_inputs + 1} independent"
            " examples"
        )
    return SYMBOLS[value]


def _spell(numbers: list[int]) -> str:
    return "".join(SYMBOLS[number] for number in numbers)


@lru_cache(maxsize=1)  # who draws a question asks for its answer next
def _solve(d: int, p: int, question: str) -> int | None:
    """The last y, of `d` inputs modulo `p`; None where the examples leave it open.

    By elimination: the combination of examples that makes up the last (x, 1) makes up its y too.
    """
    numbers = [SYMBOLS.index(letter) for letter in question.replace(">", "")]
    rows = [
        [*numbers[at : at + d], 1, *numbers[at + d : at + d + 1]]
        for at in range(0, len(numbers), d + 1)
    ]
    basis: dict[int, list[int]] = {}
    for example in rows[:-1]:
        row = _reduce_row(example, basis, p)
        pivot = _first_nonzero(row, d + 1)
        if pivot is not None:
            inverse = pow(row[pivot], -1, p)
            basis[pivot] = [entry * inverse % p for entry in row]
        if len(basis) == d + 1:
            break
    remainder = _reduce_row([*rows[-1], 0], basis, p)
    if any(remainder[: d + 1]):
        return None
    return -remainder[d + 1] % p


def _first_nonzero(row: list[int], n_columns: int) -> int | None:
    for column in range(n_columns):
        if row[column]:
            return column
    return None


def _reduce_row(row: list[int], basis: dict[int, list[int]], p: int) -> list[int]:
    for pivot, lead in basis.items():
        row = [(entry - row[pivot] * other) % p for entry, other in zip(row, lead, strict=True)]
    return row

"""How often words on exponents are said of planted laws, and how often intervals beside them hold:
tables of docs/scaling.md.

    python benchmarks/law_power.py                          # all tables, twenty minutes on one core
    python benchmarks/law_power.py power --laws 60
    python benchmarks/law_power.py power --laws 100 --differences 0.05 --columns 1 3
    python benchmarks/law_power.py floors multipliers predictions

Laws are planted at the places of the kept ladder (tests/support/planted_laws.py). Generators are
fixed, so the same numbers are printed each time. Shares are in per cent: of 300 laws, the standard
error is 1.3 near 5 % and 2.9 near 50 %. The fifth column of the table of power takes most of the
time, and has a third of the laws; multipliers have half of them.
"""

import argparse
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).parents[1] / "tests"
DIFFERENCES = (0.0, 0.02, 0.03, 0.05, 0.1)
FLOORS = (0.05, 0.1, 0.2)
N_TESTS = 10  # α and β of the five pairs of designs/ladder.toml
N_TESTS_ALL = 20  # of all pairs of five arms
MARGIN = 0.05
SYMBOLS = {"alpha": "α", "beta": "β"}


@dataclass(frozen=True)
class Request:
    """How much is simulated."""

    n_laws: int
    differences: tuple[float, ...]
    columns: tuple[int, ...]  # of the table of power, from 1


@dataclass(frozen=True)
class Column:
    """One column of the table of power: what losses miss their laws by, and how it is read."""

    title: str
    misses: Any
    heeds_common: bool = False


def print_table(title: str, head: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """A table in Markdown; a row is printed as soon as it is there."""
    head = list(head)
    print(f"\n**{title}**\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |", flush=True)


def share(said: Iterable[bool]) -> str:
    """In whole per cent."""
    return f"{100 * float(np.mean(list(said))):.0f}"


def power_columns() -> tuple[Column, ...]:
    planted, words = import_module("planted_laws"), import_module("planted_words")
    return (
        Column("noise 0.32 %", words.Misses()),
        Column("0.32 %, cells off by 0.5 %", words.Misses(own=0.005)),
        Column("noise by size and duration", words.Misses(planted.RUNG_NOISE)),
        Column("the same, off as in the kept ladder", words.KEPT),
        Column("the same, in the reading that heeds what is common", words.KEPT, True),
    )


def power_cell(column: Column, difference: float, n_laws: int) -> dict[str, str]:
    """By exponent: p < 5 %, `larger` with one E, `larger`, and `same exponent`."""
    words = import_module("planted_words")
    runs = words.planted_ladder(n_laws, column.misses, difference, difference)
    fits = words.fit_ladder(runs, column.heeds_common)
    cells: dict[str, str] = {}
    for exponent in SYMBOLS:
        verdicts = words.planted_verdicts(fits, exponent, N_TESTS)
        shares = (
            share(one.one_floor.p < 0.05 for one in verdicts),
            share(words.says_larger_with_one_floor(one) for one in verdicts),
            share(words.says_larger(one) for one in verdicts),
            share(words.says_same(one) for one in verdicts),
        )
        cells[exponent] = ", ".join(shares)
    return cells


def power(request: Request) -> None:
    """Both exponents of one arm of five are larger by so much."""
    columns = [power_columns()[number - 1] for number in request.columns]
    found: dict[tuple[str, float], list[str]] = {}
    for difference in request.differences:
        for column in columns:
            n_laws = request.n_laws
            if column.heeds_common:
                n_laws = -(-n_laws // 3)
            for exponent, cell in power_cell(column, difference, n_laws).items():
                found.setdefault((exponent, difference), []).append(cell)
                print(f"{SYMBOLS[exponent]}, {difference:g}; {column.title}: {cell}", flush=True)
    rows = []
    for exponent, symbol in SYMBOLS.items():
        for difference in request.differences:
            rows.append((f"{symbol}, {difference:g}", *found[exponent, difference]))
    print_table(
        "Power: 5 %, one E, said, same",
        ("difference", *(column.title for column in columns)),
        rows,
    )


def floor_row(floor: float, n_laws: int) -> tuple[str, ...]:
    """What is said of equal α and of α that differ by the margin, if E of one arm is higher."""
    words, fits = import_module("planted_words"), import_module("paribus.analyse.laws.fit")
    cells: list[str] = []
    seen = ""
    for alpha, says in (
        (0.0, words.says_larger_with_one_floor),
        (MARGIN, words.says_same_with_one_floor),
    ):
        runs = words.planted_ladder(n_laws, words.Misses(), alpha=alpha, floor=floor)
        both = words.fit_ladder(runs)
        verdicts = words.planted_verdicts(both, "alpha", N_TESTS_ALL)
        with_one = [says(one) for one in verdicts]
        unless = [
            said and not words.flips(one) for said, one in zip(with_one, verdicts, strict=True)
        ]
        kept = [
            said and not one.rests_on_one_floor
            for said, one in zip(with_one, verdicts, strict=True)
        ]
        cells.append("; ".join(map(share, (with_one, unless, kept))))
        seen = seen or share(fits.one_floor_p(both.one_floor, both.own_floors) < 0.05)
    return f"{floor:g}", *cells, seen


def floors(request: Request) -> None:
    """E of one arm of five is higher."""
    head = (
        "E higher by",
        "`α larger` of equal exponents: one E; unless it flips; both fits",
        f"`same exponent` of α that differ by {MARGIN:g}: one E; unless it flips; both fits",
        "the test of one E sees it",
    )
    rows = (floor_row(floor, request.n_laws) for floor in FLOORS)
    print_table("Of one arm whose E is higher", head, rows)


def multipliers(request: Request) -> None:
    """The band of a multiplier, and the planted one."""
    planted, test = import_module("planted_laws"), import_module("test_equal_loss")
    n_pairs = -(-request.n_laws // 2)
    rows = []
    for name, noise in planted.NOISES.items():
        covered = test.multiplier_coverage(n_pairs, noise)
        rows.append((name, n_pairs, f"{covered[False]:.1f}", f"{covered[True]:.1f}"))
    head = ("noise", "pairs of laws", "among the data", "extrapolated")
    print_table("Places where the band of a multiplier holds it", head, rows)


def predictions(request: Request) -> None:
    """The interval of the largest run, and its outcome."""
    planted, test = import_module("planted_laws"), import_module("test_prediction")
    rows = []
    for name, noise in planted.NOISES.items():
        for cells_off in (0.0, 0.005):
            for n_seeds in (1, 3):
                covered, width = test.prediction_coverage(request.n_laws, n_seeds, noise, cells_off)
                shares = f"{covered:.1f}", f"{width:.2f}"
                rows.append((name, f"{100 * cells_off:g} %", n_seeds, *shares))
    head = ("noise", "cells off by", "seeds", "held", "median half-width, % of the loss")
    print_table("Outcomes of the largest run within the interval of its prediction", head, rows)


TABLES: dict[str, Callable[[Request], None]] = {
    "power": power,
    "floors": floors,
    "multipliers": multipliers,
    "predictions": predictions,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "tables", nargs="*", choices=[[], *TABLES], metavar="TABLE", help=", ".join(TABLES)
    )
    parser.add_argument("--laws", type=int, default=300)
    parser.add_argument("--differences", type=float, nargs="+", default=DIFFERENCES)
    parser.add_argument(
        "--columns", type=int, nargs="+", default=(1, 2, 3, 4, 5), choices=range(1, 6)
    )
    asked = parser.parse_args()
    sys.path[:0] = [str(TESTS / "support"), str(TESTS / "analyse" / "laws")]
    request = Request(asked.laws, tuple(asked.differences), tuple(asked.columns))
    for name in asked.tables or TABLES:
        TABLES[name](request)


if __name__ == "__main__":
    main()

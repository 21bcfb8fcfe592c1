"""Rows as comma-separated values on the terminal."""

import csv
import sys
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Annotated, Any

import typer

from paribus.errors import SpecError

CsvOption = Annotated[
    bool, typer.Option("--csv", help="Print comma-separated values, for another program.")
]


def require_one_format(as_csv: bool, as_json: bool) -> None:
    """SpecError where two formats are asked for."""
    if as_csv and as_json:
        raise SpecError("--csv and --json are both given; choose one of them")


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """One line per row below a line of headings; nothing where there is no row."""
    columns = list(dict.fromkeys(chain.from_iterable(rows)))
    if not columns:
        return
    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)

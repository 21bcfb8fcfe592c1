"""What import and export share: the precision asked for, and what they say when a folder is
written.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import torch
import typer

from paribus.cli.terminal.console import console
from paribus.errors import SpecError
from paribus.model import Transformer
from paribus.report.numbers import format_count, format_duration, format_size

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

PrecisionOption = Annotated[
    str,
    typer.Option(
        "--dtype", metavar="DTYPE", help=f"Precision of the weights: {', '.join(PRECISIONS)}."
    ),
]


def parse_precision(name: str) -> torch.dtype:
    """The precision a person asked for."""
    if name not in PRECISIONS:
        raise SpecError(f"--dtype is {name!r}; use {', '.join(PRECISIONS)}")
    return PRECISIONS[name]


def print_receipt(verb: str, folder: Path, model: Transformer, seconds: float) -> None:
    """What was written, how large it is and how long it took."""
    page = console()
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    page.print(
        f"{verb} {format_count(n_parameters)} parameters in {format_duration(seconds)}: {folder}",
        soft_wrap=True,
    )
    for name, n_bytes in _file_sizes(folder):
        page.print(f"  {format_size(n_bytes):>8}  {name}")


def _file_sizes(folder: Path) -> Iterator[tuple[str, int]]:
    for path in sorted(folder.iterdir()):
        yield path.name, path.stat().st_size

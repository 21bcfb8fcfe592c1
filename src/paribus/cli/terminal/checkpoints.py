"""What import and export share: the precision asked for, and what they say when a folder is written."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import torch
import typer

from paribus.cli.terminal.console import console
from paribus.errors import SpecError
from paribus.model import Transformer
from paribus.report.numbers import count, duration, size

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

Precision = Annotated[
    str, typer.Option("--dtype", metavar="DTYPE", help=f"How weights are written: {', '.join(PRECISIONS)}.")
]


def precision_named(name: str) -> torch.dtype:
    """The precision a person asked for."""
    if name not in PRECISIONS:
        raise SpecError(f"--dtype is {name!r}; use {', '.join(PRECISIONS)}")
    return PRECISIONS[name]


def print_receipt(done: str, folder: Path, model: Transformer, seconds: float) -> None:
    """What was written, how large it is and how long it took."""
    page = console()
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    page.print(f"{done} {count(n_parameters)} parameters in {duration(seconds)}: {folder}", soft_wrap=True)
    for name, n_bytes in _files(folder):
        page.print(f"  {size(n_bytes):>8}  {name}")


def _files(folder: Path) -> Iterator[tuple[str, int]]:
    for path in sorted(folder.iterdir()):
        yield path.name, path.stat().st_size

"""Convert a Hugging Face folder (config.json and safetensors) into a checkpoint of paribus.

OUT must be new or empty. It is written completely or not at all. The checkpoint keeps the tokenizer
and the rest of the config, and `generate`, `evaluate` and `export` take it like a run.
"""

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from paribus.cli.terminal.console import print_notes
from paribus.cli.terminal.import_export import PrecisionOption, parse_precision, print_receipt
from paribus.interop import import_
from paribus.interop.tokenizer import tokenizer_notes


def command(
    folder: Annotated[
        Path,
        typer.Argument(metavar="HF_FOLDER", help="Folder with config.json and safetensors files."),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write.")],
    dtype: PrecisionOption = "float32",
) -> None:
    begin = perf_counter()
    imported = import_(folder, parse_precision(dtype), out)
    print_notes(*imported.notes, *tokenizer_notes(folder))
    print_receipt("imported", out, imported.model, perf_counter() - begin)

"""From a Hugging Face folder of safetensors and config.json to a checkpoint of ours.

OUT must be new or empty. It is written whole or not at all, and keeps the tokenizer and what the
config says beyond the architecture: `generate`, `evaluate` and `export` take it as they take a run.
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
        Path, typer.Argument(metavar="HF_FOLDER", help="Holds config.json and safetensors.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The checkpoint to write.")],
    dtype: PrecisionOption = "float32",
) -> None:
    begin = perf_counter()
    imported = import_(folder, parse_precision(dtype), out)
    print_notes(*imported.notes, *tokenizer_notes(folder))
    print_receipt("imported", out, imported.model, perf_counter() - begin)

"""From a checkpoint of ours to a Hugging Face folder that transformers loads.

OUT must be new or empty and is written whole or not at all. An architecture that transformers has no class for is
refused.
"""

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from paribus.cli.terminal.checkpoints import Precision, precision_named, print_receipt
from paribus.interop import export
from paribus.model import origin, restore


def command(
    folder: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="Holds spec.json and weights.safetensors.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write.")],
    dtype: Precision = "float32",
) -> None:
    begin = perf_counter()
    model = restore(folder, dtype=precision_named(dtype))
    export(model, out, origin(folder))
    print_receipt("exported", out, model, perf_counter() - begin)

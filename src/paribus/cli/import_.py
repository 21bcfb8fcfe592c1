"""Convert a Hugging Face folder (config.json and safetensors) into a checkpoint of paribus.

OUT must be new or empty. It is written completely or not at all. The checkpoint keeps the tokenizer
and the rest of the config, and `generate`, `evaluate` and `export` take it like a run, and `train`
can begin from it. It records the objective that the model was trained with, which decides how it is
asked: causal for GPT, GPT-2, Llama, Mixtral and DeepSeek, spans for T5, seq2seq for BART, masked
for BERT.
"""

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from paribus.cli.terminal.console import console, print_notes
from paribus.cli.terminal.import_export import PrecisionOption, parse_precision, print_receipt
from paribus.interop import import_
from paribus.interop.recorded_objective import read_objective
from paribus.interop.tokenizer import tokenizer_notes
from paribus.record.file_names import OBJECTIVE_FILE


def command(
    folder: Annotated[
        Path,
        typer.Argument(metavar="HF_FOLDER", help="Folder with config.json and safetensors files."),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write.")],
    dtype: PrecisionOption = "float32",
    objective: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="What the model was trained to predict, such as causal, spans or masked;"
            " by default what its family is trained with.",
        ),
    ] = None,
) -> None:
    begin = perf_counter()
    imported = import_(folder, parse_precision(dtype), out, objective)
    print_notes(*imported.notes, *tokenizer_notes(folder))
    print_receipt("imported", out, imported.model, perf_counter() - begin)
    kind = read_objective(out / OBJECTIVE_FILE).kind
    console().print(f"it is asked as a model that was trained with {kind!r}")

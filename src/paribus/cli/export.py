"""Convert a run or a checkpoint into a Hugging Face folder that transformers can load.

For a run, this takes the newest complete checkpoint, or with --best the best one. The tokenizer is
written with it. A tokenizer of paribus becomes tokenizer.json with our special tokens by name, so
that AutoTokenizer gives the ids that the run was trained on. An imported tokenizer is not changed.

OUT must be new or empty. It is written completely or not at all. An architecture that transformers
has no class for is refused.
"""

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from paribus.cli.terminal.console import print_notes
from paribus.cli.terminal.folders import RUN_HELP, RUNS, RunsOption, TokenizerOption
from paribus.cli.terminal.import_export import PrecisionOption, parse_precision, print_receipt
from paribus.interop.exporting import export_checkpoint
from paribus.interop.loaded_checkpoint import load_checkpoint


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help=RUN_HELP)],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write.")],
    dtype: PrecisionOption = "float32",
    best: Annotated[
        bool, typer.Option("--best", help="Export the checkpoint with the lowest validation nats.")
    ] = False,
    tokenizer: TokenizerOption = None,
    runs: RunsOption = RUNS,
) -> None:
    begin = perf_counter()
    precision = parse_precision(dtype)
    checkpoint = load_checkpoint(run, runs, best, tokenizer)
    print_notes(*checkpoint.notes)
    model = checkpoint.restore(dtype=precision)
    export_checkpoint(checkpoint, model, out)
    print_receipt("exported", out, model, perf_counter() - begin)

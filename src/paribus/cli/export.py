"""From a run or a checkpoint of ours to a Hugging Face folder that transformers loads.

Of a run, its newest whole checkpoint is taken, or the best, and the tokenizer goes along: ours is
written as tokenizer.json with our special tokens under their names, so that AutoTokenizer gives the
ids the run was trained on. One that was imported leaves as it came.

OUT must be new or empty and is written whole or not at all. An architecture that transformers has
no class for is refused.
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
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write.")],
    dtype: PrecisionOption = "float32",
    best: Annotated[
        bool, typer.Option("--best", help="The checkpoint with the lowest held-out nats.")
    ] = False,
    tokenizer: TokenizerOption = None,
    runs: RunsOption = RUNS,
) -> None:
    begin = perf_counter()
    precision = parse_precision(dtype)
    loaded = load_checkpoint(run, runs, best, tokenizer)
    print_notes(*loaded.notes)
    model = loaded.restore(dtype=precision)
    export_checkpoint(loaded, model, out)
    print_receipt("exported", out, model, perf_counter() - begin)

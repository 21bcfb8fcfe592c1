"""Measure a run on held-out text: nats and bits per byte of targets, given their contexts.

The yardstick is halves (the second half of a document, given the first), pairs (a target, given its source) or pseudo
(each token of a second half under a mask, all others in sight; no likelihood, to be compared with its like alone). By
default it is the one for what the run read and was asked. The run's last whole checkpoint answers, framed as it was
trained; an item is a line of a file under RUN/evaluations, and what was measured before is read from there.

A decoder that was imported is measured on the text that --corpus names, after its own begin-of-text token.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from paribus.cli.terminal.arguments import Json, changes
from paribus.cli.terminal.console import console, note, print_json
from paribus.cli.terminal.folders import RUN, RUNS, Cache, Runs, TokenizerOption, cache_folder
from paribus.cli.terminal.measured import described, measured_table, remarks
from paribus.corpus import build
from paribus.errors import SpecError
from paribus.evaluate import evaluate_checkpoint, stage_of
from paribus.interop.loaded import Loaded, load_checkpoint
from paribus.record import Evaluation, stages_of
from paribus.runtime import device_named
from paribus.spec.corpus import Corpus
from paribus.spec.run import load_text
from paribus.spec.yardstick import load_yardstick, suited


def evaluate_run(
    run: str | Path,
    yardstick: str | None = None,
    *,
    changes: Mapping[str, Any] | None = None,
    n_items: int | None = None,
    corpus: str | Path | Mapping[str, Any] | None = None,
    tokenizer: str | Path | None = None,
    runs: str | Path = RUNS,
    cache: str | Path | None = None,
    device: str | None = None,
    n_sequences: int = 16,
) -> Evaluation:
    """A run, given by its name or folder, or a checkpoint, measured; `changes` are to the yardstick's fields.

    `corpus` is the spec of the text that a checkpoint which was not trained here is measured on.
    """
    loaded = load_checkpoint(run, runs, tokenizer=tokenizer)
    note(*loaded.notes)
    text = _text_of(loaded, corpus)
    asked = dict(changes or {}) | ({} if n_items is None else {"n_items": n_items})
    wanted = load_yardstick(yardstick or suited(text, loaded.objective()).kind, asked)
    built = build(text, cache_folder(cache), show_progress=True)
    if loaded.run is not None and built.fingerprint != stages_of(loaded.run)[-1].get("text"):
        note("the text is not what the run was trained on: its sources have changed since")
    made = evaluate_checkpoint(loaded, wanted, built, device=device_named(device), n_sequences=n_sequences)
    note(*remarks(made))
    return made


def _text_of(loaded: Loaded, given: str | Path | Mapping[str, Any] | None) -> Corpus:
    """What a run read, or the text that is named for a checkpoint that was not trained here."""
    if loaded.run is not None:
        if given is not None:
            raise SpecError(f"--corpus is given, but {loaded.run} has the text it was trained on; leave it out")
        return (loaded.stage or stage_of(loaded.run)).corpus
    if given is None:
        raise SpecError(
            f"{loaded.folder} was not trained here, so no text is held out from it; "
            f"name one with --corpus SPEC, a file that `paribus corpus` takes"
        )
    return load_text(given).corpus


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help=RUN)],
    yardstick: Annotated[
        str | None, typer.Option(metavar="KIND", help="halves, pairs or pseudo; by default what suits the run.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="A field of it: split=valid, max_bytes=512. Repeats."),
    ] = None,
    corpus: Annotated[
        Path | None,
        typer.Option(metavar="SPEC", help="The text for a checkpoint that was not trained here; see `corpus`."),
    ] = None,
    tokenizer: TokenizerOption = None,
    n_items: Annotated[int | None, typer.Option("--items", min=1, metavar="N", help="At most so many.")] = None,
    runs: Runs = RUNS,
    cache: Cache = None,
    device: Annotated[
        str | None, typer.Option("--device", metavar="DEVICE", help="cpu, cuda or mps; by default the best.")
    ] = None,
    n_sequences: Annotated[int, typer.Option("--sequences", min=1, metavar="N", help="At a time.")] = 16,
    json: Json = False,
) -> None:
    made = evaluate_run(
        run, yardstick, changes=changes(settings), n_items=n_items, corpus=corpus, tokenizer=tokenizer, runs=runs,
        cache=cache, device=device, n_sequences=n_sequences,
    )  # fmt: skip
    if json:
        print_json(described(made))
    else:
        console().print(measured_table(made))

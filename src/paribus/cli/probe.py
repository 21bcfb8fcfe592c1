"""Look inside of a run: attention, states, positions, experts, gradients.

Each RUN is a run or a checkpoint, also an imported one. Probes read held-out documents of its
corpus, or of the one that --corpus names, one document a row and all of one length. The table has
the mean of each quantity over layers and heads, with the lowest and the highest. --csv and --json
have every row. --out also writes figures, and a page of them. docs/probes.md says what each
quantity can and cannot show.

rank: how many directions attention uses. collapse: whether tokens become alike with depth.
experts: how tokens are routed. positions: whether states tell where a token is. flow: where
attention and gradients come from. context: how far back the model makes use of a text. gradients:
their size by layer, and the curvature of the loss. corruption: masked input against plain input.
descent, in-context: learning from examples in the input; for runs that were trained on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from paribus.cli.terminal.arguments import JsonOption, parse_settings
from paribus.cli.terminal.console import console, print_json, print_notes, print_page
from paribus.cli.terminal.folders import (
    RUN_HELP,
    RUNS,
    CacheOption,
    DeviceOption,
    RunsOption,
    TokenizerOption,
)
from paribus.cli.terminal.probe_files import (
    PROBE_FORMATS,
    ProbeFindings,
    probe_formats,
    row_tables,
    write_findings,
)
from paribus.cli.terminal.probe_table import probe_bar, probe_table
from paribus.cli.terminal.text_choice import corpus_of
from paribus.corpus import prepare_corpus
from paribus.errors import SpecError, UnsupportedError
from paribus.interop.loaded_checkpoint import load_checkpoint
from paribus.probe.attention_maps import attention_maps
from paribus.probe.demonstrations import taught_episodes
from paribus.probe.run import probe_examples, probe_model, probe_texts, require_applicable
from paribus.probe.subject import ProbedModel
from paribus.probe.texts import ProbeTexts
from paribus.record.attention_maps import AttentionMap
from paribus.record.probe_rows import ProbeRow
from paribus.report.csv_tables import to_csv
from paribus.report.numbers import format_plural
from paribus.runtime import select_device
from paribus.spec.probes import PROBES, InContextProbe, Probe, load_probe
from paribus.watcher import Watcher
from paribus.workspace import Workspace

DEFAULT_PROBES = ("rank", "collapse")
DEFAULT_MAPS = 3  # heads of each attention


def probe_run(
    run: str | Path,
    probes: str | Sequence[str | Mapping[str, Any]] = DEFAULT_PROBES,
    *,
    n_maps: int = DEFAULT_MAPS,
    corpus: str | Path | Mapping[str, Any] | None = None,
    tokenizer: str | Path | None = None,
    workspace: Workspace | None = None,
    watcher: Watcher | None = None,
) -> ProbeFindings:
    """What probes find inside of a run, given by its name or folder, or of a checkpoint.

    A probe is a kind, or a table of fields, such as {"kind": "rank", "n_texts": 2}. `corpus` is the
    spec of other text than the run's own. The result is a list of rows; it also has maps of
    `n_maps` heads of each attention on the first text, and a notebook shows it as figures.
    """
    workspace, watcher = workspace or Workspace(), watcher or Watcher()
    if isinstance(probes, str):
        probes = [probes]
    if not probes:
        raise SpecError(f"no probe is named; use one or more of {', '.join(PROBES)}")
    chosen = [_load(probe) for probe in probes]
    checkpoint = load_checkpoint(run, workspace.runs_folder, tokenizer=tokenizer)
    print_notes(*checkpoint.notes)
    subject = ProbedModel.of(checkpoint, select_device(workspace.device))
    read = [probe for probe in chosen if not isinstance(probe, InContextProbe)]
    drawn = [probe for probe in chosen if isinstance(probe, InContextProbe)]
    if drawn:
        taught_episodes(checkpoint)
    texts: list[ProbeTexts] = []
    if read:
        spec = corpus_of(checkpoint, corpus)
        text = prepare_corpus(spec, workspace.cache_folder, show_progress=True)
        # of all probes first: what is refused is refused before anything is computed
        texts = [probe_texts(subject, text, probe) for probe in read]
    rows: list[ProbeRow] = []
    for probe, own in zip(read, texts, strict=True):
        rows += probe_model(subject, own, probe, watcher)
    for probe in drawn:
        rows += probe_examples(subject, probe, watcher)
    maps: list[AttentionMap] = []
    if texts:
        maps = attention_maps(subject, texts[0].texts[0].tokens, str(run), n_maps)
    return ProbeFindings(str(run), rows, maps)


def _load(probe: str | Mapping[str, Any]) -> Probe:
    if isinstance(probe, str):
        return load_probe(probe)
    fields = dict(probe)
    kind = fields.pop("kind", None)
    if not isinstance(kind, str):
        raise SpecError(f"a probe has no kind; use one of {', '.join(PROBES)}")
    return load_probe(kind, fields)


def command(
    sources: Annotated[list[str], typer.Argument(metavar="RUN…", help=RUN_HELP)],
    probes: Annotated[
        str,
        typer.Option("--probes", metavar="KINDS", help="One or more, separated by commas."),
    ] = ",".join(DEFAULT_PROBES),
    n_texts: Annotated[
        int | None,
        typer.Option(
            "--texts",
            min=1,
            metavar="N",
            help="Texts of each source; by default as each probe has it.",
        ),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(
            "--length", min=2, metavar="N", help="Tokens of each text; as in training by default."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="Set a field of a probe, such as rank.score_sds=[1,4]. May be repeated.",
        ),
    ] = None,
    corpus: Annotated[
        Path | None,
        typer.Option("--corpus", metavar="SPEC", help="A file that `paribus corpus` takes."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Write all rows and the figures there."),
    ] = None,
    format: Annotated[  # noqa: A002 (the option's name)
        str | None,
        typer.Option(
            metavar="LIST",
            help=f"With --out: one or more of {', '.join(PROBE_FORMATS)}, separated by commas;"
            " html by default.",
        ),
    ] = None,
    n_maps: Annotated[
        int | None,
        typer.Option(
            "--maps",
            min=0,
            metavar="N",
            help=f"With --out: at most so many heads of each attention to draw; {DEFAULT_MAPS} by"
            " default.",
        ),
    ] = None,
    tokenizer: TokenizerOption = None,
    runs: RunsOption = RUNS,
    cache: CacheOption = None,
    device: DeviceOption = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print every row as CSV.")] = False,
    as_json: JsonOption = False,
) -> None:
    if as_json and as_csv:
        raise SpecError("--json and --csv are both given; give one")
    if format is not None and out is None:
        raise SpecError(f"--format is {format}, but there is no --out; give a folder")
    if n_maps is not None and out is None:
        raise SpecError(f"--maps is {n_maps}, but there is no --out; give a folder")
    if out is None:
        n_maps = 0
    elif n_maps is None:
        n_maps = DEFAULT_MAPS
    formats = () if out is None else probe_formats(format or "html")
    chosen = _chosen_probes(probes, n_texts, length, parse_settings(settings))
    workspace = Workspace(runs, cache, device)
    if len(sources) > 1:  # before the first run is looked at
        for source in sources:
            _require_probes(source, chosen, workspace, tokenizer)
    rows: dict[str, ProbeFindings] = {}
    for source in sources:
        with probe_bar(source) as bar:
            rows[source] = probe_run(
                source,
                chosen,
                n_maps=n_maps,
                corpus=corpus,
                tokenizer=tokenizer,
                workspace=workspace,
                watcher=bar,
            )
    if out is not None:
        paths = write_findings(rows, out, formats)
        print_notes(_written_note(paths))
    if as_json:
        print_json(row_tables(rows))
    elif as_csv:
        print_page(to_csv(row_tables(rows)))
    else:
        console().print(probe_table(rows))


def _require_probes(
    source: str,
    probes: Sequence[Mapping[str, Any]],
    workspace: Workspace,
    tokenizer: Path | None,
) -> None:
    """ParibusError, which names the run, where it has nothing that one of the probes looks at."""
    checkpoint = load_checkpoint(source, workspace.runs_folder, tokenizer=tokenizer)
    try:
        for probe in map(_load, probes):
            if isinstance(probe, InContextProbe):
                taught_episodes(checkpoint)
            else:
                require_applicable(probe, checkpoint.spec, checkpoint.objective())
    except (SpecError, UnsupportedError) as fault:
        raise type(fault)(f"{source}: {fault}") from None


def _chosen_probes(
    kinds: str, n_texts: int | None, length: int | None, settings: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The probes that are asked for, each with its fields."""
    tables: dict[str, dict[str, Any]] = {}
    for kind in kinds.split(","):
        tables[kind.strip()] = {"kind": kind.strip()}
        if n_texts is not None:
            tables[kind.strip()]["n_texts"] = n_texts
        if length is not None:
            tables[kind.strip()]["length"] = length
    for path, value in settings.items():
        kind, _, name = path.partition(".")
        if kind in PROBES and kind not in tables:
            raise SpecError(
                f"--set names {path}, but {kind} is not among --probes {kinds}; add it there"
            )
        if kind not in tables or not name:
            raise SpecError(
                f"--set {path} names no field of a chosen probe; write it as in"
                f" {next(iter(tables))}.n_texts=4"
            )
        tables[kind][name] = tuple(value) if isinstance(value, list) else value
    return list(tables.values())


def _written_note(paths: Sequence[Path]) -> str:
    """What was written: the rows, and how many files beside them."""
    if len(paths) == 1:
        return f"{paths[0]} is written"
    return f"{paths[0]} and {format_plural(len(paths) - 1, 'file')} beside it are written"

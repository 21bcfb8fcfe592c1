"""What every turn of a conversation costs: time to first token, tokens read again, cache, FLOPs.

Each RUN or ARCH holds the same conversation, turn by turn, and keeps of its cache what the mask
lets it keep. Tokens, bytes and FLOPs are counted by arithmetic, and times are measured. An
architecture gets drawn weights and the max_length that it needs. A prefix-LM is priced with a
prefix that grows and with one that stays; an encoder-decoder with an encoder that reads the
conversation so far and with one that reads each prompt alone. --design turns compares
architectures of equal size.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from paribus.cli.terminal.arguments import (
    ArchitectureSource,
    JsonOption,
    SettingsOption,
    load_architecture,
    parse_settings,
)
from paribus.cli.terminal.console import console, print_json, print_notes, print_page
from paribus.cli.terminal.folders import RUNS, DeviceOption, RunsOption
from paribus.cli.terminal.turn_table import print_turn_study
from paribus.design.turn_arms import (
    ConversationArm,
    conversation_arms,
    design_arms,
    find_turn_design,
)
from paribus.design.turn_study import (
    DEFAULT_REPEATS,
    DTYPES,
    TurnQuestion,
    TurnTiming,
    study_turns,
)
from paribus.errors import SpecError
from paribus.interop.loaded_checkpoint import load_checkpoint
from paribus.model.weights import read_architecture
from paribus.record.disk import replace as replace_file
from paribus.record.file_names import TURNS_CSV_FILE, TURNS_JSON_FILE, TURNS_PAGE_FILE
from paribus.record.turn_study import TurnStudy, turn_rows, turn_study_json
from paribus.report.csv_tables import to_csv
from paribus.report.formats import require_formats
from paribus.report.turn_page import PlotFile, turn_page
from paribus.spec import Architecture, load, presets
from paribus.spec.conversation import Conversation, possible_customs
from paribus.spec.match import Match

QUESTION = "What does every turn of a conversation cost?"
SAME_SIZE = Match(by="parameters", moves=("depth", "d_ff"))


def turns(
    sources: Sequence[ArchitectureSource],
    conversation: Conversation | None = None,
    *,
    changes: Mapping[str, Any] | None = None,
    match: Match | None = None,
    timing: TurnTiming | None = None,
    runs: str | Path = RUNS,
) -> TurnStudy:
    """The cost of each turn of a conversation in each run or architecture; the first is the
    baseline.

    `changes` are made in every architecture. Without a timing everything is counted and nothing
    is built.
    """
    conversation, match = conversation or Conversation(), match or Match(by="nothing")
    if isinstance(sources, str | Path):
        sources = [sources]
    if not sources:
        raise SpecError("no RUN or ARCH is given; give at least one, or --design turns")
    named: dict[str, Architecture] = {}
    arms: list[ConversationArm] = []
    for source in sources:
        if _is_run(source):
            arms += _run_arms(str(source), Path(runs))
        else:
            name, architecture = _long_enough(source, changes, conversation.length)
            named[name] = architecture
    _require_changeable(arms, changes, match)
    if named:
        arms = [*conversation_arms(named, conversation, match), *arms]
    return study_turns(arms, TurnQuestion(QUESTION, conversation, _describe_match(match)), timing)


def turns_of_design(
    design: str | Path,
    scale: str | None = None,
    changes: Mapping[str, Any] | None = None,
    timing: TurnTiming | None = None,
) -> TurnStudy:
    """The cost of each turn in the arms of a design of conversations, at equal size."""
    read = find_turn_design(design, scale, dict(changes or {}))
    question = TurnQuestion(read.question, read.conversation, _describe_match(read.match))
    return study_turns(design_arms(read), question, timing)


def _long_enough(
    source: ArchitectureSource, changes: Mapping[str, Any] | None, length: int
) -> tuple[str, Architecture]:
    """An architecture that reads texts of a length, under its name."""
    one = load_architecture(source, changes)
    if one.architecture.max_length >= length:
        return one.name, one.architecture
    return one.name, load(one.architecture.model_dump(), max_length=length)


def _describe_match(match: Match) -> str:
    """What is made equal, by its name or names."""
    return " and ".join(match.sizes) or "nothing"


def _require_changeable(
    arms_of_runs: Sequence[ConversationArm], changes: Mapping[str, Any] | None, match: Match
) -> None:
    """SpecError where something should change in a run."""
    if not arms_of_runs:
        return
    name = arms_of_runs[0].name
    if match.sizes:
        raise SpecError(f"{name} is a run, whose size cannot move; leave out --match")
    if changes:
        raise SpecError(f"{name} is a run, in which nothing can be set; leave out --set")


def _is_run(source: ArchitectureSource) -> bool:
    """Is it neither a preset nor a file of an architecture?"""
    if not isinstance(source, str | Path):
        return False
    return str(source) not in presets() and Path(source).suffix not in (".toml", ".json")


def _run_arms(source: str, runs: Path) -> list[ConversationArm]:
    checkpoint = load_checkpoint(source, runs)
    print_notes(*checkpoint.notes)
    arms = []
    for custom in possible_customs(checkpoint.spec):
        arm = ConversationArm(
            name=source,
            custom=custom,
            architecture=read_architecture(checkpoint.folder),
            moved_fields={},
            checkpoint=checkpoint,
        )
        arms.append(arm)
    return arms


def write_turn_study(study: TurnStudy, folder: Path) -> list[Path]:
    """The page with its plots, the rows and the whole study as JSON, in a folder."""
    from paribus.report.images import plot_files
    from paribus.report.turn_plots import turn_plots

    folder.mkdir(parents=True, exist_ok=True)
    plots = {plot.key: plot for plot in turn_plots(study)}
    beside = [PlotFile(f"{key}.svg", plot.title, plot.caption) for key, plot in plots.items()]
    files = {
        TURNS_PAGE_FILE: turn_page(study, beside).encode(),
        TURNS_CSV_FILE: to_csv(turn_rows(study)).encode(),
        TURNS_JSON_FILE: (json.dumps(turn_study_json(study), indent=1) + "\n").encode(),
        **plot_files(plots, "svg"),
    }
    paths = []
    for name, content in files.items():
        replace_file(folder / name, content)
        paths.append(folder / name)
    return paths


def command(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN|ARCH…",
            help="Runs, checkpoint folders, presets or .toml or .json files of architectures.",
        ),
    ] = None,
    design: Annotated[
        str | None,
        typer.Option(
            "--design",
            metavar="DESIGN",
            help="A design of conversations instead: turns, or a file of yours.",
        ),
    ] = None,
    scale: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --design: smoke or laptop.")
    ] = None,
    settings: SettingsOption = None,
    n_turns: Annotated[
        int | None, typer.Option("--turns", min=1, metavar="N", help="Number of turns; 10.")
    ] = None,
    n_user: Annotated[
        int | None,
        typer.Option("--user-tokens", min=1, metavar="N", help="Tokens of each prompt; 64."),
    ] = None,
    n_answer: Annotated[
        int | None,
        typer.Option("--answer-tokens", min=1, metavar="N", help="Tokens of each answer; 64."),
    ] = None,
    match: Annotated[
        bool,
        typer.Option(
            "--match", help="Bring each ARCH to the parameters of the first, by depth and d_ff."
        ),
    ] = False,
    count: Annotated[
        bool, typer.Option("--count", help="Count only: nothing is built or measured.")
    ] = False,
    n_repeats: Annotated[
        int | None,
        typer.Option(
            "--repeats", min=1, metavar="N", help="Conversations timed with each model; 9."
        ),
    ] = None,
    device: DeviceOption = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE",
            help=f"{', '.join(DTYPES)}; by default bfloat16 on CUDA, float32 elsewhere.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Write a page with plots, the rows and all numbers there."
        ),
    ] = None,
    runs: RunsOption = RUNS,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print one row per turn as CSV.")] = False,
    as_json: JsonOption = False,
) -> None:
    if as_json and as_csv:
        raise SpecError("--json and --csv are both given; give one")
    if out is not None:
        require_formats(("svg",))
    timing = _timing(count, n_repeats, device, dtype)
    lengths = _without_none(n_turns=n_turns, n_user=n_user, n_answer=n_answer)
    if design is not None:
        if sources or match:
            raise SpecError("--design has arms of its own; leave out RUN, ARCH and --match")
        changes = {**lengths, **parse_settings(settings)}
        study = turns_of_design(design, scale, changes, timing)
    else:
        if scale is not None:
            raise SpecError(f"--scale is {scale!r}, but there is no --design; give one")
        study = turns(
            sources or (),
            replace(Conversation(), **lengths),
            changes=parse_settings(settings),
            match=SAME_SIZE if match else None,
            timing=timing,
            runs=runs,
        )
    _print_study(study, out, as_csv, as_json)


def _timing(
    count: bool, n_repeats: int | None, device: str | None, dtype: str | None
) -> TurnTiming | None:
    """How a conversation is held; None where it is only counted."""
    if not count:
        return TurnTiming(n_repeats or DEFAULT_REPEATS, device, dtype)
    for option, value in (("--repeats", n_repeats), ("--device", device), ("--dtype", dtype)):
        if value is not None:
            raise SpecError(f"{option} is {value} with --count, which builds nothing; give one")
    return None


def _without_none(**values: int | None) -> dict[str, int]:
    return {name: value for name, value in values.items() if value is not None}


def _print_study(study: TurnStudy, out: Path | None, as_csv: bool, as_json: bool) -> None:
    if out is not None:
        paths = write_turn_study(study, out)
        print_notes(f"{paths[0]} and {len(paths) - 1} files beside it are written")
    if as_json:
        print_json(turn_study_json(study))
    elif as_csv:
        print_page(to_csv(turn_rows(study)))
    else:
        print_turn_study(console(), study)

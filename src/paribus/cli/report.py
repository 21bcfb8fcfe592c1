"""Write the report of a study: verdicts, effects, checks, costs and learning curves.

The report is made from the recorded files alone. Formats: html (one page that needs no other file),
md (its text), csv (rows, curves, verdicts and scores per document, with the design as JSON), tex
(the tables), svg and png (the plots).

Checksums tell accidents, not intent: whoever may change the files may list them again. --seal
compares the study with a seal that was published or kept elsewhere, and writes nothing where it
differs. --verify trains some of the runs again and compares their rows. Exit status: 1 where one of
them does not agree.
"""

import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from paribus.analyse.seal import require_seal
from paribus.cli.terminal.arguments import OPEN_HELP, STUDY_HELP
from paribus.cli.terminal.console import console, print_notes
from paribus.cli.terminal.folders import RUNS, CacheOption, RunsOption
from paribus.cli.terminal.verdict_lines import print_verdicts
from paribus.errors import RecordError, SpecError
from paribus.record import Study, existing_study
from paribus.record.disk import replace
from paribus.report.csv_tables import (
    curve_rows,
    design_json,
    document_rows,
    inside_rows,
    inside_rows_by_seed,
    run_rows,
    to_csv,
    verdict_rows,
)
from paribus.report.formats import FORMATS, parse_formats, require_formats
from paribus.report.latex import latex_table
from paribus.report.markdown import markdown_report
from paribus.report.report_data import ReportData, gather_report_data
from paribus.workspace import cache_folder

HTML = "report.html"
FORMAT_HELP = f"One or more of {', '.join(FORMATS)}, separated by commas."
SEAL_HELP = (
    "Compare the study with the seal that `paribus run` printed, or with its first part, that of"
    " the plan."
)
VERIFY_HELP = "Train N runs, drawn at random, again and compare them with the study; needs torch."
DRAW_HELP = (
    "With --verify: draw the runs by this word; by default one from this machine's random source,"
    " which is printed."
)
N_DRAW_BYTES = 8
ANONYMOUS_HELP = "Leave out paths, file names, names of people, the machine and dates."
RESTORE = "restore what was changed, or begin under another name"


def write_report(
    study: str,
    *,
    runs: str | Path = RUNS,
    formats: str | Iterable[str] = "html",
    out: str | Path | None = None,
    anonymous: bool = False,
) -> tuple[Path, ...]:
    """The report of a study in some formats, beside its plan or in a folder; the files, the
    page first.
    """
    return _write_files(study, Path(runs), formats, out, anonymous)[1]


def command(
    study: Annotated[str, typer.Argument(metavar="STUDY", help=STUDY_HELP)],
    runs: RunsOption = RUNS,
    format: Annotated[  # noqa: A002 (the option's name)
        str, typer.Option(metavar="LIST", help=FORMAT_HELP)
    ] = "html",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder to write to; by default the study's own folder."
        ),
    ] = None,
    anonymous: Annotated[bool, typer.Option("--anonymous", help=ANONYMOUS_HELP)] = False,
    open_it: Annotated[bool, typer.Option("--open", help=OPEN_HELP)] = False,
    seal: Annotated[str | None, typer.Option("--seal", metavar="DIGEST", help=SEAL_HELP)] = None,
    verify: Annotated[int | None, typer.Option("--verify", metavar="N", help=VERIFY_HELP)] = None,
    draw: Annotated[str | None, typer.Option("--draw", metavar="WORD", help=DRAW_HELP)] = None,
    cache: CacheOption = None,
) -> None:
    if verify is None and (draw is not None or cache is not None):
        option = "--cache" if draw is None else "--draw"
        raise SpecError(f"{option} goes with --verify, which is not given; add it, or leave it out")
    if seal is not None:
        require_seal(existing_study(runs, study), seal)
    with console().status(Text(f"writing the report of {study}"), spinner="line"):
        report, files = _write_files(study, runs, format, out, anonymous)
    print_report(report, files, open_it)
    for kind in parse_formats(format):
        if not any(path.suffix == f".{kind}" for path in files):
            print_notes(
                f"no {kind} file is written: no run of this study trained, so there is nothing to"
                " draw"
            )
    changes = report.findings.agreement.description
    if changes:
        raise RecordError(f"the study {study} is not what was written: {changes}; {RESTORE}")
    if verify is not None:
        _verify(existing_study(runs, study), verify, draw or secrets.token_hex(N_DRAW_BYTES), cache)


def _verify(study: Study, n_runs: int, word: str, cache: Path | None) -> None:
    """Train runs again and print how each compares; RecordError where one does not agree."""
    from paribus.design.verification import drawn_cells, verify_runs

    page, n_faulty = console(), 0
    cells = drawn_cells(study, n_runs, word)
    page.print(f"made again, drawn by --draw {word}:", soft_wrap=True, highlight=False)
    for check in verify_runs(study, cells, cache_folder(cache)):
        page.print(check.description, soft_wrap=True, markup=False, highlight=False)
        n_faulty += bool(check.faults)
    if n_faulty:
        raise RecordError(
            f"{n_faulty} of {n_runs} runs of {study.folder.name}, made again, are not what the"
            " study holds; ask for the machine and the text that it was made with, or believe none"
            " of it"
        )


def _write_files(
    study: str,
    runs: Path,
    format_list: str | Iterable[str],
    out: str | Path | None,
    anonymous: bool,
) -> tuple[ReportData, tuple[Path, ...]]:
    kinds = parse_formats(format_list)
    require_formats(kinds)
    record = existing_study(runs, study)
    report = gather_report_data(record, anonymous)
    folder = record.folder
    if out is not None:
        folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, bytes] = {}
    for kind in kinds:
        files |= _contents(kind, report)
    for name, content in files.items():
        replace(folder / name, content)
    return report, tuple(folder / name for name in files)


def _contents(kind: str, report: ReportData) -> dict[str, bytes]:
    """File name → content. Plotting is imported only if needed: rows and text need none of it."""
    match kind:
        case "html":
            from paribus.report.page import render_page

            return {HTML: render_page(report).encode()}
        case "md":
            return {"report.md": markdown_report(report).encode()}
        case "csv":
            tables = {
                "rows.csv": run_rows(report),
                "curves.csv": curve_rows(report),
                "verdicts.csv": verdict_rows(report),
                "documents.csv": document_rows(report),
            }
            if report.probes:
                tables["inside.csv"] = inside_rows(report)
                tables["inside-by-seed.csv"] = inside_rows_by_seed(report)
            files = {name: to_csv(rows).encode() for name, rows in tables.items()}
            return {**files, "design.json": design_json(report).encode()}
        case "tex":
            return {"report.tex": latex_table(report).encode()}
        case _:
            from paribus.report.images import plot_files
            from paribus.report.page import study_plots

            return plot_files(study_plots(report), kind)


def print_report(report: ReportData, files: tuple[Path, ...], open_it: bool = False) -> None:
    """Print the verdicts, one line per arm, and where the files are."""
    page = console()
    print_verdicts(report, page)
    for path in files:
        page.print(str(path), soft_wrap=True)
    if open_it and files and files[0].name == HTML:
        typer.launch(files[0].absolute().as_uri())
    elif open_it:
        print_notes(f"there is no page to open: --format html makes {HTML}")

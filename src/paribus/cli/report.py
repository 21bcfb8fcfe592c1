"""What a study found, on one page that opens anywhere: verdict, effect, trust, price, curves; from rows alone.

Formats: html (the page), md (its words), csv (rows, curves, verdicts, answers by document, with the design as JSON),
tex (a table), svg and png (the plots).
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from paribus.cli.terminal.console import console, note
from paribus.cli.terminal.folders import RUNS, Runs
from paribus.cli.terminal.verdicts import print_verdicts
from paribus.errors import RecordError
from paribus.record import existing_study
from paribus.record.disk import replace
from paribus.report.extras import FORMATS, formats, require
from paribus.report.material import Material, gathered
from paribus.report.prose import latex, markdown
from paribus.report.rows import comma_separated, curve_rows, design_text, document_rows, run_rows, verdict_rows

HTML = "report.html"
RESTORE = "restore what was changed, or begin under another name"


def write_report(
    study: str,
    *,
    runs: str | Path = RUNS,
    formats: str | Iterable[str] = "html",
    out: str | Path | None = None,
    anonymous: bool = False,
) -> tuple[Path, ...]:
    """The report of a study in some formats, beside its plan or in a folder; the files, the page first."""
    return _written(study, Path(runs), formats, out, anonymous)[1]


def command(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="A study, by its name.")],
    runs: Runs = RUNS,
    format: Annotated[  # noqa: A002 (the option's name)
        str, typer.Option(metavar="LIST", help=f"Some of {', '.join(FORMATS)}, joined by commas.")
    ] = "html",
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where to; by default the study's own folder.")
    ] = None,
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="Without paths, files, names, machine, dates.")
    ] = False,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page.")] = False,
) -> None:
    material, files = _written(study, runs, format, out, anonymous)
    tell(material, files, open_it)
    for kind in formats(format):
        if not any(path.suffix == f".{kind}" for path in files):
            note(f"no {kind} file is written: no run of this study trained, so there is nothing to draw")
    changed = material.found.agreement.words
    if changed:
        raise RecordError(f"the study {study} is not what was written: {changed}; {RESTORE}")


def _written(
    study: str, runs: Path, asked: str | Iterable[str], out: str | Path | None, anonymous: bool
) -> tuple[Material, tuple[Path, ...]]:
    wanted = formats(asked)
    require(wanted)
    kept = existing_study(runs, study)
    material = gathered(kept, anonymous)
    folder = kept.folder if out is None else Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: content for kind in wanted for name, content in _contents(kind, material).items()}
    for name, content in files.items():
        replace(folder / name, content)
    return material, tuple(folder / name for name in files)


def _contents(kind: str, material: Material) -> dict[str, bytes]:
    """File name → content. What draws is imported when it is asked for: rows and words need none of it."""
    match kind:
        case "html":
            from paribus.report.page import page

            return {HTML: page(material).encode()}
        case "md":
            return {"report.md": markdown(material).encode()}
        case "csv":
            made = {
                "rows.csv": run_rows(material),
                "curves.csv": curve_rows(material),
                "verdicts.csv": verdict_rows(material),
                "documents.csv": document_rows(material),
            }
            files = {name: comma_separated(rows).encode() for name, rows in made.items()}
            return {**files, "design.json": design_text(material).encode()}
        case "tex":
            return {"report.tex": latex(material).encode()}
        case _:
            from paribus.report.images import images
            from paribus.report.page import drawn

            return images(drawn(material), kind)


def tell(material: Material, files: tuple[Path, ...], open_it: bool = False) -> None:
    """The verdicts, a line an arm, and where the files are."""
    page = console()
    print_verdicts(material, page)
    for path in files:
        page.print(str(path), soft_wrap=True)
    if open_it and files and files[0].name == HTML:
        typer.launch(files[0].absolute().as_uri())
    elif open_it:
        note(f"there is no page to open: --format html makes {HTML}")

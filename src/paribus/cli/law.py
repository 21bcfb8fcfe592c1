"""Fit a scaling law to losses at several sizes and durations: E, A, B, alpha and beta.

The law is L = E + A/N^alpha + B/D^beta. POINTS is a CSV file with the columns parameters (N),
tokens (D) and loss, one line for each run; with a column arm, each arm gets its own law. The fit
minimises Huber's loss of ln L (delta 0.001). Intervals hold 95 % of the fits to redrawn points;
seeds of the same N and D are drawn together. Intervals need a fourth size. "no bound", null in
JSON, is an end that the points do not bound: of E at 0, of A and B beyond 1e-30 to 1e30, of
exponents beyond 10.

With --broken, the law is one of size alone whose exponent changes at some size: L = E +
b*N^(-c)*(1 + (N/d)^(1/f))^(-k*f). It needs eight sizes or more with one duration each, and is
compared with the law without a break by an F test.
"""

from collections.abc import Mapping
from math import isnan
from pathlib import Path
from typing import Annotated, Any

import typer

from paribus.analyse.laws.broken import BrokenLaw, broken_law
from paribus.analyse.laws.fit import LawEstimate
from paribus.analyse.laws.huber import N_DRAWS, huber_law, without_highest
from paribus.analyse.laws.points import MIN_SIZES, MIN_SPREAD
from paribus.analyse.laws.points_file import PointsFile, read_points
from paribus.analyse.laws.solver import HUBER_DELTA
from paribus.cli.terminal.arguments import JsonOption
from paribus.cli.terminal.broken_table import broken_json, broken_table, describe_break
from paribus.cli.terminal.console import console, print_json, print_notes
from paribus.cli.terminal.law_table import describe_law, law_json, law_table

LawEstimates = Mapping[str, LawEstimate]
_NO_INTERVAL = (
    "there is no interval: points are redrawn for it, and each redraw needs"
    f" {MIN_SIZES} sizes with durations a factor of {MIN_SPREAD:g} apart, which are all that"
    " there are; a fourth such size would give one"
)


def law(points: str | Path, drop_highest: int = 0) -> dict[str, LawEstimates]:
    """E, A, B, alpha and beta of each arm, under its name; without arms, under an empty one.

    `drop_highest` leaves out so many runs with the highest losses of each arm. Ends of intervals
    are nan where an arm has no size to spare for redraws. An end that the points do not bound is
    infinite; the lower end of E, A and B is then 0.
    """
    return _laws(read_points(Path(points)), drop_highest)


def command(
    points: Annotated[
        Path, typer.Argument(metavar="POINTS", help="A CSV file: parameters, tokens, loss.")
    ],
    drop_highest: Annotated[
        int,
        typer.Option(
            "--drop-highest",
            min=0,
            metavar="N",
            help="Leave out the N runs with the highest losses of each arm.",
        ),
    ] = 0,
    broken: Annotated[
        bool,
        typer.Option(
            "--broken", help="Fit a law of size alone with a break, from eight sizes or more."
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    file = read_points(points)
    if file.unused_columns:
        print_notes(f"columns that are not used: {', '.join(file.unused_columns)}")
    if broken:
        _print_broken(_broken_laws(file, drop_highest), file.has_arms, json)
    else:
        _print_laws(file, drop_highest, json)


def _print_laws(file: PointsFile, drop_highest: int, json: bool) -> None:
    laws = _laws(file, drop_highest)
    for arm, estimates in laws.items():
        if isnan(estimates["E"].low):
            print_notes(_of_arm(arm, _NO_INTERVAL))
        described = describe_law(estimates)
        if described:
            print_notes(_of_arm(arm, described))
    if json:
        print_json(_laws_json(laws, file.has_arms))
        return
    page = console()
    for arm, estimates in laws.items():
        n_points = len(file.by_arm()[arm]) - drop_highest
        page.print(law_table(arm, n_points, estimates))
        page.print()
    method = f"L = E + A/N^alpha + B/D^beta, by Huber's loss of ln L with delta {HUBER_DELTA:g}"
    if not all(isnan(estimates["E"].low) for estimates in laws.values()):
        method += f"; 95 % intervals from {N_DRAWS:,} draws"
    page.print(f"{method}.", style="dim")


def _print_broken(laws: Mapping[str, BrokenLaw], has_arms: bool, json: bool) -> None:
    if json:
        by_arm = {arm: broken_json(one) for arm, one in laws.items()}
        print_json(by_arm if has_arms else by_arm[""])
        return
    page = console()
    for arm, one in laws.items():
        page.print(broken_table(arm, one))
        page.print(describe_break(one), soft_wrap=True)
        page.print()
    page.print(
        "L = E + b*N^(-c)*(1 + (N/d)^(1/f))^(-k*f), by least squares of ln L; the exponent is c"
        " far below the size d and c + k far above it.",
        style="dim",
    )


def _broken_laws(file: PointsFile, drop_highest: int) -> dict[str, BrokenLaw]:
    laws: dict[str, BrokenLaw] = {}
    for arm, points in file.by_arm().items():
        laws[arm] = broken_law(without_highest(points, drop_highest))
    return laws


def _laws(file: PointsFile, drop_highest: int) -> dict[str, LawEstimates]:
    laws: dict[str, LawEstimates] = {}
    for arm, points in file.by_arm().items():
        laws[arm] = huber_law(without_highest(points, drop_highest)).estimates()
    return laws


def _laws_json(laws: Mapping[str, LawEstimates], has_arms: bool) -> dict[str, Any]:
    by_arm = {arm: law_json(estimates) for arm, estimates in laws.items()}
    if has_arms:
        return by_arm
    return by_arm[""]


def _of_arm(arm: str, sentence: str) -> str:
    return f"{arm}: {sentence}" if arm else sentence

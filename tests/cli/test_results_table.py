"""The results of a study in short: a mean tells of how many seeds it is."""

import io
from pathlib import Path

from handmade_ladder import make_ladder_report
from handmade_study import SEEDS, make_study
from rich.console import Console

from paribus.analyse import study_rows
from paribus.cli.terminal.results_table import print_ladder, print_results


def told(root: Path, failed: list[tuple[str, int]]) -> dict[str, list[str]]:
    """The cells of each arm's line."""
    study, page = make_study(root, failed=failed), Console(file=io.StringIO(), width=160)
    print_results(study_rows(study), study, page)
    assert isinstance(page.file, io.StringIO)
    lines = page.file.getvalue().splitlines()
    return {
        arm: next(line for line in lines if line.startswith(arm)).split("  ")
        for arm in study.read_plan()["order"]
    }


def test_a_mean_over_all_seeds_stands_alone_and_over_some_has_their_count(tmp_path: Path) -> None:
    found = told(tmp_path, [("prefix", 2), *(("input hidden", seed) for seed in SEEDS)])
    assert "(" not in found["causal"][-1]
    assert found["prefix"][-1].strip().endswith(" (3 of 4)")
    assert found["input hidden"][-1].strip() == "– (0 of 4)"


def test_runs_of_a_ladder_are_counted_and_those_without_a_score_named(tmp_path: Path) -> None:
    report, page = make_ladder_report(tmp_path), Console(file=io.StringIO(), width=160)
    rows = [dict(row) for row in report.findings.table]
    climbed = [row for row in rows if row["purpose"] == "ladder"]
    print_ladder(report.plan, rows, page)
    climbed[0]["outcome"] = "diverged"
    print_ladder(report.plan, rows, page)
    assert isinstance(page.file, io.StringIO)
    n, size = len(climbed), climbed[0]["size"]
    assert page.file.getvalue().splitlines() == [
        f"ladder: {n} runs, whose laws are in the report",
        f"ladder: {n} runs, whose laws are in the report",
        f"1 of {n} runs of the ladder have no score: 1 diverged; 1 at d_model {size}; laws are"
        " fitted without them",
    ]

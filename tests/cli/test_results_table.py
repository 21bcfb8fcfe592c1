"""The results of a study in short: a mean tells of how many seeds it is."""

import io
from pathlib import Path

from handmade_study import SEEDS, make_study
from rich.console import Console

from paribus.analyse import study_rows
from paribus.cli.terminal.results_table import print_results


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

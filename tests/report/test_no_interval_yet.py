"""An open number of seeds has no interval at first: no format writes an infinite one in words."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console
from sized_study import make_sized_study

from paribus.cli.terminal.verdict_lines import print_verdicts
from paribus.report.csv_tables import verdict_rows
from paribus.report.latex import latex_table
from paribus.report.markdown import markdown_report
from paribus.report.page import render_page
from paribus.report.report_data import gather_report_data

INFINITE = re.compile(r"[−-]?\binf\b|infinity|∞")


@pytest.mark.parametrize("n_seeds", [3, 5])
def test_no_words_hold_an_infinite_interval(tmp_path: Path, n_seeds: int) -> None:
    material = gather_report_data(make_sized_study(tmp_path, n_seeds, seeds="open"))
    screen = Console(record=True, width=400, file=io.StringIO())
    print_verdicts(material, screen)
    texts = [markdown_report(material), latex_table(material), screen.export_text()]
    texts.append(render_page(material).partition("<main>")[2].partition("<script")[0])
    texts += [str(row["words"]) for row in verdict_rows(material)]
    for text in texts:
        assert not INFINITE.search(re.sub(r"base64,[A-Za-z0-9+/=]+", "", text))

"""An open number of seeds has no interval at first: no format writes an infinite one in words."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from grown_study import grown
from paribus.cli.terminal.verdicts import print_verdicts
from paribus.report.material import gathered
from paribus.report.page import page
from paribus.report.prose import latex, markdown
from paribus.report.rows import verdict_rows

INFINITE = re.compile(r"[−-]?\binf\b|infinity|∞")


@pytest.mark.parametrize("n_seeds", [3, 5])
def test_no_words_hold_an_infinite_interval(tmp_path: Path, n_seeds: int) -> None:
    material = gathered(grown(tmp_path, n_seeds, seeds="open"))
    screen = Console(record=True, width=400, file=io.StringIO())
    print_verdicts(material, screen)
    texts = [markdown(material), latex(material), screen.export_text()]
    texts.append(page(material).partition("<main>")[2].partition("<script")[0])
    texts += [str(row["words"]) for row in verdict_rows(material)]
    for text in texts:
        assert not INFINITE.search(re.sub(r"base64,[A-Za-z0-9+/=]+", "", text))

"""From runs to the effect of rank: the design at `smoke`, probed and read."""

import contextlib
import io
from pathlib import Path
from statistics import geometric_mean

import pytest
from markupsafe import escape

from paribus.analyse.study_findings import study_findings
from paribus.analyse.study_ranks import study_ranks
from paribus.cli.run import run
from paribus.record import existing_study
from paribus.report.markdown import markdown_report
from paribus.report.page import render_page
from paribus.report.rank_effect import describe_study_ranks
from paribus.report.report_data import gather_report_data
from paribus.workspace import Execution, Workspace


@pytest.mark.slow
def test_the_effect_of_rank_is_read_from_trained_and_probed_runs(
    tmp_path: Path, study_cache: Path
) -> None:
    workspace = Workspace(tmp_path, cache=study_cache, device="cpu")
    with contextlib.redirect_stdout(io.StringIO()):
        run("rank", scale="smoke", execution=Execution(workspace))
    ranks = study_ranks(study_findings(existing_study(tmp_path, "rank-smoke")))
    assert ranks is not None
    assert len(ranks.by_arm) == 12
    assert [effect.intervention for effect in ranks.effects] == [
        "head size, causal",
        "score scale, causal",
        "head size, prefix",
        "score scale, prefix",
    ]
    assert any(effect.move.is_moved for effect in ranks.effects)
    for effect, sentence in zip(ranks.effects, describe_study_ranks(ranks), strict=False):
        low = geometric_mean(ranks.by_arm[effect.move.lowest])
        high = geometric_mean(ranks.by_arm[effect.move.highest])
        assert effect.move.share == pytest.approx(high / low - 1)
        if effect.move.is_moved:
            assert list(effect.slopes) == [1, 2, 3]
            assert "A doubling of the effective rank goes with a gain of" in sentence
        else:
            assert sentence.endswith("Not moved: less than 10 %, so no slope is read.")
    report = gather_report_data(existing_study(tmp_path, "rank-smoke"))
    text, page = markdown_report(report), render_page(report)
    for sentence in describe_study_ranks(ranks):
        assert str(escape(sentence)) in page
    section = text.split("### Rank and effect")[1]
    assert section.count("\n- ") == len(describe_study_ranks(ranks))

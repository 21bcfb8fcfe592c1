"""From runs to the effect of rank: the design at `smoke`, probed and read."""

import contextlib
import io
from pathlib import Path
from statistics import geometric_mean

import pytest

from paribus.analyse.attention_rank import mean_effective_rank
from paribus.analyse.study_findings import study_findings
from paribus.analyse.study_ranks import study_rank_effects
from paribus.cli.probe import probe_run
from paribus.cli.run import run
from paribus.record import existing_study
from paribus.report.rank_effect import describe_rank_effect
from paribus.workspace import Execution, Workspace

PROBE = {"kind": "rank", "n_texts": 2, "length": 32, "score_sds": [1.0]}


@pytest.mark.slow
def test_the_effect_of_rank_is_read_from_trained_and_probed_runs(
    tmp_path: Path, study_cache: Path
) -> None:
    workspace = Workspace(tmp_path, cache=study_cache, device="cpu")
    ranks: dict[str, dict[int, float]] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        table = run("rank", scale="smoke", execution=Execution(workspace))
        for row in table:
            if row["purpose"] == "reported":
                rows = probe_run(row["run"], [PROBE], workspace=workspace)
                ranks.setdefault(row["arm"], {})[row["seed"]] = mean_effective_rank(rows)
    effects = study_rank_effects(study_findings(existing_study(tmp_path, "rank-smoke")), ranks)
    assert [effect.intervention for effect in effects] == [
        "head size, causal",
        "score scale, causal",
        "head size, prefix",
        "score scale, prefix",
    ]
    for effect in effects:
        low = geometric_mean(ranks[effect.move.lowest].values())
        high = geometric_mean(ranks[effect.move.highest].values())
        assert effect.move.share == pytest.approx(high / low - 1)
        words = describe_rank_effect(effect)
        if effect.move.is_moved:
            assert list(effect.slopes) == [1, 2, 3]
            assert "A doubling of the effective rank goes with a gain of" in words
        else:
            assert words.endswith("Not moved: less than 10 %, so no slope is read.")
    assert any(effect.move.is_moved for effect in effects)

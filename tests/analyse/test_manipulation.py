"""Manipulation checks in findings and in every format: where one is not shown there is no word,
and its reason comes first; where it is shown, nothing changes.
"""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from extra_runs import UNIGRAM
from handmade_study import N_BYTES, N_ITEMS, SEEDS, make_study
from noise_draws import N_DRAWS
from rich.console import Console
from scipy.stats import t

from paribus.analyse import study_findings, study_verdicts
from paribus.analyse.contrasts import ContrastFinding, contrast_with_word
from paribus.analyse.findings import Findings
from paribus.analyse.judgement import judgement_with_word
from paribus.analyse.power import one_sided_power, one_sided_t
from paribus.analyse.verdict import Verdict
from paribus.cli.terminal.verdict_lines import print_verdicts
from paribus.record import Evaluation, Study, evaluation_path, read_evaluations, write_evaluation
from paribus.report.csv_tables import design_json, to_csv, verdict_rows
from paribus.report.latex import latex_table
from paribus.report.markdown import markdown_report
from paribus.report.page import render_page
from paribus.report.report_data import gather_report_data
from paribus.report.trust import trust_checks

WORKS = {"that": "causal > input hidden"}
FAILS = {"that": "input hidden > causal"}


def checked(root: Path, *must: dict[str, Any], failed: Sequence[tuple[str, int]] = ()) -> Study:
    """The study made by hand as one whose design has checks, in the fourth edition."""
    study = make_study(root, failed=failed)
    plan = study.read_plan()
    plan["design"] |= {"must": list(must), "comparisons": [["prefix", "causal"]]}
    study.write_plan({**plan, "edition": 4})
    return study


def word(findings: Findings) -> str:
    return findings.arm("prefix").judgement.verdict.word


def test_a_check_that_is_shown_changes_no_word_and_no_number(tmp_path: Path) -> None:
    plain = study_findings(checked(tmp_path / "plain"))
    found = study_findings(checked(tmp_path / "checked", WORKS))
    assert found.arm("prefix").judgement == plain.arm("prefix").judgement
    (check,) = found.checks
    assert (check.is_shown, check.pairs) == (True, (("prefix", "causal"),))
    scores = {(row["arm"], row["seed"]): row["halves.test"] for row in found.reported_rows}
    gains = [scores["input hidden", seed] - scores["causal", seed] for seed in SEEDS]
    half = t.ppf(0.95, len(SEEDS) - 1) * np.std(gains, ddof=1) / np.sqrt(len(SEEDS))
    assert check.effect == pytest.approx(np.mean(gains))
    assert check.low == pytest.approx(np.mean(gains) - half)
    assert check.description.startswith(
        "it is shown that causal does better than input hidden on halves.test: gain 0.5"
    )


def test_where_a_check_is_not_shown_there_is_no_word_and_no_interval(tmp_path: Path) -> None:
    found = study_findings(checked(tmp_path, FAILS))
    own = found.arm("prefix").judgement
    assert (own.verdict.word, own.comparison) == ("manipulation not shown", None)
    assert own.verdict.detail.startswith(
        "it is not shown that input hidden does better than causal on halves.test: gain -0.5"
    )
    assert own.seeds[0].gain is not None  # every seed stays in the table


def test_only_what_hangs_on_a_check_loses_its_word(tmp_path: Path) -> None:
    assert word(study_findings(checked(tmp_path / "1", {**FAILS, "for": ["prefix"]}))) == (
        "manipulation not shown"
    )
    study = checked(tmp_path / "2", {**FAILS, "for": [["input hidden", "causal"]]})
    plan = study.read_plan()
    plan["design"]["comparisons"] = [["prefix", "causal"], ["input hidden", "causal"]]
    study.write_plan(plan)
    found = study_findings(study)
    words = {arm.name: arm.judgement.verdict.word for arm in found.arms}
    assert words["input hidden"] == "manipulation not shown"
    assert words["prefix"] != "manipulation not shown"


def test_an_earlier_word_stands_before_a_check(tmp_path: Path) -> None:
    failed = [("prefix", seed) for seed in SEEDS[:2]]
    assert word(study_findings(checked(tmp_path, FAILS, failed=failed))) == "unstable"


@pytest.mark.parametrize(
    ("that", "is_shown"),
    [
        ("prefix > 90 % of causal", True),
        ("input hidden > 90 % of causal", False),
        ("prefix > chance + 0.5", True),
        ("prefix > chance + 3.5", False),
    ],
)
def test_a_threshold_is_read_on_the_mean_gain_over_chance(
    tmp_path: Path, that: str, is_shown: bool
) -> None:
    study = checked(tmp_path, {"that": that})
    record_unigram(study)
    (check,) = study_findings(study).checks
    assert (check.is_shown, check.level) == (is_shown, None)
    arm = that.partition(" > ")[0]
    scores = [
        row["halves.test"] for row in study_findings(study).reported_rows if row["arm"] == arm
    ]
    assert check.effect == pytest.approx(UNIGRAM - np.mean(scores))
    assert f"{arm} gains {check.effect:.3g} bits per byte over chance" in check.description


def record_unigram(study: Study) -> None:
    """What the unigram model scores, in the answers of every run."""
    unigram = UNIGRAM * np.log(2) * N_ITEMS * N_BYTES
    for cell in study.read_cells():
        folder = study.root / cell.run
        (own,) = read_evaluations(folder)
        head = type(own.head)(**{**vars(own.head), "unigram_nats": float(unigram)})
        path = evaluation_path(folder, head.yardstick, head.items)
        path.unlink()
        write_evaluation(path, Evaluation(head, own.answers))


def test_without_a_score_of_chance_on_record_a_threshold_is_not_met(tmp_path: Path) -> None:
    (check,) = study_findings(checked(tmp_path, {"that": "prefix > chance + 0.01"})).checks
    assert not check.is_shown
    assert check.description == "no score of chance is on record for prefix on halves.test"


def test_a_run_without_a_score_shows_nothing(tmp_path: Path) -> None:
    study = checked(tmp_path, WORKS, failed=[("input hidden", 2)])
    (check,) = study_findings(study).checks
    assert not check.is_shown
    assert check.description == "input hidden has a score on halves.test in 3 of 4 seeds"


def test_every_format_says_that_a_check_is_not_shown_and_why(tmp_path: Path) -> None:
    report = gather_report_data(checked(tmp_path, FAILS))
    terminal = Console(file=io.StringIO(), width=400)
    print_verdicts(report, terminal)
    said = "It is not shown that input hidden does better than causal on halves.test: gain -0.5"
    assert isinstance(terminal.file, io.StringIO)
    headline = next(
        line for line in terminal.file.getvalue().splitlines() if line.startswith("manipulation")
    )
    assert headline.startswith(f"manipulation not shown  {said}")
    assert 'manipulation not shown, so no verdict on "prefix" against "causal"' in headline
    assert "Must hold: input hidden > causal. It is not shown" in terminal.file.getvalue()
    assert said in markdown_report(report)
    assert said in render_page(report).replace("&#34;", '"')
    tex = latex_table(report)
    assert "manipulation not shown" in tex
    assert f"% Must hold: input hidden > causal. {said}" in tex
    rows = list(csv.DictReader(io.StringIO(to_csv(verdict_rows(report)))))
    assert [row["verdict"] for row in rows if row["arm"] == "prefix"] == ["manipulation not shown"]
    (own,) = [row for row in rows if row["must"]]
    assert (own["must"], own["verdict"]) == ("input hidden > causal", "manipulation not shown")
    assert float(own["gain"]) < 0
    assert json.loads(design_json(report))["design"]["must"] == [FAILS]
    (mark,) = [one for one in trust_checks(report) if one.name == "Manipulation"]
    assert (mark.mark, mark.text.startswith(f"Must hold: {FAILS['that']}. {said}")) == ("no", True)
    assert study_verdicts(checked(tmp_path / "again", FAILS))[-1]["verdict"] == (
        "manipulation not shown"
    )


def test_a_study_without_checks_has_no_column_for_them(tmp_path: Path) -> None:
    report = gather_report_data(make_study(tmp_path))
    assert report.findings.checks == ()
    assert all("must" not in row for row in verdict_rows(report))


def test_a_contrast_that_hangs_on_a_check_gets_no_word_either(tmp_path: Path) -> None:
    study = checked(tmp_path, FAILS)
    plan = study.read_plan()
    plan["design"]["contrasts"] = {"gap": {"prefix": 1.0, "causal": -1.0}}
    study.write_plan(plan)
    (gap,) = study_findings(study).contrasts
    assert (gap.word, gap.comparison) == ("manipulation not shown", None)


@pytest.mark.parametrize("n", [3, 5])
def test_the_power_of_a_check_is_that_of_a_one_sided_test(n: int) -> None:
    draws = np.random.default_rng(314).normal(2.0, 1.0, size=(N_DRAWS, n))
    stats = draws.mean(axis=1) / draws.std(axis=1, ddof=1) * np.sqrt(n)
    found = float(np.mean(stats > one_sided_t(n)))
    assert one_sided_power(2.0, n) == pytest.approx(found, abs=4 * np.sqrt(0.25 / N_DRAWS))
    assert one_sided_power(2.0, n, open_ended=True) < one_sided_power(2.0, n)
    assert one_sided_power(2.0, 3, open_ended=True) == 0.0  # three seeds cannot reach that bound


def test_a_check_comes_before_heaps_whichever_is_read_first(tmp_path: Path) -> None:
    heaps, check = Verdict("bimodal", "2 of 4 learnt"), Verdict("manipulation not shown", "why")
    own = study_findings(checked(tmp_path)).arm("prefix").judgement
    for first, second in ((heaps, check), (check, heaps)):
        assert judgement_with_word(judgement_with_word(own, first), second).verdict == check
    gap = ContrastFinding("gap", {"prefix": 1.0, "causal": -1.0}, own.comparison, True)
    for first, second in ((heaps, check), (check, heaps)):
        assert contrast_with_word(contrast_with_word(gap, first), second).verdict == check

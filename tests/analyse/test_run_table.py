"""Rows: one a run of the plan, with what the plan's own yardsticks said, and nothing else that
lies about.
"""

import json
import shutil
import sys
from dataclasses import replace
from math import log
from pathlib import Path

import pytest
from handmade_study import plan_of_arms
from trained_study import CPU, LENGTH, N_SEQUENCES, N_STEPS, make_small_plan

from paribus.analyse import RowTable, study_rows, study_verdicts
from paribus.analyse.run_table import column_of, measures_of, score_of
from paribus.errors import RecordError, UnsupportedError
from paribus.evaluate import evaluate
from paribus.record import Answer, Evaluation, EvaluationHead, Study, existing_study
from paribus.spec.yardstick import PseudoHalves


@pytest.fixture
def kept(finished_home: Path, tmp_path: Path) -> Study:
    """The finished study in a folder that may be spoilt."""
    shutil.copytree(finished_home, tmp_path / "runs")
    return existing_study(tmp_path / "runs", "little")


def test_every_cell_has_a_row_the_baseline_first(finished_home: Path) -> None:
    table = study_rows(existing_study(finished_home, "little"))
    assert [(row["arm"], row["seed"]) for row in table[:4]] == [
        ("full", 1),
        ("full", 2),
        ("full", 3),
        ("reverse", 1),
    ]
    assert len(table) == 9
    assert {row["outcome"] for row in table} == {"finished"}
    row = table[0]
    assert (row["outcome"], row["reason"], row["n_steps"]) == ("finished", "", N_STEPS)
    assert 0 < row["pseudo.test"] < 20
    assert row["tokens_read"] == N_STEPS * N_SEQUENCES * LENGTH
    assert row["seconds"] > 0
    assert table.columns[:5] == ("study", "arm", "purpose", "seed", "rate")


def test_what_another_yardstick_said_of_a_run_is_no_column_of_the_study(
    kept: Study, study_cache: Path
) -> None:
    before = list(study_rows(kept))
    run = kept.read_cells()[0].run
    built = make_small_plan(study_cache).arms[0].dataset
    evaluate(kept.root / run, PseudoHalves(n_items=2, max_bytes=16), built, device=CPU)
    assert list(study_rows(kept)) == before


def test_a_run_that_was_trained_but_not_measured_is_open(kept: Study) -> None:
    cell = kept.read_cells()[0]
    shutil.rmtree(kept.root / cell.run / "evaluations")
    row = next(row for row in study_rows(kept) if row["run"] == cell.run)
    assert (row["outcome"], row["reason"]) == ("open", "trained, not measured yet")
    assert "pseudo.test" not in row
    shutil.rmtree(kept.root / cell.run)
    row = next(row for row in study_rows(kept) if row["run"] == cell.run)
    assert (row["outcome"], row["nats"]) == ("open", None)


def test_a_finished_run_that_has_lost_rows_is_refused(kept: Study) -> None:
    cell = kept.read_cells()[0]
    path = kept.root / cell.run / "rows.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    said = (
        rf"{cell.run} finished, but its rows end at step \d+ of {N_STEPS}; remove that folder and"
        r" run the study"
    )
    for read in (study_rows, study_verdicts):
        with pytest.raises(RecordError, match=said):
            read(kept)
    path.write_bytes(whole)
    assert len(study_rows(kept)) == 9


@pytest.mark.parametrize(
    ("nats", "unigram", "reason"),
    [
        (9.0, 5.0, "worse than the unigram model, after its loss had risen"),
        (None, None, "its answers are not finite"),
    ],
)
def test_a_run_whose_loss_rose_or_is_not_finite_has_diverged(
    kept: Study, nats: float | None, unigram: float | None, reason: str
) -> None:
    cell = kept.read_cells()[0]
    path = kept.root / cell.run / "rows.jsonl"
    measured = [json.loads(line) for line in path.read_text().splitlines()]
    measured[-1]["valid_nats"] = 1 + max(row["valid_nats"] for row in measured)
    path.write_text("".join(json.dumps(row) + "\n" for row in measured))
    (path,) = (kept.root / cell.run / "evaluations").iterdir()
    head, *answers = map(json.loads, path.read_text().splitlines())
    head["unigram_nats"] = unigram
    answers[0]["nats"] = nats
    if nats is None:
        answers[0]["nonfinite"] = {"nats": "nan"}
    path.write_text("".join(json.dumps(line) + "\n" for line in (head, *answers)))
    row = next(row for row in study_rows(kept) if row["run"] == cell.run)
    assert (row["outcome"], row["reason"], row["pseudo.test"]) == ("diverged", reason, None)


def test_a_sweep_is_asked_on_the_tuning_split_and_reports_on_their_own() -> None:
    measure = {"kind": "halves", "split": "test", "n_items": 5}
    other = {"kind": "pairs", "split": "valid"}
    tune = {"split": "valid", "share": 1.0, "n_seeds": 2, "n_rates": 5, "bracket": False}
    primary = {"measure": measure, "margin": None, "test": "two-sided"}
    plan = plan_of_arms({"causal": {}}, control=None, primary=primary, others=[other], tune=tune)
    assert measures_of(plan, "reported") == [measure, other]
    assert measures_of(plan, "sweep") == [{**measure, "split": "valid"}]
    assert column_of(other) == "pairs.valid"


def test_a_value_is_bits_of_all_targets_over_all_their_bytes() -> None:
    head = EvaluationHead({}, "likelihood", {}, 1, "", 8, "", 2, 0, "", 10.0, {})
    answers = (Answer("a", 2.0, 1, 3, 0), Answer("b", 4.0, 1, 5, 0))
    assert score_of(Evaluation(head, answers)) == pytest.approx(6.0 / log(2) / 8)
    worse = (*answers, Answer("c", 5.0, 1, 5, 0))
    assert score_of(Evaluation(head, worse)) is None
    assert score_of(Evaluation(replace(head, label="pseudo-likelihood"), worse)) is None
    older = replace(head, label="pseudo-likelihood", unigram_nats=None)
    assert score_of(Evaluation(older, worse)) == pytest.approx(11.0 / log(2) / 13)
    assert score_of(Evaluation(head, (Answer("a", float("inf"), 1, 3, 0),))) is None


def test_a_notebook_shows_rows_as_a_table_with_text_escaped() -> None:
    table = RowTable(({"arm": "<b>", "score": 1.234567}, {"arm": "c", "more": None}))
    assert table.columns == ("arm", "score", "more")
    page = table._repr_html_()
    assert "<td>&lt;b&gt;</td><td>1.2346</td><td></td>" in page
    assert (len(table), table[1]["arm"]) == (2, "c")


def test_without_pandas_rows_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        UnsupportedError, match="pandas is not installed; install it, or use the rows as they are"
    ):
        RowTable(()).to_pandas()

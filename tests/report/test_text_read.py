"""Text that a budget of tokens left unequal is told on the first screen and among the grounds."""

import csv
import io
import json
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from handmade_study import N_STEPS, add_first_stage, make_study, rewrite_plan
from rich.console import Console

from paribus.analyse import seed_curves, study_findings
from paribus.cli.terminal.verdict_lines import print_verdicts
from paribus.record import Study, read_rows
from paribus.report.arm_costs import cost_lines
from paribus.report.curve_plots import difference_plots, learning_plot
from paribus.report.latex import latex_table
from paribus.report.markdown import markdown_report
from paribus.report.page import render_page
from paribus.report.report_data import gather_report_data
from paribus.report.sensitivity import sensitivity_lines
from paribus.report.text_read import describe_text_differences
from paribus.report.trust import trust_checks

RESULTS = Path(__file__).parents[2] / "docs/results"
SAID = (
    'Text differs by the budget chosen (tokens read). "prefix" reads 50 % fewer bytes than'
    ' "causal", and the training text 0.35 times against 0.7. Equal bytes would give it 60'
    " steps, not 30."
)


def unequal(
    root: Path, budget: str | None = "tokens_read", n_bytes: float = 250.0, epochs: str = "0.35"
) -> Study:
    """The small study, as if prefix had read other bytes a step, and its text another number of
    times.
    """
    study = make_study(root)
    plan = study.read_plan()
    plan["design"]["budget"] = budget
    plan["arms"]["prefix"]["work"]["bytes_read"] = n_bytes
    line = next(line for line in plan["control"] if line["path"] == "epochs")
    line |= {"mark": "≈", "values": {**line["values"], "prefix": epochs}}
    rewrite_plan(study, **plan)
    return study


def test_unequal_text_stands_on_the_first_screen_and_among_the_grounds(tmp_path: Path) -> None:
    material = gather_report_data(unequal(tmp_path))
    assert describe_text_differences(material) == SAID
    (found,) = [one for one in trust_checks(material) if one.name == "Budget"]
    assert (found.mark, found.text) == ("mind", SAID)
    text = unescape(render_page(material))
    assert text.index(SAID) < text.index('id="trust"') < text.rindex(SAID)
    words = markdown_report(material).replace("\\", "")
    assert words.index(SAID) < words.index("## Can I trust it?") < words.rindex(SAID)
    assert f"% {SAID}" in latex_table(material)
    shown = io.StringIO()
    print_verdicts(material, Console(file=shown, width=400))
    assert SAID in shown.getvalue()


@pytest.mark.parametrize("budget", [None, "bytes_read", "training_flops"])
def test_other_budgets_say_nothing_of_it(tmp_path: Path, budget: str | None) -> None:
    material = gather_report_data(unequal(tmp_path, budget))
    assert describe_text_differences(material) == ""
    assert "Budget" not in [one.name for one in trust_checks(material)]


@pytest.mark.parametrize(
    ("n_bytes", "epochs", "told"), [(491.0, "0.69", False), (489.0, "0.69", True)]
)
def test_up_to_two_percent_is_not_told(
    tmp_path: Path, n_bytes: float, epochs: str, told: bool
) -> None:
    assert (
        bool(
            describe_text_differences(
                gather_report_data(unequal(tmp_path, n_bytes=n_bytes, epochs=epochs))
            )
        )
        == told
    )


def test_epochs_alone_are_told_without_steps_that_would_not_help(tmp_path: Path) -> None:
    said = describe_text_differences(
        gather_report_data(unequal(tmp_path, "tokens_scored", 500.0, "0.9"))
    )
    assert said == (
        'Text differs by the budget chosen (tokens scored). "prefix" reads about as many bytes as'
        ' "causal", and the training text 0.9 times against 0.7. Its bytes are as equal as whole'
        " steps come."
    )


def test_the_epochs_of_chains_are_told_stage_by_stage(tmp_path: Path) -> None:
    study = unequal(tmp_path, epochs="8.3; 0.35")
    add_first_stage(study)
    plan = study.read_plan()
    line = next(line for line in plan["control"] if line["path"] == "epochs")
    line["values"] |= {"causal": "8.3; 0.7", "input hidden": "8.3; 0.7"}
    rewrite_plan(study, **plan)
    said = describe_text_differences(gather_report_data(study))
    assert (
        "the training text 8.3 times in pretrain and 0.35 times in tune against 8.3 times in"
        " pretrain and 0.7 times in tune." in said
    )


@pytest.mark.parametrize(
    "name", ["encoder-decoder-hour", "mixed-attention-hour", "positions-masked-hour"]
)
def test_the_counts_of_kept_studies_of_running_text_have_no_padding_in_them(name: str) -> None:
    plan = json.loads((RESULTS / name / "plan.json").read_text())
    (training,) = {json.dumps(_batches(arm)) for arm in plan["arms"].values()}
    n_sequences, length = json.loads(training)
    with (RESULTS / name / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert all(
        int(row["tokens_read"]) == int(row["n_steps"]) * n_sequences * length for row in rows
    )


def _batches(arm: dict[str, Any]) -> tuple[int, int]:
    training = arm["run"]["stages"][-1]["training"]
    return training["n_sequences"], training["length"]


def varied(study: Study, computed: bool) -> None:
    """Its rows as of pairs: every seed reads other texts, so its tokens differ; older rows
    count no positions.
    """
    for cell in study.read_cells():
        path = study.root / cell.run / "rows.jsonl"
        rows = [
            row | {"tokens_read": row["tokens_read"] + 3 * cell.seed}
            for row in read_rows(path).rows
        ]
        positions = [
            {"positions_computed": 600 * (row["step"] + 1)} if computed else {} for row in rows
        ]
        path.write_text(
            "".join(
                json.dumps(row | more) + "\n" for row, more in zip(rows, positions, strict=True)
            )
        )


def test_curves_of_seeds_that_read_other_texts_have_one_axis(tmp_path: Path) -> None:
    study = make_study(tmp_path)
    varied(study, computed=True)
    found = study_findings(study)
    assert len(found.arm("prefix").gain_curve) == N_STEPS // 3
    curves = seed_curves(found.runs["prefix"])
    assert len({tuple(curve) for curve in curves.values()}) == 1
    assert next(iter(curves[1])) == 512 * 3 + round(3 * (1 + 2 + 3 + 4) / 4)
    assert {row["positions_computed"] for row in found.reported_rows} == {600 * N_STEPS}


def test_rows_of_pairs_that_are_older_are_read_and_told_of(tmp_path: Path) -> None:
    study = make_study(tmp_path)
    assert not any("padding" in one for one in study_findings(study).remarks)
    plan = study.read_plan()
    for arm in plan["arms"].values():
        arm["run"]["stages"][-1]["objective"] = {"kind": "seq2seq"}
    study.write_plan(plan)
    assert (
        study_findings(study).remarks[-1]
        == "tokens_read counts padding in 12 of 12 runs, as it once did"
    )
    varied(study, computed=True)
    assert not any("padding" in one for one in study_findings(study).remarks)


def padded(study: Study) -> Study:
    """The same study, as if more positions had been computed than tokens read, and ever more of
    them.
    """
    for cell in study.read_cells():
        path = study.root / cell.run / "rows.jsonl"
        rows = [
            row | {"positions_computed": 2000 * (row["step"] + 1) ** 2}
            for row in read_rows(path).rows
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    plan = study.read_plan()
    for arm in plan["arms"].values():
        arm["work"]["positions_computed"] = 1e6
    rewrite_plan(study, **plan)
    return study


def test_prices_curves_and_equal_tokens_leave_padding_out(tmp_path: Path) -> None:
    speeds = {"prefix": 1.5}
    plain = gather_report_data(make_study(tmp_path / "plain", speeds=speeds))
    other = gather_report_data(padded(make_study(tmp_path / "padded", speeds=speeds)))
    assert {row["positions_computed"] for row in other.findings.reported_rows} == {
        2000 * N_STEPS**2
    }
    assert cost_lines(other) == cost_lines(plain)
    assert sensitivity_lines(other) == sensitivity_lines(plain)
    assert [arm.multiplier for arm in other.findings.arms] == [
        arm.multiplier for arm in plain.findings.arms
    ]
    drawn = [learning_plot(material) for material in (plain, other)]
    assert drawn[0] is not None
    assert drawn[1] is not None
    assert drawn[0].numbers == drawn[1].numbers
    assert [plot.numbers for plot in difference_plots(other)] == [
        plot.numbers for plot in difference_plots(plain)
    ]

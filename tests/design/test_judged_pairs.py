"""What judged comparisons differ in: the designs that come with paribus at every scale, and what
each format says of a comparison of several factors.
"""

import contextlib
import csv
import io
import json
import tomllib
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from sly_designs import sly_table

from paribus.analyse.control_faults import control_faults
from paribus.cli.report import print_report, write_report
from paribus.cli.rows import verdicts
from paribus.cli.run import run
from paribus.design.arms import arms_of
from paribus.design.control import describe_confounds, field_lines, judge_pairs
from paribus.design.design_files import designs_folder, find_design, shipped_designs
from paribus.design.judged_pairs import (
    describe_compounds,
    judged_differences,
    unused_reasons,
)
from paribus.design.pair_sizes import size_lines, unequal_sizes
from paribus.design.ready_arms import match_sizes
from paribus.record import existing_study
from paribus.record.plan import parse_plan
from paribus.record.plan_file import read_plan
from paribus.report.report_data import gather_report_data
from paribus.report.trust import trust_checks
from paribus.spec.design import compared_pairs
from paribus.workspace import Execution, Workspace

SAID = "differs in 2 factors: mask, dropout; the effect is of all of them together"
REASON = "both are what the paper changed"
DESIGN = f"""
factor = ["architecture.mask", "architecture.dropout"]
comparisons = [["both", "plain"], ["prefix", "plain"]]
contrasts = {{ crossed = {{ both = 1, prefix = -1, dropout = -1, plain = 1 }} }}
compound = {{ both = "{REASON}" }}
[arms.plain]
[arms.prefix]
architecture.mask = "prefix"
[arms.dropout]
architecture.dropout = 0.1
[arms.both]
architecture = {{ mask = "prefix", dropout = 0.1 }}
"""


def shipped_at_each_scale() -> Iterator[tuple[str, str | None]]:
    for name in shipped_designs():
        if name == "turns":  # a design of another kind, which judges nothing
            continue
        yield name, None
        table = tomllib.loads((designs_folder() / f"{name}.toml").read_text("utf-8"))
        for scale in table.get("scales", {}):
            yield name, scale


@pytest.mark.parametrize(("name", "scale"), list(shipped_at_each_scale()))
def test_designs_that_come_along_say_which_comparisons_are_compound(
    name: str, scale: str | None
) -> None:
    _, design = find_design(name, scale)
    arms = arms_of(design)
    findings = judge_pairs(design, arms)
    unequal = unequal_sizes(design, arms, match_sizes(arms), compared_pairs(design))
    lines = (*size_lines(design, arms, unequal), *field_lines(design, arms, findings))
    assert describe_confounds(lines) == ()
    judged = judged_differences(design, arms, findings, unequal)
    assert describe_compounds(design, arms, judged, unequal) == ()
    assert unused_reasons(design, judged) == ()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, study_cache: Path) -> Path:
    """The runs of a study that judges a compound pair, a simple one and an interaction."""
    folder = tmp_path_factory.mktemp("compound")
    workspace = Workspace(folder, study_cache, "cpu")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        run(sly_table(DESIGN), name="own", execution=Execution(workspace))
    return folder


def test_every_format_marks_a_compound_comparison_and_gives_the_reason(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = write_report("own", runs=home, formats="md,tex,html,csv", out=tmp_path)
    by_name = {path.name: path.read_text("utf-8") for path in files}
    for name in ("report.md", "report.html"):
        text = unescape(by_name[name])
        assert SAID in text, name
        assert f"Several factors on purpose: {REASON}." in text, name
        assert "It is the interaction of mask and dropout." in text, name
    assert f'% "both" against "plain" {SAID} ({REASON})' in by_name["report.tex"]
    assert "; compound: mask, dropout" in by_name["report.tex"]
    rows = list(csv.DictReader(io.StringIO(by_name["verdicts.csv"])))
    told = {row["contrast"] or row["arm"]: row for row in rows}
    assert (told["both"]["kind"], told["both"]["differs_in"]) == ("compound", "mask, dropout")
    assert told["both"]["compound"] == REASON
    assert (told["prefix"]["kind"], told["prefix"]["compound"]) == ("simple", "")
    assert told["crossed"]["kind"] == "interaction"
    print_report(gather_report_data(existing_study(home, "own")), ())
    printed = capsys.readouterr().out
    assert SAID in printed
    assert REASON in printed


def test_the_plan_and_the_verdicts_hold_it_as_data(home: Path) -> None:
    plan = json.loads((home / "studies" / "own" / "plan.json").read_text())
    both, prefix, crossed = plan["judged"]
    assert (both["arm"], both["against"], both["kind"]) == ("both", "plain", "compound")
    assert (both["factors"], both["reason"]) == (["mask", "dropout"], REASON)
    assert (prefix["kind"], crossed["kind"]) == ("simple", "interaction")
    (row,) = [row for row in verdicts("own", home) if row["arm"] == "both"]
    assert (row["differs_in"], row["compound"]) == ("mask, dropout", REASON)


def test_trust_keeps_several_factors_in_mind(home: Path) -> None:
    report = gather_report_data(existing_study(home, "own"))
    check = next(one for one in trust_checks(report) if one.name == "Factors")
    assert (check.mark, SAID in check.text) == ("mind", True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"judged": []}, "judged does not say what both against plain differs in"),
        ({"reason": "another"}, "both against plain differs in several factors, and the design"),
    ],
)
def test_a_plan_whose_factors_were_taken_out_gives_no_verdict(
    home: Path, change: dict[str, Any], said: str
) -> None:
    plan = read_plan(existing_study(home, "own"))
    table = dict(plan.written)
    if "reason" in change:
        table["judged"] = [{**one, **change} for one in table["judged"]]
    else:
        table |= change
    assert control_faults(plan) == ()
    faults = control_faults(parse_plan(table, Path("plan.json")))
    assert any(said in fault for fault in faults)

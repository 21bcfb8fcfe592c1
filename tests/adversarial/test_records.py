"""A finished study whose records were changed and listed again by the library's own functions, so
that every checksum agrees.
"""

import shutil
from pathlib import Path

import pytest

from paribus.analyse import study_verdicts
from paribus.record import Study, existing_study
from paribus.report.report_data import gather_report_data
from paribus.report.trust import trust_checks


@pytest.fixture
def kept(finished_home: Path, tmp_path: Path) -> Study:
    """The little study, run to its end."""
    shutil.copytree(finished_home, tmp_path / "runs")
    return existing_study(tmp_path / "runs", "little")


def words(study: Study) -> set[str]:
    return {str(row["verdict"]) for row in study_verdicts(study)}


def test_an_emptied_control_table_gives_no_verdict_and_a_whole_one_does(kept: Study) -> None:
    assert gather_report_data(kept).findings.agreement.faults == ()
    assert "withheld" not in words(kept)
    kept.write_plan({**kept.read_plan(), "control": []})
    assert words(kept) == {"withheld"}
    data = gather_report_data(kept)
    checks = trust_checks(data)
    assert (checks[0].name, checks[0].mark) == ("Confounds", "no")
    assert "lines are missing, such as that of architecture." in checks[0].text
    assert data.findings.agreement.description.startswith("control table: ")


def test_a_confound_that_is_marked_equal_gives_no_verdict(kept: Study) -> None:
    plan = kept.read_plan()
    for line in plan["control"]:
        if line["path"] == "architecture.mask":
            line["mark"] = "✓"
    kept.write_plan(plan)
    assert words(kept) == {"withheld"}
    fault = gather_report_data(kept).findings.agreement.faults[0]
    assert fault == (
        "control table: architecture.mask is marked equal, and differs between arms that are"
        " compared"
    )

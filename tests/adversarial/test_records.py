"""A finished study whose records were changed and listed again by the library's own functions, so
that every checksum agrees. What the control table says is worked out again; of all else a seal that
was published tells, and a run that is made again.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from paribus.analyse import study_verdicts
from paribus.analyse.seal import Seal, plan_seal, require_seal, study_seal
from paribus.cli import main
from paribus.design.verification import verify_runs
from paribus.errors import RecordError
from paribus.record import Study, existing_study, write_evaluation
from paribus.record.checksums import write_listed_file
from paribus.record.disk import json_bytes, read_json
from paribus.record.evaluations import evaluation_paths, read_evaluation
from paribus.record.file_names import PLAN_LOCK_FILE
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


@pytest.fixture(scope="module")
def published(finished_home: Path) -> Seal:
    """The seal of the study as it was made."""
    return study_seal(existing_study(finished_home, "little"))


def answers_path(study: Study, arm: str) -> Path:
    """What the first run of an arm answered."""
    cells = [cell for cell in study.read_cells() if cell.arm == arm]
    (path,) = evaluation_paths(study.root / min(cells, key=lambda cell: cell.seed).run)
    return path


def halve(study: Study, arm: str) -> None:
    """Half the nats of every answer of an arm's first run, listed again."""
    path = answers_path(study, arm)
    evaluation = read_evaluation(path)
    answers = [replace(answer, nats=answer.nats / 2) for answer in evaluation.answers]
    write_evaluation(path, replace(evaluation, answers=tuple(answers)))


def assert_checksums_notice_nothing(study: Study) -> None:
    assert gather_report_data(study).findings.agreement.faults == ()
    assert "withheld" not in words(study)


def test_halved_scores_have_another_seal(kept: Study, published: Seal) -> None:
    require_seal(kept, str(published))
    halve(kept, "causal")
    assert_checksums_notice_nothing(kept)
    with pytest.raises(RecordError, match=r"has the seal .* and not .*: another items; restore"):
        require_seal(kept, str(published))
    require_seal(kept, published.plan)  # the plan is the one that was published


def test_answers_that_arms_have_swapped_have_another_seal(kept: Study, published: Seal) -> None:
    paths = [answers_path(kept, "causal"), answers_path(kept, "full")]
    one, other = map(read_evaluation, paths)
    write_evaluation(paths[0], replace(one, answers=other.answers))
    write_evaluation(paths[1], replace(other, answers=one.answers))
    assert_checksums_notice_nothing(kept)
    with pytest.raises(RecordError, match="another items; restore"):
        require_seal(kept, str(published))


def test_a_lock_of_2020_has_another_seal(kept: Study, published: Seal) -> None:
    lock = read_json(kept.folder / PLAN_LOCK_FILE)
    lock["frozen_at"] = "2020-01-01T00:00:00+00:00"
    write_listed_file(kept.folder, PLAN_LOCK_FILE, json_bytes(lock))
    assert_checksums_notice_nothing(kept)
    with pytest.raises(RecordError, match="another plan; restore"):
        require_seal(kept, published.plan)
    assert plan_seal(kept) != published.plan


def test_the_command_writes_nothing_under_another_seal(
    kept: Study, published: Seal, capsys: pytest.CaptureFixture[str]
) -> None:
    page = kept.folder / "report.md"
    page.unlink(missing_ok=True)
    command = ["report", "little", "--runs", str(kept.root), "--format", "md", "--seal"]
    halve(kept, "causal")
    assert main([*command, str(published)]) == 1
    assert "another items; restore the study that was sealed" in capsys.readouterr().err
    assert not page.exists()
    assert main([*command, str(study_seal(kept))]) == 0
    assert "The checksums have no key: they tell accidents, not intent" in page.read_text()


def test_a_run_that_is_made_again_tells_halved_scores(kept: Study, study_cache: Path) -> None:
    cells = [
        min(kept.read_cells(), key=lambda cell: (cell.arm != arm, cell.seed))
        for arm in ("full", "causal")
    ]
    halve(kept, "causal")
    honest, sly = verify_runs(kept, cells, study_cache)
    assert honest.faults == ()
    assert honest.description.endswith("equal to the bit")
    assert len(sly.faults) == 1
    assert sly.faults[0].startswith("pseudo.test: other answers, with a score of ")

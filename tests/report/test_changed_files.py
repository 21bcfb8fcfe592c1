"""Every file of a finished study, damaged in every way: no verdict is read from it, and nothing
ends in a traceback.
"""

from __future__ import annotations

import html
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from handmade_study import sweep_record

from paribus.analyse import study_verdicts
from paribus.cli import main
from paribus.errors import ParibusError, SpecError
from paribus.record import Study, existing_study
from paribus.record.disk import json_bytes
from paribus.record.file_names import CHECKSUMS_FILE
from paribus.report.latex import latex_table
from paribus.report.markdown import markdown_report
from paribus.report.report_data import ReportData, gather_report_data
from paribus.report.trust import TrustCheck, trust_checks

Damage = Callable[[bytes], bytes | None]
WORDS = ("better", "worse", "equivalent", "inconclusive", "identical", "unstable")
STUDY = (
    "plan.json",
    "plan.lock",
    "cells.json",
    "rates.json",
    "items.json",
    "samples.json",
    "checksums.jsonl",
    "lock",
)
RUN = ("spec.json", "environment.json", "rows.jsonl", "state", "checksums.jsonl", "lock")
CHECKPOINT = (
    "manifest.json",
    "checkpoint.json",
    "spec.json",
    "tokenizer.json",
    "weights.safetensors",
    "learning.safetensors",
)
# No verdict rests on these. Locks say who is at work. What was answered names the weights by their
# sha256: a
# checkpoint was read when it was measured, and whoever reads it again verifies it then.
IRRELEVANT = re.compile(
    r"(.*/)?lock|.*/checkpoints/step-\d+/(?!manifest).*|.*/checkpoints/step-000000007/.*"
)

# A list that lost its end may still say all that is needed, and a manifest is compared where it
# speaks of the weights:
# where such a change is not noticed, the report must be the same.
EITHER = re.compile(
    r"(.*/)?checksums.jsonl, (truncated|last line gone)|.*/step-000000015/manifest.json, .*"
)


def flipped(content: bytes) -> bytes:
    place = len(content) // 2
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def renumbered(content: bytes) -> bytes | None:
    """One digit of a number changed."""
    found = re.search(rb"\d(?=[,\s\]}.])", content)
    if found is None:
        return None
    digit = b"%d" % ((int(found[0]) + 5) % 10)
    return content[: found.start()] + digit + content[found.end() :]


DAMAGES: dict[str, Damage] = {
    "flipped": flipped,
    "truncated": lambda content: content[: len(content) // 2],
    "last line gone": lambda content: b"".join(content.splitlines(keepends=True)[:-1]),
    "empty": lambda _: b"",
    "a table": lambda _: b"{}\n",
    "null": lambda _: b"null\n",
    "a list": lambda _: b"[]\n",
    "zeros": lambda content: bytes(len(content)),
    "renumbered": renumbered,
}


@pytest.fixture(scope="module")
def home(finished_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("changed") / "runs"
    shutil.copytree(finished_home, copy)
    existing_study(copy, "little").write_rates(sweep_record(["full", "reverse", "causal"]))
    return copy


@pytest.fixture
def kept(home: Path) -> Study:
    return existing_study(home, "little")


@pytest.fixture(scope="module")
def report(home: Path) -> str:
    """The report of what was not damaged."""
    return reported(existing_study(home, "little"))


def reported(study: Study, material: ReportData | None = None) -> str:
    """All that is said of a study, whose data may have been gathered already."""
    data = material or gather_report_data(study)
    return markdown_report(data) + latex_table(data) + json.dumps(list(study_verdicts(study)))


def relevant(study: Study) -> Iterator[tuple[Path, str]]:
    """Every file of the study and of one of its runs, with the name it is told by."""
    for name in STUDY:
        yield study.folder / name, name
    for cell in study.read_cells()[:1]:
        folder = study.root / cell.run
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            yield path, f"{cell.run}/{path.relative_to(folder).as_posix()}"


def test_the_walk_meets_every_file_that_a_study_writes(kept: Study) -> None:
    names = {name.split("/", 1)[-1] for _, name in relevant(kept)}
    assert names >= {*STUDY, *RUN, *(f"checkpoints/step-000000015/{name}" for name in CHECKPOINT)}
    assert any(name.startswith("evaluations/") for name in names)
    beside = {path.name for path in kept.folder.iterdir() if not path.name.startswith(".")}
    assert beside - {"report.html"} == {*STUDY}


def no_verdict(study: Study) -> bool:
    try:
        table = study_verdicts(study)
    except ParibusError:
        return True
    return {(row["verdict"], row["gain"], row["low"], row["compute"]) for row in table} == {
        ("withheld", None, None, None)
    }


def noticed(study: Study, name: str, report: str) -> bool:
    """Whether no verdict is given: an error in three beats, or a report without one; any other
    error goes through.
    """
    try:
        material = gather_report_data(study)
    except ParibusError as fault:
        return "; " in str(fault) and no_verdict(study)
    if not material.findings.agreement.faults:
        assert reported(study, material) == report, f"{name} changes the report, and nobody says so"
        return False
    assert no_verdict(study)
    ground = next(one for one in trust_checks(material) if one.name == "As planned")
    assert (ground.mark, ground.text[:21]) == ("no", "Not what was written:")
    told = markdown_report(material) + latex_table(material)
    assert "**No verdict:**" in told
    assert not [
        word for word in WORDS if re.search(rf"\| {word}|\*\*.* {word} than|do equally well", told)
    ]
    return True


@pytest.mark.parametrize("damage", [*DAMAGES, "deleted"])
def test_a_damaged_file_gives_no_verdict_or_the_same_report(
    kept: Study, report: str, damage: str
) -> None:
    for path, name in relevant(kept):
        whole = path.read_bytes()
        changed = DAMAGES[damage](whole) if damage in DAMAGES and whole else None
        if (changed is None and damage != "deleted") or changed == whole:
            continue
        try:
            path.unlink() if changed is None else path.write_bytes(changed)
            said = noticed(kept, name, report)
            if not EITHER.fullmatch(f"{name}, {damage}"):
                assert said != bool(IRRELEVANT.fullmatch(name)), (
                    f"{name}, {damage}: noticed is {said}"
                )
        finally:
            path.write_bytes(whole)
    assert reported(kept) == report


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value[:2]):
            yield from leaves(inner, (*path, place))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


@pytest.mark.parametrize(
    "name", ["plan.json", "plan.lock", "cells.json", "rates.json", "items.json", "samples.json"]
)
@pytest.mark.parametrize("new", [None, {}, [], "x", -1])
def test_a_value_of_another_kind_gives_no_verdict_and_no_traceback(
    kept: Study, report: str, name: str, new: Any
) -> None:
    path = kept.folder / name
    whole = path.read_bytes()
    table = json.loads(whole)
    paths = [one for one in leaves(table) if len(one) <= 3]
    places = paths[:: max(1, len(paths) // 8)]  # some of every depth
    try:
        for place in places:
            changed = replaced(table, place, new)
            if changed != table:
                path.write_text(json.dumps(changed))
                assert noticed(kept, f"{name} at {place}", report)
    finally:
        path.write_bytes(whole)


def older(home: Path, copy: Path) -> Study:
    """The same study as versions wrote it that kept no checksums."""
    shutil.copytree(home, copy)
    for path in copy.rglob(CHECKSUMS_FILE):
        path.unlink()
    study = existing_study(copy, "little")
    for path in (study.folder / "plan.json", *copy.glob("*/spec.json")):
        table = json.loads(path.read_text())
        del table["format"]
        path.write_bytes(json_bytes(table))
    return study


def as_planned(study: Study) -> TrustCheck:
    return next(one for one in trust_checks(gather_report_data(study)) if one.name == "As planned")


def test_a_study_of_before_checksums_is_read_and_says_that_it_is_not_checked(
    home: Path, tmp_path: Path
) -> None:
    study = older(home, tmp_path / "runs")
    assert [row["verdict"] for row in study_verdicts(study)] == [
        row["verdict"] for row in study_verdicts(existing_study(home, "little"))
    ]
    found = as_planned(study)
    assert (found.mark, found.text) == (
        "yes",
        (
            "The plan was locked before the first result, and has not changed since. It was made"
            " before checksums were kept: its files are not checked."
        ),
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda plan: plan["design"]["primary"].update(margin=9.0),
            "does not hold the design that its fingerprint",
        ),
        (
            lambda plan: plan["arms"]["causal"].update(text="0" * 64),
            "does not hold the design that its fingerprint",
        ),
        (
            lambda plan: plan.update(fingerprint="0" * 64),
            "does not hold the plan that its fingerprint names",
        ),
        (
            lambda plan: plan.update(rule="by eye"),
            "does not hold the plan that its fingerprint names",
        ),
    ],
)
def test_the_plan_of_an_older_study_is_held_against_its_lock(
    home: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    study = older(home, tmp_path / "runs")
    plan = study.read_plan()
    change(plan)
    (study.folder / "plan.json").write_bytes(json_bytes(plan))
    try:
        assert {row["verdict"] for row in study_verdicts(study)} == {"withheld"}
        found = as_planned(study)
        assert (found.mark, said in found.text) == ("no", True)
    except SpecError as fault:
        assert "missing or not yet run" in str(fault)  # noqa: PT017 (a plan of other text has no runs)


def test_a_fingerprint_that_was_taken_out_is_known_by_the_cells(home: Path, tmp_path: Path) -> None:
    study = older(home, tmp_path / "runs")
    plan = study.read_plan()
    del plan["design_fingerprint"]
    (study.folder / "plan.json").write_bytes(json_bytes(plan))
    assert "plan.json does not hold the design that its fingerprint names" in as_planned(study).text


def test_a_lock_of_another_plan_is_told(home: Path, tmp_path: Path) -> None:
    study = older(home, tmp_path / "runs")
    path = study.folder / "plan.lock"
    path.write_bytes(json_bytes({**json.loads(path.read_text()), "rule": "by eye"}))
    assert "plan.json is not the plan that plan.lock holds" in as_planned(study).text


def test_a_checkpoint_of_another_run_is_not_the_one_that_was_measured(
    home: Path, tmp_path: Path
) -> None:
    shutil.copytree(home, tmp_path / "runs")
    study = existing_study(tmp_path / "runs", "little")
    own, other = (
        study.root / cell.run / "checkpoints/step-000000015" for cell in study.read_cells()[:2]
    )
    shutil.rmtree(own)
    shutil.copytree(other, own)
    assert (
        "manifest.json is not of the weights that were measured"
        in gather_report_data(study).findings.agreement.description
    )
    assert no_verdict(study)


def test_runs_of_before_checksums_are_counted(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home, tmp_path / "runs")
    study = existing_study(tmp_path / "runs", "little")
    folder = study.root / study.read_cells()[0].run
    (folder / CHECKSUMS_FILE).unlink()
    table = json.loads((folder / "spec.json").read_text())
    (folder / "spec.json").write_bytes(json_bytes({"stages": table["stages"]}))
    assert as_planned(study).text.endswith(
        "1 run was made before checksums were kept, and not checked."
    )


def test_a_page_and_a_terminal_without_a_verdict_say_what_changed(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(home, tmp_path / "runs")
    study = existing_study(tmp_path / "runs", "little")
    (path,) = (study.root / study.read_cells()[0].run / "evaluations").iterdir()
    path.write_text(
        re.sub(r'"nats":([0-9.]+)', lambda nats: f'"nats":{float(nats[1]) / 2}', path.read_text())
    )
    status = main(
        ["report", "little", "--runs", str(tmp_path / "runs"), "--format", "html,md,tex,csv,svg"]
    )
    told = capsys.readouterr()
    assert status == 1
    name = (
        f"run {study.read_cells()[0].run}: evaluations/{path.name} is not what was written (sha256"
        " differs)"
    )
    assert f"no verdict: {name}" in told.out
    assert (
        f"the study little is not what was written: {name}; restore what was changed, or begin"
        in told.err
    )
    page = (study.folder / "report.html").read_text()
    assert f"<b>No verdict:</b> {name}." in page
    headline = 'No verdict on "causal" against "full": files of the study are not what was written'
    assert headline in html.unescape(page)
    assert not re.search(r"does (better|worse) than|do equally well|cannot tell", page)
    assert (study.folder / "report.tex").read_text().count("withheld") == 2
    assert main(["rows", "little", "--runs", str(tmp_path / "runs")]) == 1
    assert name in capsys.readouterr().err

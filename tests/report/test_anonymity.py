"""An anonymous report holds no place, file, machine or person, in whatever format it leaves."""

import base64
import getpass
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from handmade_study import SEEDS, make_study, plan_of_arms
from run_state import write_state

from paribus.cli.report import write_report
from paribus.record import Study, open_study
from paribus.record.integrity import IntegrityCheck
from paribus.report.anonymity import redact_value
from paribus.report.markdown import markdown_report
from paribus.report.redactions import Redactions, find_redactions
from paribus.report.report_data import ANONYMISED_FIELDS, gather_report_data

FORMATS = "html,md,csv,tex,svg,png"
FILES = (
    "diaries of ada/letters.jsonl.gz",
    "/home/ada lovelace/texts/notes.txt",
    "attic",
    "C:\\Users\\ada\\t.csv",
)
TOKENIZER = "vaults/tokens-of-ada.json"
CORPUS = {
    "sources": [
        {"kind": "files", "paths": list(FILES[:3])},
        {"kind": "pairs", "paths": [FILES[3]]},
    ],
    "tokenizer": {"kind": "file", "path": TOKENIZER},
}
SECRETS = (
    "letters.jsonl",
    "diaries of ada",
    "notes.txt",
    "/home/ada",
    "attic",
    "Users",
    "t.csv",
    "tokens-of-ada",
    "vaults",
    "lovelace",
    "engine room",
)


def planted(root: Path) -> Study:
    """A study with private names wherever one could stand."""
    study = make_study(root, failed=[("prefix", 2), ("prefix", 3)])
    plan = study.read_plan()
    plan["design"]["base"]["corpus"] = CORPUS
    for arm in plan["arms"].values():
        arm["run"]["stages"][-1]["corpus"] |= CORPUS
    for path, value in (
        ("corpus.sources", CORPUS["sources"]),
        ("corpus.sources.0.paths", list(FILES[:3])),
        ("corpus.tokenizer.path", TOKENIZER),
    ):
        values = dict.fromkeys(plan["order"], value)
        note = f"read from {FILES[1]}, where attic lies"
        plan["control"].append(
            {"path": path, "mark": "→", "values": values, "note": note, "allowed": None}
        )
    plan["design"]["allow"] = {"corpus": "letters.jsonl.gz is all there is"}
    plan["question"] = plan["design"]["question"] = "Does letters.jsonl.gz help?"
    study.write_plan(plan)
    cells = {(cell.arm, cell.seed): cell.run for cell in study.read_cells()}
    for seed, place in ((2, root.resolve()), (3, Path("engine room/runs"))):
        run = cells["prefix", seed]
        kept = "the newest good checkpoint is 000007"
        write_state(
            root / run / "state",
            "failed",
            f"DivergedError: {place / run}: the loss is not finite; {kept}",
        )
    return study


def outputs(study: Study, out: Path, anonymous: bool) -> dict[str, str]:
    """Every file as text, with what a page carries to be downloaded."""
    write_report("small", runs=study.root, formats=FORMATS, out=out, anonymous=anonymous)
    found = {path.name: path.read_bytes().decode("utf-8", "replace") for path in out.iterdir()}
    downloads = re.findall(r'base64,([A-Za-z0-9+/=]+)" download="([^"]+)"', found["report.html"])
    return found | {name: base64.b64decode(text).decode() for text, name in downloads}


def test_no_format_holds_a_place_a_file_or_a_person(tmp_path: Path) -> None:
    study = planted(tmp_path / "engine room" / "runs")
    named = outputs(study, tmp_path / "named", False)
    nameless = outputs(study, tmp_path / "nameless", True)
    assert set(named) == set(nameless)
    assert {"rows.csv", "curves.csv", "verdicts.csv", "small-rows.csv", "report.tex"} <= set(
        nameless
    )
    private = {*SECRETS, str(study.root), str(study.root.resolve()), str(tmp_path)}
    assert all(any(secret in text for text in named.values()) for secret in private)
    for name, text in nameless.items():
        assert [secret for secret in sorted(private) if secret in text] == [], name
    assert "DivergedError: " in nameless["rows.csv"]
    assert "the newest good checkpoint is 000007" in nameless["rows.csv"]
    assert "file-1" in nameless["report.html"]


def test_the_user_and_the_host_are_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "lovelace7")
    monkeypatch.setattr(socket, "gethostname", lambda: "abacus.engine.example")
    study = make_study(tmp_path)
    plan = study.read_plan()
    plan["question"] = plan["design"]["question"] = "Does lovelace7 on abacus like it?"
    study.write_plan(plan)
    for text in outputs(study, tmp_path / "out", True).values():
        assert "lovelace7" not in text
        assert "abacus" not in text
    assert gather_report_data(study, anonymous=True).plan.question == "Does NAME on NAME like it?"


def test_names_that_tell_of_nobody_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "root")
    study = make_study(tmp_path)
    plan = study.read_plan()
    plan["question"] = "Does the root of the tree help, at https://example.org/a/b?"
    study.write_plan(plan)
    assert gather_report_data(study, anonymous=True).plan.question == plan["question"]


def test_arms_that_are_called_by_files_lose_their_names_everywhere(tmp_path: Path) -> None:
    tokenizers = [{"kind": "file", "path": path} for path in ("vaults/a.json", "vaults/b.json")]
    gains = {"vaults-a.json": 0.0, "vaults-b.json": 0.1, "plain": -0.5}
    study = make_study(tmp_path, gains=gains)
    plan = study.read_plan()
    plan["design"]["factors"] = {"t": {"path": "corpus.tokenizer", "levels": tokenizers}}
    study.write_plan(plan)
    material = gather_report_data(study, anonymous=True)
    assert material.order == ["file-1", "file-2", "plain"]
    for text in outputs(study, tmp_path / "out", True).values():
        assert "vaults" not in text
        assert "a.json" not in text


def test_studies_of_a_series_that_is_called_by_a_file_lose_its_name(tmp_path: Path) -> None:
    study = make_study(tmp_path, name="notes.txt")
    plan = study.read_plan()
    plan["design"]["base"]["corpus"] = CORPUS
    study.write_plan(plan)
    earlier = [{"study": "notes.txt", "number": 1, "seeds": SEEDS, "gains": []}]
    series = {"first": "notes.txt", "number": 2, "earlier": earlier}
    open_study(tmp_path, "notes.txt-2").write_plan({**plan, "series": series})
    assert gather_report_data(study).later_studies == ("notes.txt-2",)
    anonymous = gather_report_data(study, anonymous=True)
    assert anonymous.later_studies == ("file-2-2",)
    assert "notes.txt" not in markdown_report(anonymous)


def test_faults_of_files_are_told_without_places(tmp_path: Path) -> None:
    study = make_study(tmp_path)
    report = gather_report_data(study)
    agreement = IntegrityCheck((f"{tmp_path}/a.json cannot be read",))
    redactions = find_redactions(report.plan, tmp_path)
    assert redact_value(agreement, redactions).faults == ("RUNS/a.json cannot be read",)
    assert "agreement" in ANONYMISED_FIELDS


def test_a_file_that_is_called_as_a_word_of_a_spec_hides_no_spec(tmp_path: Path) -> None:
    study = make_study(tmp_path)
    plan = study.read_plan()
    plan["design"]["base"]["corpus"] = {
        "sources": [{"kind": "files", "paths": ["causal", "test", "files"]}]
    }
    study.write_plan(plan)
    material = gather_report_data(study, anonymous=True)
    assert material.order == list(gather_report_data(study).order)
    assert material.plan.design.primary.measure.split == "test"
    assert material.plan.design.table["base"]["corpus"]["sources"] == [
        {"kind": "files", "paths": ["file-1", "file-2", "file-3"]}
    ]


@pytest.fixture
def nothing() -> Redactions:
    return find_redactions(plan_of_arms({"causal": {}}, control=None), Path("runs"))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("/x/y.txt", "PATH"),
        ("~/z", "PATH"),
        ("C:\\data\\w.csv", "PATH"),
        ("causal & window(8)", "causal & window(8)"),
        ("see /x/y/z.txt: it is gone", "see PATH: it is gone"),
        ("bits/byte, tokens /s and A/B", "bits/byte, tokens /s and A/B"),
        ("runs of a design, runs/0123", "runs of a design, RUNS/0123"),
        (3, 3),
    ],
)
def test_what_looks_like_a_place_is_cut(nothing: Redactions, given: Any, told: Any) -> None:
    assert redact_value({"a": [given]}, nothing) == {"a": [told]}


def test_numbers_are_the_same_with_and_without_names(tmp_path: Path) -> None:
    study = planted(tmp_path)
    named, nameless = gather_report_data(study), gather_report_data(study, anonymous=True)
    for one, other in zip(named.findings.arms, nameless.findings.arms, strict=True):
        assert one.judgement == other.judgement
    assert [row.get("halves.test") for row in named.rows] == [
        row.get("halves.test") for row in nameless.rows
    ]
    assert list(nameless.findings.seeds) == list(SEEDS)

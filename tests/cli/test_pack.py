"""paribus pack and unpack: a study goes to a colleague, who reads and continues it."""

import json
import shutil
from pathlib import Path

from shared_studies import TWO_ARMS, interrupt_study
from trained_study import design_table

import paribus as pb
from paribus.record import existing_study
from paribus.workspace import Workspace


def test_a_colleague_reads_the_report_and_asks_the_models(
    ask, filed_home: Path, tmp_path: Path
) -> None:
    packed = ask("pack", "filed", "--weights", "--runs", filed_home / "runs")
    assert packed.status == 0
    assert packed.out.startswith("filed.paribus.zip: ")
    assert packed.err == ""
    unpacked = ask("unpack", "filed.paribus.zip")
    assert unpacked.status == 0, unpacked.err
    assert "7 new folders, and 0 files added to others" in unpacked.out
    assert unpacked.out.splitlines()[-1] == "for the verdict and a page: paribus report filed"
    assert "are there already" in ask("unpack", "filed.paribus.zip").out
    for runs, out in ((filed_home / "runs", "theirs"), (tmp_path / "runs", "mine")):
        assert ask("report", "filed", "--format", "md", "--runs", runs, "--out", out).status == 0
    assert Path("mine/report.md").read_bytes() == Path("theirs/report.md").read_bytes()
    run = existing_study(tmp_path / "runs", "filed").read_cells()[0].run
    # the pack names the text by its last part
    (tmp_path / "texts").symlink_to(filed_home / "private" / "texts")
    here = ("--cache", tmp_path / "cache", "--device", "cpu")
    both = (shutil.copytree(filed_home / "runs", tmp_path / "owner"), tmp_path / "runs")
    yardstick = {"kind": "pseudo", "n_items": 7, "max_bytes": 32}
    measured = []
    for runs in both:
        workspace = Workspace(runs, tmp_path / "cache", "cpu")
        measured.append(pb.evaluate_run(run, yardstick, workspace=workspace))
    assert measured[0].answers == measured[1].answers
    probed = ask("probe", run, "--probes", "collapse", "--texts", "5", *here)
    assert probed.status == 0, probed.err
    exported = [ask("export", run, f"out-{runs.name}", "--runs", runs) for runs in both]
    assert exported[0].status == exported[1].status
    assert exported[0].err == exported[1].err
    folders = [sorted(Path(f"out-{runs.name}").glob("*")) for runs in both]
    for one, other in zip(*folders, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_an_unfinished_study_is_continued_there(ask, tmp_path: Path, study_cache: Path) -> None:
    table = design_table(TWO_ARMS)
    interrupt_study(tmp_path / "runs", study_cache, table, "little", 5)
    rows_only = ask("pack", "little", "--out", "rows.zip")
    assert "note: little has 4 runs to do; to continue it elsewhere, pack it with" in rows_only.err
    assert ask("pack", "little", "--weights", "--out", "packs/little.zip").status == 0
    assert ask("unpack", "packs/little.zip", "--runs", "there").status == 0
    Path("little.json").write_text(json.dumps(table))
    words = ("--runs", "there", "--cache", study_cache, "--device", "cpu")
    continued = ask("run", "little.json", *words)
    assert continued.status == 0, continued.err
    assert "runs: 2 of 6 runs are there already" in continued.out
    assert [row["outcome"] for row in pb.rows("little", "there")] == ["finished"] * 6


def test_what_cannot_be_packed_or_unpacked_is_told(ask, filed_home: Path, tmp_path: Path) -> None:
    lost = ask("pack", "lost", "--runs", filed_home / "runs")
    assert (lost.status, "holds no study; studies there are filed" in lost.err) == (1, True)
    (tmp_path / "notes.txt").write_text("mine")
    taken = ask("pack", "filed", "--runs", filed_home / "runs", "--out", "notes.txt")
    assert (taken.status, "exists and is no pack" in taken.err) == (1, True)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    for name, words in (("notes.txt", "is not a whole pack"), ("none.zip", "No such file")):
        refused = ask("unpack", name)
        assert (refused.status, words in refused.err) == (1, True)
    assert not (tmp_path / "runs").exists()

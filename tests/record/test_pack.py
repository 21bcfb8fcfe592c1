"""A study in one file: the same bytes each time, nothing of the machine in it, and hostile or
damaged ones refused before anything is written.
"""

import json
import shutil
import socket
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from shared_studies import (
    CHAIN_TABLE,
    TWO_ARMS,
    file_design,
    interrupt_study,
    run_named,
)
from trained_study import design_table, train_study

from paribus.analyse import study_rows
from paribus.errors import InUseError, RecordError
from paribus.record import (
    check_integrity,
    existing_study,
    hold_lock,
    latest_checkpoint,
    read_rows,
)
from paribus.record.checksums import write_listed_file
from paribus.record.disk import content_sha256
from paribus.record.file_names import PACK_LIST_FILE
from paribus.record.pack import write_pack
from paribus.record.pack_reading import is_pack_name
from paribus.record.plan_file import read_plan
from paribus.record.portable_paths import place_names, portable_text
from paribus.record.pruning import plan_prune, prune
from paribus.record.unpack import unpack_study
from paribus.report.markdown import markdown_report
from paribus.report.report_data import gather_report_data


@pytest.fixture(scope="module")
def packs(filed_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packs")
    study = existing_study(filed_home / "runs", "filed")
    write_pack(study, folder / "rows.zip", with_weights=False)
    write_pack(study, folder / "weights.zip", with_weights=True)
    return folder


def test_a_study_that_is_only_planned_is_not_packed(filed_home: Path, tmp_path: Path) -> None:
    shutil.copytree(filed_home / "runs", tmp_path / "runs")
    study = existing_study(tmp_path / "runs", "filed")
    (study.folder / "cells.json").unlink()
    with pytest.raises(RecordError, match="is planned, and has no runs yet; run it first"):
        write_pack(study, tmp_path / "filed.zip", with_weights=False)


def report_of(root: Path, name: str = "filed") -> str:
    return markdown_report(gather_report_data(existing_study(root, name)))


def tree(root: Path) -> dict[str, bytes]:
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and path.name != "lock"]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def rewrite(pack: Path, change: Callable[[dict[str, bytes], dict[str, Any]], None]) -> Path:
    """A pack whose files and list were changed."""
    with zipfile.ZipFile(pack) as archive:
        files = {info.filename: archive.read(info) for info in archive.infolist()}
    table = json.loads(files.pop(PACK_LIST_FILE))
    change(files, table)
    with zipfile.ZipFile(pack, "w") as archive:
        archive.writestr(PACK_LIST_FILE, json.dumps(table))
        for name, content in files.items():
            archive.writestr(name, content)
    return pack


def listed(files: dict[str, bytes], table: dict[str, Any], name: str, content: bytes) -> None:
    files[name] = content
    table["files"][name] = {"size": len(content), "sha256": content_sha256(content)}


@pytest.fixture
def pack(packs: Path, tmp_path: Path) -> Path:
    shutil.copy(packs / "weights.zip", tmp_path / "a.zip")
    return tmp_path / "a.zip"


@pytest.mark.parametrize("name", ["rows.zip", "weights.zip"])
def test_a_study_unpacked_elsewhere_gives_the_same_report(
    filed_home: Path, packs: Path, tmp_path: Path, name: str
) -> None:
    summary = unpack_study(packs / name, tmp_path / "runs")
    assert summary.n_new_folders == 7
    assert report_of(tmp_path / "runs") == report_of(filed_home / "runs")
    study = existing_study(tmp_path / "runs", "filed")
    runs = [cell.run for cell in study.planned_cells()]
    assert check_integrity(study, read_plan(study), runs).faults == ()
    for run in runs:
        search = latest_checkpoint(tmp_path / "runs" / run / "checkpoints")
        assert (search.checkpoint is not None) == (name == "weights.zip")


def test_the_same_study_gives_the_same_bytes_wherever_it_lies(
    filed_home: Path, packs: Path, tmp_path: Path
) -> None:
    for name, with_weights in (("rows.zip", False), ("weights.zip", True)):
        unpack_study(packs / name, tmp_path / name)
        study = existing_study(tmp_path / name, "filed")
        write_pack(study, tmp_path / "again.zip", with_weights)
        assert (tmp_path / "again.zip").read_bytes() == (packs / name).read_bytes()
    runs = shutil.copytree(filed_home / "runs", tmp_path / "moved")
    prune(plan_prune(runs))  # a pack has no optimizer states of finished runs anyway
    gather_report_data(existing_study(runs, "filed"))
    write_pack(existing_study(runs, "filed"), tmp_path / "again.zip", with_weights=True)
    assert (tmp_path / "again.zip").read_bytes() == (packs / "weights.zip").read_bytes()


def test_a_pack_has_no_path_host_date_or_lock(filed_home: Path, packs: Path) -> None:
    with zipfile.ZipFile(packs / "weights.zip") as archive:
        for info in archive.infolist():
            assert info.date_time == (1980, 1, 1, 0, 0, 0)
            assert not info.filename.endswith(("lock", "report.md")) or "plan.lock" in info.filename
            assert "learning" not in info.filename
            content = archive.read(info)
            for private in (str(filed_home), "somebody", "private", str(Path.home())):
                assert private.encode() not in content or private == "/", info.filename
            if info.filename.endswith((".json", ".jsonl")) and "tokenizer" not in info.filename:
                assert json.dumps(socket.gethostname()).encode() not in content
        plan = json.loads(archive.read("studies/filed/plan.json"))
    source = plan["arms"]["full"]["run"]["stages"][0]["corpus"]["sources"][0]
    assert source["paths"] == ["texts"]


def test_the_same_pack_again_changes_nothing_and_weights_can_follow(
    filed_home: Path, packs: Path, tmp_path: Path
) -> None:
    root = tmp_path / "runs"
    unpack_study(packs / "rows.zip", root)
    first = tree(root)
    assert unpack_study(packs / "rows.zip", root).n_new_files == 0
    assert tree(root) == first
    summary = unpack_study(packs / "weights.zip", root)
    assert (summary.n_new_folders, summary.n_new_files > 0) == (0, True)
    write_pack(existing_study(root, "filed"), tmp_path / "again.zip", with_weights=True)
    assert (tmp_path / "again.zip").read_bytes() == (packs / "weights.zip").read_bytes()
    home = shutil.copytree(
        filed_home / "runs", tmp_path / "home"
    )  # with paths and optimizer states
    before = tree(home)
    assert unpack_study(packs / "weights.zip", home).n_new_files == 0
    assert tree(home) == before


def test_evaluations_that_are_missing_are_added_and_listed(pack: Path, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    unpack_study(pack, root)
    study = existing_study(root, "filed")
    (run, *_) = [cell.run for cell in study.planned_cells()]
    before = report_of(root)
    shutil.rmtree(root / run / "evaluations")
    assert unpack_study(pack, root).n_new_files == 1
    assert report_of(root) == before
    assert check_integrity(study, read_plan(study), [run]).faults == ()


def test_other_content_is_refused_before_anything_is_written(pack: Path, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    unpack_study(pack, root)
    study = existing_study(root, "filed")
    (first, *_, last) = sorted({cell.run for cell in study.planned_cells()})
    shutil.rmtree(root / first)
    rows = root / last / "rows.jsonl"
    write_listed_file(
        root / last, "rows.jsonl", rows.read_bytes().replace(b'"nats": 1', b'"nats": 2')
    )
    before = tree(root)
    with pytest.raises(RecordError, match=f"other content than is there: .*{last}/rows.jsonl"):
        unpack_study(pack, root)
    assert tree(root) == before
    assert not list(root.glob(".tmp*"))


def test_a_checkpoint_of_other_weights_and_a_link_are_refused(pack: Path, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    unpack_study(pack, root)
    (run, other, *_) = sorted({cell.run for cell in existing_study(root, "filed").read_cells()})
    own = root / run / "checkpoints"
    shutil.rmtree(own)
    shutil.copytree(root / other / "checkpoints", own)
    with pytest.raises(RecordError, match=f"other content than is there: .*{run}/checkpoints"):
        unpack_study(pack, root)
    shutil.rmtree(root / run)
    (root / run).symlink_to(tmp_path)
    with pytest.raises(RecordError, match="is a link, which may lead out of"):
        unpack_study(pack, root)


def test_every_byte_that_is_changed_or_cut_off_is_known(packs: Path, tmp_path: Path) -> None:
    whole = (packs / "rows.zip").read_bytes()
    bad = tmp_path / "bad.zip"
    for place in range(11, len(whole), len(whole) // 60):
        content = bytearray(whole)
        content[place] ^= 0x20
        bad.write_bytes(content)
        try:
            unpack_study(bad, tmp_path / f"runs{place}")
        except RecordError:
            assert not (tmp_path / f"runs{place}" / "studies").exists()
        else:  # a bit of the zip's own that says nothing: what was unpacked is whole
            assert report_of(tmp_path / f"runs{place}")
    for size in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        bad.write_bytes(whole[:size])
        with pytest.raises(RecordError, match="is not a whole pack"):
            unpack_study(bad, tmp_path / "runs")
    assert not list((tmp_path).glob("runs/*"))


@pytest.mark.parametrize(
    "name",
    [
        "../outside.json",
        "/etc/passwd",
        "studies/../../plan.json",
        "studies/other/plan.json",
        "studies/filed/report.html",
        "Studies/filed/plan.json",
        "aa/../bb/spec.json",
        "aa/lock",
        "aa\\spec.json",
        "aa/evaluations/x.py",
        "aa/evaluations/.hidden.jsonl",
        "aa/checkpoints/last/weights.safetensors",
        ".aa/spec.json",
        "aa//spec.json",
        "aa/spec.json\n",
        "",
    ],
)
def test_a_name_that_no_study_has_is_refused(pack: Path, tmp_path: Path, name: str) -> None:
    assert not is_pack_name(name, "filed")
    if name:
        rewrite(pack, lambda files, table: listed(files, table, name, b"{}"))
        with pytest.raises(RecordError):
            unpack_study(pack, tmp_path / "runs")
        assert not (tmp_path / "runs").exists()
        assert not (tmp_path / "outside.json").exists()


def drop_file(files: dict[str, bytes], table: dict[str, Any]) -> None:
    del files["studies/filed/plan.json"]


def add_unlisted_file(files: dict[str, bytes], table: dict[str, Any]) -> None:
    files["studies/filed/rates.json"] = b"{}"


def change_file(files: dict[str, bytes], table: dict[str, Any]) -> None:
    files["studies/filed/plan.json"] += b" "


def change_plan_and_list(files: dict[str, bytes], table: dict[str, Any]) -> None:
    name = "studies/filed/plan.json"
    listed(files, table, name, files[name].replace(b'"margin": 0.5', b'"margin": 0.1'))


def add_other_run(files: dict[str, bytes], table: dict[str, Any]) -> None:
    for name in [name for name in files if name.endswith("spec.json") and "checkp" not in name]:
        listed(files, table, "another/spec.json", files[name])


def change_weights_and_list(files: dict[str, bytes], table: dict[str, Any]) -> None:
    for name in [name for name in files if name.endswith("weights.safetensors")]:
        listed(files, table, name, files[name][:-1] + b"x")


def name_other_study(files: dict[str, bytes], table: dict[str, Any]) -> None:
    table["study"] = "../filed"


def forget_size(files: dict[str, bytes], table: dict[str, Any]) -> None:
    table["files"]["studies/filed/plan.json"] = {"size": -1, "sha256": "x"}


def raise_format(files: dict[str, bytes], table: dict[str, Any]) -> None:
    table["format"] = 2


def drop_plan_and_list(files: dict[str, bytes], table: dict[str, Any]) -> None:
    del files["studies/filed/plan.json"], table["files"]["studies/filed/plan.json"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (drop_file, "'studies/filed/plan.json' is missing"),
        (add_unlisted_file, "'studies/filed/rates.json' is not listed"),
        (change_file, "studies/filed/plan.json is not what was packed"),
        (change_plan_and_list, "holds no whole study: "),
        (add_other_run, "another is no run of the study"),
        (change_weights_and_list, "holds no whole study: .*weights.safetensors is not what was"),
        (name_other_study, "pack.json is no list of a pack"),
        (forget_size, "'studies/filed/plan.json' has no size and sha256"),
        (raise_format, "has the format 2, and this version reads up to 1; update paribus"),
        (drop_plan_and_list, "has no plan.json"),
    ],
)
def test_a_pack_that_is_not_what_it_says_is_refused(
    pack: Path, tmp_path: Path, change: Any, words: str
) -> None:
    rewrite(pack, change)
    with pytest.raises(RecordError, match=words):
        unpack_study(pack, tmp_path / "runs")
    assert not list((tmp_path / "runs").glob("*"))


def entry(name: str, kind: int = stat.S_IFREG, **fields: Any) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (kind | 0o644) << 16
    for field, value in fields.items():
        setattr(info, field, value)
    return info


@pytest.mark.parametrize(
    ("info", "words"),
    [
        (entry("aa/spec.json", stat.S_IFLNK), "is a link, a folder or a device"),
        (entry("aa/", stat.S_IFDIR), "is a link, a folder or a device"),
        (
            entry("aa/spec.json", compress_type=zipfile.ZIP_DEFLATED),
            "is compressed, which no pack is",
        ),
        (entry("STUDIES/FILED/PLAN.JSON"), "is there twice"),
    ],
)
def test_links_and_compressed_files_are_refused(
    pack: Path, tmp_path: Path, info: zipfile.ZipInfo, words: str
) -> None:
    with zipfile.ZipFile(pack, "a") as archive:
        archive.writestr(info, b"" if info.is_dir() else bytes(10**6))
    with pytest.raises(RecordError, match=words):
        unpack_study(pack, tmp_path / "runs")


def test_entries_that_share_their_bytes_cannot_come_to_more_than_the_pack(
    packs: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.zip"
    with zipfile.ZipFile(bad, "w") as archive:
        archive.writestr("a/rows.jsonl", bytes(10**5))
        for number in range(50):
            archive.filelist.append(entry(f"a{number}/rows.jsonl"))
            archive.filelist[-1].file_size = archive.filelist[-1].compress_size = 10**5
            archive.filelist[-1].header_offset = archive.filelist[-1].CRC = 0
    with pytest.raises(RecordError, match="more bytes than the pack has"):
        unpack_study(bad, tmp_path / "runs")


def test_a_damaged_pack_leaves_no_folder_behind(pack: Path, tmp_path: Path) -> None:
    content = bytearray(pack.read_bytes())
    with zipfile.ZipFile(pack) as archive:
        place = max(archive.infolist(), key=lambda entry: entry.compress_size)
    content[place.header_offset + 200] ^= 1
    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes(content)
    with pytest.raises(RecordError):
        unpack_study(damaged, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_what_is_no_pack_is_refused(tmp_path: Path, filed_home: Path) -> None:
    with pytest.raises(RecordError, match="No such file"):
        unpack_study(tmp_path / "nothing.zip", tmp_path / "runs")
    with pytest.raises(RecordError, match="cannot be read"):
        unpack_study(tmp_path, tmp_path / "runs")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a", b"b")
    with pytest.raises(RecordError, match=r"has no pack\.json: it is not a pack"):
        unpack_study(tmp_path / "other.zip", tmp_path / "runs")
    study = existing_study(filed_home / "runs", "filed")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RecordError, match="exists and is no pack"):
        write_pack(study, tmp_path / "notes.txt", with_weights=False)
    with pytest.raises(RecordError, match="is a folder"):
        write_pack(study, tmp_path, with_weights=False)


def test_a_full_disk_is_told_before_anything_is_written(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10))
    with pytest.raises(RecordError, match=r"comes to [\d,]+ bytes, and .* has 10 left"):
        unpack_study(pack, tmp_path / "runs")


def test_a_study_that_was_changed_or_is_being_run_is_not_packed(
    filed_home: Path, tmp_path: Path
) -> None:
    root = shutil.copytree(filed_home / "runs", tmp_path / "runs")
    study = existing_study(root, "filed")
    (run, *_) = [cell.run for cell in study.planned_cells()]
    with (
        hold_lock(root / run / "lock"),
        pytest.raises(InUseError, match="is being run; wait until it is done"),
    ):
        write_pack(study, tmp_path / "a.zip", with_weights=False)
    rows = root / run / "rows.jsonl"
    rows.write_bytes(rows.read_bytes().replace(b'"nats": 1', b'"nats": 2'))
    with pytest.raises(RecordError, match=f"run {run}: rows.jsonl is not what was written"):
        write_pack(study, tmp_path / "a.zip", with_weights=False)
    assert not (tmp_path / "a.zip").exists()


def test_an_interrupted_study_is_continued_elsewhere_and_ends_the_same(
    tmp_path: Path, study_cache: Path
) -> None:
    table = design_table(TWO_ARMS)
    study = interrupt_study(tmp_path / "here", study_cache, table, "little", 5)
    open_runs = [
        cell.run
        for cell in study.planned_cells()
        if study.run_outcome(cell.run)[0] == "open" and (study.root / cell.run).exists()
    ]
    assert len(open_runs) == 1
    summary = write_pack(study, tmp_path / "a.zip", with_weights=True)
    assert summary.n_open_runs == 4
    unpack_study(tmp_path / "a.zip", tmp_path / "there")
    (checkpoint,) = (tmp_path / "there" / open_runs[0] / "checkpoints").iterdir()
    assert (checkpoint / "learning.safetensors").exists()
    continued = run_named(tmp_path / "there", study_cache, table, "little")
    whole = train_study(tmp_path / "whole", study_cache, TWO_ARMS)
    scores = [[row["pseudo.test"] for row in study_rows(one)] for one in (continued, whole)]
    assert scores[0] == scores[1]
    rows = [read_rows(one.root / open_runs[0] / "rows.jsonl").rows for one in (continued, whole)]
    assert [row["nats"] for row in rows[0]] == [row["nats"] for row in rows[1]]


def test_a_finished_study_without_weights_keeps_its_samples_when_it_is_run_again(
    packs: Path, filed_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "runs"
    unpack_study(packs / "rows.zip", root)
    before = report_of(root)
    monkeypatch.chdir(filed_home / "private")  # where the texts are found by their name
    again = run_named(root, filed_home / "cache", file_design("texts"), "filed")
    assert report_of(root) == before
    assert "ab" in (again.folder / "samples.json").read_text()


def test_stages_go_along_with_the_runs_that_begin_from_them(
    tmp_path: Path, study_cache: Path
) -> None:
    study = interrupt_study(tmp_path / "here", study_cache, CHAIN_TABLE, "chain", 5)
    write_pack(study, tmp_path / "a.zip", with_weights=True)
    unpack_study(tmp_path / "a.zip", tmp_path / "there")
    names = {path.name for path in (tmp_path / "here").iterdir() if path.name != "studies"}
    assert {path.name for path in (tmp_path / "there").iterdir()} <= {*names, "studies"}
    continued = run_named(tmp_path / "there", study_cache, CHAIN_TABLE, "chain")
    whole = run_named(tmp_path / "whole", study_cache, CHAIN_TABLE, "chain")
    scores = [[row["pseudo.test"] for row in study_rows(one)] for one in (continued, whole)]
    assert scores[0] == scores[1]


def test_paths_get_the_names_that_tell_them_apart() -> None:
    def of(*paths: str) -> dict[str, str]:
        return place_names([{"corpus": {"sources": [{"paths": list(paths)}]}}])

    assert of("texts", "/home/me/texts") == {"/home/me/texts": "texts"}
    assert of("/a/b/x.txt", "/a/c/x.txt") == {"/a/b/x.txt": "b/x.txt", "/a/c/x.txt": "c/x.txt"}
    assert of("~/x.txt") == {"~/x.txt": "x.txt"}
    assert of("/a/b/", "/a/b") == {"/a/b": "b", "/a/b/": "b"}
    begin = {"begin": {"name": "/home/me/gpt2", "path": "/home/me/gpt2", "weights": "/x"}}
    assert place_names([begin]) == {"/home/me/gpt2": "gpt2"}
    assert place_names([{"question": "/a/b", "prompts": ["/c/d"]}]) == {}


def test_messages_lose_the_folders_of_this_machine() -> None:
    said = "RecordError: /home/me/runs/0a/rows.jsonl cannot be written: No space; see ~/x/y or a/b"
    assert portable_text(said) == (
        "RecordError: rows.jsonl cannot be written: No space; see y or a/b"
    )
    assert portable_text("3/4 of it, and/or 1e-3") == "3/4 of it, and/or 1e-3"

from pathlib import Path

from paribus.record import RunEntry, open_run_folder, runs


def _made(root: Path, name: str, stages: list[dict]) -> Path:
    with open_run_folder(root, stages, {}, name=name) as run, run.open_rows(-1)[0] as rows:
        rows.write({"step": 3, "nats": 1.5})
        run.finish()
    return run.folder


def test_runs_are_listed_by_name_with_state_spec_and_last_row(tmp_path: Path):
    _made(tmp_path, "b", [{"name": "pretrain"}, {"name": "tune"}])
    with open_run_folder(tmp_path, [{"seed": 1}], {}, name="a") as run:
        first, second = runs(tmp_path)
        assert first == RunEntry("a", run.folder, "running", "", None, None, ())
        assert second == RunEntry(
            "b", tmp_path / "b", "finished", "", "tune", {"step": 3, "nats": 1.5}, ()
        )
        run.fail("no room")
    assert [(entry.state, entry.reason) for entry in runs(tmp_path)] == [
        ("failed", "no room"),
        ("finished", ""),
    ]


def test_a_run_that_says_running_with_nobody_at_it_has_stopped(tmp_path: Path):
    with open_run_folder(tmp_path, [{"seed": 1}], {}, name="a"):
        assert [entry.state for entry in runs(tmp_path)] == ["running"]
    assert [entry.state for entry in runs(tmp_path)] == ["stopped"]
    (tmp_path / "a" / "state").unlink()
    assert [entry.state for entry in runs(tmp_path)] == ["stopped"]


def test_a_damaged_run_is_listed_with_its_faults(tmp_path: Path):
    folder = _made(tmp_path, "a", [{"name": 5}])
    assert [entry.stage_name for entry in runs(tmp_path)] == [None]
    (folder / "spec.json").write_text("{}")
    (folder / "state").write_text("dancing")
    (folder / "rows.jsonl").write_text("x\n")
    (entry,) = runs(tmp_path)
    assert (entry.state, entry.stage_name, entry.last_row) == ("stopped", None, None)
    assert [
        name
        for fault in entry.faults
        for name in ("spec.json", "state holds", "rows.jsonl")
        if name in fault
    ] == [
        "spec.json",
        "state holds",
        "rows.jsonl",
    ]


def test_a_finished_run_whose_rows_end_early_is_damaged_and_a_failed_one_is_not(tmp_path: Path):
    folder = _made(tmp_path, "a", [{"training": {"n_steps": 4}}])
    assert [entry.faults for entry in runs(tmp_path)] == [()]
    (folder / "rows.jsonl").write_text("no line at all")
    said = (
        f"{folder} finished, but its rows end at step 0 of 4; restore rows.jsonl, or remove that"
        " folder"
    )
    assert [(entry.state, entry.faults) for entry in runs(tmp_path)] == [("finished", (said,))]
    (folder / "state").write_text("failed: no room\n")
    assert [entry.faults for entry in runs(tmp_path)] == [()]


def test_what_is_no_run_is_not_listed(tmp_path: Path):
    folder = _made(tmp_path / "elsewhere", "a", [{"name": "a"}])
    root = tmp_path / "runs"
    root.mkdir()
    (root / "link").symlink_to(folder)
    (root / "file").touch()
    (root / "folder").mkdir()
    (root / ".hidden").mkdir()
    (root / ".hidden" / "spec.json").touch()
    assert list(runs(root)) == []
    assert list(runs(tmp_path / "nowhere")) == []

"""paribus runs and paribus studies: what there is, of which study, how large."""

import csv
import io
import json
import re
import shutil
from pathlib import Path

import pytest
from handmade_study import MANY_ARMS, make_study, plan_table
from shared_studies import CHAIN_TABLE, interrupt_study, run_named

import paribus as pb
from paribus.record import existing_study, hold_lock
from paribus.record.checksums import remove_listed_file
from paribus.record.disk_use import folder_bytes


@pytest.fixture
def home(finished_home: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished_home, tmp_path / "runs")


def test_runs_are_listed_with_study_arm_seed_size_and_disk_use(ask, home: Path) -> None:
    shown = ask("runs")
    assert shown.status == 0
    headings, *lines = [line.split() for line in shown.out.splitlines()]
    words = "run study arm seed state objective mask step of nats valid size disk"
    assert " ".join(headings) == words
    cells = {cell.run: cell for cell in existing_study(home, "little").read_cells()}
    assert len(lines) == len(cells) == 9
    for run, study, arm, seed, state, *_ in lines:
        assert (study, arm, seed) == ("little", cells[run].arm, str(cells[run].seed))
        assert state == "finished"


def test_json_and_csv_have_exact_numbers(ask, home: Path) -> None:
    cells = {cell.run: cell for cell in existing_study(home, "little").read_cells()}
    entries = json.loads(ask("runs", "--json").out)
    rows = list(csv.DictReader(io.StringIO(ask("runs", "--csv").out)))
    for entry, row in zip(entries, rows, strict=True):
        cell = cells[entry["name"]]
        reference = {
            "study": "little",
            "arm": cell.arm,
            "seed": cell.seed,
            "purpose": "reported",
            "is_earlier_stage": False,
        }
        assert entry["studies"] == [reference]
        assert entry["bytes"] == int(row["bytes"]) == folder_bytes(home / cell.run)
        assert entry["steps"] == int(row["steps"]) == 16
        assert (row["study"], row["arm"], int(row["seed"])) == ("little", cell.arm, cell.seed)
        model = pb.restore(sorted((home / cell.run / "checkpoints").iterdir())[-1])
        assert entry["parameters"] == sum(one.numel() for one in model.parameters())
    both = ask("runs", "--csv", "--json")
    assert both.status == 2
    assert "--csv and --json are both given" in both.err


def test_runs_are_sorted_and_chosen_by_study(ask, home: Path) -> None:
    first = json.loads(ask("runs", "--json", "--sort", "arm").out)
    arms = [entry["studies"][0]["arm"] for entry in first]
    assert arms == sorted(arms)
    seeds = [one["studies"][0]["seed"] for one in json.loads(ask("runs", "--json").out)]
    by_seed = json.loads(ask("runs", "--json", "--sort", "seed").out)
    assert [one["studies"][0]["seed"] for one in by_seed] == sorted(seeds)
    for name in ("disk", "size", "steps", "name", "state", "study"):
        assert ask("runs", "--sort", name).status == 0
    run = first[0]["name"]
    (home / run / "checkpoints" / "more").write_bytes(bytes(10**6))
    assert json.loads(ask("runs", "--sort", "disk", "--json").out)[0]["name"] == run
    shutil.copytree(home / run, home / "alone")
    assert len(json.loads(ask("runs", "--json").out)) == 10
    assert len(json.loads(ask("runs", "--json", "--study", "little").out)) == 9
    assert json.loads(ask("runs", "--json", "--sort", "study").out)[-1]["name"] == "alone"
    wrong = ask("runs", "--sort", "weight")
    assert (wrong.status, "--sort is 'weight'; use one of name, study" in wrong.err) == (2, True)
    lost = ask("runs", "--study", "lost")
    assert (lost.status, "holds no study; studies there are little" in lost.err) == (1, True)


def test_earlier_stages_have_the_study_of_the_runs_that_begin_from_them(
    ask, tmp_path: Path, study_cache: Path
) -> None:
    interrupt_study(tmp_path / "runs", study_cache, CHAIN_TABLE, "chain", 5)
    entries = json.loads(ask("runs", "--json", "--study", "chain").out)
    stages = [entry for entry in entries if len(entry["stages"]) == 1]
    assert len(stages) == 1
    assert all(one["is_earlier_stage"] for one in stages[0]["studies"])
    (study,) = pb.studies(tmp_path / "runs")
    assert (study["state"], study["done"], study["runs"]) == ("stopped", 1, 6)
    run_named(tmp_path / "runs", study_cache, CHAIN_TABLE, "chain")
    (study,) = pb.studies(tmp_path / "runs")
    assert (study["state"], study["done"], study["runs"]) == ("finished", 6, 6)
    assert study["bytes"] == folder_bytes(tmp_path / "runs")


def test_studies_are_listed_with_state_runs_disk_use_and_verdicts(ask, home: Path) -> None:
    shown = ask("studies").out.splitlines()
    assert shown[0].split() == ["study", "state", "runs", "disk", "made", "verdict"]
    assert shown[1].split()[:3] == ["little", "finished", "9/9"]
    (row,) = json.loads(ask("studies", "--json").out)
    verdicts = {one["arm"]: one["verdict"] for one in pb.verdicts("little", home)}
    assert row["verdict"] == ", ".join(f"{arm} {word}" for arm, word in verdicts.items())
    assert row["bytes"] == folder_bytes(home)
    assert row["frozen_at"].startswith("20")
    (bare,) = json.loads(ask("studies", "--json", "--no-verdicts").out)
    assert bare == {**row, "verdict": None}
    (line,) = csv.DictReader(io.StringIO(ask("studies", "--csv").out))
    assert (line["study"], line["bytes"]) == ("little", str(row["bytes"]))


def test_an_arm_that_is_judged_twice_is_named_with_each_pair(ask, tmp_path: Path) -> None:
    near = "short-window+near"
    pairs = [["prefix", "causal"], [near, "causal"], [near, "prefix"]]
    design = {**plan_table("small")["design"], "comparisons": pairs}
    make_study(tmp_path, gains=MANY_ARMS, changes={"design": design})
    (row,) = json.loads(ask("studies", "--runs", str(tmp_path), "--json").out)
    words = re.sub(r" (better|worse|equivalent|inconclusive)", "", row["verdict"]).split(", ")
    assert words[:3] == ["prefix", f"{near} against causal", f"{near} against prefix"]


def test_a_study_is_planned_running_stopped_failed_or_damaged(ask, home: Path) -> None:
    study = existing_study(home, "little")
    run = study.read_cells()[0].run

    def state() -> str:
        (row,) = pb.studies(home)
        return row["state"]

    with hold_lock(home / run / "lock"):
        assert state() == "running"
    (home / run / "state").write_text("failed: RecordError: no room\n")
    assert state() == "failed"
    shutil.rmtree(home / run)
    assert state() == "stopped"
    assert "8/9" in ask("studies").out
    cells = (study.folder / "cells.json").read_bytes()
    (study.folder / "cells.json").unlink()
    assert state() == "damaged"
    (study.folder / "cells.json").write_bytes(cells)
    remove_listed_file(study.folder, "cells.json")
    assert state() == "planned"
    (study.folder / "plan.json").write_text("[]")
    shown = ask("studies")
    assert shown.status == 0
    assert shown.out.splitlines()[1].split()[:2] == ["little", "damaged"]
    assert shown.out.splitlines()[2].startswith(
        "little: runs/studies/little/plan.json holds a list"
    )
    assert ask("runs").status == 0
    shutil.rmtree(home)
    assert ask("studies").out == "no studies in runs; `paribus run DESIGN` makes one\n"
    assert ask("studies", "--csv").out == ""

"""paribus prune: says what it frees, and frees it only with --yes."""

import json
import shutil
from pathlib import Path

import pytest

import paribus as pb
from paribus.record import existing_study
from paribus.record.disk_use import folder_bytes, optimizer_states
from paribus.record.pruning import PrunePlan, PruneResult
from paribus.workspace import Workspace


@pytest.fixture
def home(finished_home: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished_home, tmp_path / "runs")


def test_nothing_is_removed_without_yes(ask, home: Path) -> None:
    before = folder_bytes(home)
    shown = ask("prune")
    assert shown.status == 0
    lines = shown.out.splitlines()
    assert lines[0].split() == ["kind", "what", "size"]
    assert lines[1].startswith("optimizer states  of 9 finished runs")
    assert lines[-1] == "nothing is removed yet; --yes removes it"
    assert folder_bytes(home) == before
    told = json.loads(ask("prune", "--json").out)
    assert told["freed_bytes"] is None
    assert (
        told["bytes"]
        == told["optimizer_state_bytes"]
        == sum(one["bytes"] for one in told["optimizer_states"])
    )
    assert isinstance(pb.prune(home), PrunePlan)
    assert folder_bytes(home) == before


def test_after_pruning_a_study_is_complete_reported_evaluated_and_exported(
    ask, home: Path, study_cache: Path
) -> None:
    freed = ask("prune", "--yes")
    assert freed.status == 0
    assert "optimizer states  of 9 finished runs" in freed.out
    assert freed.out.splitlines()[-1].endswith(
        ": 0 runs of no study, and the optimizer states of 9 finished runs"
    )
    run = existing_study(home, "little").read_cells()[0].run
    assert not optimizer_states(home / run)
    assert ask("prune", "--yes").out == "there is nothing to free in runs\n"
    assert ask("report", "little", "--format", "md").status == 0
    here = ("--cache", study_cache, "--device", "cpu")
    assert ask("evaluate", run, "--yardstick", "pseudo", *here).status == 0
    assert len(pb.rows("little", home)) == 9
    loaded = pb.evaluate_run(run, "pseudo", workspace=Workspace(home, study_cache, "cpu"))
    assert loaded.answers


def test_a_run_of_no_study_is_named_before_it_is_removed(ask, home: Path) -> None:
    shutil.rmtree(home / "studies")
    shown = ask("prune", "--only", "runs")
    assert shown.out.count("run of no study") == 9
    assert "finished, 16 steps" in shown.out
    assert len(list(home.iterdir())) == 9
    result = pb.prune(home, yes=True, only="runs")
    assert isinstance(result, PruneResult)
    assert result.n_runs == 9
    assert list(home.iterdir()) == []


def test_an_unknown_kind_and_an_empty_folder_are_told(ask, tmp_path: Path) -> None:
    wrong = ask("prune", "--only", "weights")
    assert (wrong.status, wrong.err) == (
        2,
        "error: --only is 'weights'; use runs or states\n",
    )
    assert ask("prune").out == "there is nothing to free in runs\n"
    assert not (tmp_path / "runs").exists()

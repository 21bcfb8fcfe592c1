"""Tasks of lm-evaluation-harness from the command line, ours and its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lm_eval.api.registry import model_registry
from lm_eval.evaluator import simple_evaluate
from lm_eval.tasks import TaskManager
from lm_eval_tasks import write_tasks

import paribus as pb
from paribus.evaluate.lm_eval.__main__ import register_model
from paribus.workspace import Workspace

SPEC = {
    "architecture": {
        "preset": "gpt2",
        "n_layers": 1,
        "d_model": 16,
        "attention": {"n_heads": 2},
        "feed_forward": {"d_ff": 24},
    },
    "corpus": {"sources": [{"kind": "copy", "form": "text", "n_documents": 300}]},
    "training": {
        "n_steps": 4,
        "n_sequences": 2,
        "length": 48,
        "row_every": 2,
        "checkpoint_every": 2,
        "keep_last": 2,
    },
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("trained")
    workspace = Workspace(folder / "runs", cache=folder / "cache", device="cpu")
    pb.train_run(SPEC, name="first", workspace=workspace)
    write_tasks(folder / "tasks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("datasets.config.HF_DATASETS_OFFLINE", True)
        patch.setattr("datasets.config.HF_DATASETS_CACHE", folder / "datasets")
        yield folder


def where(trained: Path) -> tuple[str, ...]:
    return ("--runs", str(trained / "runs"), "--device", "cpu")


def test_tasks_of_a_folder_are_run_and_their_samples_kept(ask, trained: Path) -> None:
    answer = ask("evaluate", "first", "--lm-eval", trained / "tasks", *where(trained))
    assert answer.status == 0, answer.err
    lines = [line.split() for line in answer.out.splitlines()]
    assert [line[:2] for line in lines[1:]] == [
        ["follow", "bits_per_byte"],
        ["pick", "acc"],
        ["pick", "acc_norm"],
        ["say", "exact_match"],
    ]
    assert all(line[-1] == "trained" for line in lines[1:])
    files = sorted((trained / "runs/first/lm-eval").iterdir())
    heads = {}
    for path in files:
        head, *rows = map(json.loads, path.read_text().splitlines())
        heads[head["task"]] = head
        assert len(rows) == head["n_items"]
        assert str(path) in answer.err.replace("\n", "")
    assert heads.keys() == {"follow", "pick", "say"}
    assert heads["pick"]["window"] == 48
    assert heads["pick"]["component"]["objective"] == {"kind": "causal"}
    # the runs are whole with them
    assert ask("runs", *where(trained)[:2]).status == 0


def test_framing_shots_and_items_are_set(ask, trained: Path) -> None:
    words = ("--set", "framing=plain", "--set", "n_fewshot=1", "--items", "2", "--json")
    file = trained / "tasks/pick.yaml"
    answer = ask("evaluate", "first", "--lm-eval", file, *words, *where(trained))
    assert answer.status == 0, answer.err
    told = json.loads(answer.out)
    assert (told["framing"], told["window"]) == ("plain", 48)
    for task_score in told["scores"]:
        assert (task_score["task"], task_score["n_items"]) == ("pick", 2)
        assert task_score["n_fewshot"] == 1
    (path,) = told["files"]
    _, row, _ = map(json.loads, Path(path).read_text().splitlines())
    assert row["arguments"][0][0].count("\n\n") >= 1  # a demonstration stands before it


def test_samples_of_an_earlier_checkpoint_are_not_kept(ask, trained: Path) -> None:
    earlier = trained / "runs/first/checkpoints/step-000000001"
    words = ("--lm-eval", trained / "tasks/pick.yaml", "--json", "--device", "cpu")
    answer = ask("evaluate", earlier, *words)
    assert answer.status == 0, answer.err
    assert json.loads(answer.out)["files"] == []
    assert not (earlier / "lm-eval").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param(
            ("no-such-task",),
            "lm-eval has no task 'no-such-task'; `lm-eval ls tasks` lists them",
            marks=pytest.mark.slow,  # lm-eval reads all of its tasks
        ),
        (("gone.yaml",), "gone.yaml is no file; give a task's name, its YAML or its folder"),
        (("empty",), "empty holds no task; give a folder of YAML files with one"),
        ((",",), "--lm-eval names no task; give names or folders, separated by commas"),
        (("x", "--set", "split=valid"), "--set split is given with --lm-eval; use framing, n_few"),
        (("x", "--set", "n_fewshot=-1"), "--set n_fewshot is -1; use a whole number"),
        (("x", "--yardstick", "halves"), "--lm-eval is given beside --yardstick or --corpus"),
        (("empty", "--set", "framing=odd"), "empty holds no task"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    ask, trained: Path, tmp_path: Path, words: tuple[str, ...], complaint: str
) -> None:
    (tmp_path / "empty").mkdir()
    answer = ask("evaluate", "first", "--lm-eval", *words, *where(trained))
    assert answer.status == 2
    assert complaint in answer.err


def test_the_extra_is_asked_for_by_name(
    ask, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    monkeypatch.setattr("paribus.cli.terminal.lm_eval_table.find_spec", lambda name: None)
    answer = ask("evaluate", "first", "--lm-eval", "pick", *where(trained))
    assert answer.status == 1
    assert "--lm-eval needs lm-eval, which is not installed; run pip install 'paribus[eval]'" in (
        answer.err
    )


def test_lm_eval_knows_the_model_by_its_name(trained: Path) -> None:
    register_model()
    register_model()
    manager = TaskManager(include_path=str(trained / "tasks"), include_defaults=False)
    results = simple_evaluate(
        model="paribus",
        model_args=f"run=first,runs={trained / 'runs'},framing=plain",
        tasks=["pick"],
        task_manager=manager,
        device="cpu",
        batch_size="auto",
    )
    assert results is not None
    assert results["config"]["framing"] == "plain"
    assert results["results"]["pick"]["sample_len"] == 6
    assert "hf" in model_registry


@pytest.mark.slow  # lm-eval reads all of its tasks
def test_the_command_line_of_lm_eval_knows_the_model(trained: Path, tmp_path: Path) -> None:
    offline = {"HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    words = [sys.executable, "-m", "paribus.evaluate.lm_eval", "run", "--model", "paribus"]
    words += ["--model_args", f"run=first,runs={trained / 'runs'},framing=plain"]
    words += ["--tasks", str(trained / "tasks/pick.yaml"), "--device", "cpu"]
    words += ["--batch_size", "auto"]
    done = subprocess.run(words, env={**os.environ, **offline}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "paribus" in done.stdout
    assert "|pick|" in done.stdout.replace(" ", "")
    words[words.index("--model_args") + 1] = "pretrained=first"
    refused = subprocess.run(words, env={**os.environ, **offline}, capture_output=True, text=True)
    assert refused.returncode == 1
    assert refused.stderr.endswith(
        "error: model_args has 'pretrained'; use run, framing, runs, tokenizer\n"
    )

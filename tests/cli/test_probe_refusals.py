"""What cannot be probed is refused, and the message says what would do."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import paribus as pb
from paribus.errors import SpecError
from paribus.record.file_names import CHECKPOINTS, WEIGHTS_FILE
from paribus.spec.probes import PROBES
from paribus.workspace import Workspace

ARCHITECTURE = {
    "preset": "gpt2",
    "n_layers": 1,
    "d_model": 16,
    "max_length": 32,
    "attention": {"n_heads": 2},
}
TRAINING = {"n_steps": 2, "n_sequences": 2, "length": 32, "warmup": 1}
COPY = {"kind": "copy", "form": "text", "n_documents": 400, "min_length": 4, "max_length": 20}
TEXT = {"sources": [COPY], "test": 0.2}
LABELS = {
    "sources": [
        {
            "kind": "classification",
            "n_documents": 300,
            "n_inputs": 2,
            "min_length": 4,
            "max_length": 5,
            "form": "pairs",
        }
    ],
    "tokenizer": "bytes",
    "test": 0.1,
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    folder = tmp_path_factory.mktemp("probed")
    own = Workspace(folder / "runs", folder / "cache", "cpu")
    base = {"architecture": ARCHITECTURE, "training": TRAINING}
    pb.train_run({**base, "corpus": TEXT}, name="first", workspace=own)
    labels = {**base, "corpus": LABELS, "objective": "seq2seq"}
    pb.train_run(labels, name="labels", workspace=own)
    masks = {**base, "corpus": TEXT, "objective": "masked"}
    masks["architecture"] = {**ARCHITECTURE, "mask": "full"}
    pb.train_run(masks, name="masks", workspace=own)
    weightless = folder / "runs" / "weightless"
    shutil.copytree(folder / "runs" / "first", weightless)
    for checkpoint in (weightless / CHECKPOINTS).iterdir():
        (checkpoint / WEIGHTS_FILE).unlink()
    return own


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("first --probes rang", "'rang' is no probe; did you mean 'rank'? use one of rank, coll"),
        ("first --probes experts", "this architecture has none; use it with one whose feed_forwar"),
        ("first --probes corruption", "probe a run of 'masked' or 'spans'"),
        ("first --probes in-context", "so nothing says which examples it can read; use a run tha"),
        ("first --length 4000", "reads at most 32 tokens; use that or less"),
        ("first --length 16 --texts 300", "but 300 texts are asked for; it has"),
        ("first --probes context --length 5", "leaves 3 tokens of context before the last quar"),
        (
            "first --probes positions --texts 1",
            "positions.n_texts is 1 (int); use 2 or more",
        ),
        (
            "first --set rank.score_sd=1",
            "rank.score_sd is not a key here; did you mean 'score_sds'",
        ),
        (
            "first --set n_texts=1",
            "names no field of a chosen probe; write it as in rank.n_texts=4",
        ),
        ("labels --probes rank", "has pairs, which differ in length; give running text with --cor"),
        (
            "labels --probes descent --texts 19",
            "n_texts is 19, too few query examples for a mean; ",
        ),
        ("first --probes descent --texts 19", "has no source 'classification' (it has copy); use"),
        ("masks --probes context", "predicted from what follows it too; probe a run of another"),
        ("first --set flow.seed=1", "flow is not among --probes rank,collapse; add it there"),
        ("first --maps 2", "--maps is 2, but there is no --out; give a folder"),
        ("weightless", "weightless has no complete checkpoint; train it further, or if it has fi"),
        ("nothing", "nothing holds no run; `paribus runs` lists the runs"),
    ],
)
def test_what_cannot_be_probed_is_refused(
    ask: Any, workspace: Workspace, words: str, message: str
) -> None:
    folders: tuple[str | Path, ...] = ("--runs", workspace.runs_folder)
    found = ask("probe", *words.split(), *folders, "--cache", workspace.cache_folder)
    assert found.status in (1, 2)
    assert message in " ".join(found.err.split())
    assert "Traceback" not in found.err


def test_a_text_that_is_long_enough_is_named(ask: Any, workspace: Workspace) -> None:
    """The advice can be followed."""
    folders = ("--runs", workspace.runs_folder, "--cache", workspace.cache_folder)
    table = {"kind": "collapse", "n_texts": 80, "length": 32, "start": False}
    with pytest.raises(SpecError, match=r"use --length (\d+) or less, fewer texts") as refused:
        pb.probe_run("first", [table], workspace=workspace)
    length = str(refused.value).split("--length ")[1].split()[0]
    words = ("--probes", "collapse", "--texts", "80", "--set", "collapse.start=false")
    assert ask("probe", "first", *words, "--length", length, *folders).status == 0


def test_one_probe_needs_no_list_and_none_is_refused(workspace: Workspace) -> None:
    alone = pb.probe_run("first", "rank", n_maps=0, workspace=workspace)
    listed = pb.probe_run("first", ["rank"], n_maps=0, workspace=workspace)
    assert alone == listed
    assert alone
    with pytest.raises(SpecError, match="no probe is named; use one or more of rank, collapse"):
        pb.probe_run("first", [], workspace=workspace)


def test_the_help_says_what_each_probe_looks_at(ask: Any) -> None:
    words = " ".join(ask("probe", "--help").out.split())
    for kind in PROBES:
        assert f" {kind}: " in words or f" {kind}, " in words


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "masks first --probes corruption",
            "error: first: objective.kind is 'causal', which hides",
        ),
        ("labels first --probes in-context", "error: first: "),
    ],
)
def test_of_several_runs_the_one_that_cannot_be_probed_is_named_before_any_is_looked_at(
    ask: Any, workspace: Workspace, words: str, message: str
) -> None:
    folders = ("--runs", workspace.runs_folder, "--cache", workspace.cache_folder)
    found = ask("probe", *words.split(), *folders)
    assert found.status in (1, 2)
    assert found.err.startswith(message)  # no note of what the first run will cost

"""Figures of probes as files, and in a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import paribus as pb
from paribus.record.attention_maps import read_attention_maps
from paribus.workspace import Workspace

SPEC = {
    "architecture": {
        "preset": "gpt2",
        "n_layers": 2,
        "d_model": 16,
        "max_length": 32,
        "attention": {"n_heads": 2},
    },
    "corpus": {
        "sources": [{"kind": "copy", "form": "text", "n_documents": 400}],
        "test": 0.2,
    },
    "training": {"n_steps": 2, "n_sequences": 2, "length": 16, "warmup": 1},
}
PROBE = {"kind": "collapse", "n_texts": 2, "length": 12, "start": False}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    folder = tmp_path_factory.mktemp("probed")
    own = Workspace(folder / "runs", folder / "cache", "cpu")
    pb.train_run(SPEC, name="first", workspace=own)
    return own


def words(workspace: Workspace, *more: str | Path) -> list[str | Path]:
    folders = ("--runs", workspace.runs_folder, "--cache", workspace.cache_folder)
    asked = ("--probes", "collapse", "--texts", "2", "--length", "12", "--device", "cpu")
    return ["probe", "first", *folders, *asked, *more]


def test_figures_lie_beside_the_rows(ask: Any, workspace: Workspace, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = ask(*words(workspace, "--out", out, "--format", "html,svg", "--maps", "2"))
    assert found.status == 0, found.err
    names = {path.name for path in out.iterdir()}
    assert {"probes.csv", "probes.html", "attention-maps.jsonl", "attention-maps-1.svg"} <= names
    assert "collapse-residual-over-norm-by-depth.svg" in names
    assert f"probes.csv and {len(names) - 1} files beside it are written" in " ".join(
        found.err.split()
    )
    maps = read_attention_maps(out / "attention-maps.jsonl")
    assert [(one.layer, one.head) for one in maps] == [(0, 0), (1, 0)]
    assert "Attention maps" in (out / "probes.html").read_text("utf-8")


def test_rows_alone_need_no_package_that_draws(
    ask: Any, workspace: Workspace, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    found = ask(*words(workspace, "--out", out, "--format", "csv", "--maps", "0"))
    assert found.status == 0, found.err
    assert [path.name for path in out.iterdir()] == ["probes.csv"]
    assert "probes.csv is written" in " ".join(found.err.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--format", "svg"), "--format is svg, but there is no --out"),
        (("--out", "out", "--format", "tex"), "'tex'; use one or more of html, csv, svg, png, sep"),
        (("--out", "out", "--format", "gif"), "'gif'; use one or more of html, csv, svg, png, sep"),
    ],
)
def test_formats_that_cannot_be_are_refused_first(
    ask: Any, workspace: Workspace, options: tuple[str, ...], message: str
) -> None:
    found = ask(*words(workspace, *options))
    assert found.status == 2
    assert message in " ".join(found.err.split())


def test_a_notebook_shows_figures_and_the_rows_stay_a_list(workspace: Workspace) -> None:
    found = pb.probe_run("first", [PROBE], n_maps=1, workspace=workspace)
    assert isinstance(found, list)
    assert {row.probe for row in found} == {"collapse"}
    shown = found._repr_html_()
    assert shown.startswith("<h2>Inside of first</h2>")
    assert shown.count("<svg") == 3  # a map, and two quantities over depth
    assert "<script" not in shown


def test_a_notebook_without_packages_that_draw_has_a_table(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = pb.probe_run("first", [PROBE], n_maps=0, workspace=workspace)
    monkeypatch.setattr("paribus.report.formats.find_spec", lambda name: None)
    shown = found._repr_html_()
    assert "<td>collapse</td>" in shown
    assert "<svg" not in shown

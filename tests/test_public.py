"""The public surface: small, honest to type checkers, and light to import."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

import paribus as pb
from paribus.cli import verbs

ROOT = Path(__file__).parents[1]
NAMES = [
    "Batch",
    "Conversation",
    "Design",
    "Execution",
    "Local",
    "Ray",
    "Sampling",
    "Slurm",
    "TurnTiming",
    "Workspace",
    "build",
    "build_corpus",
    "chat",
    "chat_demo",
    "demo",
    "diff",
    "doctor",
    "evaluate_run",
    "evaluate_tasks",
    "export",
    "fields",
    "fill_mask",
    "generate_text",
    "generate_texts",
    "import_",
    "law",
    "load",
    "look",
    "pack",
    "plan",
    "price",
    "probe_run",
    "prune",
    "restore",
    "rows",
    "run",
    "runs",
    "save",
    "serve_runs",
    "show",
    "studies",
    "tasks",
    "train_run",
    "turns",
    "turns_of_design",
    "unpack",
    "verdicts",
    "watch",
    "write_pairs",
    "write_report",
]
PACKAGED = {
    "corpus": "build_corpus",
    "evaluate": "evaluate_run",
    "generate": "generate_text",
    "probe": "probe_run",
    "report": "write_report",
    "serve": "serve_runs",
    "train": "train_run",
}


def test_importing_paribus_imports_nothing_heavy():
    heavy = "('torch', 'numpy', 'pydantic', 'rich', 'typer')"
    code = f"import sys, paribus; sys.exit(any(name in sys.modules for name in {heavy}))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT / "src")}, check=False
        ).returncode
        == 0
    )


def test_type_checkers_see_the_names_that_exist():
    tree = ast.parse((ROOT / "src/paribus/__init__.py").read_text())
    imports = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("paribus")
    ]
    declared = {alias.name: node.module for node in imports for alias in node.names}
    assert declared == vars(pb)["_HOMES"]
    assert sorted(declared, key=NAMES.index) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_name_can_be_used(name):
    assert callable(getattr(pb, name))
    assert name in dir(pb)


def test_every_verb_is_a_function_of_the_same_name_unless_that_is_a_package():
    assert {PACKAGED.get(verb, verb) for verb in verbs().values()} <= set(NAMES)
    packages = {path.parent.name for path in (ROOT / "src/paribus").glob("*/__init__.py")}
    assert packages & verbs().keys() == PACKAGED.keys()


@pytest.mark.parametrize(("verb", "name"), PACKAGED.items())
def test_a_verb_that_is_a_package_is_met_with_its_function(verb, name):
    code = f"import paribus as pb; pb.{verb}"
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"'paribus.{verb}' is a package, to be imported; the verb is {name!r}" in answer.stderr


def test_an_unknown_name_is_met_with_those_there_are():
    with pytest.raises(
        AttributeError,
        match="module 'paribus' has no attribute 'nothing'; it has Batch, Conversation, Design",
    ):
        pb.nothing  # noqa: B018


def test_three_lines_make_a_model():
    spec = pb.load("gpt2", n_layers=2, d_model=22, n_heads=2, n_vocab=31, max_length=13)
    model = pb.build(spec, seed=1)
    assert model(torch.tensor([[3, 1, 4, 1, 5]])).logits_BTV.shape == (1, 5, 31)


def test_the_version_is_that_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project.get("version", pb.__version__) == pb.__version__


def test_the_citation_has_the_version_and_the_licence_of_the_project():
    lines = (ROOT / "CITATION.cff").read_text().splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"version: {pb.__version__}" in lines
    assert f"license: {project['license']}" in lines
    assert "  - name: The paribus authors" in lines

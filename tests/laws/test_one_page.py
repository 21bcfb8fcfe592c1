"""One page prints what others wrote: no other console is made, and nothing else prints."""

import ast
from collections import defaultdict

import pytest
from source_trees import ROOT, source_trees

CONSOLES = {"escapes.py"}
PRINTS = {  # JSON, whose letters are escaped, or what `visible` has seen
    "cli/terminal/console.py",
    "corpus/python_extract.py",
    "corpus/languages/inventors.py",
    "corpus/progress.py",
    "design/worker.py",
}


@pytest.fixture(scope="module")
def callers() -> dict[str, set[str]]:
    """The files that call a function by its bare name, for every such name."""
    files: dict[str, set[str]] = defaultdict(set)
    for path, tree in source_trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                files[node.func.id].add(path.relative_to(ROOT).as_posix())
    return files


def test_no_other_console_is_made(callers: dict[str, set[str]]) -> None:
    assert callers["Console"] <= CONSOLES


def test_nothing_else_prints(callers: dict[str, set[str]]) -> None:
    assert callers["print"] <= PRINTS
    assert not callers["rprint"] | callers["echo"] | callers["secho"]

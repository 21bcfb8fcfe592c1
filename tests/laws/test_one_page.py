"""One page prints what others wrote: no other console is made, and nothing else prints."""

import ast
from pathlib import Path

import paribus

ROOT = Path(paribus.__file__).parent
CONSOLES = {"escapes.py"}
PRINTS = {  # JSON, whose letters are escaped, or what `visible` has seen
    "cli/terminal/console.py",
    "corpus/python_extract.py",
    "corpus/languages/inventors.py",
    "corpus/progress.py",
    "design/worker.py",
}


def calls(name: str) -> set[str]:
    """The files that call a function by this name, bare."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    }


def test_no_other_console_is_made() -> None:
    assert calls("Console") <= CONSOLES


def test_nothing_else_prints() -> None:
    assert calls("print") <= PRINTS
    assert not calls("rprint") | calls("echo") | calls("secho")

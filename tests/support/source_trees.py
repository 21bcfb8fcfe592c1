"""The source of paribus as syntax trees, each file parsed once for all laws."""

import ast
import gc
from functools import cache
from pathlib import Path

import paribus

ROOT = Path(paribus.__file__).parent


@cache
def source_trees() -> dict[Path, ast.Module]:
    """Every file of the package with its tree. Not to be changed."""
    gc.disable()  # it would walk hundreds of thousands of nodes again and again, here and later
    try:
        trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(ROOT.rglob("*.py"))}
    finally:
        gc.enable()
    gc.freeze()
    return trees


def source_tree(path: Path) -> ast.Module:
    """The tree of one file of the package."""
    return source_trees()[path]

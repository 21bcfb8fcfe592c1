import ast
from pathlib import Path

from source_trees import ROOT, source_tree, source_trees

from paribus.nearest import did_you_mean, nearest, suggestion

KNOWN = ("causal", "full", "reverse")


def test_the_nearest_name_is_the_one_spelled_most_alike():
    assert nearest("casual", KNOWN) == "causal"
    assert nearest("revers", {"reverse": 1, "causal": 2}) == "reverse"


def test_a_name_far_from_all_has_no_nearest():
    assert nearest("transformer", KNOWN) is None
    assert nearest("", KNOWN) is None
    assert nearest("causal", ()) is None


def test_the_question_stands_before_what_would_do():
    assert did_you_mean("casual", KNOWN) == "did you mean 'causal'? "
    assert did_you_mean("transformer", KNOWN) == ""
    assert suggestion("full") == "did you mean 'full'? "
    assert suggestion(None) == ""


def test_names_are_compared_in_one_place():
    places = [
        path.relative_to(ROOT).as_posix() for path in source_trees() if _imports_difflib(path)
    ]
    assert places == ["nearest.py"]


def _imports_difflib(path: Path) -> bool:
    nodes = ast.walk(source_tree(path))
    return any(
        alias.name == "difflib"
        for node in nodes
        if isinstance(node, ast.Import)
        for alias in node.names
    )

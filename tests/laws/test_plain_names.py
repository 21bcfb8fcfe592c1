"""Names say what they are: no bare participles, no two public classes of one name, docstrings
that stand alone.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from source_trees import ROOT, source_tree, source_trees

PARTICIPLES = {
    "told",
    "asked",
    "shown",
    "made",
    "found",
    "kept",
    "held",
    "said",
    "alike",
    "apart",
    "based",
    "given",
    "taken",
}
LEANING = (
    "The same",
    "Of its ",
    "Of the same",
    "All of it",
    "Likewise",
    "As above",
    "Its own",
    "And ",
)

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def definitions(path: Path) -> Iterator[Definition]:
    for node in ast.walk(source_tree(path)):
        if isinstance(node, Definition):
            yield node


def public_names(path: Path) -> Iterator[str]:
    """Functions, classes, methods and their parameters, fields of classes, and names of a
    module.
    """
    tree = source_tree(path)
    for node in [
        *tree.body,
        *(one for own in tree.body if isinstance(own, ast.ClassDef) for one in own.body),
    ]:
        if isinstance(node, Definition):
            yield node.name
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield from (one.arg for one in [*node.args.args, *node.args.kwonlyargs])
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        if isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def test_no_public_name_is_a_bare_participle() -> None:
    for path in source_trees():
        place = path.relative_to(ROOT).as_posix()
        names = {name.lower() for name in public_names(path)}
        wrong = PARTICIPLES & names
        assert not wrong, f"{place} has {sorted(wrong)}: say what is done, or to what"


def test_no_file_is_named_by_a_bare_participle() -> None:
    assert not [path for path in source_trees() if path.stem in PARTICIPLES]


def test_no_two_public_classes_have_one_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in source_trees():
        for node in source_tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path.relative_to(ROOT).as_posix())
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_a_docstring_stands_alone() -> None:
    for path in source_trees():
        for node in definitions(path):
            opening = (ast.get_docstring(node) or "").split("\n", 1)[0]
            assert not opening.startswith(LEANING), (
                f"{path.relative_to(ROOT)}, {node.name}: {opening}"
            )

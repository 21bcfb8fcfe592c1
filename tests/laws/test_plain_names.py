"""Names say what they are: no bare participles, no two public classes of one name, docstrings
that stand alone.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
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


# names of other libraries, and words of examples
NAMES_FROM_ELSEWHERE = {"hf", "apply_chat_template", "constructor", "object_pairs_hook"}
NAMES_FROM_ELSEWHERE |= {
    "use_attribute_docstrings",
    "abc",
    "bac",
    "cab",
    "with",
    "import",
    "false",
    "h",
}
NAMES_FROM_ELSEWHERE |= {"documents_so_far"}  # a rule, which is a class
IN_BACKTICKS = re.compile(r"(?<!`)`([a-z_]\w*)`(?!`)")


def test_a_docstring_names_only_what_there_is() -> None:
    """A parameter, a field, a definition or value of the package, or a word of the file's texts."""
    defined = set().union(*map(defined_names, source_trees()), *map(written_values, source_trees()))
    for path in source_trees():
        known = defined | written_words(path) | NAMES_FROM_ELSEWHERE
        for node in definitions(path):
            named = set(IN_BACKTICKS.findall(ast.get_docstring(node) or ""))
            gone = named - known - parameter_names(node)
            assert not gone, f"{path.relative_to(ROOT)}, {node.name} names {sorted(gone)}"


def test_the_law_sees_a_parameter_that_is_gone() -> None:
    tree = ast.parse('def f(new):\n    """As `old` and `new` say."""\n    old = new\n')
    (node,) = tree.body
    assert isinstance(node, ast.FunctionDef)
    named = set(IN_BACKTICKS.findall(ast.get_docstring(node) or ""))
    assert named - parameter_names(node) == {"old"}


@cache
def defined_names(path: Path) -> frozenset[str]:
    """Functions, classes, fields and constants of a file, the modules that it imports, and it."""
    names, tree = {path.stem, path.parent.name}, source_tree(path)
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
                names.add(node.name)
            case ast.alias():
                names |= set(node.name.split("."))
            case ast.Attribute(ctx=ast.Store()):
                names.add(node.attr)
    for node in [tree, *(one for one in ast.walk(tree) if isinstance(one, ast.ClassDef))]:
        for statement in node.body:
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                names |= {one.id for one in ast.walk(statement) if isinstance(one, ast.Name)}
    return frozenset(names)


def written_values(path: Path) -> set[str]:
    """Whole texts of a file: the words of its closed sets, the keys of its tables."""
    values: set[str] = set()
    for node in ast.walk(source_tree(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            values.add(node.value)
    return values


def parameter_names(node: ast.AST) -> set[str]:
    return {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}


def written_words(path: Path) -> set[str]:
    """The words of a file's texts that are no docstrings: keys and values that it writes."""
    words: set[str] = set()
    documents = {id(one.value) for one in ast.walk(source_tree(path)) if isinstance(one, ast.Expr)}
    for node in ast.walk(source_tree(path)):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in documents:
                words |= set(re.findall(r"\w+", text))
    return words

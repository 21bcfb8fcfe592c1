"""What the files of a run and a study are called is written once, in record/file_names.py."""

import ast
from collections.abc import Iterator

from source_trees import ROOT, source_trees

from paribus.record import file_names
from paribus.spec import reading

HOME = ROOT / "record" / "file_names.py"
NAMES = {
    value for name, value in vars(file_names).items() if name.isupper() and not name.startswith("_")
}
# also words of English, so only a path makes them names
WORDS = {name for name in NAMES if "." not in name}
EVERYDAY = {"tokenizer.json"}  # what people call such a file, wherever it lies: messages may say it
OWN = {ROOT / "spec" / "reading.py": {"spec.json"}}  # the table of imports keeps spec from record


def test_the_names_cover_a_run_a_checkpoint_and_a_study() -> None:
    assert {
        "rows.jsonl",
        "spec.json",
        "plan.json",
        "plan.lock",
        "checksums.jsonl",
        "environment.json",
    } <= NAMES
    assert {
        "state",
        "lock",
        "checkpoints",
        "evaluations",
        "lm-eval",
        "probes",
        "studies",
        "slurm",
    } == WORDS


def test_no_other_file_writes_the_name_of_a_file_in_a_run_or_a_study() -> None:
    for path, tree in source_trees().items():
        if path != HOME:
            found = set(written_names(tree)) - OWN.get(path, set())
            assert not found, (
                f"{path} writes {sorted(found)}; take the constants of paribus.record.file_names"
            )


def test_a_folder_of_weights_has_its_spec_under_the_name_that_a_run_has() -> None:
    assert reading.SPEC_FILE == file_names.SPEC_FILE


def test_the_law_finds_names_in_paths_and_in_messages() -> None:
    assert set(written_names(ast.parse('folder / "state"'))) == {"state"}
    assert set(written_names(ast.parse('folder.joinpath("lock")'))) == {"lock"}
    assert set(written_names(ast.parse('f"{folder}/checkpoints/{name}"'))) == {"checkpoints"}
    assert set(written_names(ast.parse('f"restore {folder}/plan.json"'))) == {"plan.json"}
    assert set(written_names(ast.parse('open("tokenizer.json")'))) == {"tokenizer.json"}
    assert not set(written_names(ast.parse('row["state"], "give a tokenizer.json"')))
    assert not set(written_names(ast.parse('"""A docstring draws plan.json."""')))


def written_names(tree: ast.Module) -> Iterator[str]:
    """Every name of a file of ours that stands in text which is no docstring."""
    docstrings = {id(text) for text in _docstrings(tree)}
    parts_of_paths = {id(text) for text in _parts_of_paths(tree)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings
        ):
            yield from _names_in(node.value, id(node) in parts_of_paths)


def _names_in(text: str, is_part_of_path: bool) -> Iterator[str]:
    for name in NAMES:
        whole = text == name and (name not in WORDS or is_part_of_path)
        inside = f"/{name}/" in text if name in WORDS else name in text and name not in EVERYDAY
        if whole or inside:
            yield name


def _docstrings(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr):
                yield first.value


def _parts_of_paths(tree: ast.Module) -> Iterator[ast.expr]:
    """What stands beside a slash, or is given to Path or joinpath."""
    for node in ast.walk(tree):
        match node:
            case ast.BinOp(left, ast.Div(), right):
                yield from (left, right)
            case ast.Call(ast.Name("Path") | ast.Attribute(_, "joinpath" | "with_name"), arguments):
                yield from arguments

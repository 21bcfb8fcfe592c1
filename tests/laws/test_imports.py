"""Imports flow downward: the table of the design, read off the source."""

import ast
from pathlib import Path

from source_trees import ROOT, source_tree, source_trees

LEVELS = {
    "canonical": 0,
    "errors": 0,
    "escapes": 0,
    "files": 0,
    "nearest": 0,
    "philox": 0,
    "masks": 0,
    "spec": 0,
    "record": 0,
    "slurm": 1,
    "runtime": 1,
    "workspace": 1,
    "watcher": 1,
    "batch": 1,
    "vocabulary": 1,
    "analyse": 1,
    "corpus": 2,
    "model": 2,
    "objectives": 2,
    "report": 2,
    "train": 3,
    "generate": 3,
    "interop": 3,
    "evaluate": 4,
    "probe": 4,
    "serve": 4,
    "design": 5,
    "cli": 6,
    "__main__": 7,
}
BELOW_ALL = {
    (name, target)
    for name in LEVELS
    for target in ("canonical", "errors", "escapes", "files", "nearest")
}
SAME_LEVEL = {
    ("spec", "masks"),
    ("report", "analyse"),
    ("batch", "vocabulary"),
    ("workspace", "slurm"),
} | BELOW_ALL
FORBIDDEN = {("evaluate", "train"), ("probe", "train"), ("serve", "train"), ("design", "serve")}
WITHOUT_TORCH = {
    "canonical",
    "errors",
    "escapes",
    "files",
    "nearest",
    "philox",
    "masks",
    "spec",
    "record",
    "slurm",
    "workspace",
    "watcher",
    "analyse",
    "report",
}
LATE = {"cli"}  # the one place where an import may be late


def package(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def sources() -> list[Path]:
    found = [path for path in source_trees() if path != ROOT / "__init__.py"]
    assert found
    return found


def imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide who imports whom"
            names.add(node.module or "")
    return names


def ours(name: str) -> str | None:
    parts = name.split(".")
    return parts[1] if parts[0] == "paribus" and len(parts) > 1 else None


def allowed(importer: str, target: str) -> bool:
    if importer == target or (importer, target) in SAME_LEVEL:
        return True
    return LEVELS[target] < LEVELS[importer] and (importer, target) not in FORBIDDEN


def test_every_package_has_its_place_in_the_table() -> None:
    assert {package(path) for path in sources()} <= LEVELS.keys()


def test_packages_import_only_what_lies_below_them() -> None:
    for path in sources():
        targets = {target for name in imported(source_tree(path)) if (target := ours(name))}
        wrong = [target for target in targets if not allowed(package(path), target)]
        assert not wrong, f"{path} imports {wrong}"


def test_the_lower_floors_are_free_of_torch() -> None:
    for path in sources():
        if package(path) in WITHOUT_TORCH:
            roots = {name.split(".")[0] for name in imported(source_tree(path))}
            assert not roots & {"torch", "safetensors", "tokenizers", "transformers"}, path


def test_only_what_trains_imports_the_training_loop() -> None:
    assert _importers("design", "paribus.train.loop") == {"cell_run.py"}


def test_evaluate_takes_only_loaded_checkpoints_from_interop() -> None:
    found = {
        name for path in (ROOT / "evaluate").rglob("*.py") for name in imported(source_tree(path))
    }
    assert {name for name in found if ours(name) == "interop"} <= {
        "paribus.interop.loaded_checkpoint"
    }


def _importers(importer: str, module: str) -> set[str]:
    paths = (ROOT / importer).rglob("*.py")
    return {path.name for path in paths if module in imported(source_tree(path))}


def test_the_report_imports_nothing_that_computes_statistics() -> None:
    for path in (ROOT / "report").rglob("*.py"):
        found = {name.split(".")[0] for name in imported(source_tree(path))}
        drawn = {"numpy"} if path.name == "mask_gallery.py" else set()  # a mask as a picture
        assert not (found & {"statistics", "numpy", "scipy"}) - drawn, path


def test_our_modules_are_imported_at_the_top_and_nowhere_else() -> None:
    for path in sources():
        if package(path) in LATE:
            continue
        tree = source_tree(path)
        functions = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        late = [name for function in functions for name in imported(function) if ours(name)]
        assert not late, f"{path} imports {late} inside a function"


def test_no_module_is_part_of_an_import_cycle() -> None:
    graph = {_module(path): _targets(path) for path in sources()}
    for start in graph:
        seen, frontier = set(), {start}
        while frontier:
            frontier = {target for name in frontier for target in graph.get(name, ())} - seen
            assert start not in frontier, f"{start} imports itself through others"
            seen |= frontier


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _targets(path: Path) -> set[str]:
    here = _module(path)
    inside = {name for name in imported(source_tree(path)) if ours(name)}
    return {name for name in inside if name != here}

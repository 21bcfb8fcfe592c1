import ast
import math
from pathlib import Path

import pytest
from source_trees import ROOT, source_tree, source_trees

from paribus.canonical import canonical_hash, canonical_json
from paribus.errors import RecordError
from paribus.record import evaluation_path
from paribus.record.plan_lock import design_fingerprint, plan_fingerprint
from paribus.spec import architecture_fingerprint, load, resolve

# Who hashes what is no JSON: bytes of a file or a stream, text of a stream's key, a page's policy.
OTHER_HASHES = {
    "corpus/build.py",
    "corpus/cache.py",
    "corpus/file_contents.py",
    "corpus/python_files.py",
    "corpus/splits.py",
    "corpus/tasks/corpus_rows.py",
    "corpus/tasks/items.py",
    "corpus/tasks/splits.py",
    "design/begin_differences.py",
    "evaluate/items.py",
    "generate/block_keys.py",
    "record/checksums.py",
    "record/disk.py",
    "record/environment.py",
    "record/rows.py",
    "record/syntax.py",
    "report/page_frame.py",
    "runtime.py",
    "train/own_pairs.py",
}


def test_equal_values_are_written_the_same_in_any_order():
    assert canonical_json({"b": [1, 2.0, None], "a": "é"}) == '{"a":"\\u00e9","b":[1,2.0,null]}'
    assert canonical_hash({"a": 1, "b": 2}) == canonical_hash({"b": 2, "a": 1})
    assert canonical_hash([]) == "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"


@pytest.mark.parametrize("value", [math.inf, {1, 2}, object()])
def test_what_json_cannot_say_has_no_hash(value: object):
    said = r"a stage cannot be written as JSON: .*; give finite numbers, text, lists and tables"
    with pytest.raises(RecordError, match=said):
        canonical_hash({"value": value})


@pytest.mark.parametrize(
    ("preset", "expected"),
    [("gpt2", "2739b2f2b6a26f1e"), ("t5", "deedc30402b57243"), ("bert", "08e37b79e69a1b9b")],
)
def test_the_fingerprints_of_presets_last(preset: str, expected: str):
    assert architecture_fingerprint(resolve(load(preset)))[:16] == expected


def test_the_fingerprints_of_plans_and_the_names_of_evaluations_last():
    design = {"b": 1.5, "a": ["é"], "question": "q", "lengths": []}
    assert design_fingerprint(design, {"one": ({"x": 1}, "t")})[:16] == "9a20648453253396"
    assert plan_fingerprint("d", "r", "c")[:16] == "bd3a1fc4fe607e3c"
    path = evaluation_path(Path("run"), {"kind": "halves", "n_items": 3}, "f00")
    assert path == Path("run/evaluations/ed87d0e4cea702a7.jsonl")


def test_values_are_hashed_in_one_place():
    found = {path.relative_to(ROOT).as_posix() for path in source_trees() if _imports_hashlib(path)}
    assert found == OTHER_HASHES | {"canonical.py"}


def test_compact_sorted_json_is_written_in_one_place():
    for path in ROOT.rglob("*.py"):
        if path != ROOT / "canonical.py":
            assert 'sort_keys=True, separators=(",", ":")' not in path.read_text("utf-8"), path


def _imports_hashlib(path: Path) -> bool:
    nodes = ast.walk(source_tree(path))
    return any(
        alias.name == "hashlib"
        for node in nodes
        if isinstance(node, ast.Import)
        for alias in node.names
    )

"""A task that must be unseen: a plan is refused where a stage after pretraining trains on it."""

import gzip
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from labelled_texts import ARCHITECTURE, TRAINING

from paribus.design import make_plan
from paribus.design.arms import arms_of
from paribus.design.unseen_tasks import ITEM_SOURCES, require_unseen_tasks
from paribus.errors import SpecError
from paribus.spec.design import Design
from paribus.spec.design_reading import load_design
from paribus.spec.task_readers import READERS
from paribus.spec.yardstick import TaskYardstick
from paribus.workspace import Execution, Workspace

Table = dict[str, Any]
COPYING: Table = {"kind": "copy", "n_documents": 200, "min_length": 3, "max_length": 5}
TUNE: Table = {"kind": "tune", "objective": "seq2seq"}
CHOICES: Table = {"name": "mine", "kind": "choices", "options": "{options}", "key": "{key}"}


def design_of(task: Any, source: Table, unseen: bool = True, **changes: Any) -> Design:
    """Two arms that are tuned on a source, and a task that is asked of them."""
    base: Table = {
        "architecture": {**ARCHITECTURE, "n_layers": 1},
        "training": TRAINING,
        "corpus": {"sources": [{**COPYING, "form": "text"}]},
        "stages": {"0": {}, "1": {**TUNE, "corpus": {"sources": [source]}}},
    }
    table: Table = {
        "question": "Is it known before?",
        "base": base,
        "baseline": "causal",
        "factor": "stages.1.architecture.mask",
        "arms": {"causal": {}, "prefix": {"stages": {"1": {"architecture": {"mask": "prefix"}}}}},
        "seeds": 3,
        "tune": False,
        "others": [{"kind": "task", "task": task, "unseen": unseen}],
    }
    return load_design(table | changes)


def require(task: Any, source: Table, unseen: bool = True) -> None:
    design = design_of(task, source, unseen)
    require_unseen_tasks(design, arms_of(design))


def write_rows(path: Path, n_rows: int = 9) -> Path:
    rows = []
    for number in range(n_rows):
        row = {"source": f"s{number}", "target": "t", "options": ["a", "b"], "key": 0}
        rows.append(json.dumps(row) + "\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(rows))
    return path


def test_the_same_language_is_refused_with_its_place():
    message = (
        r"others.0.unseen is true, but stages.1.corpus.sources.0 \(copy\) in causal, prefix trains"
        r" on the task 'copy-choices': both ask 'copy' as '\{source\}='; train on something else"
    )
    with pytest.raises(SpecError, match=message):
        require("copy-choices", COPYING)
    require("copy-choices", COPYING, unseen=False)


def test_other_sizes_and_forms_are_still_the_same_language():
    other = {**COPYING, "n_symbols": 5, "seed": 3}
    with pytest.raises(SpecError, match="trains on the task 'copy'"):
        require("copy", other)
    stages = {"0": {}, "1": {"kind": "adapt", "corpus": {"sources": [{**other, "form": "text"}]}}}
    design = design_of("copy", COPYING)
    design = design.model_copy(update={"base": {**design.base, "stages": stages}})
    with pytest.raises(SpecError, match="trains on the task 'copy'"):
        require_unseen_tasks(design, arms_of(design))


def test_another_language_and_another_phrasing_are_allowed():
    require("recall", COPYING)
    two = {**COPYING, "phrasings": ["copy {source}:", "{source} again:"]}
    require("copy", two)
    language = {"kind": "copy", "phrasings": ["say {source}:", "copy {source}:"]}
    with pytest.raises(SpecError, match=r"both ask 'copy' as 'copy \{source\}:'"):
        require({"language": [{"kind": "sort"}, language]}, two)
    require({"language": {"kind": "copy", "phrasings": "say {source}:"}}, two)


def test_the_first_stage_may_read_what_is_asked():
    require("copy", {**COPYING, "kind": "sort"})  # the first stage reads copies


@pytest.mark.parametrize("field", ["paths", "train", "valid"])
def test_a_file_in_common_is_refused_wherever_it_lies(tmp_path: Path, field: str):
    own = write_rows(tmp_path / "task" / "own.jsonl", 5)
    shared = write_rows(tmp_path / "task" / "shared.jsonl", 9)
    task = {**CHOICES, "paths": str(own), field: str(shared)}
    copied = tmp_path / "tuning" / "renamed.jsonl"
    write_rows(copied, 9)
    message = rf"in causal, prefix trains on the task 'mine': {copied} holds what {shared} of the"
    with pytest.raises(SpecError, match=message):
        require(task, {"kind": "pairs", "paths": str(tmp_path / "tuning")})
    with pytest.raises(SpecError, match="holds what"):
        require(task, {"kind": "pairs", "paths": str(tmp_path / "ta*" / "sh*.jsonl")})
    write_rows(copied, 8)
    require(task, {"kind": "pairs", "paths": str(tmp_path / "tuning")})


def test_a_packed_file_in_common_is_refused(tmp_path: Path):
    path = write_rows(tmp_path / "rows.jsonl")
    with gzip.open(tmp_path / "packed.jsonl.gz", "wb") as file:
        file.write(path.read_bytes())
    with tarfile.open(tmp_path / "all.tar", "w") as tar:
        tar.add(path, "inner/rows.jsonl")
    task = {**CHOICES, "paths": str(path)}
    for name in ("packed.jsonl.gz", "all.tar"):
        with pytest.raises(SpecError, match=f"{name}.* holds what"):
            require(task, {"kind": "pairs", "paths": str(tmp_path / name)})


def write_marked(path: Path, name: str) -> Table:
    """A source of pairs that are marked as from a task."""
    lines = [json.dumps({"source": f"s{n}", "target": "t", "task": name}) for n in range(9)]
    path.write_text("\n".join(lines))
    return {"kind": "pairs", "paths": str(path)}


def test_pairs_that_are_marked_as_from_the_task_are_refused(tmp_path: Path):
    test = tmp_path / "test.tsv"
    test.write_text("sentence\tlabel\ngood\t1\n")
    marked = write_marked(tmp_path / "pairs.jsonl", "sst2")
    message = (
        r"others.0.unseen is true, but stages.1.corpus.sources.0 \(pairs\) in causal, prefix trains"
        r" on the task 'sst2': .*pairs.jsonl line 1 says that its pair is from 'sst2'; train on"
    )
    with pytest.raises(SpecError, match=message):
        require(f"sst2:{test}", marked)
    with pytest.raises(SpecError, match=r"the task 'moods': .* its pair is from 'sst2'"):
        require({"reader": "sst2", "name": "moods", "paths": str(test)}, marked)
    task = {**CHOICES, "paths": str(write_rows(tmp_path / "own" / "items.jsonl"))}
    with pytest.raises(SpecError, match=r"the task 'mine': .* its pair is from 'mine'"):
        require(task, write_marked(tmp_path / "pairs.jsonl", "mine"))
    require(f"sst2:{test}", write_marked(tmp_path / "pairs.jsonl", "trec"))


def test_tasks_of_one_format_are_told_apart_by_their_names(tmp_path: Path):
    test = tmp_path / "test.json"
    test.write_text("[]")
    task = {"reader": "instruction-choices", "paths": str(test)}
    require({**task, "name": "arc-easy"}, write_marked(tmp_path / "pairs.jsonl", "openbookqa"))
    with pytest.raises(SpecError, match=r"a format that many tasks have \(give different"):
        require(task, write_marked(tmp_path / "pairs.jsonl", "instruction-choices"))


def test_files_of_sources_and_targets_are_compared_each(tmp_path: Path):
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text(f"text,source,target\n{name},x,y\n")
    task = {"reader": "parallel-lines", "paths": [str(tmp_path / "a.en"), str(tmp_path / "a.de")]}
    copied = tmp_path / "targets.csv"
    copied.write_bytes((tmp_path / "a.de").read_bytes())
    with pytest.raises(SpecError, match=r"targets.csv holds what .*a.de of the task does"):
        require(task, {"kind": "pairs", "paths": str(copied)})


@pytest.mark.parametrize(
    ("task", "source", "is_refused"),
    [
        ("function-summary", "python-summaries", True),
        ("function-summary", "python-labels", False),
        ("docstring-package", "python-labels", True),
        ("docstring-package", "python-summaries", False),
    ],
)
def test_the_python_that_items_come_from_is_refused(task, source, is_refused):
    if is_refused:
        with pytest.raises(SpecError, match=f"the items of '{task}' come from '{source}'"):
            require(task, {"kind": source})
    else:
        require(task, {"kind": source})


def test_every_reader_without_files_says_where_its_items_come_from():
    assert set(ITEM_SOURCES) == {name for name, entry in READERS.items() if not entry.suffixes}


def test_a_plan_is_refused_before_text_is_read(tmp_path: Path):
    design = design_of("copy-choices", COPYING)
    workspace = Workspace(tmp_path / "runs", tmp_path / "cache", device="cpu")
    with pytest.raises(SpecError, match="trains on the task 'copy-choices'"):
        make_plan(design, "study", None, Execution(workspace), show_progress=False)
    assert not (tmp_path / "cache").exists()


def test_the_primary_may_ask_for_it_and_a_yardstick_that_does_not_says_nothing():
    task = {"kind": "task", "task": "copy-choices"}
    design = design_of("recall", COPYING, primary={"measure": {**task, "unseen": True}})
    with pytest.raises(SpecError, match=r"primary.measure.unseen is true"):
        require_unseen_tasks(design, arms_of(design))
    (other,) = design.others
    assert isinstance(other, TaskYardstick)
    assert other.model_dump(mode="json")["unseen"] is True
    assert "unseen" not in other.model_copy(update={"unseen": False}).model_dump(mode="json")

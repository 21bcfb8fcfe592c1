"""Questions about held-out Python: the answer is not in the context, and the text is of the asked
split alone.
"""

from pathlib import Path

import pytest

from paribus.corpus import TokenisedCorpus, prepare_corpus
from paribus.corpus.tasks import choice_items, corpus_rows
from paribus.errors import SpecError
from paribus.spec import Corpus
from paribus.spec.task_loading import load_task
from paribus.spec.tasks import ChoicesTask, LabelsTask

FUNCTION = '''
def double_{n}(x):
    """Return the double of number {n}."""
    y = x + x + {n}
    return y  # Return the double of number {n}.
'''
DOCSTRING = '"""How {package} and numpy treat {thing} number {n}."""\n'
THINGS = {"python": "dict", "torch": "tensor", "numpy": "array", "scipy": "filter"}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small installation: ten files of each package."""
    files: dict[str, Path] = {}
    for package, thing in THINGS.items():
        for n in range(10):
            path = tmp_path / f"{package}{n}.py"
            docstring = DOCSTRING.format(package=package, thing=thing, n=n)
            path.write_text(docstring + FUNCTION.format(n=f"{thing}{n}"))
            files[f"{package}/{n}.py"] = path
    for module in ("paribus.corpus.python_files", "paribus.corpus.tasks.corpus_rows"):
        monkeypatch.setattr(f"{module}.installed_files", lambda source: files)


def text_of(tmp_path: Path, kind: str) -> TokenisedCorpus:
    spec = Corpus.model_validate({"sources": [{"kind": kind}], "test": 0.5})
    return prepare_corpus(spec, tmp_path / "cache", show_progress=False, n_workers=1)


@pytest.mark.parametrize("kind", ["python-code", "python-summaries"])
def test_a_function_has_its_summary_among_four(tmp_path: Path, installed: None, kind: str) -> None:
    task = load_task("function-summary")
    assert isinstance(task, ChoicesTask)
    items = choice_items(task, "test", text_of(tmp_path, kind))
    assert 5 < len(items) < 35
    for item in items:
        summary = item.options[item.key].strip()
        name = summary.removesuffix(".").rpartition(" ")[2]
        assert f"def double_{name}(x):" in item.context
        assert summary not in item.context
        assert len(set(item.options)) == 4
    assert {item.key for item in items} == {0, 1, 2, 3}


def test_a_docstring_has_its_package_and_not_its_name(tmp_path: Path, installed: None) -> None:
    task = load_task("docstring-package")
    assert isinstance(task, LabelsTask)
    text = text_of(tmp_path, "python-docs")
    items = {split: choice_items(task, split, text) for split in ("train", "test")}
    assert not {one.context for one in items["train"]} & {one.context for one in items["test"]}
    for item in items["test"]:
        assert "numpy" not in item.context
        assert "How … and … treat " in item.context or "Return the double of" in item.context
    assert len({item.key for item in items["test"]}) > 1


def test_a_run_must_read_what_is_asked(tmp_path: Path, installed: None) -> None:
    with pytest.raises(SpecError, match="takes its items from the text of a run"):
        next(corpus_rows.corpus_rows("function-summary", "test", None))
